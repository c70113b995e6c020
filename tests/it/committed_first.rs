//! R3: the attempt's start is committed before the first byte goes to the provider; a start that does not come about
//! sends nothing.

use serde_json::json;
use sqlx::PgConnection;
use tokio::task::JoinSet;

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::cluster::Database;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

/// The first attempt has failed, the second is about to start, and its statement waits for the job's row.
struct Waiting {
    alpha: ScriptedUpstream,
    app: App,
    client: Client,
    job: String,
    calls: JoinSet<Answer>,
    row: PgConnection,
}

async fn waiting() -> Waiting {
    let alpha = ScriptedUpstream::start().await;
    // Time enough to take the row's lock between the failure and the next start.
    alpha.next(Reply::error(429, "rate_limit_exceeded", "slow down").header("retry-after", "2"));
    let app = App::start(&Settings::one(&alpha, "retries = 1")).await;
    let client = app.client("acme").await;
    let mut calls = JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).send());
    let job = client.job_with_key("k").await["id"].as_str().expect("an id").to_owned();
    client.attempt_in_state(&job, 1, "failed").await;
    let mut row = app.database.connect().await;
    Database::end(&mut row, "BEGIN; SELECT 1 FROM jobs FOR UPDATE").await;
    eventually("the start waits for the row", async || app.database.waiting("start_attempt").await == 1).await;
    Waiting { alpha, app, client, job, calls, row }
}

#[tokio::test]
async fn the_first_attempt_is_committed_with_its_job_before_anything_is_sent() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("ok").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut other = app.database.insert_key("acme", "k").await;
    let mut calls = JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).send());
    eventually("the admission waits", async || app.database.waiting("admit_job").await == 1).await;
    assert_eq!(alpha.count(), 0);
    Database::end(&mut other, "ROLLBACK").await;
    let call = alpha.wait_for_calls(1).await.remove(0);
    let id = call.attempt_id.expect("the attempt's id goes to the provider");
    let state: String = app.database.value(format!("SELECT state FROM attempts WHERE id = '{id}'")).await;
    assert_eq!(state, "started");
    alpha.release();
    calls.join_all().await.remove(0).expect(200);
}

#[tokio::test]
async fn a_further_attempt_is_committed_before_anything_is_sent() {
    let mut w = waiting().await;
    assert_eq!(w.alpha.count(), 1, "nothing is sent while its start is not committed");
    Database::end(&mut w.row, "COMMIT").await;
    assert_eq!(w.calls.join_all().await.remove(0).expect(200).content(), "ok");
    assert_eq!(w.alpha.count(), 2);
}

#[tokio::test]
async fn a_start_that_lost_the_race_against_the_owners_cancellation_sends_nothing() {
    let mut w = waiting().await;
    let cancel = "UPDATE jobs SET state = 'cancelled', version = version + 1, closed_at = now(); COMMIT";
    Database::end(&mut w.row, cancel).await;
    assert_eq!(w.calls.join_all().await.remove(0).expect(409).code(), "job_cancelled");
    let job = w.client.job(&w.job).await;
    assert_eq!((&job["state"], job["attempts"].as_array().map(Vec::len)), (&json!("cancelled"), Some(1)));
    assert_eq!(w.alpha.count(), 1);
    assert!(w.app.races().await.is_empty());
}
