//! What a client, an upstream or a database can get wrong: each is told with the thing and the cure, nothing is sent,
//! nothing is half written, and the next request is served.

mod bodies;
mod credentials;
mod database;
mod keys;
mod link;
mod secrets;
mod slow;
mod upstreams;

use serde_json::Value;

use crate::support::app::App;
use crate::support::ask;
use crate::support::client::{Answer, Client};
use crate::support::upstream::ScriptedUpstream;

/// Asserts an error in OpenAI's shape, with this status and code; answers its message.
#[track_caller]
fn openai_error(answer: &Answer, status: u16, code: &str) -> String {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
    let error = &answer.json()["error"];
    assert!(error["type"].is_string() && error.get("param").is_some(), "{answer:?}");
    error["message"].as_str().expect("a message").to_owned()
}

/// The same as RFC 9457 writes it; answers the whole problem.
#[track_caller]
fn problem(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["status"], status, "{answer:?}");
    assert!(["type", "title", "detail"].iter().all(|name| problem[name].is_string()), "{answer:?}");
    problem
}

/// Nothing was sent, nothing was written, and the gateway serves.
async fn unharmed(app: &App, client: &Client, upstream: &ScriptedUpstream) {
    assert_eq!(upstream.count(), 0, "something was sent");
    assert_eq!(app.database.count("SELECT count(*) FROM jobs").await, 0, "something was written");
    client.chat("afterwards", &ask("still there?")).await.expect(200);
}
