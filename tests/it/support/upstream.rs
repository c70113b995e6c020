//! A provider that does what it is told: a real HTTP/1.1 server on a free port, whose every answer is scripted down to
//! the byte, so that every way in which a provider can fail can be played.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{PATIENCE, within};

/// The protocol that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAi,
    Anthropic,
}

/// One scripted answer.
#[derive(Debug, Clone)]
pub struct Reply {
    before: Vec<Piece>,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Answer { text: String, input: u64, output: u64 },
    Error { status: u16, kind: String, message: String, headers: Vec<(String, String)> },
    Whole { status: u16, content_type: String, body: String },
    Pieces(Vec<Piece>),
}

/// A step on the wire.
#[derive(Debug, Clone)]
pub enum Piece {
    Bytes(Vec<u8>),
    /// Nothing happens until `release`; afterwards it holds no longer.
    Hold,
    Pause(Duration),
    /// RST instead of FIN.
    Reset,
}

impl Reply {
    fn of(what: What) -> Reply {
        Reply { before: Vec::new(), what }
    }

    /// A sound answer, of 3 tokens in and 1 out.
    pub fn answer(text: &str) -> Reply {
        Reply::answer_of(text, 3, 1)
    }

    pub fn answer_of(text: &str, input: u64, output: u64) -> Reply {
        Reply::of(What::Answer { text: text.to_owned(), input, output })
    }

    /// An error in the provider's own shape; `kind` is its `type`, and OpenAI's `code`.
    pub fn error(status: u16, kind: &str, message: &str) -> Reply {
        Reply::of(What::Error { status, kind: kind.to_owned(), message: message.to_owned(), headers: Vec::new() })
    }

    pub fn overloaded() -> Reply {
        Reply::error(503, "overloaded_error", "overloaded")
    }

    pub fn bad_request() -> Reply {
        Reply::error(400, "invalid_request_error", "temperature must be below 2")
    }

    /// Any complete answer.
    pub fn whole(status: u16, content_type: &str, body: &str) -> Reply {
        Reply::of(What::Whole { status, content_type: content_type.to_owned(), body: body.to_owned() })
    }

    /// An error page of some hop in between.
    pub fn html(status: u16) -> Reply {
        Reply::whole(status, "text/html", "<html><body><h1>Bad Gateway</h1></body></html>")
    }

    pub fn pieces(pieces: Vec<Piece>) -> Reply {
        Reply::of(What::Pieces(pieces))
    }

    /// The connection is reset after the request was read.
    pub fn reset() -> Reply {
        Reply::pieces(vec![Piece::Reset])
    }

    /// The connection is closed after the request was read.
    pub fn close() -> Reply {
        Reply::pieces(Vec::new())
    }

    /// A sound answer in two halves, with `between` between them; what it announces is its whole length.
    pub fn halves(text: &str, between: Vec<Piece>) -> Reply {
        let answer = openai_answer("m", text, 3, 1).to_string();
        let (first, second) = answer.as_bytes().split_at(answer.len() / 2);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
        let mut pieces = vec![Piece::Bytes([head.as_bytes(), first].concat())];
        pieces.extend(between);
        pieces.push(Piece::Bytes(second.to_vec()));
        Reply::pieces(pieces)
    }

    /// A body shorter than announced.
    pub fn cut() -> Reply {
        Reply::pieces(vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{\"id\":\"chatcmpl-1\",\"cho".to_vec())])
    }

    /// A body of no announced length that ends in the middle.
    pub fn cut_without_length() -> Reply {
        Reply::pieces(vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"id\":\"chatcmpl-1\",\"cho".to_vec())])
    }

    /// Not before `release`.
    pub fn held(mut self) -> Reply {
        self.before.push(Piece::Hold);
        self
    }

    /// Not before this time is over.
    pub fn after(mut self, pause: Duration) -> Reply {
        self.before.push(Piece::Pause(pause));
        self
    }

    /// For errors in the provider's own shape.
    pub fn header(mut self, name: &str, value: &str) -> Reply {
        if let What::Error { headers, .. } = &mut self.what {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The steps, and whether the connection may be used again after them.
    fn steps(self, wire: Wire, model: &str) -> (Vec<Piece>, bool) {
        let mut steps = self.before;
        let whole = match self.what {
            What::Pieces(pieces) => {
                steps.extend(pieces);
                return (steps, false);
            }
            What::Answer { text, input, output } => {
                let body = match wire {
                    Wire::OpenAi => openai_answer(model, &text, input, output),
                    Wire::Anthropic => anthropic_answer(model, &text, input, output),
                };
                complete(200, "application/json", &[], &body.to_string())
            }
            What::Error { status, kind, message, headers } => {
                let body = match wire {
                    Wire::OpenAi => {
                        json!({ "error": { "message": message, "type": kind, "code": kind, "param": null } })
                    }
                    Wire::Anthropic => json!({ "type": "error", "error": { "type": kind, "message": message } }),
                };
                complete(status, "application/json", &headers, &body.to_string())
            }
            What::Whole { status, content_type, body } => complete(status, &content_type, &[], &body),
        };
        steps.push(Piece::Bytes(whole));
        (steps, true)
    }
}

fn complete(status: u16, content_type: &str, headers: &[(String, String)], body: &str) -> Vec<u8> {
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n{extra}\r\n{body}")
        .into_bytes()
}

fn openai_answer(model: &str, text: &str, input: u64, output: u64) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_760_000_000, "model": model,
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output },
    })
}

