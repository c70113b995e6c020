//! R8: a fallback is tried only on evidence, and every refusal says what is missing.

use serde_json::json;
use tempfile::TempDir;

use interlock::local::sim::{Behaviour, SimProvider, Wire};

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, within};

/// A refuses, B is sound.
async fn providers() -> (ScriptedUpstream, ScriptedUpstream) {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::overloaded());
    beta.always(Reply::answer("of B"));
    (alpha, beta)
}

/// The call fails with the primary's refusal; B is not asked, and the answer says why, in these words.
async fn assert_refused(app: &App, client: &Client, beta: &ScriptedUpstream, words: &[&str]) -> Answer {
    let refused = client.at(app.application).chat("k", &ask("hi")).await.expect(503);
    assert_eq!(refused.code(), "all_targets_failed");
    let attempts = refused.json()["error"]["attempts"].to_string();
    assert!(attempts.contains("attempt 1 at alpha/m1: failed (overloaded)"), "{attempts}");
    for word in ["beta/m2 was not tried"].iter().chain(words) {
        assert!(attempts.contains(word), "`{word}` is not in {attempts}");
    }
    assert_eq!(beta.count(), 0);
    refused
}

#[tokio::test]
async fn without_a_permit_the_fallback_is_refused_and_the_same_key_goes_on_once_there_is_one() {
    let (alpha, beta) = providers().await;
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let client = app.client("acme").await;
    let words = ["no permit", "run the suite `support-triage` against beta/m2"];
    let refused = assert_refused(&app, &client, &beta, &words).await;
    app.permit("beta/m2").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((answer.content().as_str(), answer.job_id()), ("of B", refused.job_id()));
}

#[tokio::test]
async fn with_a_valid_permit_the_fallback_answers_and_its_attempt_names_the_permit() {
    let (alpha, beta) = providers().await;
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let permit = app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.content(), "of B");
    assert_eq!(answer.header("x-interlock-provider"), Some("beta"));
    assert_eq!(answer.header("x-interlock-attempts"), Some("2"));
    let job = client.job(&answer.job_id()).await;
    assert_eq!(job["attempts"][0]["permit_id"], serde_json::Value::Null, "the primary needs none");
    assert_eq!(job["attempts"][1]["permit_id"].as_str(), Some(&*permit));
    assert_eq!(beta.calls()[0].json()["model"], "m2");
    // B082: what the fallback gets is the caller's own request.
    assert_eq!(beta.calls()[0].json()["messages"], ask("hi")["messages"]);
    assert_eq!(beta.calls()[0].attempt_id.as_deref(), job["attempts"][1]["id"].as_str());
}

#[tokio::test]
async fn an_expired_permit_is_none() {
    let (alpha, beta) = providers().await;
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let permit = app.permit("beta/m2").await;
    let past = "UPDATE permits SET granted_at = now() - interval '8 days', expires_at = now() - interval '1 minute'";
    assert_eq!(app.database.execute(past).await, 1);
    let client = app.client("acme").await;
    assert_refused(&app, &client, &beta, &[&format!("permit {permit} expired at")]).await;
}

#[tokio::test]
async fn a_revoked_permit_is_none() {
    let (alpha, beta) = providers().await;
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let permit = app.permit("beta/m2").await;
    let path = format!("/admin/v1/permits/{permit}");
    let revoke = |reason| app.operator().request(http::Method::DELETE, &path).json(&reason).send();
    revoke(json!({})).await.expect(400);
    revoke(json!({ "reason": "it lies", "actor": "bob" })).await.expect(200);
    let client = app.client("acme").await;
    assert_refused(&app, &client, &beta, &[&format!("permit {permit} was revoked by bob: it lies")]).await;
    revoke(json!({ "reason": "again" })).await.expect(404);
}

#[tokio::test]
async fn a_permit_for_another_model_is_none() {
    let (alpha, beta) = providers().await;
    let settings = Settings::two(&alpha, &beta, "");
    let other = settings.clone().route("support", &["alpha/m1", "beta/m3"], "");
    let granting = App::start(&other).await;
    granting.permit("beta/m3").await;
    let app = App::beside(&granting, &settings).await;
    let client = app.client("acme").await;
    assert_refused(&app, &client, &beta, &["no permit: run the suite `support-triage` against beta/m2"]).await;
}

#[tokio::test]
async fn a_permit_on_another_route_is_none() {
    let (alpha, beta) = providers().await;
    let settings = Settings::two(&alpha, &beta, "").route("other", &["alpha/m1", "beta/m2"], "");
    let app = App::start(&settings).await;
    let run = app.passed_run("support-triage", "beta/m2", "live").await;
    app.grant("other", &run).await.expect(201);
    let client = app.client("acme").await;
    assert_refused(&app, &client, &beta, &["no permit"]).await;
    let mut elsewhere = ask("hi");
    elsewhere["model"] = "other".into();
    assert_eq!(client.chat("k2", &elsewhere).await.expect(200).content(), "of B");
}

