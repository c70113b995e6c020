//! `/v1/jobs`: a job without waiting for it, and every way to learn what became of it.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};
use crate::support::{ask, eventually, sha256};

async fn gateway(reply: Reply, lines: &str) -> (ScriptedUpstream, App, Client) {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(reply);
    let app = App::start(&Settings::one(&alpha, lines)).await;
    let client = app.client("acme").await;
    (alpha, app, client)
}

#[tokio::test]
async fn a_job_is_accepted_at_once_and_says_where_it_is() {
    let (alpha, _app, client) = gateway(Reply::answer("later").held(), "").await;
    let created = client.create_job("k", &ask("hi")).await.expect(201);
    let id = created.job_id();
    assert_eq!(created.header("location"), Some(&*format!("/v1/jobs/{id}")));
    assert_eq!(created.header("idempotency-key"), Some("k"));
    let job = created.json();
    assert_eq!((&job["object"], &job["id"], &job["state"]), (&json!("job"), &json!(id), &json!("running")));
    assert_eq!((&job["url"], &job["route"]), (&json!("/v1/chat/completions"), &json!("support")));
    assert_eq!(job["attempts"][0]["ordinal"], 1);
    alpha.release();
    let done = client.job_in_state(&id, "succeeded").await;
    assert_eq!(done["completed_by"], done["attempts"][0]["id"]);
}

// B117: everything that a retrying client needs, and nothing stale.
#[tokio::test]
async fn the_same_order_again_is_the_same_job() {
    let (alpha, _app, client) = gateway(Reply::answer("ok"), "").await;
    let first = client.create_job("k", &ask("hi")).await.expect(201);
    client.job_in_state(&first.job_id(), "succeeded").await;
    let again = client.create_job("k", &ask("hi")).await.expect(201);
    for name in ["location", "content-type", "idempotency-key", "x-interlock-job-id"] {
        assert_eq!(first.header(name), again.header(name), "{name}");
    }
    assert!(again.is_replayed() && !first.is_replayed());
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"));
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn waiting_for_a_job_ends_with_it_or_with_the_time() {
    let (alpha, _app, client) = gateway(Reply::answer("later").held(), "").await;
    let id = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    let asked = Instant::now();
    let job = client.get(&format!("/v1/jobs/{id}?wait=300ms")).await.expect(200).json();
    assert_eq!(job["state"], "running");
    assert!(asked.elapsed() >= Duration::from_millis(300), "{:?}", asked.elapsed());
    let mut waits = tokio::task::JoinSet::new();
    waits.spawn(client.request(Method::GET, &format!("/v1/jobs/{id}?wait=30s")).send());
    alpha.release();
    let job = waits.join_all().await.remove(0).expect(200).json();
    assert_eq!(job["state"], "succeeded");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    client.get(&format!("/v1/jobs/{id}?wait=soon")).await.expect(400);
}

#[tokio::test]
async fn the_result_is_byte_for_byte_what_a_replay_answers() {
    let (_alpha, _app, client) = gateway(Reply::answer("a \u{0} b \u{1f600} \u{e9}"), "").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    let result = client.result(&answer.job_id()).await.expect(200);
    let replay = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.body, result.body);
    assert_eq!(answer.body, replay.body);
    assert_eq!(answer.content(), "a \u{0} b \u{1f600} \u{e9}");
    for name in ["content-type", "x-interlock-job-id", "x-interlock-attempt-id", "x-interlock-provider"] {
        assert_eq!(answer.header(name), result.header(name), "{name}");
    }
}

#[tokio::test]
async fn there_is_no_result_before_there_is_one() {
    let (alpha, _app, client) = gateway(Reply::answer("later").held(), "").await;
    let id = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    let early = client.result(&id).await.expect(409);
    assert_eq!((early.code(), early.header("retry-after")), ("result_not_ready".to_owned(), Some("1")));
    alpha.release();
    client.job_in_state(&id, "succeeded").await;
    client.result(&id).await.expect(200);
}

