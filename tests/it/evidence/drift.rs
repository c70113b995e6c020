//! Live drift: answers of real traffic are counted for all instances together, and speak against a permit only when
//! noise cannot explain them.

use super::{deeds, metrics, permit, provider, providers, words};
use crate::console::Browser;
use crate::support::app::App;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

/// Every answer is judged, and ten are enough to speak.
const WATCHED: &str = "drift = { sample = 1.0, min_answers = 10 }";
const SOUND: &str = r#"{"category":"billing","urgency":"low","summary":"charged twice"}"#;

async fn calls(client: &Client, keys: std::ops::Range<u32>) {
    for n in keys {
        client.chat(&format!("{}-{n}", client.address.port()), &ask("hi")).await.expect(200);
    }
}

async fn judged(app: &App, provider: &str) -> i64 {
    let sql = format!("SELECT coalesce(sum(answers), 0)::int8 FROM drift_counts WHERE provider = '{provider}'");
    app.database.count(&sql).await
}

#[tokio::test]
async fn live_answers_that_break_the_contract_close_the_fallback_until_a_run_has_passed() {
    let (alpha, beta) = providers("the secret words of B").await;
    let settings = Settings::two(&alpha, &beta, WATCHED);
    let app = App::start(&settings).await;
    let other = App::beside(&app, &settings).await;
    let run = app.passed_run("support-triage", "beta/m2", "live").await;
    let id = words(&app.grant("support", &run).await.expect(201).json()["id"]).to_owned();
    // Counts are kept by the second, from the run's beginning on.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let client = app.client("acme").await;
    // Six answers are too few, in either process: only together do they say something.
    calls(&client, 0..6).await;
    eventually("six are judged", async || judged(&app, "beta").await == 6).await;
    assert_eq!(permit(&app, &id).await["state"], "valid");
    calls(&client.at(other.application), 0..4).await;
    eventually("the permit has ended", async || permit(&app, &id).await["state"] == "revoked").await;
    let revoked = permit(&app, &id).await;
    assert_eq!((&revoked["revoked_by"], &revoked["ended_cause"]), (&"drift".into(), &"drift".into()));
    let why = words(&revoked["revoke_reason"]);
    assert!(why.contains("live answers broke the suite `support-triage` (not_fenced_or_wrapped 1"), "{why}");
    assert!(why.contains("more than 5.0 %; only a passed run lets beta/m2 back"), "{why}");
    assert!(deeds(&app, &id).await.contains("drift permit.revoke:"));
    let opened = "SELECT count(*) FROM operator_actions WHERE actor = 'drift' AND action = 'circuit.open'";
    assert_eq!(app.database.count(opened).await, 1, "one of the two instances opened it");
    for app in [&app, &other] {
        eventually("the circuit is shown", async || shown_open(app, "beta").await).await;
    }
    let page = Browser::logged_in(app.operator).await.page("/console").await;
    assert!(
        page.contains("Targets whose answers broke the contract") && page.contains("not_fenced_or_wrapped 1"),
        "{page}"
    );
    let refused = client.chat("refused", &ask("hi")).await.expect(503);
    assert!(refused.text().contains("was revoked by drift:"), "{}", refused.text());
    // What was proved before the drift proves nothing now.
    let before = app.grant("support", &run).await.expect(409);
    assert!(before.text().contains("live answers of beta/m2 have broken the contract since run"), "{}", before.text());
    let kept = "SELECT string_agg(c::text, ' ') FROM drift_counts c";
    let kept = format!("{}{}", app.database.value::<String>(kept).await, metrics(&app).await);
    assert!(!kept.contains("secret words"), "no word of an answer is kept");

    app.permit("beta/m2").await;
    eventually("the circuit is closed", async || !shown_open(&app, "beta").await).await;
    let answer = client.chat("back", &ask("hi")).await.expect(200);
    assert_eq!(answer.header("x-interlock-provider"), Some("beta"));
}

