//! R11, R12: one owner never sees another's jobs, keys or results; nobody sees a secret.

use serde_json::json;

use crate::support::app::App;
use crate::support::ask;
use crate::support::client::Answer;
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};

/// A well-formed id that no job has.
const RANDOM: &str = "01890000-0000-7000-8000-0000000000ff";

// B113: a guessable key is unused as far as another owner can see.
#[tokio::test]
async fn the_same_key_of_two_owners_is_two_jobs() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("for one"));
    alpha.next(Reply::answer("for two"));
    let app = App::start(&Settings::one(&alpha, "")).await;
    let (one, two) = (app.client("one").await, app.client("two").await);
    let first = one.chat("1", &ask("secret of one")).await.expect(200);
    let second = two.chat("1", &ask("mine")).await.expect(200);
    assert_ne!(first.job_id(), second.job_id());
    assert!(!second.is_replayed());
    assert_eq!(second.content(), "for two");
    assert_eq!(two.job_by_key("1").await.expect("its own")["id"].as_str(), Some(&*second.job_id()));
    assert_eq!(alpha.count(), 2);
}

// R1: the key belongs to the owner, not to the session or the API key.
#[tokio::test]
async fn two_api_keys_of_one_owner_share_their_jobs() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let (laptop, server) = (app.client("acme").await, app.client("acme").await);
    let first = laptop.chat("k", &ask("hi")).await.expect(200);
    let second = server.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((second.job_id(), second.is_replayed()), (first.job_id(), true));
    assert_eq!(server.job(&first.job_id()).await["state"], "succeeded");
}

/// Everything that a client can tell two answers apart by, but for the request's own id and the clock.
fn shown(answer: &Answer, id: &str) -> (u16, Vec<(String, String)>, String) {
    let fresh = ["x-request-id", "date"];
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| !fresh.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
        .collect();
    headers.sort();
    (answer.status, headers, answer.text().replace(id, "ID"))
}

#[tokio::test]
async fn a_foreign_job_is_the_same_404_as_none() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("done"));
    alpha.next(Reply::answer("later").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let (owner, stranger) = (app.client("owner").await, app.client("stranger").await);
    let done = owner.chat("done", &ask("hi")).await.expect(200).job_id();
    let running = owner.create_job("running", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(2).await;
    for foreign in [&done, &running] {
        for path in ["/v1/jobs/ID", "/v1/jobs/ID?wait=1s", "/v1/jobs/ID/result"] {
            let theirs = stranger.get(&path.replace("ID", foreign)).await.expect(404);
            let nobodys = stranger.get(&path.replace("ID", RANDOM)).await.expect(404);
            assert_eq!(shown(&theirs, foreign), shown(&nobodys, RANDOM), "{path}");
        }
        let (theirs, nobodys) = (stranger.cancel(foreign).await.expect(404), stranger.cancel(RANDOM).await.expect(404));
        assert_eq!(shown(&theirs, foreign), shown(&nobodys, RANDOM));
    }
    for key in ["done", "running"] {
        assert_eq!(stranger.job_by_key(key).await, None);
    }
    assert_eq!(stranger.get("/v1/jobs").await.expect(200).json()["data"], json!([]));
    assert_eq!(owner.get("/v1/jobs").await.expect(200).json()["data"].as_array().map(Vec::len), Some(2));
    assert_eq!(owner.job(&running).await["state"], "running", "nobody has cancelled it");
    alpha.release();
    owner.job_in_state(&running, "succeeded").await;
}

#[tokio::test]
async fn what_is_no_id_at_all_is_the_same_404() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let nobodys = client.get(&format!("/v1/jobs/{RANDOM}")).await.expect(404);
    for id in ["1", "not-a-uuid", "%00", "..%2f..%2fhealthz", &"x".repeat(2000)] {
        let answer = client.get(&format!("/v1/jobs/{id}")).await.expect(404);
        assert_eq!(shown(&answer, id), shown(&nobodys, RANDOM), "{id}");
    }
}

// Providers echo keys in their errors, and people paste secrets into prompts.
#[tokio::test]
async fn no_secret_reaches_a_log_a_metric_an_error_or_a_race_row() {
    const PROVIDER_KEY: &str = "sk-the-providers-own-key";
    const PROMPT: &str = "the patient's name is Ada";
    const ANSWER: &str = "take two of these a day";
    let folder = tempfile::TempDir::new().expect("a folder");
    let key_file = folder.path().join("key");
    std::fs::write(&key_file, PROVIDER_KEY).expect("the key is written");
    let alpha = ScriptedUpstream::start().await;
    let mine = format!("api_key = \"file:{}\"", key_file.display());
    let settings =
        Settings::new().provider("alpha", "openai", &alpha.base_url(), &mine).route("support", &["alpha/m1"], "");
    let database = Database::fresh().await;
    let mut process = Process::spawn(&database, &settings).await;
    let client = process.client("acme").await;
    alpha.next(Reply::error(401, "invalid_api_key", &format!("Incorrect API key provided: {PROVIDER_KEY}")));
    let refused = client.chat("the-key-of-the-client", &ask(PROMPT)).await.expect(502);
    assert_eq!(alpha.calls()[0].header("authorization"), Some(&*format!("Bearer {PROVIDER_KEY}")));
    // The circuit leaves A alone for a while after a 401: another provider's answer is what the rest is about.
    let job = client.job(&refused.job_id()).await;
    let beta = ScriptedUpstream::start().await;
    beta.always(Reply::answer(ANSWER));
    let other = Process::spawn(&database, &Settings::one(&beta, "")).await;
    client.at(other.application).chat("another-key", &ask(PROMPT)).await.expect(200);
    let metrics = client.get("/metrics").await.expect(200).text();
    process.signal(nix::sys::signal::Signal::SIGTERM);
    process.ended().await;
    let seen = [
        ("answer", refused.text()),
        ("job", job.to_string()),
        ("metrics", metrics),
        ("log", process.log()),
        ("the other log", other.log()),
        ("attempts", database.value::<String>("SELECT json_agg(a)::text FROM attempts a").await),
        ("jobs", database.value::<String>("SELECT json_agg(j.error)::text FROM jobs j").await),
    ];
    for (place, text) in &seen {
        for secret in [PROVIDER_KEY, PROMPT, ANSWER, &client.token, "the-operators-own-token"] {
            assert!(!text.contains(secret), "`{secret}` stands in the {place}: {text}");
        }
    }
    for place in ["log", "metrics"] {
        let (_, text) = seen.iter().find(|(name, _)| *name == place).expect("looked at");
        assert!(!text.contains("the-key-of-the-client"), "{place}");
    }
    assert!(process.log().contains("attempt failed"), "the log was on: {}", process.log());
}
