//! R5, R6: a timeout is unknown, and blocks until its outcome arrives or somebody clears it by name.

use std::time::Duration;

use interlock::domain::route::KeyPolicy;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

const SHORT: &str = "attempt_timeout = \"300ms\"";

/// A gateway whose provider has been asked once and is silent; the client's 504.
async fn silent(alpha: &ScriptedUpstream) -> (App, Client, Answer) {
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(alpha, &format!("{SHORT}\nretries = 3"))).await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    (app, client, unknown)
}

// B076
#[tokio::test]
async fn a_timeout_is_unknown_and_the_caller_is_told_where_to_ask() {
    let alpha = ScriptedUpstream::start().await;
    let (app, client, unknown) = silent(&alpha).await;
    let (job_id, attempt_id) = (unknown.job_id(), unknown.attempt_id());
    assert_eq!(unknown.code(), "attempt_unknown");
    assert_eq!(unknown.header("location"), Some(format!("/v1/jobs/{job_id}").as_str()));
    assert_eq!(unknown.header("idempotency-key"), Some("k"));
    assert_eq!(unknown.header("x-should-retry"), None, "with the client's own key a retry is safe");
    let error = &unknown.json()["error"];
    assert_eq!((error["job_id"].as_str(), error["attempt"].as_str()), (Some(&*job_id), Some(&*attempt_id)));
    assert!(error["since"].is_string(), "{error}");
    let job = client.job(&job_id).await;
    assert_eq!(job["state"], "unknown");
    assert_eq!(job["attempts"][0]["state"], "unknown", "never failed");
    assert_eq!(job["attempts"][0]["reason"], "attempt_timeout");
    assert_eq!(job["attempts"][0]["ended_at"], Value::Null);
    let listed = app.operator().get("/admin/v1/jobs?state=unknown").await.expect(200).json();
    assert_eq!(listed["data"][0]["id"].as_str(), Some(&*job_id), "people on call see it");
}

#[tokio::test]
async fn an_unknown_attempt_blocks_the_next_whatever_the_client_does() {
    let alpha = ScriptedUpstream::start().await;
    let beta = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::two(&alpha, &beta, &format!("{SHORT}\nretries = 3"))).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("hi")).await.expect(504).job_id();
    for _ in 0..3 {
        let again = client.chat("k", &ask("hi")).await.expect(504);
        assert_eq!((again.code(), again.job_id()), ("attempt_unknown".to_owned(), job.clone()));
    }
    let hurried = client.chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(504);
    assert_eq!(hurried.code(), "attempt_unknown");
    client.result(&job).await.expect(409);
    client.chat("k", &ask("something else")).await.expect(409);
    // A gateway that comes new to it is blocked by the same row.
    let other = App::beside(&app, &Settings::two(&alpha, &beta, SHORT)).await;
    let there = client.at(other.application);
    there.chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(504);
    there.chat("k", &ask("hi")).await.expect(504);
    assert_eq!((alpha.count(), beta.count()), (1, 0));
    assert_eq!(client.job(&job).await["attempts"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_late_answer_settles_it_and_is_replayed() {
    let alpha = ScriptedUpstream::start().await;
    let (app, client, unknown) = silent(&alpha).await;
    let job = unknown.job_id();
    alpha.release();
    let settled = client.job_in_state(&job, "succeeded").await;
    assert_eq!(settled["completed_by"].as_str(), Some(&*unknown.attempt_id()));
    assert_eq!(settled["attempts"][0]["usage"]["input_tokens"], 3);
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((answer.content(), answer.is_replayed()), ("late".to_owned(), true));
    assert_eq!(client.result(&job).await.expect(200).body, answer.body);
    assert_eq!(alpha.count(), 1);
    assert!(app.races().await.is_empty());
}

#[tokio::test]
async fn a_retry_that_waits_is_answered_by_the_late_answer_itself() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, "attempt_timeout = \"1s\"")).await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("hi")).await.expect(504).job_id();
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).send());
    eventually("the retry has attached", async || {
        app.engine.metrics().submissions.with_label_values(&["attached"]).get() == 1
    })
    .await;
    alpha.release();
    let answer = calls.join_all().await.remove(0).expect(200);
    assert_eq!((answer.content(), answer.job_id()), ("late".to_owned(), job));
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_late_failure_settles_it_and_the_next_attempt_may_start() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::overloaded().held());
    let app = App::start(&Settings::one(&alpha, &format!("{SHORT}\nretries = 1"))).await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("hi")).await.expect(504).job_id();
    alpha.release();
    client.attempt_in_state(&job, 1, "failed").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((answer.content(), answer.job_id()), ("ok".to_owned(), job));
    assert_eq!(alpha.count(), 2);
}

