//! `recheck`: the suite is run again by one instance, and passes, fails, or cannot be made.

use std::time::Duration;

use interlock::local::sim::{Behaviour, SimProvider, Wire};

use super::{deeds, metrics, permit, permits, words};
use crate::support::app::App;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually, nobody_listens, within};

const DAILY: &str = "recheck = \"24h\"";
const TARGET: &str = "beta/gpt-4.1";
/// A suite's calls on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A refuses; B is a whole simulated provider, so that a suite can be run against it.
async fn stage(base_url: &str) -> (ScriptedUpstream, Settings) {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::overloaded());
    let settings = Settings::new().upstream("alpha", &alpha).provider("beta", "openai", base_url, "").route(
        "support",
        &["alpha/m1", TARGET],
        DAILY,
    );
    (alpha, settings)
}

async fn simulated() -> SimProvider {
    let beta = SimProvider::start("beta", Wire::OpenAiChat).await.expect("a provider");
    beta.set_models(["gpt-4.1"]);
    beta
}

async fn grow_old(app: &App) {
    app.database.execute("UPDATE contract_runs SET started_at = now() - interval '25 hours'").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passed_recheck_renews_the_permit_once_however_many_instances_there_are() {
    let beta = simulated().await;
    let (_alpha, settings) = stage(&beta.base_url()).await;
    let app = App::start(&settings).await;
    let _others = (App::beside(&app, &settings).await, App::beside(&app, &settings).await);
    let old = app.permit(TARGET).await;
    let fresh = app.database.count("SELECT count(*) FROM rechecks").await;
    assert_eq!(fresh, 0, "evidence of today is not run again");
    grow_old(&app).await;
    let renewed = within(LONG, async || permits(&app).await.into_iter().find(|p| p["granted_by"] == "recheck")).await;
    let renewed = renewed.expect("a new permit");
    assert_eq!((&renewed["state"], &renewed["renews"]), (&"valid".into(), &old.as_str().into()));
    let before = permit(&app, &old).await;
    assert_eq!((&before["state"], &before["ended_cause"]), (&"renewed".into(), &"renewed".into()));
    assert!(words(&before["status"]).contains(words(&renewed["id"])), "{before}");
    let done = deeds(&app, words(&renewed["id"])).await;
    assert!(done.contains(&format!("recheck permit.renew: the scheduled run {}", words(&renewed["run_id"]))), "{done}");
    // All three have looked again since.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(app.database.count("SELECT count(*) FROM contract_runs").await, 2, "the first run, and one recheck");
    assert_eq!(app.database.count("SELECT count(*) FROM permits").await, 2);

    let answer = app.client("acme").await.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.header("x-interlock-provider"), Some("beta"));
    let job = app.client("acme").await.job(&answer.job_id()).await;
    assert_eq!(job["attempts"][1]["permit_id"], renewed["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_recheck_revokes_every_permit_of_the_target_at_once_and_says_why() {
    let beta = simulated().await;
    let (_alpha, settings) = stage(&beta.base_url()).await;
    let app = App::start(&settings).await;
    let (first, second) = (app.permit(TARGET).await, app.permit(TARGET).await);
    beta.set_behaviour(Behaviour::BreaksContract);
    grow_old(&app).await;
    let revoked = within(LONG, async || {
        let permit = permit(&app, &second).await;
        (permit["state"] == "revoked").then_some(permit)
    });
    let revoked = revoked.await.expect("revoked");
    assert_eq!((&revoked["revoked_by"], &revoked["ended_cause"]), (&"recheck".into(), &"recheck".into()));
    let status = words(&revoked["status"]);
    assert!(status.contains("revoked by recheck at") && status.contains("schema/"), "{status}");
    assert_eq!(permit(&app, &first).await["state"], "revoked", "an older permit does not stand in for it");
    assert!(deeds(&app, &first).await.contains("recheck permit.revoke: the scheduled run"));
    let refused = app.client("acme").await.chat("k", &ask("hi")).await.expect(503);
    let said = refused.json()["error"]["message"].to_string();
    assert!(said.contains("was revoked by recheck: the scheduled run"), "{said}");
    assert!(metrics(&app).await.contains("interlock_rechecks_total{outcome=\"failed\",route=\"support\"} 1"));
    assert!(metrics(&app).await.contains("interlock_permits_ended_total{cause=\"recheck\",route=\"support\"} 2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recheck_that_cannot_be_made_is_no_failure_and_the_list_says_since_when() {
    let (_alpha, settings) = stage(&nobody_listens().await).await;
    let app = App::start(&settings).await;
    let id = app.permit(TARGET).await;
    grow_old(&app).await;
    let overdue = async || words(&permit(&app, &id).await["status"]).contains("last error (1 tried)");
    eventually("it was tried", overdue).await;
    let listed = permit(&app, &id).await;
    let status = words(&listed["status"]).to_owned();
    for word in ["valid until", "recheck overdue since", "connect_refused", "next try at"] {
        assert!(status.contains(word), "`{word}` is not in {status}");
    }
    assert_eq!(listed["state"], "valid");
    assert!(metrics(&app).await.contains("interlock_rechecks_total{outcome=\"not_run\",route=\"support\"} 1"));
    // The old permit goes on: the fallback is tried, and it is its own failure that is told.
    let failed = app.client("acme").await.chat("k", &ask("hi")).await;
    assert!(failed.text().contains(&format!("attempt 2 at {TARGET}: failed")), "{}", failed.text());
    assert_eq!(app.database.count("SELECT count(*) FROM rechecks WHERE next_at > now() + interval '20 s'").await, 1);
    app.database.execute("UPDATE rechecks SET next_at = now()").await;
    let again = async || app.database.count("SELECT count(*) FROM rechecks WHERE tries = 2").await == 1;
    eventually("it is tried again when its time has come", again).await;
}
