//! The scripted providers: raw TCP, so that they can fail at every stage; every request is noted with its attempt's id,
//! and at that moment the database is asked whether the attempt's start is committed (R3).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::history::History;
use crate::rng::{Deck, Rng};
use crate::wire::{self, Behaviour};

/// One look at the attempt's row may take this long; a database that is away leaves it unchecked.
const ROW_LIMIT: Duration = Duration::from_millis(800);

#[derive(Debug)]
pub struct Providers {
    pub alpha: SocketAddr,
    pub beta: SocketAddr,
    shared: Arc<Shared>,
    _servers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    history: Arc<History>,
    rows: PgPool,
    cards: Mutex<Cards>,
    /// Milliseconds that a hanging answer is held back.
    hang: (u64, u64),
    calm: watch::Sender<bool>,
    cut: watch::Sender<u64>,
    refuse: watch::Sender<Duration>,
}

#[derive(Debug)]
struct Cards {
    whole: Deck<Behaviour>,
    stream: Deck<Behaviour>,
}

impl Providers {
    pub async fn start(history: Arc<History>, database: &str, rng: &Rng, hang: (u64, u64)) -> Providers {
        let pool = PgPoolOptions::new().max_connections(6).acquire_timeout(ROW_LIMIT);
        let cards = Cards {
            whole: Deck::new(&wire::WHOLE, rng.fork("whole")),
            stream: Deck::new(&wire::STREAM, rng.fork("stream")),
        };
        let shared = Arc::new(Shared {
            history,
            rows: pool.connect_lazy(database).expect("the database's address"),
            cards: Mutex::new(cards),
            hang,
            calm: watch::Sender::new(false),
            cut: watch::Sender::new(0),
            refuse: watch::Sender::new(Duration::ZERO),
        });
        let mut servers = JoinSet::new();
        let mut addresses = Vec::new();
        for name in ["alpha", "beta"] {
            let listener = TcpListener::bind(("127.0.0.1", crate::settings::free_port())).await.expect("a free port");
            addresses.push(listener.local_addr().expect("an address"));
            servers.spawn(accept(name, listener, Arc::clone(&shared)));
        }
        Providers { alpha: addresses[0], beta: addresses[1], shared, _servers: servers }
    }

    /// Every connection is reset now, at whatever stage it is.
    pub fn cut(&self) {
        self.shared.cut.send_modify(|n| *n += 1);
    }

    /// Nobody listens for this long.
    pub fn refuse(&self, pause: Duration) {
        self.shared.refuse.send_replace(pause);
    }

    /// From now on every request is answered, and what was held back comes.
    pub fn calm_down(&self) {
        self.shared.calm.send_replace(true);
    }
}

