//! Owners' limits through HTTP: what is let in, what is refused and with which words, and that processes share them.

mod overload;
mod shared;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, ask_stream, eventually};

/// A request that may use this many tokens, by the gateway's estimate: "hi" is one, the message four.
fn ask_for(tokens: u64) -> Value {
    let mut body = ask("hi");
    body["max_tokens"] = json!(tokens - 5);
    body
}

async fn limited(lines: &str) -> (ScriptedUpstream, App, Client) {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("yes"));
    let app = App::start(&Settings::one(&alpha, "").raw(lines)).await;
    let client = app.client("acme").await;
    (alpha, app, client)
}

fn seconds(answer: &Answer, name: &str) -> u64 {
    answer.header(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name}: {answer:?}"))
}

/// A call that is on its way until its provider is released.
fn begin(calls: &mut JoinSet<Answer>, client: &Client, key: &str, body: &Value) {
    calls.spawn(client.chat_call(key, body).send());
}

#[tokio::test]
async fn requests_over_the_limit_are_refused_with_429_and_nothing_is_written_or_sent() {
    let (alpha, app, client) = limited("[owners.acme]\nrequests_per_minute = 3").await;
    for n in 0..3_u64 {
        let answer = client.chat(&format!("k{n}"), &ask("hi")).await.expect(200);
        assert_eq!(answer.header("x-ratelimit-limit-requests"), Some("3"));
        assert_eq!(seconds(&answer, "x-ratelimit-remaining-requests"), 2 - n);
        assert!(answer.header("x-ratelimit-reset-requests").is_some_and(|reset| reset.ends_with('s')), "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit-tokens"), None, "tokens have no limit");
    }
    let refused = client.chat("k3", &ask("hi")).await.expect(429);
    assert_eq!(refused.code(), "rate_limit_exceeded");
    let error = &refused.json()["error"];
    assert_eq!(error["type"], "rate_limit_error");
    assert_eq!(error["limit"], json!({ "measure": "requests", "limit": 3, "used": 3, "asked": 1 }));
    assert!(error["message"].as_str().is_some_and(|m| m.contains("limit of 3 requests per minute")), "{error}");
    let pause = seconds(&refused, "retry-after");
    assert!((55..=65).contains(&pause), "{pause}");
    assert_eq!(seconds(&refused, "x-ratelimit-remaining-requests"), 0);
    assert_eq!(refused.header("x-should-retry"), None);
    assert_eq!(alpha.count(), 3);
    assert_eq!(app.database.count("SELECT count(*) FROM jobs").await, 3);
    // As a job of its own it is the same intent's limit, in the other shape.
    let refused = client.create_job("k4", &ask("hi")).await.expect(429);
    assert_eq!((refused.code().as_str(), &refused.json()["limit"]["limit"]), ("rate_limit_exceeded", &json!(3)));
    // Another owner has no limit, and is told of none.
    let other = app.client("other").await.chat("k3", &ask("hi")).await.expect(200);
    assert_eq!(other.header("x-ratelimit-limit-requests"), None);
    let metrics = app.operator().get("/metrics").await.text();
    assert!(metrics.contains("interlock_refused_total{reason=\"requests\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_repeated_request_is_answered_though_the_limit_is_used_up_and_costs_nothing() {
    let (alpha, _app, client) = limited("[limits]\nrequests_per_minute = 2").await;
    client.chat("k0", &ask("hi")).await.expect(200);
    for _ in 0..3 {
        let again = client.chat("k0", &ask("hi")).await.expect(200);
        assert!(again.is_replayed());
        assert_eq!(seconds(&again, "x-ratelimit-remaining-requests"), 1, "a replay is no request of its own");
    }
    client.chat("k1", &ask("hi")).await.expect(200);
    client.chat("k2", &ask("hi")).await.expect(429);
    assert!(client.chat("k0", &ask("hi")).await.expect(200).is_replayed());
    let conflict = client.chat("k1", &ask("other")).await.expect(409);
    assert_eq!(conflict.code(), "idempotency_key_conflict");
    assert_eq!(alpha.count(), 2);
}

#[tokio::test]
async fn tokens_are_set_aside_on_admission_and_settled_with_what_was_used() {
    let (alpha, _app, client) = limited("[limits]\ntokens_per_minute = 1000").await;
    alpha.always(Reply::answer_of("yes", 30, 20).held());
    let mut calls = JoinSet::new();
    begin(&mut calls, &client, "k0", &ask_for(700));
    alpha.wait_for_calls(1).await;
    let refused = client.chat("k1", &ask_for(400)).await.expect(429);
    assert_eq!(
        refused.json()["error"]["limit"],
        json!({ "measure": "tokens", "limit": 1000, "used": 700, "asked": 400 })
    );
    assert_eq!(seconds(&refused, "retry-after"), 1, "nobody knows when the other ends");
    alpha.release();
    let answer = calls.join_next().await.expect("a call").expect("its answer").expect(200);
    assert_eq!(seconds(&answer, "x-ratelimit-limit-tokens"), 1000);
    assert_eq!(seconds(&answer, "x-ratelimit-remaining-tokens"), 950);
    client.chat("k1", &ask_for(950)).await.expect(200);
    let refused = client.chat("k2", &ask_for(901)).await.expect(429);
    assert!(seconds(&refused, "retry-after") > 50, "what was used counts for a minute");
    let stream = client.chat_call("k3", &ask_stream("hi")).send().await.expect(429);
    assert_eq!(stream.code(), "rate_limit_exceeded", "a stream is limited too");
}

#[tokio::test]
async fn what_an_answer_does_not_say_it_used_counts_as_it_was_estimated() {
    let (alpha, _app, client) = limited("[limits]\ntokens_per_minute = 1000").await;
    let choice = json!({ "index": 0, "message": { "role": "assistant", "content": "yes" }, "finish_reason": "stop" });
    let body = json!({ "id": "c", "object": "chat.completion", "created": 1, "model": "m1", "choices": [choice] });
    alpha.always(Reply::whole(200, "application/json", &body.to_string()));
    let answer = client.chat("k0", &ask_for(600)).await.expect(200);
    assert_eq!(seconds(&answer, "x-ratelimit-remaining-tokens"), 400);
}

#[tokio::test]
async fn a_request_larger_than_the_whole_limit_is_told_so_and_not_to_come_back() {
    let (alpha, _app, client) = limited("[limits]\ntokens_per_minute = 1000").await;
    let refused = client.chat("k0", &ask_for(1_001)).await.expect(429);
    assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), (None, Some("false")));
    let message = refused.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("1001 of 1000 tokens per minute") && message.contains("max_tokens"), "{message}");
    assert_eq!(alpha.count(), 0);
}

