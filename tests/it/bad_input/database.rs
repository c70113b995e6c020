//! The database away, in each way in which it can be: nothing is promised, nothing is sent, and it all comes back
//! without a restart (B116, B156, B157).

use std::time::{Duration, Instant};

use http::Method;
use interlock::domain::step::overdue;
use tokio::task::JoinSet;

use super::link::{Link, State};
use super::{openai_error, problem};
use crate::support::app::App;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

/// The pool's patience of two seconds for a connection, and a busy machine's.
const QUICKLY: Duration = Duration::from_secs(4);

/// How it looks from outside while the database is away.
async fn away(client: &Client, alpha: &ScriptedUpstream) {
    let sent = alpha.count();
    let anonymous = |path| client.anonymous(Method::GET, path);
    anonymous("/healthz").send().await.expect(200);
    anonymous("/metrics").send().await.expect(200);
    anonymous("/readyz").send().await.expect(503);
    let began = Instant::now();
    let answer = client.chat("k", &ask("hi")).await;
    let message = openai_error(&answer, 503, "store_unavailable");
    assert!(message.contains("nothing was promised") && answer.header("retry-after").is_some(), "{answer:?}");
    assert!(began.elapsed() < QUICKLY, "{:?}", began.elapsed());
    problem(&client.create_job("k2", &ask("hi")).await, 503, "store_unavailable");
    assert_eq!(alpha.count(), sent, "something was sent");
}

async fn back(client: &Client, alpha: &ScriptedUpstream) {
    eventually("ready again", async || client.anonymous(Method::GET, "/readyz").send().await.status == 200).await;
    // Not before the lease is sure again: then the very key that was refused makes its job.
    let served = async || client.chat("k", &ask("hi")).await.status == 200;
    eventually("served again", served).await;
    assert_eq!(alpha.count(), 1, "once");
}

/// The way to the database is in this state for a while, and whole again.
async fn survives(state: State) {
    let link = Link::start().await;
    let alpha = ScriptedUpstream::start().await;
    let app = App::on(&link.database, &Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    link.set(state);
    away(&client, &alpha).await;
    link.set(State::Whole);
    back(&client, &alpha).await;
    app.shut_down().await;
}

#[tokio::test]
async fn a_database_that_hangs_is_answered_with_503_and_comes_back_without_a_restart() {
    survives(State::Frozen).await;
}

#[tokio::test]
async fn a_database_that_is_gone_is_answered_with_503_and_comes_back_without_a_restart() {
    survives(State::Cut).await;
}

#[tokio::test]
async fn a_database_that_lets_nobody_in_is_answered_with_503_and_comes_back_without_a_restart() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let name = &app.database.name;
    let admin = crate::support::cluster::Database {
        name: "postgres".to_owned(),
        url: app.database.url.replacen(name, "postgres", 1),
    };
    let admin = std::mem::ManuallyDrop::new(admin);
    admin.execute(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
    admin.execute(format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")).await;
    away(&client, &alpha).await;
    admin.execute(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    back(&client, &alpha).await;
}

/// B157: an outcome is written again until it is answered.
#[tokio::test]
async fn answers_that_arrive_while_the_database_is_away_are_stored_when_it_is_back() {
    for state in [State::Cut, State::Frozen] {
        let link = Link::start().await;
        let alpha = ScriptedUpstream::start().await;
        alpha.always(Reply::answer("paid for").held());
        let app = App::on(&link.database, &Settings::one(&alpha, "attempt_timeout = \"60s\"")).await;
        let client = app.client("acme").await;
        let mut calls = JoinSet::new();
        for n in 0..20 {
            let client = client.clone();
            calls.spawn(async move { client.chat(&format!("k{n}"), &ask("hi")).await });
        }
        alpha.wait_for_calls(20).await;
        link.set(state);
        alpha.release();
        client.anonymous(Method::GET, "/readyz").send().await.expect(503);
        link.set(State::Whole);
        for answer in calls.join_all().await {
            assert_eq!(answer.expect(200).content(), "paid for", "{state:?}");
        }
        assert_eq!(link.direct.count("SELECT count(*) FROM jobs WHERE state = 'succeeded'").await, 20, "{state:?}");
        assert_eq!(
            (alpha.count(), link.direct.count("SELECT count(*) FROM attempts").await),
            (20, 20),
            "{state:?}: once each"
        );
        app.shut_down().await;
    }
}

#[tokio::test]
async fn jobs_in_flight_survive_that_every_connection_is_terminated() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("ok").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut calls = JoinSet::new();
    for n in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.chat(&format!("k{n}"), &ask("hi")).await });
    }
    alpha.wait_for_calls(20).await;
    app.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").await;
    alpha.release();
    for answer in calls.join_all().await {
        answer.expect(200);
    }
    assert_eq!(alpha.count(), 20);
}

/// Payloads as they are when they have outlived their day, which would otherwise have to be over first.
const OUT_OF_THEIR_DAY: &str = "DO $$ DECLARE payload text; day text; BEGIN
    FOR payload, day IN SELECT inhparent::regclass::text, inhrelid::regclass::text FROM pg_inherits
        WHERE inhparent IN ('job_results'::regclass, 'job_requests'::regclass) AND inhrelid::regclass::text NOT LIKE '%default' LOOP
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', payload, day);
        EXECUTE format('INSERT INTO %I SELECT * FROM %I', payload, day);
        EXECUTE format('DROP TABLE %I', day);
    END LOOP;
    UPDATE job_results SET created_at = now() - interval '91 d';
    UPDATE job_requests SET created_at = now() - interval '91 d';
END $$";

/// B104, B108, through the door: the key is refused, not answered with something else.
#[tokio::test]
async fn a_key_whose_payloads_are_erased_is_answered_with_410_and_never_run_again() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("hi")).await.expect(200).job_id();
    app.database.execute(OUT_OF_THEIR_DAY).await;
    let retention = app.engine.config().retention;
    let removed = app.store().remove_payloads(retention, &overdue()).await.expect("a look");
    assert_eq!(removed.rows, 0, "age counts from the end");
    client.chat("k", &ask("hi")).await.expect(200);
    app.database.execute("UPDATE jobs SET closed_at = now() - interval '91 d'").await;
    // The gateway's own look may be under way: then this one finds nothing to do.
    let gone = async || {
        app.store().remove_payloads(retention, &overdue()).await.expect("erased");
        app.database.count("SELECT count(*) FROM job_requests").await == 0
    };
    eventually("the payloads are erased", gone).await;
    let message = openai_error(&client.chat("k", &ask("hi")).await, 410, "result_erased");
    assert!(message.contains(&job) && message.contains("jobs.retention"), "{message}");
    client.chat("k", &ask("something else")).await.expect(409);
    client.result(&job).await.expect(410);
    assert_eq!(client.job(&job).await["state"], "succeeded");
    assert_eq!(alpha.count(), 1);
}