#[tokio::test]
async fn a_job_is_found_by_its_key() {
    let (_alpha, _app, client) = gateway(Reply::answer("ok"), "").await;
    let id = client.create_job("k-1", &ask("hi")).await.expect(201).job_id();
    assert_eq!(client.job_by_key("k-1").await.expect("a job")["id"].as_str(), Some(&*id));
    assert_eq!(client.job_by_key("k-2").await, None);
    client.job_in_state(&id, "succeeded").await;
}

#[tokio::test]
async fn a_cancelled_job_is_fenced_its_call_closed_and_what_had_come_is_logged() {
    const HALF: &str = "{\"id\":\"chatcmpl-1\",\"choices\":[";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n";
    let half = Reply::pieces(vec![Piece::Bytes([head, HALF].concat().into_bytes()), Piece::Hold]);
    for (reply, discarded) in [(Reply::answer("late").held(), ""), (half, HALF)] {
        let (alpha, app, client) = gateway(reply, "").await;
        let id = client.create_job("k", &ask("hi")).await.expect(201).job_id();
        alpha.wait_for_calls(1).await;
        // Half an answer is read as it comes; a test cannot see that from outside.
        tokio::time::sleep(Duration::from_millis(if discarded.is_empty() { 0 } else { 200 })).await;
        let cancelled = client.cancel(&id).await.expect(200).json();
        assert_eq!(cancelled["state"], "cancelled");
        assert_eq!(cancelled["attempts"][0]["state"], "cancelled");
        assert_eq!(cancelled["attempts"][0]["cleared_by"], "owner");
        alpha.wait_for_hang_ups(1).await;
        eventually("the loss is logged", async || app.races().await.len() == 1).await;
        let race = app.races().await.remove(0);
        assert_eq!(
            (&race["winner"], &race["usage"]["input_tokens"]),
            (&Value::Null, &Value::Null),
            "what it cost is not known"
        );
        assert_eq!(race["body_sha256"], sha256(discarded.as_bytes()));
        alpha.release();
        assert_eq!(client.job(&id).await["state"], "cancelled", "terminal states never change");
        assert_eq!(client.result(&id).await.expect(409).code(), "job_cancelled");
        let replayed = client.create_job("k", &ask("hi")).await.expect(201);
        assert_eq!((replayed.job_id(), alpha.count()), (id, 1));
    }
}

#[tokio::test]
async fn a_caller_who_waits_is_told_of_the_cancellation() {
    let (alpha, _app, client) = gateway(Reply::answer("late").held(), "").await;
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).send());
    alpha.wait_for_calls(1).await;
    let id = client.job_with_key("k").await["id"].as_str().expect("an id").to_owned();
    client.cancel(&id).await.expect(200);
    let told = calls.join_all().await.remove(0).expect(409);
    assert_eq!((told.code(), told.header("x-should-retry")), ("job_cancelled".to_owned(), Some("false")));
    assert_eq!(client.chat("k", &ask("hi")).await.expect(409).code(), "job_cancelled");
    assert_eq!(alpha.count(), 1);
}

// B135
#[tokio::test]
async fn a_finished_job_cannot_be_cancelled() {
    let (_alpha, _app, client) = gateway(Reply::answer("ok"), "").await;
    let id = client.chat("k", &ask("hi")).await.expect(200).job_id();
    client.cancel(&id).await.expect(409);
    assert_eq!(client.job(&id).await["state"], "succeeded");
    client.result(&id).await.expect(200);
}

// B135: at the same instant, again and again: one of the two happens, and every answer agrees with the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cancellation_and_an_answer_at_the_same_instant_exactly_one_happens() {
    const ROUNDS: usize = 20;
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("ok").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut jobs = Vec::new();
    for n in 0..ROUNDS {
        jobs.push(client.create_job(&format!("k{n}"), &ask("hi")).await.expect(201).job_id());
    }
    alpha.wait_for_calls(ROUNDS).await;
    let mut cancels = tokio::task::JoinSet::new();
    for id in jobs {
        let call = client.request(Method::POST, &format!("/v1/jobs/{id}/cancel"));
        cancels.spawn(async move { (call.send().await.status, id) });
    }
    alpha.release();
    for (status, id) in cancels.join_all().await {
        let job = client.job(&id).await;
        match status {
            200 => assert_eq!(job["state"], "cancelled"),
            409 => assert_eq!(job["state"], "succeeded"),
            other => panic!("{other}"),
        }
        client.result(&id).await.expect(if status == 200 { 409 } else { 200 });
    }
}