async fn accept(name: &'static str, mut listener: TcpListener, shared: Arc<Shared>) {
    let address = listener.local_addr().expect("an address");
    let mut refuse = shared.refuse.subscribe();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(converse(name, stream, Arc::clone(&shared)));
                }
            }
            Ok(()) = refuse.changed() => {
                let pause = *refuse.borrow_and_update();
                drop(listener);
                tokio::time::sleep(pause).await;
                listener = loop {
                    match TcpListener::bind(address).await {
                        Ok(listener) => break listener,
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                };
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// One connection, until it ends or is cut.
async fn converse(name: &'static str, mut stream: TcpStream, shared: Arc<Shared>) {
    let close_at_once = !shared.is_calm() && shared.draw(|cards| cards.whole.rng().percent(3));
    if close_at_once {
        // Unread bytes make this a reset.
        let _ = stream.readable().await;
        shared.history.note(name, "provider.closed_unread", json!({}));
        return;
    }
    let mut cut = shared.cut.subscribe();
    let mut at_work = None;
    let was_cut = tokio::select! {
        biased;
        _ = cut.changed() => true,
        () = serve(name, &mut stream, &shared, &mut at_work) => false,
    };
    if was_cut {
        if let Some(attempt) = at_work {
            shared.history.note(name, "provider.cut", json!({ "attempt": attempt }));
        }
        let _ = stream.set_zero_linger();
    }
}

async fn serve(name: &'static str, stream: &mut TcpStream, shared: &Shared, at_work: &mut Option<String>) {
    let mut buffer = Vec::new();
    loop {
        *at_work = None;
        let Some(head) = read_head(stream, &mut buffer).await else { return };
        let behaviour = shared.behave(head.accepts_stream);
        *at_work = Some(head.attempt.clone());
        if behaviour == Behaviour::ResetMidRequest {
            shared.note_receipt(name, &head, behaviour, "").await;
            let _ = stream.set_zero_linger();
            return;
        }
        let Some(body) = read_body(stream, &mut buffer, &head).await else { return };
        let body: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let tag = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        // The format decides, not what the head lets one guess.
        let streams = body["stream"] == true;
        let behaviour = if streams == head.accepts_stream { behaviour } else { shared.behave(streams) };
        shared.note_receipt(name, &head, behaviour, &tag).await;
        let model = body["model"].as_str().unwrap_or("m");
        let content = format!("tag={tag} attempt={}", head.attempt);
        let (keep, whole) = reply(stream, shared, behaviour, streams, model, &content).await;
        let said = json!({ "attempt": head.attempt, "behaviour": behaviour.as_str(), "whole": whole });
        shared.history.note(name, "provider.reply", said);
        if !keep {
            return;
        }
    }
}

impl Shared {
    fn is_calm(&self) -> bool {
        *self.calm.borrow()
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Cards) -> T) -> T {
        draw(&mut self.cards.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn behave(&self, streams: bool) -> Behaviour {
        if self.is_calm() {
            return Behaviour::Answer;
        }
        self.draw(|cards| {
            let deck = if streams { &mut cards.stream } else { &mut cards.whole };
            if deck.rng().percent(45) { Behaviour::Answer } else { deck.deal() }
        })
    }

    async fn note_receipt(&self, name: &str, head: &Head, behaviour: Behaviour, tag: &str) {
        let row = match Uuid::parse_str(&head.attempt) {
            Ok(id) => {
                let look = sqlx::query_scalar::<_, String>("SELECT state FROM attempts WHERE id = $1").bind(id);
                match tokio::time::timeout(ROW_LIMIT, look.fetch_optional(&self.rows)).await {
                    Ok(Ok(Some(_))) => "there",
                    Ok(Ok(None)) => "absent",
                    Ok(Err(_)) | Err(_) => "unchecked",
                }
            }
            Err(_) => "no_id",
        };
        let seen = json!({ "attempt": head.attempt, "behaviour": behaviour.as_str(), "works": behaviour.works(), "tag": tag, "row": row });
        self.history.note(name, "provider.receive", seen);
    }

    /// Sleeps, unless the run calms down.
    async fn hold(&self, low: u64, high: u64) {
        let pause = self.draw(|cards| cards.whole.rng().millis(low, high));
        let mut calm = self.calm.subscribe();
        let _ = tokio::time::timeout(pause, calm.wait_for(|calm| *calm)).await;
    }
}

/// Answers as told: whether the connection may be used again, and whether a complete, valid answer was written.
async fn reply(
    stream: &mut TcpStream,
    shared: &Shared,
    how: Behaviour,
    streams: bool,
    model: &str,
    content: &str,
) -> (bool, bool) {
    match how {
        Behaviour::Slow => shared.hold(100, 700).await,
        Behaviour::Late => shared.hold(1_700, 4_000).await,
        Behaviour::Hang => shared.hold(shared.hang.0, shared.hang.1).await,
        _ => shared.hold(0, 60).await,
    }
    let refusal = match how {
        Behaviour::Overloaded => Some(wire::error(503, "overloaded_error")),
        Behaviour::Error500 => Some(wire::error(500, "server_error")),
        Behaviour::BadRequest => Some(wire::error(400, "invalid_request_error")),
        _ => None,
    };
    if let Some(refusal) = refusal {
        return (stream.write_all(&refusal).await.is_ok(), false);
    }
    match how {
        Behaviour::ResetAfterRead => {
            let _ = stream.set_zero_linger();
            (false, false)
        }
        Behaviour::FinAfterRead => (false, false),
        _ if streams => (false, reply_stream(stream, shared, how, model, content).await),
        _ => {
            let bytes = wire::complete(200, &wire::answer(model, content));
            let upto = match how {
                Behaviour::ResetAfterHead => bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(0) + 4,
                Behaviour::CutBody => bytes.len() - 40,
                _ => bytes.len(),
            };
            let sent = stream.write_all(&bytes[..upto]).await.is_ok();
            if how == Behaviour::ResetAfterHead {
                shared.hold(20, 80).await;
                let _ = stream.set_zero_linger();
            }
            (sent && how.answers(), sent && how.answers())
        }
    }
}

async fn reply_stream(stream: &mut TcpStream, shared: &Shared, how: Behaviour, model: &str, content: &str) -> bool {
    if stream.write_all(wire::STREAM_HEAD).await.is_err() {
        return false;
    }
    if how == Behaviour::ErrorEvent {
        let _ = stream.write_all(&wire::error_event()).await;
        return false;
    }
    for (n, frame) in wire::frames(model, content).iter().enumerate() {
        match (how, n) {
            (Behaviour::StreamCut, 3) => return false,
            (Behaviour::StreamReset, 3) => {
                shared.hold(20, 80).await;
                let _ = stream.set_zero_linger();
                return false;
            }
            (Behaviour::StreamStalled, 3) => shared.hold(1_500, 3_000).await,
            _ => shared.hold(1, 60).await,
        }
        if stream.write_all(frame).await.is_err() {
            return false;
        }
    }
    let _ = stream.shutdown().await;
    how.answers()
}

struct Head {
    attempt: String,
    accepts_stream: bool,
    length: usize,
    end: usize,
}

/// `None`: the peer has closed, or writes what is no HTTP.
async fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Head> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
    let header = |wanted: &str| {
        let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
        lines.filter(|(name, _)| *name == wanted).map(|(_, value)| value.trim().to_owned()).next()
    };
    Some(Head {
        attempt: header("x-client-request-id").unwrap_or_default(),
        accepts_stream: header("accept").is_some_and(|accept| accept.contains("event-stream")),
        length: header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0),
        end,
    })
}

async fn read_body(stream: &mut TcpStream, buffer: &mut Vec<u8>, head: &Head) -> Option<String> {
    let whole = head.end + head.length;
    while buffer.len() < whole {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&buffer[head.end..whole]).into_owned();
    buffer.drain(..whole);
    Some(body)
}
