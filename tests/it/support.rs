//! What the tests stand on: a throw-away Postgres, gateways in this process and in others, scripted providers, and a
//! client. Waits are bounded and look again; nothing here sleeps and hopes.

pub mod app;
pub mod client;
pub mod cluster;
pub mod outage;
pub mod process;
pub mod settings;
pub mod sse;
pub mod upstream;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How long a test waits for what should happen at once; longer only on a machine that is very busy.
pub const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// Looks until there is something to see, at most for `limit`.
pub async fn within<T>(limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(seen) = look().await {
            return Some(seen);
        }
        if Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits, bounded, until this holds.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let seen = within(PATIENCE, async || holds().await.then_some(())).await;
    assert!(seen.is_some(), "not within {PATIENCE:?}: {what}");
}

/// A chat request to the route `support`.
pub fn ask(text: &str) -> Value {
    json!({ "model": "support", "messages": [{ "role": "user", "content": text }] })
}

/// As `races` shows the hash of what was thrown away.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The base URL of a provider whose port nobody listens on.
pub async fn nobody_listens() -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    format!("http://{}/v1", listener.local_addr().expect("its address"))
}

/// The same as a stream, with its usage.
pub fn ask_stream(text: &str) -> Value {
    json!({
        "model": "support", "messages": [{ "role": "user", "content": text }],
        "stream": true, "stream_options": { "include_usage": true },
    })
}
