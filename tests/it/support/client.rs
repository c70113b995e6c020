//! The test's own HTTP client: one connection per call, nothing added, nothing repeated. Dropping a call's future
//! closes its connection, as a client that hangs up does.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{PATIENCE, within};

/// How long a single call may take before the test fails.
const LONGEST_CALL: Duration = Duration::from_secs(60);

/// Somebody with an address and a token.
#[derive(Debug, Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub token: String,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An event stream that is being read. Dropping it hangs up.
#[derive(Debug)]
pub struct OpenStream {
    pub status: u16,
    pub headers: HeaderMap,
    body: hyper::body::Incoming,
    pending: Vec<u8>,
    _connections: JoinSet<hyper::Result<()>>,
}

impl OpenStream {
    /// The next event as text; `None` at the end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.pending.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.pending.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&event[..end]).into_owned());
            }
            let frame = tokio::time::timeout(LONGEST_CALL, self.body.frame()).await.expect("the next event in time")?;
            if let Ok(data) = frame.expect("a stream that is not cut").into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
    }

    /// The body of an answer that is no stream.
    pub async fn text(&mut self) -> String {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame.expect("an answer that is not cut").into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    /// Everything that is still to come.
    pub async fn rest(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// A request about to be sent.
#[derive(Debug)]
pub struct Call {
    address: SocketAddr,
    builder: http::request::Builder,
    body: Bytes,
}

impl Call {
    /// Sent in addition to others of this name.
    pub fn header(mut self, name: &str, value: &str) -> Call {
        self.builder = self.builder.header(name, value);
        self
    }

    pub fn key(self, key: &str) -> Call {
        self.header("idempotency-key", key)
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Call {
        self.body = body.into();
        self
    }

    pub fn json(self, body: &Value) -> Call {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub async fn send(self) -> Answer {
        match tokio::time::timeout(LONGEST_CALL, self.exchange()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => panic!("the gateway did not answer: {error}"),
            Err(_) => panic!("no answer within {LONGEST_CALL:?}"),
        }
    }

    /// The answer, or how the connection broke.
    pub async fn try_send(self) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        tokio::time::timeout(LONGEST_CALL, self.exchange()).await?
    }

    /// The head of the answer, then its events as they come.
    pub async fn open(self) -> OpenStream {
        let request: Request<Full<Bytes>> = self.builder.body(Full::new(self.body)).expect("a request");
        let stream = TcpStream::connect(self.address).await.expect("a gateway");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let answer = tokio::time::timeout(LONGEST_CALL, sender.send_request(request)).await;
        let (head, body) = answer.expect("an answer in time").expect("an answer").into_parts();
        let (status, pending) = (head.status.as_u16(), Vec::new());
        OpenStream { status, headers: head.headers, body, pending, _connections: connections }
    }

    async fn exchange(self) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let request: Request<Full<Bytes>> = self.builder.body(Full::new(self.body))?;
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

impl Client {
    /// The same somebody at another gateway.
    pub fn at(&self, address: SocketAddr) -> Client {
        Client { address, token: self.token.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> Call {
        self.anonymous(method, path).header("authorization", &format!("Bearer {}", self.token))
    }

    /// Without a credential.
    pub fn anonymous(&self, method: Method, path: &str) -> Call {
        let builder = Request::builder().method(method).uri(path).header("host", self.address.to_string());
        Call { address: self.address, builder, body: Bytes::new() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request(Method::GET, path).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.request(Method::POST, path).json(body).send().await
    }

    /// `POST /v1/chat/completions` with this key, not sent yet.
    pub fn chat_call(&self, key: &str, body: &Value) -> Call {
        self.request(Method::POST, "/v1/chat/completions").key(key).json(body)
    }

    pub async fn chat(&self, key: &str, body: &Value) -> Answer {
        self.chat_call(key, body).send().await
    }

    /// The same with the body exactly as written.
    pub async fn chat_text(&self, key: &str, body: &str) -> Answer {
        let call = self.request(Method::POST, "/v1/chat/completions").key(key);
        call.header("content-type", "application/json").body(body.to_owned()).send().await
    }

    /// `POST /v1/jobs` for a chat completion.
    pub async fn create_job(&self, key: &str, body: &Value) -> Answer {
        let order = json!({ "url": "/v1/chat/completions", "body": body });
        self.request(Method::POST, "/v1/jobs").key(key).json(&order).send().await
    }

    pub async fn job(&self, id: &str) -> Value {
        let answer = self.get(&format!("/v1/jobs/{id}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The only job with this key.
    pub async fn job_by_key(&self, key: &str) -> Option<Value> {
        let answer = self.get(&format!("/v1/jobs?idempotency_key={key}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["data"].as_array().expect("a list").first().cloned()
    }

    pub async fn result(&self, id: &str) -> Answer {
        self.get(&format!("/v1/jobs/{id}/result")).await
    }

    pub async fn cancel(&self, id: &str) -> Answer {
        self.request(Method::POST, &format!("/v1/jobs/{id}/cancel")).send().await
    }

    /// Waits, bounded, until the job is in this state; then it is answered.
    pub async fn job_in_state(&self, id: &str, state: &str) -> Value {
        self.job_where(id, state, |job| job["state"] == state).await
    }

    /// Waits, bounded, until the job's attempt (counted from 1) is in this state; then the job is answered.
    pub async fn attempt_in_state(&self, id: &str, ordinal: usize, state: &str) -> Value {
        let what = format!("attempt {ordinal} {state}");
        self.job_where(id, &what, |job| job["attempts"][ordinal - 1]["state"] == state).await
    }

    pub async fn job_where(&self, id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let look = async || {
            last = self.job(id).await;
            holds(&last).then(|| last.clone())
        };
        match within(PATIENCE, look).await {
            Some(job) => job,
            None => panic!("job {id} is not {what} within {PATIENCE:?}: {last:#}"),
        }
    }

    /// Waits, bounded, until the job with this key is there.
    pub async fn job_with_key(&self, key: &str) -> Value {
        within(PATIENCE, async || self.job_by_key(key).await).await.unwrap_or_else(|| panic!("no job with key {key}"))
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// From the headers; every answer about a job carries it.
    pub fn job_id(&self) -> String {
        self.header("x-interlock-job-id").unwrap_or_else(|| panic!("no job id: {self:?}")).to_owned()
    }

    pub fn attempt_id(&self) -> String {
        self.header("x-interlock-attempt-id").unwrap_or_else(|| panic!("no attempt id: {self:?}")).to_owned()
    }

    /// The error's code, in whichever shape it is written.
    pub fn code(&self) -> String {
        let json = self.json();
        let code = json["error"]["code"].as_str().or(json["code"].as_str());
        code.unwrap_or_else(|| panic!("no error code: {self:?}")).to_owned()
    }

    /// The first choice's text.
    pub fn content(&self) -> String {
        let json = self.json();
        json["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("no content: {self:?}")).to_owned()
    }

    pub fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{} {}", self.text(), status);
        self
    }
}

/// Sends these bytes as they are and reads until the peer closes, for requests that no client would write.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(bytes).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    match tokio::time::timeout(LONGEST_CALL, talk).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => panic!("the connection broke: {error}"),
        Err(_) => panic!("the connection stayed open for {LONGEST_CALL:?}"),
    }
}
