//! R7: whoever returns first wins, whoever was primary; what comes later is thrown away, with its cost on record.

use serde_json::Value;

use crate::support::app::App;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually, sha256};

/// What A answers: its bytes are known, so that their hash in the race row can be checked.
const OF_A: &str = r#"{"id":"a","object":"chat.completion","created":1,"model":"m1","choices":[{"index":0,"message":{"role":"assistant","content":"of A"},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":10,"total_tokens":50}}"#;

/// A was asked first and is silent; B holds a permit.
struct Duel {
    a: ScriptedUpstream,
    b: ScriptedUpstream,
    app: App,
    client: Client,
    job: String,
    attempt_of_a: String,
}

impl Duel {
    async fn start(lines: &str) -> Duel {
        let (a, b) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
        a.next(Reply::whole(200, "application/json", OF_A).held());
        let app = App::start(&Settings::two(&a, &b, &format!("attempt_timeout = \"400ms\"\n{lines}"))).await;
        app.permit("beta/m2").await;
        let client = app.client("acme").await;
        let unknown = client.chat("k", &ask("hi")).await.expect(504);
        let (job, attempt_of_a) = (unknown.job_id(), unknown.attempt_id());
        Duel { a, b, app, client, job, attempt_of_a }
    }

    /// The job, and what its answer is, asserted to be stored and replayed alike.
    async fn assert_won_by(&self, text: &str) -> Value {
        let stored = self.client.result(&self.job).await.expect(200);
        let replayed = self.client.chat("k", &ask("hi")).await.expect(200);
        assert_eq!(stored.content(), text);
        assert_eq!(stored.body, replayed.body);
        let job = self.client.job(&self.job).await;
        assert_eq!(job["completed_by"].as_str(), Some(&*stored.attempt_id()));
        job
    }

    async fn the_race(&self) -> Value {
        eventually("the race is logged", async || self.app.races().await.len() == 1).await;
        self.app.races().await.remove(0)
    }
}

// B098
#[tokio::test]
async fn b_wins_and_the_answer_of_a_arrives_last_and_loses_although_a_was_primary() {
    let duel = Duel::start("").await;
    duel.b.next(Reply::answer_of("of B", 7, 2));
    duel.app.clear(&duel.attempt_of_a, "release").await.expect(200);
    duel.client.job_in_state(&duel.job, "succeeded").await;
    duel.assert_won_by("of B").await;
    duel.a.release();
    let job = duel.client.attempt_in_state(&duel.job, 1, "superseded").await;
    let race = duel.the_race().await;
    assert_eq!(race["job"].as_str(), Some(&*duel.job));
    assert_eq!(race["attempt"].as_str(), Some(&*duel.attempt_of_a));
    assert_eq!(race["winner"], job["attempts"][1]["id"]);
    assert_eq!(race["usage"]["input_tokens"], 40);
    assert_eq!(race["body_sha256"].as_str(), Some(&*sha256(OF_A.as_bytes())), "of the bytes that were thrown away");
    // Both have cost something: each attempt has its own figures.
    assert_eq!(job["attempts"][0]["usage"]["output_tokens"], 10);
    assert_eq!(job["attempts"][1]["usage"]["output_tokens"], 2);
    assert_eq!(job, duel.assert_won_by("of B").await, "nothing has changed");
    assert_eq!((duel.a.count(), duel.b.count()), (1, 1));
}

