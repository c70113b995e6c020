//! R3, R9: what becomes of jobs while the database is away: nothing is promised without it, nothing is lost with it.

use serde_json::Value;

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::cluster::Database;
use crate::support::outage::Outage;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{PATIENCE, ask, eventually, within};

struct Gateway {
    alpha: ScriptedUpstream,
    outage: Outage,
    app: App,
    client: Client,
}

async fn gateway() -> Gateway {
    let alpha = ScriptedUpstream::start().await;
    let database = Database::fresh().await;
    let outage = Outage::between(&database);
    let app = App::through(&database, &outage.url, &Settings::one(&alpha, "retries = 1")).await;
    let client = app.client("acme").await;
    Gateway { alpha, outage, app, client }
}

impl Gateway {
    /// The same call until the database is back; what else is answered meanwhile promises nothing.
    async fn chat_once_it_is_back(&self, key: &str) -> Answer {
        let ask_again = async || {
            let answer = self.client.chat(key, &ask("hi")).await;
            if answer.status == 503 {
                assert_eq!(answer.code(), "store_unavailable");
                return None;
            }
            Some(answer)
        };
        within(PATIENCE, ask_again).await.expect("the database is back")
    }
}

// B116
#[tokio::test]
async fn without_the_database_nothing_is_sent_and_the_same_key_works_later() {
    let g = gateway().await;
    g.outage.cut();
    let refused = g.client.chat("k", &ask("hi")).await.expect(503);
    assert_eq!(refused.code(), "store_unavailable");
    assert!(refused.header("retry-after").is_some());
    g.client.create_job("j", &ask("hi")).await.expect(503);
    g.client.get("/readyz").await.expect(503);
    g.client.get("/healthz").await.expect(200);
    assert_eq!(g.alpha.count(), 0);
    g.outage.mend();
    assert_eq!(g.chat_once_it_is_back("k").await.expect(200).content(), "ok");
    assert_eq!(g.alpha.count(), 1);
    assert_eq!(g.app.database.count("SELECT count(*) FROM jobs").await, 1);
}

#[tokio::test]
async fn an_answer_that_arrives_during_an_outage_is_written_when_it_is_over() {
    let g = gateway().await;
    g.alpha.next(Reply::answer("kept").held());
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(g.client.chat_call("k", &ask("hi")).send());
    g.alpha.wait_for_calls(1).await;
    g.outage.cut();
    g.alpha.release();
    g.client.chat("k2", &ask("hi")).await.expect(503);
    assert!(calls.try_join_next().is_none(), "nothing is acknowledged that is not written");
    g.outage.mend();
    let answer = calls.join_all().await.remove(0).expect(200);
    assert_eq!(answer.content(), "kept");
    assert_eq!(g.client.result(&answer.job_id()).await.expect(200).body, answer.body);
    assert_eq!(g.alpha.count(), 1);
}

#[tokio::test]
async fn backends_that_are_terminated_in_mid_flight_lose_nothing() {
    let g = gateway().await;
    g.alpha.always(Reply::answer("kept").held());
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(g.client.chat_call("k", &ask("hi")).send());
    let job = g.client.create_job("j", &ask("hi")).await.expect(201).job_id();
    g.alpha.wait_for_calls(2).await;
    let terminated = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name = 'interlock'";
    assert!(g.app.database.count(terminated).await > 0);
    g.alpha.release();
    assert_eq!(calls.join_all().await.remove(0).expect(200).content(), "kept");
    g.client.job_in_state(&job, "succeeded").await;
    assert_eq!(g.alpha.count(), 2);
}

// R3: the commit stands, and this gateway never heard of it. Nothing was sent, so nothing may block.
#[tokio::test]
async fn a_start_whose_commit_was_not_acknowledged_is_not_sent_and_does_not_block() {
    let g = gateway().await;
    let mut other = g.app.database.insert_key("acme", "k").await;
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(g.client.chat_call("k", &ask("hi")).send());
    eventually("the admission waits", async || g.app.database.waiting("admit_job").await == 1).await;
    g.outage.mute();
    Database::end(&mut other, "ROLLBACK").await;
    let standing = "SELECT count(*) FROM attempts WHERE state = 'started'";
    eventually("the job is committed", async || g.app.database.count(standing).await == 1).await;
    g.outage.cut();
    let refused = calls.join_all().await.remove(0).expect(503);
    assert_eq!(refused.code(), "store_unavailable");
    assert_eq!(g.alpha.count(), 0);
    g.outage.mend();
    let answer = g.chat_once_it_is_back("k").await.expect(200);
    assert_eq!(answer.content(), "ok");
    assert_eq!(g.alpha.count(), 1);
    let job: Value = g.client.job(&answer.job_id()).await;
    assert_eq!(job["attempts"][0]["reason"], "not_acknowledged");
    assert_eq!(job["attempts"][1]["state"], "succeeded");
}

// R9: the winner's commit stands, and this gateway never heard of it: it finds its own answer there.
#[tokio::test]
async fn a_result_whose_commit_was_not_acknowledged_is_still_the_result() {
    let g = gateway().await;
    g.alpha.next(Reply::answer("kept").held());
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(g.client.chat_call("k", &ask("hi")).send());
    g.alpha.wait_for_calls(1).await;
    let mut other = g.app.database.connect().await;
    Database::end(&mut other, "BEGIN; SELECT 1 FROM jobs FOR UPDATE").await;
    g.alpha.release();
    eventually("the result waits for the row", async || g.app.database.waiting("complete_job").await == 1).await;
    g.outage.mute();
    Database::end(&mut other, "COMMIT").await;
    eventually("the result is committed", async || {
        g.app.database.count("SELECT count(*) FROM jobs WHERE state = 'succeeded'").await == 1
    })
    .await;
    g.outage.mend();
    let answer = calls.join_all().await.remove(0).expect(200);
    assert_eq!(answer.content(), "kept");
    assert_eq!(g.client.chat("k", &ask("hi")).await.expect(200).body, answer.body);
    assert_eq!(g.alpha.count(), 1);
    assert!(g.app.races().await.is_empty(), "nobody lost");
}