#[tokio::test]
async fn jobs_at_once_are_bounded_and_whoever_hears_of_an_end_finds_room() {
    let (alpha, _app, client) = limited("[limits]\nconcurrent_jobs = 1").await;
    for n in 0..10 {
        client.chat(&format!("k{n}"), &ask("hi")).await.expect(200);
    }
    alpha.always(Reply::answer("yes").held());
    let mut calls = JoinSet::new();
    begin(&mut calls, &client, "held", &ask("hi"));
    alpha.wait_for_calls(11).await;
    let refused = client.chat("k10", &ask("hi")).await.expect(429);
    assert_eq!(refused.json()["error"]["limit"], json!({ "measure": "jobs", "limit": 1, "used": 1, "asked": 1 }));
    // The same intent joins the one that runs.
    begin(&mut calls, &client, "held", &ask("hi"));
    alpha.release();
    for answer in calls.join_all().await {
        answer.expect(200);
    }
    client.chat("k10", &ask("hi")).await.expect(200);
}

#[tokio::test]
async fn a_refused_attempt_and_a_cancelled_job_give_their_room_back() {
    let (alpha, _app, client) = limited("[limits]\nconcurrent_jobs = 1\ntokens_per_minute = 1000").await;
    alpha.always(Reply::bad_request());
    client.chat("k0", &ask_for(900)).await.expect(400);
    alpha.always(Reply::overloaded());
    client.chat("k1", &ask_for(900)).await.expect(503);
    alpha.always(Reply::answer("yes").held());
    let job = client.create_job("k2", &ask_for(900)).await.expect(201).job_id();
    alpha.wait_for_calls(3).await;
    client.chat("k3", &ask_for(900)).await.expect(429);
    client.cancel(&job).await.expect(200);
    alpha.always(Reply::answer("yes"));
    eventually("the cancelled job's room is given back", async || client.chat("k3", &ask_for(900)).await.status == 200)
        .await;
}

#[tokio::test]
async fn a_call_that_opens_another_round_counts_as_a_request() {
    let (alpha, _app, client) = limited("[limits]\nrequests_per_minute = 2").await;
    alpha.always(Reply::overloaded());
    client.chat("k0", &ask("hi")).await.expect(503);
    client.chat("k0", &ask("hi")).await.expect(503);
    client.chat("k0", &ask("hi")).await.expect(429);
    assert_eq!(alpha.count(), 2);
}

#[tokio::test]
async fn an_unknown_attempt_keeps_what_was_set_aside_until_it_is_settled() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::reset());
    let settings = Settings::one(&alpha, "").raw("[limits]\nconcurrent_jobs = 1\ntokens_per_minute = 1000");
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let unknown = client.chat("k0", &ask_for(600)).await.expect(504);
    let (job, attempt) = (unknown.job_id(), unknown.attempt_id());
    alpha.always(Reply::answer("yes"));
    let refused = client.chat("k1", &ask_for(300)).await.expect(429);
    assert_eq!(refused.json()["error"]["limit"]["measure"], "jobs");
    // Whatever becomes of the process that sent it.
    let other = App::beside(&app, &settings).await;
    app.shut_down().await;
    let client = client.at(other.application);
    let refused = client.chat("k1", &ask_for(500)).await.expect(429);
    assert_eq!(
        refused.json()["error"]["limit"],
        json!({ "measure": "tokens", "limit": 1000, "used": 600, "asked": 500 })
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.chat("k1", &ask_for(300)).await.expect(429);
    other.clear(&attempt, "fail").await.expect(200);
    eventually("its room is free", async || client.chat("k1", &ask_for(900)).await.status == 200).await;
    client.job_in_state(&job, "succeeded").await;
}
