//! The test's own HTTP client: one connection per call, nothing repeated, and what came before a connection broke or
//! the caller hung up is kept.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What is asked of whom.
#[derive(Debug, Clone)]
pub struct Ask {
    pub address: SocketAddr,
    pub method: &'static str,
    pub path: String,
    pub token: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Then the caller hangs up.
    pub patience: Duration,
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[derive(Debug)]
pub enum Outcome {
    Whole(Reply),
    /// The caller's patience was over; what had come by then.
    HungUp(Option<Reply>),
    Broken(String, Option<Reply>),
}

impl Outcome {
    pub fn whole(self) -> Option<Reply> {
        match self {
            Outcome::Whole(reply) => Some(reply),
            Outcome::HungUp(_) | Outcome::Broken(..) => None,
        }
    }
}

pub async fn send(ask: &Ask) -> Outcome {
    let mut got = None;
    match tokio::time::timeout(ask.patience, exchange(ask, &mut got)).await {
        Ok(Ok(())) => match got {
            Some(reply) => Outcome::Whole(reply),
            None => Outcome::Broken("no head".to_owned(), None),
        },
        Ok(Err(error)) => Outcome::Broken(error.to_string(), got),
        Err(_) => Outcome::HungUp(got),
    }
}

async fn exchange(ask: &Ask, got: &mut Option<Reply>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut builder = Request::builder().method(ask.method).uri(&ask.path).header("host", ask.address.to_string());
    builder = builder.header("authorization", format!("Bearer {}", ask.token));
    for (name, value) in &ask.headers {
        builder = builder.header(*name, value);
    }
    if !ask.body.is_empty() {
        builder = builder.header("content-type", "application/json");
    }
    let request: Request<Full<Bytes>> = builder.body(Full::new(Bytes::from(ask.body.clone())))?;
    let stream = TcpStream::connect(ask.address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let (head, mut body) = sender.send_request(request).await?.into_parts();
    let reply = got.insert(Reply { status: head.status.as_u16(), headers: head.headers, body: Vec::new() });
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            reply.body.extend_from_slice(&data);
        }
    }
    Ok(())
}
