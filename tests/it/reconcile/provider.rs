//! A provider with a memory: completions stored by attempt id that are seen when the test says so, and llama-server's
//! conversations. What is posted can be lost on the way back.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{PATIENCE, within};

/// What becomes of a posted request; without a word it is answered `ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// It is read, and the connection closes.
    Lose,
    /// It is read, and nothing comes back.
    Hang,
}

#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    held: watch::Sender<bool>,
    _server: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State {
    next: VecDeque<Post>,
    posts: Vec<Value>,
    conversations: Vec<String>,
    questions: Vec<String>,
    told: Vec<String>,
    hanging: usize,
    completions: HashMap<String, Value>,
    /// `None`: it runs.
    streams: HashMap<String, Option<String>>,
}

/// Counts a hanging call until its connection is closed.
struct Hanging(Arc<Mutex<State>>);

impl Drop for Hanging {
    fn drop(&mut self) {
        lock(&self.0).hanging -= 1;
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
        let held = watch::Sender::new(false);
        let mut server = JoinSet::new();
        server.spawn(accept(listener, state.clone(), held.clone()));
        Provider { address, state, held, _server: server }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn next(&self, post: Post) {
        lock(&self.state).next.push_back(post);
    }

    /// The bodies of the requests for work.
    pub fn posts(&self) -> Vec<Value> {
        lock(&self.state).posts.clone()
    }

    /// Their `X-Conversation-Id`s.
    pub fn conversations(&self) -> Vec<String> {
        lock(&self.state).conversations.clone()
    }

    /// What was asked, in order: the path, or the body of a post.
    pub fn questions(&self) -> Vec<String> {
        lock(&self.state).questions.clone()
    }

    /// Orders to stop.
    pub fn told(&self) -> Vec<String> {
        lock(&self.state).told.clone()
    }

    pub fn hanging(&self) -> usize {
        lock(&self.state).hanging
    }

    pub async fn wait_for_questions(&self, n: usize) -> Vec<String> {
        let seen = within(PATIENCE, async || Some(self.questions()).filter(|all| all.len() >= n)).await;
        seen.unwrap_or_else(|| panic!("{:?} instead of {n} questions within {PATIENCE:?}", self.questions()))
    }

    pub async fn wait_for_posts(&self, n: usize) {
        let seen = within(PATIENCE, async || (self.posts().len() >= n).then_some(())).await;
        assert!(seen.is_some(), "{} instead of {n} posts", self.posts().len());
    }

    /// The attempt's stored completion can be seen from now on.
    pub fn show(&self, attempt: &str, text: &str) {
        let mut stored = answer(text);
        stored["metadata"] = json!({ "interlock_attempt_id": attempt });
        lock(&self.state).completions.insert(attempt.to_owned(), stored);
    }

    /// The attempt's stream is there, and has not ended.
    pub fn run(&self, attempt: &str) {
        lock(&self.state).streams.insert(attempt.to_owned(), None);
    }

    pub fn finish(&self, attempt: &str, text: &str) {
        lock(&self.state).streams.insert(attempt.to_owned(), Some(events(text)));
    }

    /// Questions are read and not answered until `let_go`.
    pub fn hold_questions(&self) {
        self.held.send_replace(true);
    }

    pub fn let_go(&self) {
        self.held.send_replace(false);
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

type Served = Result<Response<Full<Bytes>>, std::io::Error>;

async fn serve(request: Request<Incoming>, state: Arc<Mutex<State>>, mut held: watch::Receiver<bool>) -> Served {
    let (head, body) = request.into_parts();
    let body: Bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let path = head.uri.to_string();
    if head.method == Method::POST && path == "/v1/chat/completions" {
        let id = head.headers.get("x-conversation-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        return work(&body, id, state).await;
    }
    if head.method == Method::DELETE {
        lock(&state).told.push(path);
        return reply(StatusCode::NO_CONTENT, "application/json", String::new());
    }
    if !path.starts_with("/v1/stream?") {
        let question = if body.is_empty() { path.clone() } else { String::from_utf8_lossy(&body).into_owned() };
        lock(&state).questions.push(question);
        let _ = held.wait_for(|held| !held).await;
    }
    let state = lock(&state);
    let known = |id: &&String| path.contains(id.as_str()) || String::from_utf8_lossy(&body).contains(id.as_str());
    if path.starts_with("/v1/chat/completions?") {
        let found: Vec<&Value> =
            state.completions.iter().filter(|(id, _)| known(id)).map(|(_, stored)| stored).collect();
        let list = json!({ "object": "list", "data": found, "has_more": false });
        return reply(StatusCode::OK, "application/json", list.to_string());
    }
    let found = state.streams.iter().find(|(id, _)| known(id));
    match (path.as_str(), found) {
        ("/v1/streams/lookup", None) => reply(StatusCode::OK, "application/json", "[]".to_owned()),
        ("/v1/streams/lookup", Some((id, stream))) => {
            let bytes = stream.as_ref().map_or(0, String::len);
            let session = json!([{ "conversation_id": id, "is_done": stream.is_some(), "total_bytes": bytes }]);
            reply(StatusCode::OK, "application/json", session.to_string())
        }
        (_, Some((_, Some(stream)))) => reply(StatusCode::OK, "text/event-stream", stream.clone()),
        (_, _) => reply(StatusCode::NOT_FOUND, "application/json", "{}".to_owned()),
    }
}

async fn work(body: &[u8], conversation: Option<String>, state: Arc<Mutex<State>>) -> Served {
    let body: Value = serde_json::from_slice(body).map_err(std::io::Error::other)?;
    let streams = body["stream"] == true;
    let next = {
        let mut state = lock(&state);
        state.posts.push(body);
        state.conversations.extend(conversation);
        state.next.pop_front()
    };
    match next {
        None if streams => reply(StatusCode::OK, "text/event-stream", events("ok")),
        None => reply(StatusCode::OK, "application/json", answer("ok").to_string()),
        Some(Post::Lose) => Err(std::io::Error::other("lost")),
        Some(Post::Hang) => {
            lock(&state).hanging += 1;
            let _hanging = Hanging(state);
            std::future::pending::<Infallible>().await;
            unreachable!("it hangs")
        }
    }
}

fn reply(status: StatusCode, kind: &str, body: String) -> Served {
    let built = Response::builder().status(status).header("content-type", kind).body(Full::new(Bytes::from(body)));
    built.map_err(std::io::Error::other)
}

fn answer(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_760_000_000, "model": "m1",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4 },
    })
}

fn events(text: &str) -> String {
    let chunk = |choices: Value| json!({ "id": "c", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "m1", "choices": choices });
    let word = chunk(json!([{ "index": 0, "delta": { "role": "assistant", "content": text }, "finish_reason": null }]));
    let end = chunk(json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]));
    let mut usage = chunk(json!([]));
    usage["usage"] = json!({ "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4 });
    format!("data: {word}\n\ndata: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
}
