//! Providers are asked about lost answers, by those who were set up to, and what they say proves no more than it does.

mod provider;

use std::time::Duration;

use interlock::config::Config;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::client::Client;
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::{ask, ask_stream, eventually};
use provider::{Post, Provider};

const ROUTE: &str = "attempt_timeout = \"8s\"\nretries = 1";
const SOON: &str = "lookup_grace = \"500ms\"";

fn stored(alpha: &Provider, lines: &str, route: &str) -> Settings {
    let lines = format!("lookup = \"stored\"\n{lines}");
    Settings::new().provider("alpha", "openai", &alpha.base_url(), &lines).route("support", &["alpha/m1"], route)
}

fn conversation(alpha: &Provider, lines: &str) -> Settings {
    let lines = format!("lookup = \"conversation\"\n{lines}");
    Settings::new().provider("alpha", "llama-cpp", &alpha.base_url(), &lines).route("support", &["alpha/m1"], ROUTE)
}

/// A call whose answer is lost: the job and its attempt.
async fn lose(alpha: &Provider, client: &Client, key: &str, body: &Value) -> (String, String) {
    alpha.next(Post::Lose);
    let unknown = client.chat(key, body).await.expect(504);
    assert_eq!(unknown.code(), "attempt_unknown");
    (unknown.job_id(), unknown.attempt_id())
}

/// What an operator is shown of the only attempt that was asked about.
async fn lookup(app: &App, job: &str) -> Value {
    let shown = app.operator().get(&format!("/admin/v1/jobs/{job}")).await.expect(200).json();
    shown["lookups"][0].clone()
}

fn last(lookup: &Value) -> &Value {
    lookup["evidence"].as_array().and_then(|all| all.last()).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_lost_answer_is_found_and_those_who_wait_are_answered() {
    let alpha = Provider::start().await;
    let app = App::start(&stored(&alpha, "", ROUTE)).await;
    let client = app.client("acme").await;
    let (job, attempt) = lose(&alpha, &client, "k", &ask("hi")).await;
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(client.chat_call("k", &ask("hi")).send());
    alpha.wait_for_questions(2).await;
    assert_eq!(client.job(&job).await["state"], "unknown", "stored, and not to be seen yet");
    alpha.show(&attempt, "of the store");
    let answer = waiting.join_all().await.remove(0).expect(200);
    assert_eq!((answer.content(), answer.job_id()), ("of the store".to_owned(), job.clone()));
    let settled = client.job(&job).await;
    assert_eq!((&settled["state"], &settled["completed_by"]), (&json!("succeeded"), &json!(attempt)));
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).body, answer.body, "and replayed");
    assert_eq!(alpha.posts().len(), 1);
    let lookup = lookup(&app, &job).await;
    assert_eq!((&lookup["last_answer"], &last(&lookup)["decision"]), (&json!("finished"), &json!("complete")));
    assert_eq!(lookup["evidence"][0]["answer"], "absent");
    assert!(app.races().await.is_empty());
}

#[tokio::test]
async fn only_who_was_set_up_for_it_stores_anything_and_is_asked() {
    let (plain, asked) = (Provider::start().await, Provider::start().await);
    let settings = stored(&asked, "", ROUTE).provider("plain", "openai", &plain.base_url(), "").route(
        "other",
        &["plain/m1"],
        ROUTE,
    );
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let mut body = ask("hi");
    body["metadata"] = json!({ "ticket": "4711" });
    let (_, attempt) = lose(&asked, &client, "a", &body).await;
    body["model"] = "other".into();
    lose(&plain, &client, "b", &body).await;
    asked.wait_for_questions(2).await;
    assert!(plain.questions().is_empty());
    assert_eq!(plain.posts()[0]["metadata"], json!({ "ticket": "4711" }));
    assert_eq!(plain.posts()[0].get("store"), None);
    let sent = &asked.posts()[0];
    assert_eq!((&sent["store"], &sent["metadata"]["ticket"]), (&json!(true), &json!("4711")));
    assert_eq!(sent["metadata"]["interlock_attempt_id"], json!(attempt));
    body["model"] = "support".into();
    body["store"] = false.into();
    let refused = client.chat("c", &body).await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "store");
}

/// An attempt that was sent without its id would pass for absent.
#[tokio::test]
async fn what_was_sent_before_the_setting_is_not_asked_about() {
    let alpha = Provider::start().await;
    let plain =
        Settings::new().provider("alpha", "openai", &alpha.base_url(), "").route("support", &["alpha/m1"], ROUTE);
    let before = App::start(&plain).await;
    let client = before.client("acme").await;
    let (old, old_attempt) = lose(&alpha, &client, "k", &ask("hi")).await;
    before.shut_down().await;
    let after = App::beside(&before, &stored(&alpha, SOON, &format!("{ROUTE}\nsettle_timeout = \"8s\""))).await;
    let client = client.at(after.application);
    lose(&alpha, &client, "k2", &ask("hi")).await;
    let questions = alpha.wait_for_questions(3).await;
    assert!(!questions.iter().any(|question| question.contains(&old_attempt)), "{questions:?}");
    assert_eq!(client.job(&old).await["state"], "unknown");
}