#[tokio::test]
async fn a_call_that_prefers_not_to_wait_is_accepted_and_says_where_to_ask() {
    let (alpha, _app, client) = gateway(Reply::answer("later").held(), "").await;
    let accepted = client.chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(202);
    let id = accepted.job_id();
    assert_eq!(accepted.header("location"), Some(&*format!("/v1/jobs/{id}")));
    assert_eq!(accepted.json()["state"], "running");
    let asked = Instant::now();
    client.chat_call("k", &ask("hi")).header("prefer", "wait=1").send().await.expect(202);
    assert!(asked.elapsed() >= Duration::from_secs(1), "{:?}", asked.elapsed());
    alpha.release();
    client.job_in_state(&id, "succeeded").await;
    assert_eq!(
        client.chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(200).content(),
        "later"
    );
    assert_eq!(alpha.count(), 1);
}

// Nobody waits for it, so nobody needs to ask again: any instance opens the next round.
#[tokio::test]
async fn a_job_whose_round_has_ended_is_carried_on_by_itself() {
    let (alpha, app, client) = gateway(Reply::overloaded(), "").await;
    let id = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    client.attempt_in_state(&id, 1, "failed").await;
    let done = client.job_in_state(&id, "succeeded").await;
    assert_eq!(done["attempts"].as_array().map(Vec::len), Some(2));
    assert_eq!(app.database.count("SELECT round::int8 FROM jobs").await, 2);
    let gap = alpha.calls()[1].at - alpha.calls()[0].at;
    assert!(gap >= Duration::from_millis(1900), "after a while: {gap:?}");
}

#[tokio::test]
async fn a_call_that_was_answered_with_a_failure_is_not_carried_on_by_itself() {
    let (alpha, app, client) = gateway(Reply::overloaded(), "").await;
    client.chat("k", &ask("hi")).await.expect(503);
    assert_eq!(app.database.count("SELECT count(*) FROM jobs WHERE resume_at IS NOT NULL").await, 0);
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_list_has_pages_and_none_of_it_is_out_of_reach() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for n in 0..60 {
        client.create_job(&format!("k{n}"), &ask("hi")).await.expect(201);
    }
    let first = client.get("/v1/jobs").await.expect(200).json();
    assert_eq!((first["data"].as_array().map(Vec::len), &first["has_more"]), (Some(50), &true.into()));
    let last = first["data"][49]["id"].as_str().expect("an id");
    let second = client.get(&format!("/v1/jobs?before={last}")).await.expect(200).json();
    assert_eq!((second["data"].as_array().map(Vec::len), &second["has_more"]), (Some(10), &false.into()));
    let on_call = app.operator().get(&format!("/admin/v1/jobs?before={last}")).await.expect(200).json();
    assert_eq!(on_call["data"].as_array().map(Vec::len), Some(10));
}

// Found by the history test, seed 21: it waited a minute for a task that had stopped.
#[tokio::test]
async fn an_async_job_whose_gateway_stops_in_a_backoff_is_taken_up_by_another_at_once() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::overloaded().header("retry-after", "3"));
    let settings = Settings::one(&alpha, "retries = 2");
    let app = App::start(&settings).await;
    let beside = App::beside(&app, &settings).await;
    let client = app.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    client.attempt_in_state(&job, 1, "failed").await;
    app.shut_down().await;
    let done = client.at(beside.application).job_in_state(&job, "succeeded").await;
    assert_eq!(done["attempts"].as_array().map(Vec::len), Some(2));
}
