//! DESIGN 5: a target that fails repeatedly is left alone for a while, and what lets traffic back.

use std::time::Duration;

use interlock::local::sim::{Behaviour, SimProvider, Wire};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{PATIENCE, ask, eventually, within};

/// Failures in a row after which a target is left alone.
const THRESHOLD: usize = 5;

async fn circuits_of(app: &App, provider: &str) -> Value {
    let listed = app.operator().get("/admin/v1/providers").await.expect(200).json();
    let found = listed["data"].as_array().expect("a list").iter().find(|there| there["name"] == provider).cloned();
    found.expect("a configured provider")["circuits"].clone()
}

#[tokio::test]
async fn a_target_that_fails_repeatedly_is_skipped() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::overloaded());
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    for n in 0..THRESHOLD {
        client.chat(&format!("k{n}"), &ask("hi")).await.expect(200);
    }
    assert_eq!((alpha.count(), beta.count()), (THRESHOLD, THRESHOLD));
    let answer = client.chat("next", &ask("hi")).await.expect(200);
    assert_eq!(answer.header("x-interlock-provider"), Some("beta"));
    assert_eq!(answer.header("x-interlock-attempts"), Some("1"));
    assert_eq!((alpha.count(), beta.count()), (THRESHOLD, THRESHOLD + 1), "A was left alone");
    assert!(circuits_of(&app, "alpha").await[0]["left_alone_until"].is_string());
}

#[tokio::test]
async fn an_unknown_outcome_and_a_wrong_request_do_not_count_against_a_target() {
    let alpha = ScriptedUpstream::start().await;
    for _ in 0..THRESHOLD {
        alpha.next(Reply::close());
        alpha.next(Reply::bad_request());
    }
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for n in 0..THRESHOLD {
        client.chat(&format!("u{n}"), &ask("hi")).await.expect(504);
        client.chat(&format!("b{n}"), &ask("hi")).await.expect(400);
    }
    client.chat("next", &ask("hi")).await.expect(200);
}

// B099: one probe, however many wait; the others go elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_pause_a_single_probe_goes_out() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    for _ in 0..THRESHOLD {
        alpha.next(Reply::overloaded());
    }
    alpha.always(Reply::answer("of A").held());
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    for n in 0..THRESHOLD {
        client.chat(&format!("k{n}"), &ask("hi")).await.expect(200);
    }
    eventually("the pause is over", async || circuits_of(&app, "alpha").await[0]["left_alone_until"].is_null()).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..12 {
        calls.spawn(client.chat_call(&format!("p{n}"), &ask("hi")).send());
    }
    beta.wait_for_calls(THRESHOLD + 11).await;
    assert_eq!(alpha.count(), THRESHOLD + 1, "one probe");
    alpha.release();
    assert!(calls.join_all().await.iter().all(|answer| answer.status == 200));
    alpha.always(Reply::answer("of A"));
    assert_eq!(client.chat("back", &ask("hi")).await.expect(200).header("x-interlock-provider"), Some("alpha"));
    assert_eq!(circuits_of(&app, "alpha").await[0]["failing_since"], Value::Null);
}

// B100: a green model list proves nothing; a passed suite does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passed_contract_run_lets_traffic_back() {
    let alpha = SimProvider::start("alpha", Wire::OpenAiChat).await.expect("a provider");
    alpha.set_models(["gpt-4.1"]);
    alpha.set_behaviour(Behaviour::Refuses);
    let settings =
        Settings::new().provider("alpha", "openai", &alpha.base_url(), "").route("support", &["alpha/gpt-4.1"], "");
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    // The circuit's pause is set by what the provider asks for or by repeated failure: fail until it is left alone.
    let opened = within(PATIENCE, async || {
        let key = format!("k{}", alpha.calls_count());
        client.chat_call(&key, &ask("hi")).header("prefer", "wait=1").send().await;
        circuits_of(&app, "alpha").await[0]["left_alone_until"].as_str().map(str::to_owned)
    });
    opened.await.expect("the circuit opens");
    let since = circuits_of(&app, "alpha").await[0]["failing_since"].clone();
    alpha.set_behaviour(Behaviour::Sound);
    assert_eq!(client.get("/v1/models").await.expect(200).json()["data"][0]["id"], "support");
    assert_eq!(circuits_of(&app, "alpha").await[0]["failing_since"], since, "the time of the first failure");

    let order = json!({ "suite": "support-triage", "target": "alpha/gpt-4.1" });
    let run = app.operator().post("/admin/v1/contract-runs", &order).await.expect(202).json();
    let path = format!("/admin/v1/contract-runs/{}", run["id"].as_str().expect("an id"));
    let verdict = within(Duration::from_secs(60), async || {
        let run = app.operator().get(&path).await.expect(200).json();
        run["verdict"].as_str().filter(|verdict| *verdict != "running").map(str::to_owned)
    });
    assert_eq!(verdict.await.as_deref(), Some("passed"));
    eventually("the circuit is closed", async || circuits_of(&app, "alpha").await[0]["left_alone_until"].is_null())
        .await;
    client.chat("back", &ask("hi")).await.expect(200);
}
