//! R1, R2: one key, one job, one call, one answer, however many ask at once and wherever they ask.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

/// So many that some meet the insert, some the running call and some the stored answer.
const CLICKS: usize = 40;

/// Everybody asks at once, in turns at each of the gateways.
async fn click(clients: &[Client], key: &str) -> Vec<Answer> {
    let mut clicks = JoinSet::new();
    for n in 0..CLICKS {
        let call = clients[n % clients.len()].chat_call(key, &ask("hi"));
        clicks.spawn(call.send());
    }
    clicks.join_all().await
}

fn assert_one_answer(answers: &[Answer]) {
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let jobs: HashSet<String> = answers.iter().map(Answer::job_id).collect();
    let attempts: HashSet<String> = answers.iter().map(Answer::attempt_id).collect();
    let bodies: HashSet<_> = answers.iter().map(|answer| &answer.body).collect();
    assert_eq!((jobs.len(), attempts.len(), bodies.len()), (1, 1, 1), "one job, one attempt, one answer");
}

async fn assert_one_row(database: &Database) {
    assert_eq!(database.count("SELECT count(*) FROM jobs").await, 1);
    assert_eq!(database.count("SELECT count(*) FROM attempts").await, 1);
}

// B102
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clicks_at_once_are_one_job_one_call_and_one_answer() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("once").after(Duration::from_millis(150)));
    let app = App::start(&Settings::one(&alpha, "")).await;
    let answers = click(&[app.client("acme").await], "k").await;
    assert_one_answer(&answers);
    assert_eq!(alpha.count(), 1);
    assert_one_row(&app.database).await;
}

// B102
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_at_two_gateways_of_one_database_are_one_job_and_one_call() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("once").after(Duration::from_millis(150)));
    let settings = Settings::one(&alpha, "");
    let app = App::start(&settings).await;
    let other = App::beside(&app, &settings).await;
    let client = app.client("acme").await;
    let answers = click(&[client.clone(), client.at(other.application)], "k").await;
    assert_one_answer(&answers);
    assert_eq!(alpha.count(), 1);
    assert_one_row(&app.database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_at_two_processes_of_one_database_are_one_job_and_one_call() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("once").after(Duration::from_millis(150)));
    let settings = Settings::one(&alpha, "");
    let database = Database::fresh().await;
    let first = Process::spawn(&database, &settings).await;
    let second = Process::spawn(&database, &settings).await;
    let client = first.client("acme").await;
    let answers = click(&[client.clone(), client.at(second.application)], "k").await;
    assert_one_answer(&answers);
    assert_eq!(alpha.count(), 1);
    assert_one_row(&database).await;
}

// B103, B128: nobody answers from an insert that is not committed, and nobody is told of a duplicate.
#[tokio::test]
async fn the_losers_of_the_insert_race_attach_to_the_winner() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("once").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut other = app.database.insert_key("acme", "k").await;
    let mut clicks = JoinSet::new();
    for _ in 0..3 {
        clicks.spawn(client.chat_call("k", &ask("hi")).send());
    }
    eventually("all wait for the other's end", async || app.database.waiting("admit_job").await == 3).await;
    assert_eq!(alpha.count(), 0);
    Database::end(&mut other, "ROLLBACK").await;
    alpha.wait_for_calls(1).await;
    alpha.release();
    assert_one_answer(&clicks.join_all().await);
    assert_eq!(alpha.count(), 1);
    assert_one_row(&app.database).await;
}

#[tokio::test]
async fn the_loser_of_the_insert_race_answers_from_the_row_of_the_winner() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut other = app.database.insert_key("acme", "k").await;
    let mut clicks = JoinSet::new();
    clicks.spawn(client.chat_call("k", &ask("hi")).send());
    eventually("it waits for the other's end", async || app.database.waiting("admit_job").await == 1).await;
    Database::end(&mut other, "COMMIT").await;
    let answer = clicks.join_all().await.remove(0).expect(409);
    assert_eq!(answer.code(), "idempotency_key_conflict", "the winner's payload was another");
    assert_eq!(answer.job_id(), "01890000-0000-7000-8000-0000000000aa");
    assert_eq!(alpha.count(), 0);
}

#[tokio::test]
async fn a_second_click_attaches_to_the_running_call() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("once").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut clicks = JoinSet::new();
    clicks.spawn(client.chat_call("k", &ask("hi")).send());
    alpha.wait_for_calls(1).await;
    clicks.spawn(client.chat_call("k", &ask("hi")).send());
    eventually("the second click has attached", async || {
        app.engine.metrics().submissions.with_label_values(&["attached"]).get() == 1
    })
    .await;
    alpha.release();
    let answers = clicks.join_all().await;
    assert_one_answer(&answers);
    assert!(answers.iter().all(|answer| !answer.is_replayed()), "neither was stored when it was asked for");
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_nothing_and_its_retry_is_replayed() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("once").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut clicks = JoinSet::new();
    clicks.spawn(client.chat_call("k", &ask("hi")).send());
    let call = alpha.wait_for_calls(1).await.remove(0);
    clicks.shutdown().await;
    alpha.release();
    let job = client.job_with_key("k").await;
    let job = client.job_in_state(job["id"].as_str().expect("an id"), "succeeded").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert!(answer.is_replayed());
    assert_eq!(answer.content(), "once");
    assert_eq!(job["completed_by"], answer.attempt_id());
    assert_eq!(call.attempt_id, Some(answer.attempt_id()), "the provider was given the attempt's id");
    assert_eq!(alpha.count(), 1);
}

// R10: proxies re-send a POST that carries a key, so the provider never sees the client's.
#[tokio::test]
async fn every_answer_carries_the_ids_and_the_provider_never_sees_the_clients_key() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let first = client.chat("the-clients-own-key", &ask("hi")).await.expect(200);
    let again = client.chat("the-clients-own-key", &ask("hi")).await.expect(200);
    for answer in [&first, &again] {
        assert_eq!(answer.header("idempotency-key"), Some("the-clients-own-key"));
        assert_eq!(answer.header("x-interlock-provider"), Some("alpha"));
        assert_eq!(answer.header("x-interlock-attempts"), Some("1"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert_eq!((first.job_id(), first.attempt_id()), (again.job_id(), again.attempt_id()));
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"), "a request's id is never replayed");
    assert!(again.is_replayed() && !first.is_replayed());
    assert_eq!(first.body, again.body);
    let call = alpha.calls().remove(0);
    assert!(call.headers.iter().all(|(_, value)| !value.contains("the-clients-own-key")), "{call:?}");
}