#[tokio::test]
async fn a_released_attempt_that_returns_first_wins_and_the_other_loses() {
    let duel = Duel::start("").await;
    duel.b.next(Reply::answer_of("of B", 7, 2).held());
    duel.app.clear(&duel.attempt_of_a, "release").await.expect(200);
    duel.b.wait_for_calls(1).await;
    duel.a.release();
    duel.client.job_in_state(&duel.job, "succeeded").await;
    let job = duel.assert_won_by("of A").await;
    assert_eq!(job["attempts"][0]["state"], "succeeded");
    assert_eq!(job["attempts"][1]["state"], "released");
    assert_eq!(job["attempts"][1]["cleared_by"], format!("winner:{}", duel.attempt_of_a));
    duel.b.release();
    let job = duel.client.attempt_in_state(&duel.job, 2, "superseded").await;
    let race = duel.the_race().await;
    assert_eq!((&race["attempt"], &race["winner"]), (&job["attempts"][1]["id"], &job["attempts"][0]["id"]));
    assert_eq!(race["usage"]["input_tokens"], 7);
    duel.assert_won_by("of A").await;
}

#[tokio::test]
async fn a_cancelled_attempt_never_wins_even_if_it_returns_first() {
    let duel = Duel::start("").await;
    duel.b.next(Reply::answer("of B").held());
    duel.app.clear(&duel.attempt_of_a, "cancel").await.expect(200);
    duel.b.wait_for_calls(1).await;
    duel.a.release();
    let race = duel.the_race().await;
    assert_eq!(race["attempt"].as_str(), Some(&*duel.attempt_of_a));
    assert_eq!(race["winner"], Value::Null, "nobody had won: it was fenced");
    let job = duel.client.job(&duel.job).await;
    assert_eq!((&job["state"], &job["attempts"][0]["state"]), (&"running".into(), &"cancelled".into()));
    duel.client.result(&duel.job).await.expect(409);
    duel.b.release();
    duel.client.job_in_state(&duel.job, "succeeded").await;
    let job = duel.assert_won_by("of B").await;
    assert_eq!(job["attempts"][0]["state"], "cancelled");
}

#[tokio::test]
async fn an_attempt_that_an_operator_failed_never_wins() {
    let duel = Duel::start("").await;
    duel.b.next(Reply::answer("of B").held());
    duel.app.clear(&duel.attempt_of_a, "fail").await.expect(200);
    duel.b.wait_for_calls(1).await;
    duel.a.release();
    assert_eq!(duel.the_race().await["attempt"].as_str(), Some(&*duel.attempt_of_a));
    duel.b.release();
    duel.client.job_in_state(&duel.job, "succeeded").await;
    assert_eq!(duel.assert_won_by("of B").await["attempts"][0]["state"], "failed");
}

#[tokio::test]
async fn a_released_attempt_that_fails_late_leaves_the_other_alone() {
    let (a, b) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    a.next(Reply::overloaded().held());
    b.next(Reply::answer("of B").held());
    let app = App::start(&Settings::two(&a, &b, "attempt_timeout = \"400ms\"")).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    app.clear(&unknown.attempt_id(), "release").await.expect(200);
    b.wait_for_calls(1).await;
    a.release();
    let job = client.attempt_in_state(&unknown.job_id(), 1, "failed").await;
    assert_eq!(job["state"], "running", "B is still asked");
    b.release();
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "of B");
    assert_eq!((a.count(), b.count()), (1, 1));
}

// One gateway listens to A, another carries the job on: the guards are in the database, not in a process.
#[tokio::test]
async fn the_late_answer_loses_at_another_gateway_too() {
    let duel = Duel::start("").await;
    let settings = Settings::two(&duel.a, &duel.b, "attempt_timeout = \"400ms\"");
    let other = App::beside(&duel.app, &settings).await;
    duel.b.next(Reply::answer("of B"));
    other.clear(&duel.attempt_of_a, "release").await.expect(200);
    let there = duel.client.at(other.application);
    there.job_in_state(&duel.job, "succeeded").await;
    duel.a.release();
    duel.client.attempt_in_state(&duel.job, 1, "superseded").await;
    duel.assert_won_by("of B").await;
    assert_eq!(there.chat("k", &ask("hi")).await.expect(200).content(), "of B");
    assert_eq!((duel.a.count(), duel.b.count()), (1, 1));
    duel.the_race().await;
}

