//! OpenAI's responses through the gateway, and in background mode: the provider's own id of the work is durable before
//! anything goes to the client, so that whatever happens to us, the work can be asked for and called off.

mod provider;

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::Connection;

use crate::support::app::App;
use crate::support::client::Client;
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::sse::Heard;
use crate::support::{ask, ask_stream, eventually};
use provider::{Provider, Step};

const ROUTE: &str = "attempt_timeout = \"8s\"\nretries = 1";
const SOON: &str = "lookup_grace = \"500ms\"";
const CUT: &[Step] = &[Step::Begin, Step::Say("Hel"), Step::Cut];

fn background(alpha: &Provider, lines: &str) -> Settings {
    let lines = format!("lookup = \"background\"\n{lines}");
    Settings::new().provider("alpha", "openai-responses", &alpha.base_url(), &lines).route(
        "support",
        &["alpha/m1"],
        ROUTE,
    )
}

/// A call whose stream breaks after its id was heard: the job.
async fn lose(alpha: &Provider, client: &Client, key: &str) -> String {
    alpha.next(CUT);
    let unknown = client.chat(key, &ask("hi")).await.expect(504);
    assert_eq!(unknown.code(), "attempt_unknown");
    unknown.job_id()
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
async fn a_response_comes_whole_and_as_a_live_stream() {
    let alpha = Provider::start().await;
    let plain = Settings::new().provider("alpha", "openai-responses", &alpha.base_url(), "");
    let settings = plain.route("support", &["alpha/m1"], ROUTE).route("calm", &["alpha/m1"], "stream = \"settled\"");
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let whole = client.chat("whole", &ask("hi")).await.expect(200);
    assert_eq!((whole.content().as_str(), &whole.json()["usage"]["total_tokens"]), ("ok", &json!(5)));
    assert_eq!(alpha.posts()[0].get("background"), None);
    alpha.next(&[Step::Begin, Step::Say("one "), Step::Wait, Step::Say("two"), Step::Complete]);
    let mut stream = client.chat_call("live", &ask_stream("hi")).open().await;
    let first = [stream.next().await.expect("the role"), stream.next().await.expect("a word")];
    assert_eq!(Heard::of(&first).text, "one ", "before the provider has ended");
    alpha.let_go();
    let all: Vec<String> = first.into_iter().chain(stream.rest().await).collect();
    Heard::of(&all).assert_whole("one two");
    let mut settled = ask_stream("hi");
    settled["model"] = "calm".into();
    let mut stream = client.chat_call("settled", &settled).open().await;
    Heard::of(&stream.rest().await).assert_whole("ok");
    assert!(alpha.questions().is_empty());
    assert_eq!(app.database.count("SELECT count(*) FROM attempts WHERE reference IS NOT NULL").await, 0);
    let refused = client.chat("no", &json!({ "model": "support", "messages": [], "stop": "x" })).await.expect(400);
    assert_eq!(refused.json()["error"]["param"], "messages");
    let mut stop = ask("hi");
    stop["stop"] = "x".into();
    assert_eq!(client.chat("no", &stop).await.expect(400).json()["error"]["param"], "stop");
}

#[tokio::test]
async fn the_id_is_durable_before_the_client_hears_anything() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, "")).await;
    let client = app.client("acme").await;
    alpha.next(&[Step::Wait, Step::Begin, Step::Say("Hel"), Step::Say("lo"), Step::Complete]);
    let (heard_in, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut calls = tokio::task::JoinSet::new();
    let call = client.chat_call("k", &ask_stream("hi"));
    calls.spawn(async move {
        let mut stream = call.open().await;
        while let Some(event) = stream.next().await {
            heard_in.send(event).expect("somebody listens");
        }
    });
    alpha.wait_for_posts(1).await;
    let mut connection = app.database.connect().await;
    let mut lock = connection.begin().await.expect("a transaction");
    sqlx::raw_sql("SELECT 1 FROM attempts FOR UPDATE").execute(&mut *lock).await.expect("the row is locked");
    alpha.let_go();
    eventually("the note waits", async || app.database.waiting("note_reference").await == 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(heard.is_empty(), "{:?}", heard.try_recv());
    lock.rollback().await.expect("the row is free");
    calls.join_next().await.expect("a call").expect("its end");
    let mut all = Vec::new();
    while let Ok(event) = heard.try_recv() {
        all.push(event);
    }
    Heard::of(&all).assert_whole("Hello");
    let reference: String = app.database.value("SELECT reference FROM attempts").await;
    assert_eq!((reference.as_str(), alpha.posts().len()), ("resp_1", 1));
}

/// The provider is always asked for a stream, since that brings the id at once.
#[tokio::test]
async fn a_whole_answer_is_worked_on_in_the_background_too() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, "")).await;
    let client = app.client("acme").await;
    let whole = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((whole.content().as_str(), whole.json()["object"].as_str()), ("ok", Some("chat.completion")));
    let sent = alpha.posts().remove(0);
    assert_eq!((&sent["background"], &sent["store"], &sent["stream"]), (&json!(true), &json!(true), &json!(true)));
    let mut stream = client.chat_call("k", &ask_stream("hi")).open().await;
    Heard::of(&stream.rest().await).assert_whole("ok");
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).body, whole.body);
    assert_eq!(app.database.count("SELECT count(*) FROM job_results WHERE stream IS NULL").await, 1);
    let mut kept = ask("hi");
    kept["store"] = false.into();
    assert_eq!(client.chat("k2", &kept).await.expect(400).json()["error"]["param"], "store");
    assert_eq!(alpha.posts().len(), 1);
}