#[tokio::test]
async fn an_operator_clears_it_by_name_and_the_next_attempt_starts() {
    for (how, state) in [("release", "released"), ("cancel", "cancelled"), ("fail", "failed")] {
        let alpha = ScriptedUpstream::start().await;
        let (app, client, unknown) = silent(&alpha).await;
        let (job, attempt) = (unknown.job_id(), unknown.attempt_id());
        app.clear(&attempt, how).await.expect(200);
        let done = client.job_in_state(&job, "succeeded").await;
        assert_eq!(done["attempts"][0]["state"], state, "{how}");
        assert_eq!(done["attempts"][0]["cleared_by"], "operator:ann", "{how}");
        assert_eq!(done["attempts"][1]["state"], "succeeded", "{how}");
        assert_eq!(alpha.count(), 2, "{how}");
        assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "ok", "{how}");
        let recorded =
            format!("SELECT actor || ' ' || action || ' ' || reason FROM operator_actions WHERE subject = '{attempt}'");
        let recorded: String = app.database.value(recorded).await;
        assert_eq!(recorded, format!("ann attempt.{how} the provider's log says so"));
    }
}

#[tokio::test]
async fn clearing_needs_a_reason_and_an_attempt_that_is_unknown() {
    let alpha = ScriptedUpstream::start().await;
    let (app, client, unknown) = silent(&alpha).await;
    let path = format!("/admin/v1/attempts/{}/release", unknown.attempt_id());
    for body in [json!({}), json!({ "reason": " " }), json!({ "reason": null })] {
        let refused = app.operator().post(&path, &body).await.expect(400);
        assert_eq!(refused.code(), "reason_missing");
    }
    assert_eq!(client.job(&unknown.job_id()).await["state"], "unknown", "nothing happened");
    alpha.release();
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    for how in ["release", "cancel", "fail"] {
        app.clear(&unknown.attempt_id(), how).await.expect(409);
    }
    app.clear("01890000-0000-7000-8000-000000000000", "release").await.expect(404);
    assert_eq!(app.database.count("SELECT count(*) FROM operator_actions").await, 0);
}

#[tokio::test]
async fn a_started_attempt_cannot_be_cleared() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("ok").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(1).await;
    let running = client.job(&job).await;
    app.clear(running["attempts"][0]["id"].as_str().expect("an id"), "release").await.expect(409);
    alpha.release();
    client.job_in_state(&job, "succeeded").await;
}

// Without a key of its own the client cannot attach: it must not repeat the call, and 424 is retried by no SDK.
#[tokio::test]
async fn where_the_gateway_made_the_key_the_answer_is_424() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, SHORT)).await;
    let client = app.client_with("acme", Some(KeyPolicy::Generate)).await;
    let unknown = client.post("/v1/chat/completions", &ask("hi")).await.expect(424);
    assert_eq!(unknown.code(), "attempt_unknown");
    assert_eq!(unknown.header("x-should-retry"), Some("false"));
    assert!(unknown.header("location").is_some());
    assert!(unknown.header("idempotency-key").is_some_and(|key| key.starts_with("gw_")), "{unknown:?}");
    alpha.release();
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    assert_eq!(client.result(&unknown.job_id()).await.expect(200).content(), "late");
}

/// Released attempts are listened for until `settle_timeout`, and not for ever.
#[tokio::test]
async fn a_released_attempt_that_never_returns_is_superseded_in_the_end() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("never").held());
    let app = App::start(&Settings::one(&alpha, &format!("{SHORT}\nsettle_timeout = \"1s\""))).await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    app.clear(&unknown.attempt_id(), "release").await.expect(200);
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    let job = client.attempt_in_state(&unknown.job_id(), 1, "superseded").await;
    assert_eq!(job["attempts"][1]["state"], "succeeded");
    assert!(app.races().await.is_empty(), "nothing has come back");
}

/// An unknown attempt that nobody listens for any more stays unknown: silence proves nothing.
#[tokio::test]
async fn the_end_of_listening_does_not_clear_an_unknown_attempt() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("never").held());
    let app = App::start(&Settings::one(&alpha, &format!("{SHORT}\nsettle_timeout = \"500ms\""))).await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    eventually("nobody listens any more", async || {
        let past = "SELECT count(*) FROM attempts WHERE settle_until + interval '300 ms' < now()";
        app.database.count(past).await == 1
    })
    .await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(504).attempt_id(), unknown.attempt_id());
    assert_eq!(client.job(&unknown.job_id()).await["state"], "unknown");
    assert_eq!(alpha.count(), 1);
    app.clear(&unknown.attempt_id(), "fail").await.expect(200);
    client.job_in_state(&unknown.job_id(), "succeeded").await;
}

#[tokio::test]
async fn the_deadlines_of_a_row_are_the_routes_own() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "attempt_timeout = \"7s\"\nsettle_timeout = \"70s\"")).await;
    app.client("acme").await.chat("k", &ask("hi")).await.expect(200);
    let seconds = "SELECT (extract(epoch FROM deadline_at - started_at) + 100 * extract(epoch FROM settle_until - started_at))::int4 FROM attempts";
    let seconds: i32 = app.database.value(seconds).await;
    assert_eq!(Duration::from_secs(7007).as_secs(), u64::try_from(seconds).expect("not negative"));
}
