//! R5, R9: a gateway that dies leaves its attempts unknown, never failed, and nothing that it acknowledged is lost.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::app::App;
use crate::support::client::Client;
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually, within};

/// A lease of 15 s, a sweep every 2 s, and a busy machine.
const LEASE_AND_SWEEP: Duration = Duration::from_secs(40);

/// As if the dead process's lease had run out by now.
async fn end_every_lease(database: &Database) {
    database.execute("UPDATE instances SET lease_until = now() - interval '1 second'").await;
}

/// The call whose gateway dies under it.
async fn in_flight(client: &Client, key: &str) -> tokio::task::JoinSet<bool> {
    let call = client.chat_call(key, &ask("hi"));
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(async move { call.try_send().await.is_err() });
    calls
}

// B105, B124
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_what_was_in_flight_is_unknown_and_what_was_acknowledged_is_there() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("acknowledged"));
    alpha.next(Reply::answer("lost").held());
    alpha.next(Reply::answer("lost too").held());
    let settings = Settings::one(&alpha, "attempt_timeout = \"60s\"");
    let database = Database::fresh().await;
    let mut victim = Process::spawn(&database, &settings).await;
    let survivor = App::on(&database, &settings).await;
    let client = victim.client("acme").await;
    let done = client.chat("done", &ask("hi")).await.expect(200);
    let mut calls = in_flight(&client, "k").await;
    alpha.wait_for_calls(2).await;
    let accepted = client.create_job("j", &ask("hi")).await.expect(201);
    alpha.wait_for_calls(3).await;
    victim.kill().await;
    assert_eq!(calls.join_next().await.expect("one call").ok(), Some(true), "the caller's connection broke");

    let client = client.at(survivor.application);
    assert_eq!(client.chat("done", &ask("hi")).await.expect(200).body, done.body);
    let id = client.job_by_key("k").await.expect("the job was there first")["id"].as_str().expect("an id").to_owned();
    let jobs = [id.clone(), accepted.job_id()];
    for job in &jobs {
        assert_eq!(client.job(job).await["state"], "running", "nobody knows yet that it died");
    }
    for job in &jobs {
        let unknown = async || Some(client.job(job).await).filter(|job| job["state"] != "running");
        let found = within(LEASE_AND_SWEEP, unknown).await.expect("the lease has ended and was swept");
        assert_eq!(found["state"], "unknown");
        assert_eq!(found["attempts"][0]["state"], "unknown", "never failed");
        assert_eq!(found["attempts"][0]["reason"], "instance_lost");
    }
    let again = client.chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(504);
    assert_eq!(again.job_id(), id, "always the same job");
    assert_eq!(client.create_job("j", &ask("hi")).await.expect(201).job_id(), accepted.job_id());
    assert_eq!(alpha.count(), 3, "nothing was sent again");

    survivor.clear(&again.attempt_id(), "release").await.expect(200);
    client.job_in_state(&id, "succeeded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "ok");
    assert_eq!(alpha.count(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_starts_after_the_crash_finds_what_it_left() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("lost").held());
    let settings = Settings::one(&alpha, "attempt_timeout = \"500ms\"");
    let database = Database::fresh().await;
    let mut victim = Process::spawn(&database, &settings).await;
    let client = victim.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(1).await;
    victim.kill().await;
    end_every_lease(&database).await;
    let next = Process::spawn(&database, &settings).await;
    let client = client.at(next.application);
    let found = client.job_in_state(&job, "unknown").await;
    // An attempt of a short timeout may have become unknown by its own clock first: unknown it is either way.
    assert_eq!(found["attempts"][0]["state"], "unknown");
    client.chat("k2", &ask("hi")).await.expect(200);
    let listed = next.operator().get("/admin/v1/jobs?state=unknown").await.expect(200).json();
    assert_eq!(listed["data"][0]["id"].as_str(), Some(&*job), "people on call see it");
    assert_eq!(alpha.count(), 2);
}

// A job that waits for nobody is carried on by whoever lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_async_job_between_two_rounds_survives_its_gateway() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::overloaded());
    let settings = Settings::one(&alpha, "");
    let database = Database::fresh().await;
    let mut victim = Process::spawn(&database, &settings).await;
    let client = victim.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    client.attempt_in_state(&job, 1, "failed").await;
    eventually("the round is over", async || {
        database.count("SELECT count(*) FROM jobs WHERE state = 'queued' AND error IS NOT NULL").await == 1
    })
    .await;
    victim.kill().await;
    let survivor = App::on(&database, &settings).await;
    client.at(survivor.application).job_in_state(&job, "succeeded").await;
    assert_eq!(alpha.count(), 2);
}

