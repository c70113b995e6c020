//! Owners' own servers are told that a job is over: signed, at least once, for a day, and never inside our own network.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::command::Workplace;
use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream, Seen};
use crate::support::{ask, eventually};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A provider, a receiver, and what a gateway needs to know of both.
struct Stage {
    alpha: ScriptedUpstream,
    receiver: ScriptedUpstream,
    settings: Settings,
    _folder: TempDir,
}

impl Stage {
    async fn set(lines: &str) -> Stage {
        let (alpha, receiver) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
        let folder = TempDir::new().expect("a folder for the secret");
        let secret = folder.path().join("callbacks");
        std::fs::write(&secret, SECRET).expect("the secret is written");
        let callbacks = format!("[callbacks]\nsecret = \"file:{}\"\n{lines}", secret.display());
        let settings = Settings::one(&alpha, "").raw(&callbacks);
        Stage { alpha, receiver, settings, _folder: folder }
    }

    /// With a receiver on loopback, which has to be allowed.
    async fn private() -> Stage {
        Stage::set("allow_private = true").await
    }

    fn url(&self) -> String {
        format!("{}/hook?token=CANARY", self.receiver.base_url())
    }

    async fn open(&self) -> (App, Client) {
        let app = App::start(&self.settings).await;
        let client = app.client("acme").await;
        (app, client)
    }
}

async fn order(client: &Client, key: &str, callback: &Value) -> Answer {
    let order = json!({ "url": "/v1/chat/completions", "body": ask("hi"), "callback": callback });
    client.request(http::Method::POST, "/v1/jobs").key(key).json(&order).send().await
}

/// The job's id.
async fn ordered(client: &Client, key: &str, callback: &str) -> String {
    order(client, key, &json!(callback)).await.expect(201).job_id()
}

async fn callback_in_state(client: &Client, id: &str, state: &str) -> Value {
    client.job_where(id, state, |job| job["callback"]["state"] == state).await["callback"].clone()
}

/// As a receiver does it, by the standard and not by our code.
#[track_caller]
fn assert_signed(notice: &Seen) {
    let header = |name: &str| notice.header(name).unwrap_or_else(|| panic!("no {name}: {notice:?}"));
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).expect("base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
    mac.update(format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), notice.body).as_bytes());
    assert_eq!(header("webhook-signature"), format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())));
    let sent: u64 = header("webhook-timestamp").parse().expect("seconds");
    let now = std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_secs();
    assert!(now.abs_diff(sent) < 120, "{sent} is not about {now}");
}

/// The wait after a miss, over.
async fn make_due(database: &Database) {
    eventually("the miss is noted", async || {
        database.execute("UPDATE callbacks SET next_at = now() WHERE last_error IS NOT NULL AND next_at > now()").await
            > 0
    })
    .await;
}

async fn due_after(database: &Database, seconds: u32) -> bool {
    database.count(format!("SELECT count(*) FROM callbacks WHERE next_at > now() + interval '{seconds} s'")).await == 1
}

#[tokio::test]
async fn a_finished_job_is_told_once_and_the_signature_verifies() {
    let stage = Stage::private().await;
    let (app, client) = stage.open().await;
    let id = ordered(&client, "k", &stage.url()).await;
    let delivered = callback_in_state(&client, &id, "delivered").await;
    assert_eq!(delivered, json!({ "state": "delivered", "attempts": 1 }));
    let notice = stage.receiver.calls().remove(0);
    assert_signed(&notice);
    assert_eq!(notice.path, "/v1/hook?token=CANARY");
    assert_eq!(notice.header("content-type"), Some("application/json"));
    assert_eq!(notice.header("webhook-id"), Some(&*format!("job_{id}")));
    let said = notice.json();
    assert_eq!(said["type"], "job.succeeded");
    let data =
        json!({ "id": id, "object": "job", "state": "succeeded", "url": "/v1/chat/completions", "route": "support" });
    assert_eq!(said["data"], data);
    assert!(!notice.body.contains("choices"), "the answer is fetched, not sent");
    // The order again, and a look later: still one notice.
    assert!(order(&client, "k", &json!(stage.url())).await.expect(201).is_replayed());
    order(&client, "k", &json!(format!("{}&x", stage.url()))).await.expect(409);
    let other = client.create_job("other", &ask("hi")).await.expect(201).job_id();
    assert_eq!(client.job_in_state(&other, "succeeded").await["callback"], Value::Null);
    assert_eq!((stage.receiver.count(), app.database.count("SELECT count(*) FROM callbacks").await), (1, 1));
}