fn anthropic_answer(model: &str, text: &str, input: u64, output: u64) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model,
        "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": input, "output_tokens": output },
    })
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// From `x-client-request-id`.
    pub attempt_id: Option<String>,
    pub at: Instant,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.body))
    }
}

/// The running provider; it ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedUpstream {
    address: SocketAddr,
    script: Arc<Script>,
    _server: JoinSet<()>,
}

#[derive(Debug)]
struct Script {
    wire: Wire,
    next: Mutex<VecDeque<Reply>>,
    default: Mutex<Reply>,
    seen: Mutex<Vec<Seen>>,
    released: watch::Sender<bool>,
    /// Gateways that closed their connection while an answer was held.
    hang_ups: watch::Sender<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedUpstream {
    /// Speaks OpenAI's chat completions and answers `ok` until told otherwise.
    pub async fn start() -> ScriptedUpstream {
        Self::speaking(Wire::OpenAi).await
    }

    pub async fn speaking(wire: Wire) -> ScriptedUpstream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let script = Arc::new(Script {
            wire,
            next: Mutex::default(),
            default: Mutex::new(Reply::answer("ok")),
            seen: Mutex::default(),
            released: watch::Sender::new(false),
            hang_ups: watch::Sender::new(0),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, script.clone()));
        ScriptedUpstream { address, script, _server: server }
    }

    pub fn wire(&self) -> Wire {
        self.script.wire
    }

    pub fn base_url(&self) -> String {
        match self.script.wire {
            Wire::OpenAi | Wire::Anthropic => format!("http://{}/v1", self.address),
        }
    }

    /// The reply after those queued already; once all are used up, the default is given.
    pub fn next(&self, reply: Reply) {
        lock(&self.script.next).push_back(reply);
    }

    /// The default from now on.
    pub fn always(&self, reply: Reply) {
        *lock(&self.script.default) = reply;
    }

    /// Lets go of everything that is held, and holds nothing any more.
    pub fn release(&self) {
        self.script.released.send_replace(true);
    }

    /// Waits, bounded, until this many gateways have closed their connection while an answer was held.
    pub async fn wait_for_hang_ups(&self, n: usize) {
        let mut hang_ups = self.script.hang_ups.subscribe();
        let heard = tokio::time::timeout(PATIENCE, hang_ups.wait_for(|count| *count >= n)).await;
        assert!(heard.is_ok(), "fewer than {n} hang-up(s) within {PATIENCE:?}");
    }

    /// Every request so far, in order of arrival.
    pub fn calls(&self) -> Vec<Seen> {
        lock(&self.script.seen).clone()
    }

    pub fn count(&self) -> usize {
        lock(&self.script.seen).len()
    }

    /// Waits, bounded, until this many requests have arrived.
    pub async fn wait_for_calls(&self, n: usize) -> Vec<Seen> {
        let look = async || Some(self.calls()).filter(|calls| calls.len() >= n);
        match within(PATIENCE, look).await {
            Some(calls) => calls,
            None => panic!("{} request(s) instead of {n} within {PATIENCE:?}", self.count()),
        }
    }
}

async fn accept(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(converse(stream, script.clone()));
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn converse(mut stream: TcpStream, script: Arc<Script>) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer).await {
        let mut released = script.released.subscribe();
        let model =
            serde_json::from_str::<Value>(&seen.body).ok().and_then(|body| body["model"].as_str().map(str::to_owned));
        let reply = lock(&script.next).pop_front().unwrap_or_else(|| lock(&script.default).clone());
        lock(&script.seen).push(seen);
        let (steps, keep) = reply.steps(script.wire, model.as_deref().unwrap_or("none"));
        for step in steps {
            match step {
                Piece::Bytes(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Piece::Hold => {
                    let mut next = [0];
                    tokio::select! {
                        biased;
                        _ = released.wait_for(|released| *released) => {}
                        // Nothing follows a request before its answer: what can be read here is the end.
                        Ok(0) | Err(_) = stream.peek(&mut next) => script.hang_ups.send_modify(|count| *count += 1),
                    }
                    if released.wait_for(|released| *released).await.is_err() {
                        return;
                    }
                }
                Piece::Pause(pause) => tokio::time::sleep(pause).await,
                Piece::Reset => {
                    let _ = stream.set_zero_linger();
                    return;
                }
            }
        }
        if !keep {
            return;
        }
    }
}

/// `None`: the peer has closed, or writes what is no HTTP.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let whole = head_end + 4 + length;
    while buffer.len() < whole {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&buffer[head_end + 4..whole]).into_owned();
    buffer.drain(..whole);
    let attempt_id = header("x-client-request-id").or_else(|| header("x-interlock-attempt-id"));
    Some(Seen { path, attempt_id, headers, body, at: Instant::now() })
}
