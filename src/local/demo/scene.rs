//! Where the story is played: a client of the running gateway, and an eye on the database.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use providers::adapter::UpstreamRequest;
use providers::failure::Failure;
use providers::transport::{Endpoint, Transport, TransportError};
use serde_json::Value;
use tokio::time::Instant;

use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::Snapshot;
use crate::http::view;
use crate::store::{Store, StoreError};

/// How long the story waits for what is on its way.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("the gateway did not answer: {}", .0.message)]
    Gateway(Box<Failure>),
    #[error("the gateway's answer could not be used: {0}")]
    Answer(String),
    #[error("waited {PATIENCE:?} in vain for {0}")]
    InVain(&'static str),
}

/// An answer of the gateway.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn job(&self) -> Result<JobId, SceneError> {
        self.header("x-interlock-job-id").parse().map_err(|_| SceneError::Answer("it names no job".to_owned()))
    }

    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().or(self.body["code"].as_str()).unwrap_or_default()
    }
}

/// The stage: two addresses, a key, a token, and the database.
#[derive(Debug)]
pub struct Scene {
    application: Transport,
    operator: Transport,
    pub store: Store,
    pub owner: OwnerId,
    key: String,
    token: String,
    step: usize,
    broken: usize,
}

impl Scene {
    pub fn new(
        application: SocketAddr,
        operator: SocketAddr,
        store: Store,
        owner: OwnerId,
        key: String,
        token: String,
    ) -> Result<Scene, SceneError> {
        let transport = |address: SocketAddr| {
            Transport::new(&Endpoint {
                base_url: format!("http://{address}"),
                connect_timeout: Duration::from_secs(5),
                pool_idle_timeout: Duration::from_secs(5),
                signing: None,
            })
        };
        let (application, operator) = (transport(application)?, transport(operator)?);
        Ok(Scene { application, operator, store, owner, key, token, step: 0, broken: 0 })
    }

    pub fn all_held(&self) -> bool {
        self.broken == 0
    }

    /// Opens the next step.
    pub fn step(&mut self, title: &str) {
        self.step += 1;
        println!("\n{}. {title}", self.step);
    }

    /// What happened, as the story tells it.
    pub fn tell(&self, text: &str) {
        println!("   {text}");
    }

    /// What must be so.
    pub fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.broken += 1;
        }
        println!("   {} {what}", if holds { "✓" } else { "✗ DOES NOT HOLD:" });
    }

    /// A chat request of the application.
    pub async fn ask(&self, idempotency_key: &str, text: &str) -> Result<Answer, SceneError> {
        let body = serde_json::json!({ "model": "support", "messages": [{ "role": "user", "content": text }] });
        let headers =
            [("authorization", format!("Bearer {}", self.key)), ("idempotency-key", idempotency_key.to_owned())];
        post(&self.application, "/v1/chat/completions", &headers, &body).await
    }

    /// A call of somebody on call.
    pub async fn operate(&self, path: &str, body: &Value) -> Result<Answer, SceneError> {
        post(&self.operator, path, &[("authorization", format!("Bearer {}", self.token))], body).await
    }

    /// The job as the database holds it.
    pub async fn job(&self, id: JobId) -> Result<Snapshot, SceneError> {
        let found = self.store.job(self.owner, id).await?;
        found.ok_or_else(|| SceneError::Answer(format!("job {id} is not in the database")))
    }

    /// Prints the job and its attempts from the database.
    pub async fn show(&self, id: JobId) -> Result<Snapshot, SceneError> {
        let snapshot = self.job(id).await?;
        let value = view::job(&snapshot);
        let short = |id: &Value| id.as_str().map(|id| id[id.len() - 8..].to_owned()).unwrap_or_else(|| "–".to_owned());
        println!(
            "   database: job …{} {} (version {}, completed by …{})",
            short(&value["id"]),
            snapshot.job.state.as_str(),
            snapshot.job.version,
            short(&value["completed_by"]),
        );
        for attempt in value["attempts"].as_array().into_iter().flatten() {
            let word = |name: &str| attempt[name].as_str().map(|w| format!(" {name}={w}")).unwrap_or_default();
            println!(
                "             attempt {} …{} at {}/{}: {}{}{}{}",
                attempt["ordinal"],
                short(&attempt["id"]),
                attempt["provider"].as_str().unwrap_or_default(),
                attempt["model"].as_str().unwrap_or_default(),
                attempt["state"].as_str().unwrap_or_default(),
                word("reason"),
                word("cleared_by"),
                word("permit_id"),
            );
        }
        Ok(snapshot)
    }

    /// Looks at the job until `is_so`.
    pub async fn wait_for(
        &self,
        id: JobId,
        what: &'static str,
        is_so: impl Fn(&Snapshot) -> bool,
    ) -> Result<(), SceneError> {
        let until = Instant::now() + PATIENCE;
        while !is_so(&self.job(id).await?) {
            wait_a_little(until, what).await?;
        }
        Ok(())
    }
}

/// One turn of a wait for `what`, which does not go on for ever.
pub async fn wait_a_little(until: Instant, what: &'static str) -> Result<(), SceneError> {
    if Instant::now() > until {
        return Err(SceneError::InVain(what));
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

pub fn patience() -> Instant {
    Instant::now() + PATIENCE
}

async fn post(
    to: &Transport,
    path: &str,
    headers: &[(&'static str, String)],
    body: &Value,
) -> Result<Answer, SceneError> {
    let mut out = vec![(HeaderName::from_static("content-type"), HeaderValue::from_static("application/json"))];
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).map_err(|e| SceneError::Answer(e.to_string()))?;
        out.push((HeaderName::from_static(name), value));
    }
    let request = UpstreamRequest { path: path.to_owned(), headers: out, body: body.to_string().into() };
    let gateway = |failure| SceneError::Gateway(Box::new(failure));
    let (head, bytes) = to.send(request).await.map_err(gateway)?.whole(ANSWER_LIMIT).await.map_err(gateway)?;
    let body = serde_json::from_slice(&bytes).map_err(|e| SceneError::Answer(e.to_string()))?;
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}