#[tokio::test]
async fn a_notice_is_sent_again_after_an_error_and_after_a_reset_until_it_is_taken() {
    let stage = Stage::private().await;
    stage.receiver.next(Reply::error(500, "server_error", "CANARY"));
    stage.receiver.next(Reply::reset());
    let (app, client) = stage.open().await;
    let id = ordered(&client, "k", &stage.url()).await;
    client.job_where(&id, "missed", |job| job["callback"]["last_error"] == "the receiver answered 500").await;
    assert!(due_after(&app.database, 2).await && !due_after(&app.database, 6).await, "5 s, less up to a quarter");
    make_due(&app.database).await;
    let missed = client
        .job_where(&id, "missed", |job| job["callback"]["last_error"].as_str().is_some_and(|e| e.contains("broke")))
        .await;
    assert_eq!((&missed["callback"]["attempts"], &missed["callback"]["state"]), (&json!(2), &json!("pending")));
    make_due(&app.database).await;
    assert_eq!(callback_in_state(&client, &id, "delivered").await, json!({ "state": "delivered", "attempts": 3 }));
    let tries = stage.receiver.calls();
    assert_eq!(tries.len(), 3);
    for tried in &tries {
        assert_signed(tried);
        assert_eq!((tried.header("webhook-id"), &tried.body), (tries[0].header("webhook-id"), &tries[0].body));
    }
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_gets_it() {
    let stage = Stage::private().await;
    stage.receiver.next(Reply::error(503, "busy", "busy").header("retry-after", "120"));
    let (app, client) = stage.open().await;
    let id = ordered(&client, "k", &stage.url()).await;
    client.job_where(&id, "missed", |job| job["callback"]["last_error"] != Value::Null).await;
    assert!(due_after(&app.database, 100).await);
}

/// The receiver has it, the gateway dies before it learns so: told again, by whoever lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_survives_the_gateway_that_was_sending_it() {
    let stage = Stage::private().await;
    stage.receiver.next(Reply::answer("never heard").held());
    let database = Database::fresh().await;
    let mut victim = Process::spawn(&database, &stage.settings).await;
    let client = victim.client("acme").await;
    let id = ordered(&client, "k", &stage.url()).await;
    stage.receiver.wait_for_calls(1).await;
    victim.kill().await;
    let survivor = App::on(&database, &stage.settings).await;
    // As if the lease of that try had ended by now.
    assert_eq!(database.execute("UPDATE callbacks SET next_at = now() WHERE state = 'pending'").await, 1);
    let client = client.at(survivor.application);
    assert_eq!(callback_in_state(&client, &id, "delivered").await["attempts"], 2);
    let tries = stage.receiver.calls();
    assert_eq!((tries.len(), tries[0].header("webhook-id")), (2, tries[1].header("webhook-id")));
    let log = victim.log();
    for secret in [&SECRET[6..], "CANARY", &stage.url()] {
        assert!(!log.contains(secret), "{secret} stands in the log:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_seldom_tell_twice() {
    let stage = Stage::private().await;
    let (app, client) = stage.open().await;
    let _other = App::beside(&app, &stage.settings).await;
    for n in 0..30 {
        ordered(&client, &format!("k{n}"), &stage.url()).await;
    }
    eventually("all are delivered", async || {
        app.database.count("SELECT count(*) FROM callbacks WHERE state = 'delivered' AND attempts = 1").await == 30
    })
    .await;
    assert_eq!(stage.receiver.count(), 30);
}

#[tokio::test]
async fn failed_and_cancelled_jobs_are_told_too() {
    let stage = Stage::private().await;
    let (_app, client) = stage.open().await;
    stage.alpha.next(Reply::bad_request());
    let failed = ordered(&client, "failed", &stage.url()).await;
    callback_in_state(&client, &failed, "delivered").await;
    stage.alpha.next(Reply::answer("late").held());
    let cancelled = ordered(&client, "cancelled", &stage.url()).await;
    stage.alpha.wait_for_calls(2).await;
    assert_eq!(client.job(&cancelled).await["callback"], json!({ "state": "pending", "attempts": 0 }));
    client.cancel(&cancelled).await.expect(200);
    callback_in_state(&client, &cancelled, "delivered").await;
    stage.alpha.release();
    let said: Vec<Value> = stage.receiver.calls().iter().map(Seen::json).collect();
    assert_eq!((&said[0]["type"], &said[0]["data"]["id"]), (&json!("job.failed"), &json!(failed)));
    assert_eq!((&said[1]["type"], &said[1]["data"]["id"]), (&json!("job.cancelled"), &json!(cancelled)));
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_given_up_at_once_and_a_silent_one_after_a_day() {
    let stage = Stage::private().await;
    stage.receiver.next(Reply::whole(410, "text/plain", "gone"));
    let (app, client) = stage.open().await;
    let id = ordered(&client, "k", &stage.url()).await;
    let gone = callback_in_state(&client, &id, "given_up").await;
    assert_eq!(gone, json!({ "state": "given_up", "attempts": 1, "last_error": "the receiver answered 410" }));
    stage.receiver.always(Reply::html(503));
    let id = ordered(&client, "k2", &stage.url()).await;
    client.job_where(&id, "missed", |job| job["callback"]["last_error"] != Value::Null).await;
    app.database.execute("UPDATE jobs SET closed_at = closed_at - interval '25 hours'").await;
    make_due(&app.database).await;
    assert_eq!(callback_in_state(&client, &id, "given_up").await["attempts"], 2);
    // Long after the end the address is forgotten, as payloads are.
    app.database.execute("UPDATE callbacks SET ended_at = now() - interval '91 days'").await;
    let _other = App::beside(&app, &stage.settings).await;
    eventually("callbacks are erased", async || app.database.count("SELECT count(*) FROM callbacks").await == 0).await;
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other_that_is_no_yes() {
    let stage = Stage::private().await;
    let elsewhere = ScriptedUpstream::start().await;
    stage.receiver.next(Reply::error(307, "moved", "moved").header("location", &elsewhere.base_url()));
    let (_app, client) = stage.open().await;
    let id = ordered(&client, "k", &stage.url()).await;
    client.job_where(&id, "missed", |job| job["callback"]["last_error"] == "the receiver answered 307").await;
    assert_eq!((elsewhere.count(), stage.receiver.count()), (0, 1));
}

#[tokio::test]
async fn addresses_of_our_own_network_are_refused_when_the_job_is_made() {
    let stage = Stage::set("").await;
    let (app, client) = stage.open().await;
    for url in [
        "https://127.0.0.1/h",
        "https://[::1]/h",
        "https://10.1.2.3/h",
        "https://2130706433/h",
        "https://[::ffff:169.254.169.254]/",
    ] {
        let refused = order(&client, "k", &json!(url)).await.expect(400);
        assert_eq!(refused.json()["param"], "callback", "{url}");
        assert!(refused.text().contains("private or reserved"), "{url}: {}", refused.text());
    }
    for (url, why) in [
        (json!("http://example.com/"), "https://"),
        (json!("https://u:CANARY@example.com/"), "user or a password"),
        (json!("example.com"), "is no address"),
        (json!(7), "as text"),
    ] {
        let refused = order(&client, "k", &url).await.expect(400);
        assert_eq!(refused.json()["param"], "callback", "{url}");
        assert!(refused.text().contains(why) && !refused.text().contains("CANARY"), "{url}: {}", refused.text());
    }
    assert_eq!(app.database.count("SELECT count(*) FROM jobs").await, 0);
}

#[tokio::test]
async fn a_name_that_leads_into_our_own_network_is_refused_when_it_is_called() {
    let stage = Stage::set("").await;
    let (_app, client) = stage.open().await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let id = ordered(&client, "k", &format!("https://localhost:{port}/hook")).await;
    let private =
        |job: &Value| job["callback"]["last_error"].as_str().is_some_and(|e| e.contains("private or reserved"));
    client.job_where(&id, "missed", private).await;
    let connected = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(connected.is_err(), "somebody has connected: {connected:?}");
}

#[tokio::test]
async fn without_a_secret_a_job_with_a_callback_is_refused_and_others_are_not() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let refused = order(&client, "k", &json!("https://example.com/hook")).await.expect(400);
    assert_eq!(refused.json()["param"], "callback");
    assert!(refused.text().contains("callbacks.secret"), "{}", refused.text());
    let id = order(&client, "k", &Value::Null).await.expect(201).job_id();
    assert_eq!(client.job_in_state(&id, "succeeded").await["callback"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_server_is_silent_holds_up_nobody_else() {
    let stage = Stage::private().await;
    let silent = ScriptedUpstream::start().await;
    silent.always(Reply::answer("late").held());
    let (app, client) = stage.open().await;
    for n in 0..24 {
        ordered(&client, &format!("k{n}"), &format!("{}/hook", silent.base_url())).await;
    }
    silent.wait_for_calls(8).await;
    let other = app.client("other").await;
    let id = ordered(&other, "k", &stage.url()).await;
    callback_in_state(&other, &id, "delivered").await;
    assert!(silent.count() < 24, "a share of the tries, not all of them");
}

#[test]
fn a_signing_secret_is_one_of_the_standards_form() {
    let settings = "[callbacks]\nsecret = \"env:HOOKS\"\n";
    for (secret, words) in [
        ("", "is empty"),
        ("whsec_", "whsec_ and 24 to 64 bytes"),
        ("whsec_c2hvcnQ=", "openssl rand"),
        ("CANARY-CANARY-CANARY-CANARY", "openssl rand"),
    ] {
        let ran = Workplace::new(settings)
            .with("HOOKS", secret)
            .run(&["config", "check"])
            .expect(2)
            .says(&["callbacks.secret", words]);
        assert!(!ran.stderr.contains("CANARY"), "{}", ran.stderr);
    }
    Workplace::new(settings).with("HOOKS", SECRET).run(&["config", "check"]).expect(0);
    Workplace::new(settings).run(&["config", "check"]).expect(2).says(&["callbacks.secret", "HOOKS is not set"]);
    Workplace::new(&settings.replace("env:HOOKS", SECRET))
        .run(&["config", "check"])
        .expect(2)
        .says(&["callbacks.secret", "env:NAME"]);
}
