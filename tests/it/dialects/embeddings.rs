//! OpenAI embeddings: a job like any other, passed through as it is.

use http::Method;
use serde_json::{Value, json};

use super::{CLOCKS, assert_same_job, call};
use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream, Wire};

const PATH: &str = "/v1/embeddings";
const VECTORS: &str = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-1e-9]}],"model":"m1","usage":{"prompt_tokens":3,"total_tokens":3}}"#;

fn ask() -> Value {
    json!({ "model": "support", "input": ["a"], "encoding_format": "float", "invented": 1 })
}

async fn post(client: &Client, key: &str, body: &Value) -> Answer {
    call(client, PATH, key, body).send().await
}

#[tokio::test]
async fn vectors_come_as_the_provider_gave_them_and_replay() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::whole(200, "application/json", VECTORS));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let first = post(&client, "k", &ask()).await.expect(200);
    assert_eq!(first.text(), VECTORS);
    assert_same_job(&first, &post(&client, "k", &ask()).await.expect(200));
    let sent = alpha.calls()[0].clone();
    assert_eq!(sent.path, "/v1/embeddings");
    assert_eq!(sent.json(), json!({ "model": "m1", "input": ["a"], "encoding_format": "float", "invented": 1 }));
    let job = client.job(&first.job_id()).await;
    assert_eq!((&job["url"], &job["attempts"][0]["usage"]["input_tokens"]), (&json!(PATH), &json!(3)));
    assert_eq!(client.result(&first.job_id()).await.expect(200).text(), VECTORS);
    stranger.result(&first.job_id()).await.expect(404);
    let conflict = post(&client, "k", &json!({ "model": "support", "input": "b" })).await.expect(409);
    assert_eq!(conflict.code(), "idempotency_key_conflict");
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_job_for_vectors_may_be_ordered() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::whole(200, "application/json", VECTORS));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let order = json!({ "url": PATH, "body": ask() });
    let ordered = client.request(Method::POST, "/v1/jobs").key("k").json(&order).send().await.expect(201);
    let id = ordered.json()["id"].as_str().expect("an id").to_owned();
    client.job_in_state(&id, "succeeded").await;
    assert_eq!(client.result(&id).await.expect(200).text(), VECTORS);
}

#[tokio::test]
async fn an_unknown_outcome_blocks_and_errors_have_openais_shape() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::cut());
    alpha.next(Reply::whole(200, "application/json", r#"{"object":"list","data":[]}"#));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    for prefer in ["wait=20", "wait=0"] {
        let unknown = call(&client, PATH, "k", &ask()).header("prefer", prefer).send().await.expect(504);
        assert_eq!(unknown.code(), "attempt_unknown");
    }
    assert_eq!(alpha.count(), 1);
    let empty = post(&client, "e", &ask()).await.expect(502);
    assert_eq!(empty.code(), "all_targets_failed");
    let streamed = post(&client, "s", &json!({ "model": "support", "input": "a", "stream": true })).await.expect(400);
    assert_eq!(streamed.json()["error"]["param"], "stream");
    let keyless = client.request(Method::POST, PATH).json(&ask()).send().await.expect(400);
    assert_eq!(keyless.code(), "idempotency_key_missing");
}

/// Vectors of another model cannot be compared: a permit for chat is none for them.
#[tokio::test]
async fn another_model_is_no_fallback_for_vectors_nor_is_a_provider_without_them() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::overloaded());
    beta.always(Reply::whole(200, "application/json", VECTORS));
    let app = App::start(&Settings::two(&alpha, &beta, CLOCKS)).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let answer = post(&client, "k", &ask()).await;
    assert_eq!((answer.status, beta.count()), (503, 0), "{answer:?}");
    client.chat("c", &crate::support::ask("hi")).await;
    assert!(beta.count() > 0, "chat does fail over");
    let gamma = ScriptedUpstream::speaking(Wire::Anthropic).await;
    let app = App::start(&Settings::one(&gamma, CLOCKS)).await;
    let refused = post(&app.client("acme").await, "k", &ask()).await.expect(400);
    assert_eq!((&refused.json()["error"]["param"], gamma.count()), (&json!("model"), 0));
}