async fn shown_open(app: &App, name: &str) -> bool {
    let circuits = provider(app, name).await["circuits"].clone();
    circuits.as_array().expect("a list").iter().any(|circuit| circuit["open_since"].is_string())
}

#[tokio::test]
async fn noise_revokes_nothing_and_only_the_share_that_is_asked_for_is_judged() {
    let (alpha, beta) = providers(SOUND).await;
    alpha.always(Reply::answer("prose"));
    let settings = Settings::two(&alpha, &beta, "drift = { sample = 0.0, min_answers = 10 }");
    let app = App::start(&settings).await;
    let id = app.permit("beta/m2").await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let client = app.client("acme").await;
    calls(&client, 0..12).await;
    alpha.always(Reply::overloaded());
    beta.next(Reply::answer(&"x".repeat(300 << 10)));
    beta.next(Reply::answer("one that is broken"));
    calls(&client, 20..40).await;
    eventually("all but the large one are judged", async || judged(&app, "beta").await == 19).await;
    assert_eq!(judged(&app, "alpha").await, 0, "of the primary nothing is asked for");
    let counted = metrics(&app).await;
    let of = |outcome: &str, n: u32| {
        let labels = format!("{{outcome=\"{outcome}\",provider=\"beta\",route=\"support\"}} {n}");
        assert!(counted.contains(&format!("interlock_drift_answers_total{labels}")), "{outcome}: {counted}");
    };
    of("dropped", 1);
    of("broken", 1);
    of("kept", 18);
    assert_eq!(permit(&app, &id).await["state"], "valid", "one of nineteen is within the noise");
}

/// Alpha is the primary, and answers prose where the contract wants JSON.
async fn drifted_primary() -> (ScriptedUpstream, ScriptedUpstream, Settings, App) {
    let (alpha, beta) = providers(SOUND).await;
    alpha.always(Reply::answer("prose"));
    let settings = Settings::two(&alpha, &beta, WATCHED);
    let app = App::start(&settings).await;
    calls(&app.client("acme").await, 0..12).await;
    eventually("the circuit is open", async || shown_open(&app, "alpha").await).await;
    (alpha, beta, settings, app)
}

#[tokio::test]
async fn a_primary_that_drifts_is_passed_over_while_a_permitted_fallback_may_be_tried() {
    let (_alpha, beta, settings, app) = drifted_primary().await;
    let client = app.client("acme").await;
    let served = async |at: &App, key: &str| {
        let answer = client.at(at.application).chat(key, &ask("hi")).await.expect(200);
        answer.header("x-interlock-provider").expect("a provider").to_owned()
    };
    assert_eq!(served(&app, "alone").await, "alpha", "an answer that may be broken is better than none");
    let id = app.permit("beta/m2").await;
    assert_eq!(served(&app, "permitted").await, "beta");
    let later = App::beside(&app, &settings).await;
    assert_eq!(served(&later, "later").await, "beta", "what began later knows it from its first call");
    beta.next(Reply::overloaded());
    assert_eq!(served(&app, "last-resort").await, "alpha", "the fallback has failed");
    let path = format!("/admin/v1/permits/{id}");
    let deed = serde_json::json!({ "reason": "enough" });
    app.operator().request(http::Method::DELETE, &path).json(&deed).send().await.expect(200);
    assert_eq!(served(&app, "revoked").await, "alpha");
    app.permit("beta/m2").await;
    assert_eq!(served(&app, "permitted-again").await, "beta");
    app.passed_run("support-triage", "alpha/m1", "replay").await;
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    assert_eq!(served(&app, "replayed").await, "beta", "recordings say nothing of how it answers now");
    app.passed_run("support-triage", "alpha/m1", "live").await;
    eventually("the circuit is closed", async || !shown_open(&app, "alpha").await).await;
    assert_eq!(served(&app, "closed").await, "alpha");
}