#[tokio::test]
async fn what_runs_there_is_waited_for_and_its_stream_is_replayed() {
    let alpha = Provider::start().await;
    let app = App::start(&conversation(&alpha, SOON)).await;
    let client = app.client("acme").await;
    let (job, attempt) = lose(&alpha, &client, "k", &ask_stream("hi")).await;
    assert_eq!(alpha.conversations(), std::slice::from_ref(&attempt));
    alpha.run(&attempt);
    alpha.wait_for_questions(3).await;
    assert_eq!(client.job(&job).await["state"], "unknown");
    assert_eq!(last(&lookup(&app, &job).await)["answer"], "running");
    alpha.finish(&attempt, "of the stream");
    client.job_in_state(&job, "succeeded").await;
    let whole = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((whole.content(), whole.is_replayed()), ("of the stream".to_owned(), true));
    let streamed = client.chat("k", &ask_stream("hi")).await.expect(200).text();
    assert!(streamed.contains("of the stream") && streamed.contains("[DONE]"), "{streamed}");
    assert_eq!(alpha.posts().len(), 1);
}

#[tokio::test]
async fn absent_proves_nothing_before_the_grace_is_over() {
    let alpha = Provider::start().await;
    let app = App::start(&conversation(&alpha, "")).await;
    let client = app.client("acme").await;
    let (job, _) = lose(&alpha, &client, "k", &ask_stream("hi")).await;
    alpha.wait_for_questions(4).await;
    eventually("it is written down", async || lookup(&app, &job).await["tries"].as_i64() >= Some(4)).await;
    let lookup = lookup(&app, &job).await;
    assert_eq!((&last(&lookup)["answer"], &last(&lookup)["decision"]), (&json!("absent"), &json!("wait")));
    assert!(last(&lookup)["because"].as_str().is_some_and(|why| why.contains("grace")), "{lookup:#}");
    assert_eq!((client.job(&job).await["state"].as_str(), alpha.posts().len()), (Some("unknown"), 1));
}

#[tokio::test]
async fn absent_after_the_grace_lets_the_next_attempt_start_and_the_note_stands() {
    let alpha = Provider::start().await;
    let app = App::start(&conversation(&alpha, SOON)).await;
    let client = app.client("acme").await;
    let (job, _) = lose(&alpha, &client, "k", &ask_stream("hi")).await;
    let done = client.job_in_state(&job, "succeeded").await;
    let (first, second) = (&done["attempts"][0], &done["attempts"][1]);
    assert_eq!((&first["state"], &first["reason"]), (&json!("failed"), &json!("absent_at_provider")));
    assert_eq!((&second["state"], alpha.posts().len()), (&json!("succeeded"), 2));
    let proof: String = app.database.value("SELECT proof FROM attempts WHERE ordinal = 1").await;
    assert_eq!(proof, "not_sent");
    let lookup = lookup(&app, &job).await;
    assert_eq!((&last(&lookup)["answer"], &last(&lookup)["decision"]), (&json!("absent"), &json!("fail")));
    assert_eq!(lookup["evidence"][0]["decision"], "wait", "its call had only just ended: {lookup:#}");
}

/// A list of what has ended does not show what is worked on: it says nothing while an answer may still come.
#[tokio::test]
async fn absent_from_the_store_counts_only_when_no_answer_is_waited_for_any_more() {
    let alpha = Provider::start().await;
    let route = "attempt_timeout = \"1s\"\nretries = 1\nsettle_timeout = \"4s\"";
    let app = App::start(&stored(&alpha, SOON, route)).await;
    let client = app.client("acme").await;
    let (job, _) = lose(&alpha, &client, "k", &ask("hi")).await;
    client.job_in_state(&job, "succeeded").await;
    let why = lookup(&app, &job).await["evidence"].to_string();
    assert!(why.contains("which this provider does not show"), "{why}");
    let past =
        "SELECT count(*) FROM attempts WHERE ordinal = 1 AND reason = 'absent_at_provider' AND ended_at > settle_until";
    assert_eq!(app.database.count(past).await, 1);
}

#[tokio::test]
async fn what_is_found_after_an_operators_cancel_does_not_win() {
    let alpha = Provider::start().await;
    let app = App::start(&stored(&alpha, "", ROUTE)).await;
    let client = app.client("acme").await;
    alpha.hold_questions();
    let (job, attempt) = lose(&alpha, &client, "k", &ask("hi")).await;
    alpha.show(&attempt, "too late");
    alpha.wait_for_questions(1).await;
    app.clear(&attempt, "cancel").await.expect(200);
    let done = client.job_in_state(&job, "succeeded").await;
    alpha.let_go();
    eventually("the race is logged", async || app.races().await.len() == 1).await;
    let race = app.races().await.remove(0);
    assert_eq!((&race["attempt"], &race["winner"]), (&json!(attempt), &done["completed_by"]));
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "ok");
    assert_eq!(client.job(&job).await["attempts"][0]["state"], "cancelled");
}