// The process lives, but its lease has run out: others may have judged its attempts, and it starts none meanwhile.
#[tokio::test]
async fn a_gateway_that_lost_its_lease_settles_what_it_sent_and_comes_back_under_a_new_id() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, "attempt_timeout = \"60s\"")).await;
    let client = app.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(1).await;
    end_every_lease(&app.database).await;
    let refused = client.chat("k2", &ask("hi")).await.expect(503);
    assert_eq!(refused.code(), "store_unavailable");
    assert_eq!(alpha.count(), 1, "nothing starts without a lease");
    let swept = client.job_in_state(&job, "unknown").await;
    assert_eq!(swept["attempts"][0]["reason"], "instance_lost");
    alpha.release();
    let settled = client.job_in_state(&job, "succeeded").await;
    assert_eq!(settled["completed_by"], swept["attempts"][0]["id"]);
    eventually("it has registered anew", async || app.database.count("SELECT count(*) FROM instances").await == 2)
        .await;
    client.chat("k2", &ask("hi")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_waits_for_what_runs_and_starts_nothing_new() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("just in time").held());
    let settings = Settings::one(&alpha, "").server("drain = \"30s\"");
    let database = Database::fresh().await;
    let mut process = Process::spawn(&database, &settings).await;
    let client = process.client("acme").await;
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).send());
    alpha.wait_for_calls(1).await;
    process.signal(Signal::SIGTERM);
    eventually("it drains", async || client.get("/readyz").await.status == 503).await;
    let refused = client.chat("k2", &ask("hi")).await.expect(503);
    assert_eq!(refused.code(), "shutting_down");
    assert!(refused.header("retry-after").is_some());
    alpha.release();
    assert_eq!(calls.join_all().await.remove(0).expect(200).content(), "just in time");
    assert!(process.ended().await.success());
    assert_eq!(database.count("SELECT count(*) FROM instances WHERE lease_until > now()").await, 0);
    assert_eq!(database.count("SELECT count(*) FROM attempts WHERE state = 'succeeded'").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outlasts_the_drain_is_unknown_and_its_caller_is_told() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("too late").held());
    let settings = Settings::one(&alpha, "attempt_timeout = \"60s\"").server("drain = \"500ms\"");
    let database = Database::fresh().await;
    let mut process = Process::spawn(&database, &settings).await;
    let client = process.client("acme").await;
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).send());
    alpha.wait_for_calls(1).await;
    process.signal(Signal::SIGTERM);
    let told = calls.join_all().await.remove(0).expect(504);
    assert_eq!(told.code(), "attempt_unknown");
    assert!(process.ended().await.success());
    let next = App::on(&database, &settings).await;
    let job = client.at(next.application).job(&told.job_id()).await;
    assert_eq!((&job["state"], &job["attempts"][0]["reason"]), (&"unknown".into(), &"shutdown".into()));
    client.at(next.application).chat_call("k", &ask("hi")).header("prefer", "wait=0").send().await.expect(504);
    assert_eq!(alpha.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait_any_longer() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("never").held());
    let settings = Settings::one(&alpha, "attempt_timeout = \"60s\"").server("drain = \"10m\"");
    let database = Database::fresh().await;
    let mut process = Process::spawn(&database, &settings).await;
    let client = process.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(1).await;
    process.signal(Signal::SIGTERM);
    eventually("it drains", async || client.get("/readyz").await.status == 503).await;
    process.signal(Signal::SIGTERM);
    assert!(process.ended().await.success());
    let state: String = database.value(format!("SELECT state FROM jobs WHERE id = '{job}'")).await;
    assert_eq!(state, "unknown");
}