// The suite has changed on disk since: what was proved is not what is promised now.
#[tokio::test]
async fn a_permit_of_another_suite_digest_is_none() {
    let (alpha, beta) = providers().await;
    let suites = copy_of_the_suites();
    let settings = Settings::two(&alpha, &beta, "").raw(&format!("[contracts]\ndir = \"{}\"", suites.path().display()));
    let app = App::start(&settings).await;
    let run = app.passed_run("support-triage", "beta/m2", "live").await;
    app.grant("support", &run).await.expect(201);
    let file = suites.path().join("support-triage/suite.toml");
    let text = std::fs::read_to_string(&file).expect("the suite");
    std::fs::write(&file, text.replace("repeats = 2", "repeats = 3")).expect("the suite changes");
    let client = app.client("acme").await;
    assert_refused(&app, &client, &beta, &["ended: the suite changed since run", "run it again"]).await;
    let refused = app.grant("support", &run).await.expect(409);
    assert!(refused.text().contains("has changed since run"), "{}", refused.text());
}

pub fn copy_of_the_suites() -> TempDir {
    let copy = TempDir::new().expect("a folder");
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/contracts/suites/support-triage");
    let copied = std::process::Command::new("cp").args(["-r", from]).arg(copy.path()).status().expect("cp runs");
    assert!(copied.success());
    copy
}

#[tokio::test]
async fn a_permit_earned_under_other_settings_of_the_provider_is_none() {
    let (alpha, beta) = providers().await;
    let settings = Settings::two(&alpha, &beta, "");
    let app = App::start(&settings).await;
    app.permit("beta/m2").await;
    let changed = settings.provider("beta", "openai", &beta.base_url(), "error_500 = \"unknown\"");
    let changed = App::beside(&app, &changed).await;
    let client = app.client("acme").await;
    assert_refused(&changed, &client, &beta, &["ended: the settings of provider `beta` changed since run"]).await;
}

#[tokio::test]
async fn a_permit_on_a_replayed_run_is_none_where_the_route_wants_a_live_one() {
    let (alpha, beta) = providers().await;
    let easy = App::start(&Settings::two(&alpha, &beta, "evidence = \"replay\"")).await;
    let run = easy.passed_run("support-triage", "beta/m2", "replay").await;
    easy.grant("support", &run).await.expect(201);
    let app = App::beside(&easy, &Settings::two(&alpha, &beta, "")).await;
    let client = app.client("acme").await;
    assert_refused(&app, &client, &beta, &["rests on a replayed run"]).await;
    let refused = app.grant("support", &run).await.expect(409);
    assert_eq!(refused.code(), "permit_refused");
    let answer = client.at(easy.application).chat("k2", &ask("hi")).await.expect(200);
    assert_eq!(answer.content(), "of B");
}

#[tokio::test]
async fn a_newer_flawed_permit_does_not_hide_an_older_valid_one() {
    let (alpha, beta) = providers().await;
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let valid = app.permit("beta/m2").await;
    let revoked = app.permit("beta/m2").await;
    let path = format!("/admin/v1/permits/{revoked}");
    let deed = json!({ "reason": "granted twice" });
    app.operator().request(http::Method::DELETE, &path).json(&deed).send().await.expect(200);
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(client.job(&answer.job_id()).await["attempts"][1]["permit_id"].as_str(), Some(&*valid));
}

/// Makes the run over HTTP, as an ML engineer does, and waits for its verdict.
async fn run_suite(app: &App, target: &str) -> (String, String) {
    let order = json!({ "suite": "support-triage", "target": target });
    let run = app.operator().post("/admin/v1/contract-runs", &order).await.expect(202).json();
    let id = run["id"].as_str().expect("an id").to_owned();
    let path = format!("/admin/v1/contract-runs/{id}");
    let look = async || {
        let run = app.operator().get(&path).await.expect(200).json();
        run["verdict"].as_str().filter(|verdict| *verdict != "running").map(str::to_owned)
    };
    let verdict = within(std::time::Duration::from_secs(60), look).await.expect("the run ends");
    (id, verdict)
}

// Nothing of this is short-cut: two simulated providers, the shipped suite, its real checks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_provider_earns_its_permit_and_one_that_breaks_the_contract_does_not() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::overloaded());
    let sound = SimProvider::start("sound", Wire::AnthropicMessages).await.expect("a provider");
    sound.set_models(["claude-sonnet-4-5"]);
    let broken = SimProvider::start("broken", Wire::OpenAiChat).await.expect("a provider");
    broken.set_behaviour(Behaviour::BreaksContract);
    let settings = Settings::new()
        .upstream("alpha", &alpha)
        .provider("broken", "openai", &broken.base_url(), "")
        .provider("sound", "anthropic", &sound.base_url(), "")
        .route("support", &["alpha/m1", "broken/gpt-4.1", "sound/claude-sonnet-4-5"], "");
    let app = App::start(&settings).await;

    let (failed, verdict) = run_suite(&app, "broken/gpt-4.1").await;
    assert_eq!(verdict, "failed");
    let refused = app.grant("support", &failed).await.expect(409);
    assert!(refused.text().contains("has not passed"), "{}", refused.text());

    let (passed, verdict) = run_suite(&app, "sound/claude-sonnet-4-5").await;
    assert_eq!(verdict, "passed", "{}", app.operator().get(&format!("/admin/v1/contract-runs/{passed}")).await.text());
    app.grant("support", &passed).await.expect(201);
    let calls = broken.calls_count();
    let answer = app.client("acme").await.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.header("x-interlock-provider"), Some("sound"));
    assert_eq!(broken.calls_count(), calls, "it stands before the sound one, and was passed over");
}
