//! What a route lets fall where a target has no place for it: only what is listed, only there, and never silently.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::ask;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream, Wire};

const LIST: &str = "drop_unsupported = [\"seed\", \"logit_bias\"]";

fn seeded() -> Value {
    let mut body = ask("hi");
    body["seed"] = json!(7);
    body["max_tokens"] = json!(9);
    body
}

async fn one(lines: &str) -> (ScriptedUpstream, App, Client) {
    let alpha = ScriptedUpstream::speaking(Wire::Anthropic).await;
    alpha.always(Reply::answer("of A"));
    let app = App::start(&Settings::one(&alpha, lines)).await;
    let client = app.client("acme").await;
    (alpha, app, client)
}

#[tokio::test]
async fn a_listed_parameter_falls_and_the_answer_its_replay_and_the_job_say_so() {
    let (alpha, app, client) = one(LIST).await;
    let answer = client.chat("k", &seeded()).await.expect(200);
    assert_eq!(answer.header("x-interlock-dropped"), Some("seed"));
    assert_eq!(alpha.calls()[0].json().get("seed"), None);
    let replayed = client.chat("k", &seeded()).await.expect(200);
    assert_eq!((replayed.header("x-interlock-dropped"), replayed.is_replayed()), (Some("seed"), true));
    let job = client.job(&answer.job_id()).await;
    assert_eq!(job["attempts"][0]["dropped"], json!(["seed"]));
    let examined = app.operator().get(&format!("/admin/v1/jobs/{}", answer.job_id())).await.expect(200).json();
    assert_eq!(examined["attempts"][0]["dropped"], json!(["seed"]));
    // What fell was asked for all the same: without it, it is another intent.
    let mut without = seeded();
    without.as_object_mut().expect("an object").remove("seed");
    client.chat("k", &without).await.expect(409);
    let plain = client.chat("k2", &without).await.expect(200);
    assert_eq!(plain.header("x-interlock-dropped"), None);
    assert_eq!(client.job(&plain.job_id()).await["attempts"][0].get("dropped"), None);
}

#[tokio::test]
async fn what_is_not_listed_is_a_400_that_names_it_before_there_is_a_job() {
    let (alpha, _app, client) = one("drop_unsupported = [\"logit_bias\"]").await;
    let refused = client.chat("k", &seeded()).await.expect(400);
    assert_eq!(
        (refused.code().as_str(), refused.json()["error"]["param"].as_str()),
        ("unsupported_parameter", Some("seed"))
    );
    assert_eq!((alpha.count(), client.job_by_key("k").await), (0, None));
}

#[tokio::test]
async fn it_falls_at_the_fallback_that_lacks_it_and_not_at_the_primary_that_has_it() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::speaking(Wire::Anthropic).await);
    alpha.always(Reply::overloaded());
    beta.always(Reply::answer("of B"));
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let passed_over = client.chat("k", &seeded()).await.expect(503);
    assert!(passed_over.text().contains("seed"), "{}", passed_over.text());
    assert_eq!(beta.count(), 0);
    // The permit stands: what falls is what the target's suite went without.
    let dropping = App::beside(&app, &Settings::two(&alpha, &beta, LIST)).await;
    let answer = client.at(dropping.application).chat("k", &seeded()).await.expect(200);
    assert_eq!(answer.header("x-interlock-dropped"), Some("seed"));
    assert_eq!(alpha.calls().last().map(|call| call.json()["seed"].clone()), Some(json!(7)));
    assert_eq!(beta.calls()[0].json().get("seed"), None);
    let attempts = client.job(&answer.job_id()).await["attempts"].clone();
    let attempts = attempts.as_array().expect("attempts");
    let (last, before) = attempts.split_last().expect("attempts");
    assert_eq!(last["dropped"], json!(["seed"]));
    assert!(before.iter().all(|attempt| attempt.get("dropped").is_none()), "{before:?}");
}

#[tokio::test]
async fn another_dialect_loses_what_it_may_in_its_own_words() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("of A"));
    let app = App::start(&Settings::one(&alpha, "drop_unsupported = [\"cache_control\", \"top_k\"]")).await;
    let client = app.client("acme").await;
    let text = json!({ "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } });
    let body =
        json!({ "model": "support", "max_tokens": 5, "top_k": 3, "messages": [{ "role": "user", "content": [text] }] });
    let answer = client.request(http::Method::POST, "/v1/messages").key("k").json(&body).send().await.expect(200);
    let dropped = answer.header("x-interlock-dropped").expect("something fell");
    assert!(dropped.contains("top_k") && dropped.contains("messages[0].content[0].cache_control"), "{dropped}");
    assert!(!alpha.calls()[0].json().to_string().contains("cache_control"));
}