#[tokio::test]
async fn two_instances_that_ask_at_once_complete_once() {
    let alpha = Provider::start().await;
    let settings = stored(&alpha, "", ROUTE);
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    alpha.hold_questions();
    let (job, attempt) = lose(&alpha, &client, "k", &ask("hi")).await;
    alpha.show(&attempt, "once");
    alpha.wait_for_questions(1).await;
    let beside = App::beside(&app, &settings).await;
    // As if the first had been asking for too long: its loop still waits, so the second question is the other's.
    app.database.execute("UPDATE lookups SET next_at = now() - interval '11 s'").await;
    alpha.wait_for_questions(2).await;
    alpha.let_go();
    client.job_in_state(&job, "succeeded").await;
    for app in [&app, &beside] {
        let answer = client.at(app.application).chat("k", &ask("hi")).await.expect(200);
        assert_eq!((answer.content(), answer.attempt_id()), ("once".to_owned(), attempt.clone()));
    }
    assert_eq!(app.database.count("SELECT count(*) FROM job_results").await, 1);
    assert_eq!((app.races().await.len(), alpha.posts().len()), (0, 1));
}

#[tokio::test]
async fn the_stream_of_a_killed_gateway_is_found_by_another() {
    let alpha = Provider::start().await;
    let settings = conversation(&alpha, SOON);
    let database = Database::fresh().await;
    let mut killed = Process::spawn(&database, &settings).await;
    let client = killed.client("acme").await;
    alpha.next(Post::Hang);
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask_stream("hi")).try_send());
    alpha.wait_for_posts(1).await;
    let attempt = alpha.conversations().remove(0);
    killed.kill().await;
    alpha.finish(&attempt, "survived");
    database.execute("UPDATE instances SET lease_until = now()").await;
    let app = App::on(&database, &settings).await;
    let client = client.at(app.application);
    let job = client.job_with_key("k").await["id"].as_str().expect("an id").to_owned();
    client.job_in_state(&job, "succeeded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "survived");
    assert_eq!(alpha.posts().len(), 1);
}

#[tokio::test]
async fn what_is_cancelled_is_called_off_wherever_it_runs() {
    let alpha = Provider::start().await;
    let settings = conversation(&alpha, "");
    let app = App::start(&settings).await;
    let beside = App::beside(&app, &settings).await;
    let client = app.client("acme").await;
    for (n, at) in [app.application, beside.application].into_iter().enumerate() {
        alpha.next(Post::Hang);
        let key = format!("k{n}");
        let job = client.create_job(&key, &ask_stream("hi")).await.expect(201).job_id();
        alpha.wait_for_posts(n + 1).await;
        let attempt = alpha.conversations().remove(n);
        client.at(at).cancel(&job).await.expect(200);
        eventually("the call has ended", async || app.engine.calls() == 0 && alpha.hanging() == 0).await;
        eventually("the provider was told", async || alpha.told().len() == n + 1).await;
        assert_eq!(alpha.told()[n], format!("/v1/stream?conv_id={attempt}"));
        assert_eq!(client.job(&job).await["attempts"][0]["state"], "cancelled");
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(alpha.told().len(), 2, "once each");
}

#[test]
fn a_way_that_the_adapter_does_not_have_is_a_problem_of_its_setting() {
    for (adapter, lines, wrong) in [
        (
            "openai",
            "lookup = \"conversation\"",
            "providers.alpha.lookup: `conversation` is nothing that the adapter `openai`",
        ),
        ("anthropic", "lookup = \"stored\"", "which cannot be asked"),
        ("openai", "lookup = \"guess\"", "which knows `stored`"),
        ("openai-responses", "lookup = \"stored\"", "which knows `background`"),
        ("openai", "lookup_grace = \"1s\"", "providers.alpha.lookup_grace: says nothing without `lookup`"),
    ] {
        let text =
            format!("[providers.alpha]\nadapter = \"{adapter}\"\nbase_url = \"http://127.0.0.1:1/v1\"\n{lines}\n");
        let error = Config::parse(&text, "test").expect_err("a problem").to_string();
        assert!(error.contains(wrong), "{error}");
    }
    let digest = |lines: &str| {
        let text = format!("[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n{lines}\n");
        let provider = Config::parse(&text, "test").expect("sound").providers.remove("alpha").expect("alpha");
        (provider.settings_digest, provider.adapter.version())
    };
    assert_eq!(digest(""), digest("connect_timeout = \"1s\""));
    let (plain, marked) = (digest(""), digest("lookup = \"stored\""));
    assert!(plain.0 != marked.0 && plain.1 != marked.1, "its permits end");
}
