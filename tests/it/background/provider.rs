//! A provider of OpenAI's responses: what is posted runs under an id of the provider's own, is streamed as the script
//! says, and can be asked for and cancelled by that id whatever became of its stream.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{PATIENCE, within};

/// One step of an answer's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `response.created` and `response.queued`.
    Begin,
    Say(&'static str),
    /// Until [`Provider::let_go`].
    Wait,
    /// `response.completed`, with everything that was said.
    Complete,
    /// An `error` event, of the stream and not of the response.
    Error,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, as long as the connection holds.
    Hang,
}

pub const SOUND: &[Step] = &[Step::Begin, Step::Say("o"), Step::Say("k"), Step::Complete];

#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    held: watch::Sender<bool>,
    _server: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State {
    next: VecDeque<&'static [Step]>,
    posts: Vec<Value>,
    questions: Vec<String>,
    told: Vec<String>,
    open: usize,
    /// As they are shown to those who ask.
    responses: HashMap<String, Value>,
}

/// Counts a stream until it has ended or its connection is closed.
struct Open(Arc<Mutex<State>>);

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.0).open -= 1;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Provider {
    pub async fn start() -> Provider {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(Mutex::new(State::default()));
        let held = watch::Sender::new(true);
        let mut server = JoinSet::new();
        server.spawn(accept(listener, state.clone(), held.clone()));
        Provider { address, state, held, _server: server }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How the next request is answered; without a word it is [`SOUND`]. The n-th request runs under `resp_n`.
    pub fn next(&self, steps: &'static [Step]) {
        lock(&self.state).next.push_back(steps);
    }

    pub fn posts(&self) -> Vec<Value> {
        lock(&self.state).posts.clone()
    }

    /// The paths that were asked for.
    pub fn questions(&self) -> Vec<String> {
        lock(&self.state).questions.clone()
    }

    /// The orders to stop.
    pub fn told(&self) -> Vec<String> {
        lock(&self.state).told.clone()
    }

    /// Streams whose connection is open.
    pub fn open(&self) -> usize {
        lock(&self.state).open
    }

    /// From now on the response has ended like this, whatever its stream said.
    pub fn show(&self, id: &str, status: &str, text: &str) {
        lock(&self.state).responses.insert(id.to_owned(), response(id, status, text));
    }

    pub fn forget(&self, id: &str) {
        lock(&self.state).responses.remove(id);
    }

    pub fn let_go(&self) {
        self.held.send_replace(false);
    }

    pub async fn wait_for_posts(&self, n: usize) {
        let seen = within(PATIENCE, async || (self.posts().len() >= n).then_some(())).await;
        assert!(seen.is_some(), "{} instead of {n} posts", self.posts().len());
    }

    pub async fn wait_for_questions(&self, n: usize) {
        let seen = within(PATIENCE, async || (self.questions().len() >= n).then_some(())).await;
        assert!(seen.is_some(), "{:?} instead of {n} questions", self.questions());
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>, held: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (state, held) = (state.clone(), held.clone());
        connections.spawn(async move {
            let service = hyper::service::service_fn(|request| serve(request, state.clone(), held.subscribe()));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Frames = Pin<Box<dyn Stream<Item = std::io::Result<Frame<Bytes>>> + Send>>;
type Served = Result<Response<StreamBody<Frames>>, std::io::Error>;

async fn serve(request: Request<Incoming>, state: Arc<Mutex<State>>, held: watch::Receiver<bool>) -> Served {
    let (head, body) = request.into_parts();
    let body: Bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let path = head.uri.path().to_owned();
    match (head.method, path.strip_prefix("/v1/responses")) {
        (Method::POST, Some("")) => work(&body, state, held),
        (Method::POST, Some(order)) if order.ends_with("/cancel") => {
            lock(&state).told.push(order.to_owned());
            let id = order.trim_start_matches('/').trim_end_matches("/cancel");
            reply(StatusCode::OK, &response(id, "cancelled", ""))
        }
        (Method::GET, Some(id)) => {
            let mut state = lock(&state);
            state.questions.push(id.to_owned());
            match state.responses.get(id.trim_start_matches('/')) {
                Some(response) => reply(StatusCode::OK, response),
                None => reply(StatusCode::NOT_FOUND, &error("invalid_request_error", "Response not found.")),
            }
        }
        _ => reply(StatusCode::NOT_FOUND, &error("invalid_request_error", "Unknown request URL.")),
    }
}

fn work(body: &[u8], state: Arc<Mutex<State>>, held: watch::Receiver<bool>) -> Served {
    let body: Value = serde_json::from_slice(body).map_err(std::io::Error::other)?;
    let streams = body["stream"] == true;
    let (id, steps) = {
        let mut locked = lock(&state);
        locked.posts.push(body);
        let id = format!("resp_{}", locked.posts.len());
        locked.responses.insert(id.clone(), response(&id, "in_progress", ""));
        (id, locked.next.pop_front().unwrap_or(SOUND))
    };
    if !streams {
        return reply(StatusCode::OK, &response(&id, "completed", &said(steps)));
    }
    lock(&state).open += 1;
    let open = Open(state);
    let frames = stream::iter(frames(&id, steps)).then(move |frame| {
        let (mut held, _open) = (held.clone(), &open);
        async move {
            match frame {
                Err(Step::Wait) => drop(held.wait_for(|held| !held).await),
                Err(Step::Hang) => std::future::pending().await,
                Err(_) => {
                    // What came before is on its way first.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return Err(std::io::Error::other("cut"));
                }
                Ok(events) => return Ok(Frame::data(Bytes::from(events))),
            }
            Ok(Frame::data(Bytes::new()))
        }
    });
    let built = Response::builder().header("content-type", "text/event-stream");
    built.body(StreamBody::new(Box::pin(frames) as Frames)).map_err(std::io::Error::other)
}

/// What goes out: events that follow each other at once are one piece of the body; between them, what is not an event.
fn frames(id: &str, steps: &[Step]) -> Vec<Result<String, Step>> {
    let whole = said(steps);
    let (mut frames, mut number) = (Vec::new(), 0);
    for step in steps {
        match step {
            Step::Wait | Step::Cut | Step::Hang => frames.push(Err(*step)),
            Step::Begin | Step::Say(_) | Step::Complete | Step::Error => {
                if !matches!(frames.last(), Some(Ok(_))) {
                    frames.push(Ok(String::new()));
                }
                for event in events(id, *step, &whole) {
                    let Some(Ok(piece)) = frames.last_mut() else { continue };
                    piece.push_str(&written(&event, number));
                    number += 1;
                }
            }
        }
    }
    frames
}

fn said(steps: &[Step]) -> String {
    steps.iter().map(|step| if let Step::Say(text) = step { text } else { "" }).collect()
}

fn events(id: &str, step: Step, whole: &str) -> Vec<Value> {
    match step {
        Step::Begin => ["created", "queued"]
            .map(|kind| json!({ "type": format!("response.{kind}"), "response": response(id, "queued", "") }))
            .to_vec(),
        Step::Say(text) => {
            let place = json!({ "output_index": 0, "content_index": 0, "item_id": "msg_1" });
            let mut event = json!({ "type": "response.output_text.delta", "delta": text, "logprobs": [] });
            event.as_object_mut().expect("an object").extend(place.as_object().expect("an object").clone());
            vec![event]
        }
        Step::Complete => vec![json!({ "type": "response.completed", "response": response(id, "completed", whole) })],
        Step::Error => vec![json!({ "type": "error", "code": "server_error", "message": "lost track", "param": null })],
        Step::Wait | Step::Cut | Step::Hang => Vec::new(),
    }
}

fn written(event: &Value, number: usize) -> String {
    let mut event = event.clone();
    event["sequence_number"] = number.into();
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"))
}

fn reply(status: StatusCode, body: &Value) -> Served {
    let frame = Frame::data(Bytes::from(body.to_string()));
    let frames: Frames = Box::pin(stream::once(std::future::ready(Ok(frame))));
    let built = Response::builder().status(status).header("content-type", "application/json");
    built.body(StreamBody::new(frames)).map_err(std::io::Error::other)
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
}

fn response(id: &str, status: &str, text: &str) -> Value {
    let output = match status {
        "completed" => {
            json!([{ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                     "content": [{ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }] }])
        }
        _ => json!([]),
    };
    let error = (status == "failed").then(|| json!({ "code": "server_error", "message": text }));
    let usage = json!({ "input_tokens": 3, "output_tokens": 2, "output_tokens_details": { "reasoning_tokens": 1 } });
    json!({
        "id": id, "object": "response", "created_at": 1_760_000_000, "model": "m1", "status": status, "error": error,
        "output": output, "usage": (status == "completed").then_some(usage),
    })
}