#[tokio::test]
async fn what_runs_on_after_a_cut_is_waited_for_and_found_finished() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, SOON)).await;
    let client = app.client("acme").await;
    let job = lose(&alpha, &client, "k").await;
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(client.chat_call("k", &ask("hi")).send());
    alpha.wait_for_questions(2).await;
    assert_eq!(client.job(&job).await["state"], "unknown");
    eventually("it is written down", async || last(&lookup(&app, &job).await)["answer"] == "running").await;
    alpha.show("resp_1", "completed", "of the background");
    let answer = waiting.join_all().await.remove(0).expect(200);
    assert_eq!((answer.content(), answer.job_id()), ("of the background".to_owned(), job.clone()));
    assert_eq!((alpha.posts().len(), alpha.questions()[0].as_str()), (1, "/resp_1"));
    let lookup = lookup(&app, &job).await;
    assert_eq!((&last(&lookup)["decision"], &last(&lookup)["reference"]), (&json!("complete"), &json!("resp_1")));
    assert_eq!(client.job(&job).await["attempts"][0]["usage"]["output_tokens"], 2);
}

/// The stream's own error is no word about the work.
#[tokio::test]
async fn an_error_of_the_stream_leaves_the_work_where_it_is() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, SOON)).await;
    let client = app.client("acme").await;
    alpha.next(&[Step::Begin, Step::Error]);
    let job = client.chat("k", &ask("hi")).await.expect(504).job_id();
    alpha.show("resp_1", "completed", "all the same");
    client.job_in_state(&job, "succeeded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "all the same");
    assert_eq!(alpha.posts().len(), 1);
}

#[tokio::test]
async fn what_has_failed_there_lets_the_next_attempt_start() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, "")).await;
    let client = app.client("acme").await;
    let job = lose(&alpha, &client, "k").await;
    alpha.wait_for_questions(1).await;
    alpha.show("resp_1", "failed", "the model broke");
    let done = client.job_in_state(&job, "succeeded").await;
    let (first, second) = (&done["attempts"][0], &done["attempts"][1]);
    assert_eq!((&first["state"], &first["reason"]), (&json!("failed"), &json!("response_failed")));
    assert_eq!((&second["state"], alpha.posts().len()), (&json!("succeeded"), 2));
    assert_eq!(app.database.count("SELECT count(*) FROM attempts WHERE reference = 'resp_2'").await, 1);
}

/// It was there once, so its absence is no proof that nothing was done; but nothing will come of it any more.
#[tokio::test]
async fn absent_counts_only_after_the_grace_and_never_as_not_sent() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, "lookup_grace = \"2s\"")).await;
    let client = app.client("acme").await;
    let job = lose(&alpha, &client, "k").await;
    alpha.forget("resp_1");
    let done = client.job_in_state(&job, "succeeded").await;
    assert_eq!(done["attempts"][0]["reason"], "absent_at_provider");
    let proof: String = app.database.value("SELECT proof FROM attempts WHERE ordinal = 1").await;
    assert_eq!((proof.as_str(), alpha.posts().len()), ("ended_without_result", 2));
    let lookup = lookup(&app, &job).await;
    let early = lookup["evidence"].as_array().expect("a list").iter().find(|entry| entry["answer"] == "absent");
    assert_eq!(early.map(|entry| &entry["decision"]), Some(&json!("wait")), "{lookup:#}");
    assert_eq!((&last(&lookup)["answer"], &last(&lookup)["decision"]), (&json!("absent"), &json!("fail")));
}