// Both at the same instant, again and again: exactly one wins, and the other is on record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_answers_at_the_same_instant_exactly_one_wins() {
    const ROUNDS: usize = 12;
    let (a, b) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    a.always(Reply::answer("of A").held());
    b.always(Reply::answer("of B").held());
    let lines = "attempt_timeout = \"300ms\"\non_unknown = \"fail_over\"";
    let app = App::start(&Settings::two(&a, &b, lines)).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let mut jobs = Vec::new();
    for n in 0..ROUNDS {
        jobs.push(client.create_job(&format!("k{n}"), &ask("hi")).await.expect(201).job_id());
    }
    b.wait_for_calls(ROUNDS).await;
    a.release();
    b.release();
    for job in &jobs {
        let job = client
            .job_where(job, "settled", |job| {
                let states = [&job["attempts"][0]["state"], &job["attempts"][1]["state"]];
                states.contains(&&"succeeded".into()) && states.contains(&&"superseded".into())
            })
            .await;
        let winner = if job["attempts"][0]["state"] == "succeeded" { "of A" } else { "of B" };
        assert_eq!(client.result(job["id"].as_str().expect("an id")).await.expect(200).content(), winner);
    }
    eventually("every race is logged", async || app.races().await.len() == ROUNDS).await;
    assert_eq!((a.count(), b.count()), (ROUNDS, ROUNDS));
}

// A route that declares its work free of side effects: nobody has to get up at night.
#[tokio::test]
async fn the_routes_policy_releases_the_silent_attempt_and_the_first_call_is_answered() {
    let (a, b) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    a.next(Reply::whole(200, "application/json", OF_A).held());
    b.next(Reply::answer("of B"));
    let lines = "attempt_timeout = \"300ms\"\non_unknown = \"fail_over\"";
    let app = App::start(&Settings::two(&a, &b, lines)).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((answer.content().as_str(), answer.header("x-interlock-attempts")), ("of B", Some("2")));
    let job = client.job(&answer.job_id()).await;
    assert_eq!(job["attempts"][0]["state"], "released");
    assert_eq!(job["attempts"][0]["cleared_by"], "policy:support");
    a.release();
    client.attempt_in_state(&answer.job_id(), 1, "superseded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).body, answer.body);
    assert_eq!(app.database.count("SELECT count(*) FROM races").await, 1);
}

#[tokio::test]
async fn the_policy_releases_nothing_where_no_permitted_target_is_left() {
    let (a, b) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    a.next(Reply::answer("of A").held());
    let lines = "attempt_timeout = \"300ms\"\non_unknown = \"fail_over\"";
    let app = App::start(&Settings::two(&a, &b, lines)).await;
    let client = app.client("acme").await;
    let unknown = client.chat("k", &ask("hi")).await.expect(504);
    assert_eq!(client.job(&unknown.job_id()).await["attempts"][0]["state"], "unknown", "it still blocks");
    a.release();
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    assert_eq!(b.count(), 0);
}

#[tokio::test]
async fn a_silent_target_is_not_asked_twice_and_may_still_win() {
    let (a, b) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    a.next(Reply::answer("of A").held());
    b.always(Reply::overloaded());
    let lines = "attempt_timeout = \"300ms\"\non_unknown = \"fail_over\"";
    let app = App::start(&Settings::two(&a, &b, lines)).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let failed = client.chat("k", &ask("hi")).await.expect(503);
    assert_eq!(failed.code(), "all_targets_failed");
    client.chat("k", &ask("hi")).await.expect(503);
    assert_eq!((a.count(), b.count()), (1, 2), "the next round leaves the silent one alone");
    a.release();
    client.job_in_state(&failed.job_id(), "succeeded").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "of A");
    assert_eq!(a.count(), 1);
    let waited = client.job(&failed.job_id()).await;
    assert_eq!(waited["attempts"][0]["state"], "succeeded");
}
