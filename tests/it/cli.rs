//! Every command as a person or a script runs it: what it prints, and its exit status (0 done, 1 the answer is no,
//! 2 usage or set-up).

mod contracts;
mod permits;
mod schema;
mod suites;

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::command::Workplace;
use crate::support::app::App;
use crate::support::client::Client;
use crate::support::cluster::Database;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{PATIENCE, ask, within};

/// Settings that name this database, and nobody's provider.
fn on(database: &Database, more: &str) -> Workplace {
    Workplace::new(&format!("[database]\nurl = \"{}\"\nmax_connections = 2\n{more}", database.url))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_made_shown_once_listed_without_its_secret_and_refused_once_revoked() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let cli = on(&app.database, "");
    let made = cli.run(&["key", "create", "--owner", "acme", "--json"]).expect(0).json();
    assert_eq!(made.as_object().expect("an object").keys().collect::<Vec<_>>(), ["id", "key", "owner"]);
    let (id, key) = (text(&made["id"]), text(&made["key"]));
    assert!(key.starts_with("ilk_") && made["owner"] == "acme" && Uuid::parse_str(&id).is_ok(), "{made}");
    let client = Client { address: app.application, token: key.clone() };
    client.chat("k1", &ask("hi")).await.expect(200);
    let listed = cli.run(&["key", "list", "--json"]).expect(0);
    assert!(!listed.stdout.contains(&key) && !listed.stdout.contains(key.rsplit('_').nth(1).expect("a secret")));
    let entry = listed.json()[0].clone();
    assert!(entry["id"] == id && entry["owner"] == "acme" && entry["revoked_at"].is_null(), "{entry}");
    cli.run(&["key", "revoke", &id]).expect(0);
    // The gateway knows keys in use from memory, for a few seconds.
    within(PATIENCE, async || (client.get("/v1/models").await.status == 401).then_some(()))
        .await
        .expect("it is refused");
    assert_eq!(client.chat("k2", &ask("hi")).await.expect(401).code(), "invalid_api_key");
    cli.run(&["key", "revoke", &id, "--json"]).expect(1).says(&["there is no live key", &id]);
    assert!(cli.run(&["key", "list", "--json"]).expect(0).json()[0]["revoked_at"].is_string());
    assert_eq!(alpha.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_s_own_word_on_missing_idempotency_keys_counts() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let made = on(&app.database, "")
        .run(&["key", "create", "--owner", "acme", "--idempotency", "generate", "--json"])
        .expect(0)
        .json();
    let client = Client { address: app.application, token: text(&made["key"]) };
    let answer = client.post("/v1/chat/completions", &ask("hi")).await.expect(200);
    assert!(answer.header("idempotency-key").is_some_and(|key| key.starts_with("gw_")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_s_name_is_checked() {
    let database = Database::fresh().await;
    let cli = on(&database, "");
    for name in ["", "  ", "a\nb", &"x".repeat(201)] {
        cli.run(&["key", "create", "--owner", name]).expect(2).says(&["--owner", "1 to 200 bytes"]);
    }
    assert_eq!(database.count("SELECT count(*) FROM owners").await, 0, "nothing half written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_listed_shown_and_cancelled_once() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let job = client.create_job("k", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(1).await;
    let cli = on(&app.database, "");
    for arguments in
        [&["job", "list", "--json"][..], &["job", "list", "--state", "running", "--owner", "acme", "--json"]]
    {
        let listed = cli.run(arguments).expect(0).json();
        assert_eq!((listed[0]["id"].as_str(), listed[0]["state"].as_str()), (Some(job.as_str()), Some("running")));
    }
    assert_eq!(cli.run(&["job", "list", "--state", "failed", "--json"]).expect(0).json(), serde_json::json!([]));
    cli.run(&["job", "list", "--owner", "nobody"]).expect(1).says(&["there is no owner `nobody`"]);
    let shown = cli.run(&["job", "show", &job, "--json"]).expect(0).json();
    assert_eq!(shown["attempts"][0]["state"], "started");
    cli.run(&["job", "show", &job]).expect(0).says(&["on route `support`: running", "alpha", "m1"]);
    cli.run(&["job", "show", &Uuid::now_v7().to_string()]).expect(1).says(&["there is no job"]);
    cli.run(&["job", "show", "not-a-uuid"]).expect(2).says(&["not-a-uuid"]);
    cli.run(&["job", "cancel", &job, "--reason", " "]).expect(2).says(&["--reason"]);
    let cancelled =
        cli.run(&["job", "cancel", &job, "--reason", "a mistake", "--by", "ann", "--json"]).expect(0).json();
    assert_eq!((&cancelled["state"], &cancelled["attempts"][0]["state"]), (&"cancelled".into(), &"cancelled".into()));
    let again = cli.run(&["job", "cancel", &job, "--reason", "again", "--json"]).expect(1).json();
    assert_eq!(again["error"]["code"], "job_over");
    let deeds: String = app
        .database
        .value("SELECT string_agg(actor || ' ' || action || ' ' || reason, ';') FROM operator_actions")
        .await;
    assert_eq!(deeds, "ann job.cancel a mistake", "the refused one left no trace");
    alpha.release();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_none_is_told_from_an_empty_list() {
    let database = Database::fresh().await;
    on(&database, "").run(&["job", "list", "--state", "runing"]).expect(2).says(&["runing", "running", "unknown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_unknown_attempt_can_be_cleared() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, "").route(
        "quick",
        &["alpha/m1"],
        "attempt_timeout = \"200ms\"\nmax_attempts = 1",
    ))
    .await;
    let client = app.client("acme").await;
    let cli = on(&app.database, "");
    let running = client.create_job("k1", &ask("hi")).await.expect(201).job_id();
    alpha.wait_for_calls(1).await;
    let started = text(&client.job(&running).await["attempts"][0]["id"]);
    let refused = cli.run(&["attempt", "release", &started, "--reason", "impatience", "--json"]).expect(1).json();
    assert_eq!(refused["error"]["code"], "attempt_not_unknown");
    cli.run(&["attempt", "release", &started, "--reason", "impatience"])
        .expect(1)
        .says(&[&started, "is started; only an unknown attempt"]);
    cli.run(&["attempt", "cancel", &Uuid::now_v7().to_string(), "--reason", "x"])
        .expect(1)
        .says(&["there is no attempt"]);
    cli.run(&["attempt", "fail", &started]).expect(2).says(&["--reason"]);
    let mut body = ask("hi");
    body["model"] = "quick".into();
    let silent = client.create_job("k2", &body).await.expect(201).job_id();
    let unknown = text(&client.attempt_in_state(&silent, 1, "unknown").await["attempts"][0]["id"]);
    let cleared = cli
        .run(&["attempt", "cancel", &unknown, "--reason", "the provider's log", "--by", "ann", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&cleared["attempts"][0]["state"], &cleared["attempts"][0]["cleared_by"]),
        (&"cancelled".into(), &"operator:ann".into())
    );
    assert_eq!(
        cli.run(&["attempt", "cancel", &unknown, "--reason", "again", "--json"]).expect(1).json()["error"]["code"],
        "attempt_not_unknown"
    );
    // Its one attempt is used up: the job fails, in whichever process looks at it.
    client.job_in_state(&silent, "failed").await;
    alpha.release();
    client.job_in_state(&running, "succeeded").await;
}

#[test]
fn a_provider_that_nobody_answers_for_fails_the_check() {
    let cli = Workplace::new("[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let checked = cli.run(&["provider", "check", "--json"]).expect(1).json();
    assert_eq!((&checked[0]["name"], &checked[0]["reachable"]), (&"alpha".into(), &false.into()));
    assert!(text(&checked[0]["detail"]).contains("connect_refused"), "{checked}");
    let listed = cli.run(&["provider", "list", "--json"]).expect(0).json();
    assert_eq!((&listed[0]["adapter"], &listed[0]["base_url"]), (&"openai".into(), &"http://127.0.0.1:1/v1".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_answers_anything_passes_the_check_and_is_asked_for_no_work() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::error(404, "not_found", "no such page"));
    let cli =
        Workplace::new(&format!("[providers.alpha]\nadapter = \"openai\"\nbase_url = \"{}\"\n", alpha.base_url()));
    assert_eq!(cli.run(&["provider", "check", "--json"]).expect(0).json()[0]["reachable"], true);
    assert!(alpha.calls().iter().all(|call| !call.path.contains("completions")));
}

#[test]
fn usage_errors_say_what_is_meant_and_exit_with_two() {
    let cli = Workplace::new("");
    let id = Uuid::now_v7().to_string();
    let wrong: [&[&str]; 12] = [
        &[],
        &["nonsense"],
        &["serve", "--port", "1"],
        &["config"],
        &["key", "create"],
        &["key", "create", "--owner", "a", "--idempotency", "maybe"],
        &["key", "revoke", "x"],
        &["contract", "run", "support-triage"],
        &["contract", "run", "support-triage", "--target", "a/b", "--live", "--replay"],
        &["permit", "grant", "--route", "r", "--run", &id],
        &["permit", "grant", "--route", "r", "--run", "x", "--reason", "y"],
        &["attempt", "release", &id],
    ];
    for arguments in wrong {
        let ran = cli.run(arguments).expect(2);
        assert!(ran.stderr.contains("Usage") || ran.stderr.contains("--help"), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
    cli.run(&["--help"]).expect(0).says(&["Usage", "contract", "permit"]);
    cli.run(&["--version"]).expect(0).says(&["interlock "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_named_and_its_password_is_not() {
    let cli = Workplace::new("[database]\nurl = \"postgres://user:CANARY@127.0.0.1:1/none\"\n");
    for arguments in [&["serve"][..], &["key", "list"]] {
        let ran = cli.run(arguments).expect(2).says(&["the database does not answer"]);
        assert!(!ran.stderr.contains("CANARY"), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_found_before_anything_starts_and_its_setting_is_named() {
    let database: Arc<Database> = Database::fresh().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    for (setting, other) in [("listen", "operator_listen"), ("operator_listen", "listen")] {
        let cli = on(&database, &format!("[server]\n{setting} = \"{address}\"\n{other} = \"127.0.0.1:0\"\n"));
        cli.run(&["serve"]).expect(2).says(&[
            &format!("server.{setting}"),
            &address.to_string(),
            "cannot be listened on",
        ]);
    }
    assert_eq!(database.count("SELECT count(*) FROM instances").await, 0);
}