#[tokio::test]
async fn the_work_of_a_killed_gateway_is_found_by_another() {
    let alpha = Provider::start().await;
    let settings = background(&alpha, SOON);
    let database = Database::fresh().await;
    let mut killed = Process::spawn(&database, &settings).await;
    let client = killed.client("acme").await;
    alpha.next(&[Step::Begin, Step::Hang]);
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask_stream("hi")).try_send());
    eventually("the id is noted", async || {
        database.count("SELECT count(*) FROM attempts WHERE reference = 'resp_1'").await == 1
    })
    .await;
    killed.kill().await;
    database.execute("UPDATE instances SET lease_until = now()").await;
    let app = App::on(&database, &settings).await;
    let client = client.at(app.application);
    let job = client.job_with_key("k").await["id"].as_str().expect("an id").to_owned();
    alpha.wait_for_questions(1).await;
    alpha.show("resp_1", "completed", "survived");
    client.job_in_state(&job, "succeeded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "survived");
    let streamed = client.chat("k", &ask_stream("hi")).await.expect(200).text();
    assert!(streamed.contains("survived") && streamed.contains("[DONE]"), "{streamed}");
    assert_eq!(alpha.posts().len(), 1);
}

/// Nothing can be asked without the id: it is left to an operator, and never sent again by itself.
#[tokio::test]
async fn work_whose_id_was_never_heard_stays_unknown() {
    let alpha = Provider::start().await;
    let settings = background(&alpha, SOON);
    let database = Database::fresh().await;
    let mut killed = Process::spawn(&database, &settings).await;
    let client = killed.client("acme").await;
    alpha.next(&[Step::Wait]);
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(client.chat_call("k", &ask("hi")).try_send());
    alpha.wait_for_posts(1).await;
    killed.kill().await;
    database.execute("UPDATE instances SET lease_until = now()").await;
    let app = App::on(&database, &settings).await;
    let client = client.at(app.application);
    let job = client.job_with_key("k").await["id"].as_str().expect("an id").to_owned();
    eventually("it is given up", async || last(&lookup(&app, &job).await)["decision"] == "give_up").await;
    let lookup = lookup(&app, &job).await;
    assert_eq!(last(&lookup)["answer"], "cannot_ask");
    assert!(last(&lookup)["because"].as_str().is_some_and(|why| why.contains("never heard")), "{lookup:#}");
    assert_eq!(lookup["evidence"][0]["decision"], "wait", "its id might still have come: {lookup:#}");
    assert_eq!((client.job(&job).await["state"].as_str(), alpha.posts().len()), (Some("unknown"), 1));
    assert!(alpha.questions().is_empty());
}

#[tokio::test]
async fn what_is_cancelled_is_cancelled_at_the_provider_wherever_it_runs() {
    let alpha = Provider::start().await;
    let settings = background(&alpha, "");
    let app = App::start(&settings).await;
    let beside = App::beside(&app, &settings).await;
    let client = app.client("acme").await;
    let calls = [(app.application, ask("hi")), (beside.application, ask_stream("hi"))];
    for (n, (at, body)) in calls.into_iter().enumerate() {
        alpha.next(&[Step::Begin, Step::Hang]);
        let job = client.create_job(&format!("k{n}"), &body).await.expect(201).job_id();
        let noted = format!("SELECT count(*) FROM attempts WHERE reference = 'resp_{}'", n + 1);
        eventually("the id is noted", async || app.database.count(noted.as_str()).await == 1).await;
        client.at(at).cancel(&job).await.expect(200);
        eventually("the call has ended", async || app.engine.calls() == 0 && alpha.open() == 0).await;
        eventually("the provider was told", async || alpha.told().len() == n + 1).await;
        assert_eq!(alpha.told()[n], format!("/resp_{}/cancel", n + 1));
        assert_eq!(client.job(&job).await["attempts"][0]["state"], "cancelled");
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(alpha.told().len(), 2, "once each");
}

/// Closing the stream would leave the work running under an id that nobody has heard.
#[tokio::test]
async fn what_is_cancelled_before_its_id_is_heard_is_cancelled_when_it_is() {
    let alpha = Provider::start().await;
    let app = App::start(&background(&alpha, "")).await;
    let client = app.client("acme").await;
    alpha.next(&[Step::Wait, Step::Begin, Step::Hang]);
    let job = client.create_job("k", &ask_stream("hi")).await.expect(201).job_id();
    alpha.wait_for_posts(1).await;
    client.cancel(&job).await.expect(200);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((alpha.open(), alpha.told().len()), (1, 0), "it still listens for the id");
    alpha.let_go();
    eventually("the provider was told", async || alpha.told() == ["/resp_1/cancel"]).await;
    eventually("the call has ended", async || app.engine.calls() == 0 && alpha.open() == 0).await;
    assert_eq!(client.job(&job).await["attempts"][0]["state"], "cancelled");
}
