//! R12: secrets, prompts and answers appear in no log, error, metric or row that is not theirs (B137, B139). Asked of
//! the real binary with everything logged that can be.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::support::app::make_key;
use crate::support::client::{Answer, Client};
use crate::support::cluster::Database;
use crate::support::settings::{OPERATOR_TOKEN, Settings};
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};
use crate::support::{ask, nobody_listens};

const PROVIDER_KEY: &str = "sk-CANARY-PROVIDER-0123456789";
const WRONG_KEY: &str = "sk-live-CANARY-WRONG";
const PROMPT: &str = "CANARY-PROMPT";
const OUTPUT: &str = "CANARY-OUTPUT";

/// Everything that is kept but the payloads.
const ROWS: &str = "SELECT string_agg(row::text, ' ') FROM (
    SELECT row_to_json(a) AS row FROM attempts a UNION ALL SELECT row_to_json(j) FROM jobs j
    UNION ALL SELECT row_to_json(r) FROM races r UNION ALL SELECT row_to_json(k) FROM api_keys k) x";

/// Every way in which a provider has been seen to repeat a key.
fn echoes() -> Vec<Reply> {
    let body = format!(
        r#"{{"error":{{"message":"Incorrect API key provided: {PROVIDER_KEY}","type":"{PROVIDER_KEY}","code":"{PROVIDER_KEY}","param":"{PROVIDER_KEY}"}}}}"#
    );
    vec![
        Reply::whole(401, "application/json", &body),
        Reply::whole(400, "application/json", &body),
        Reply::whole(500, "text/html", &format!("<html>{PROVIDER_KEY}</html>")),
        Reply::whole(200, "application/json", &format!(r#"{{"choices":"{PROVIDER_KEY}"}}"#)),
        Reply::whole(200, "application/json", PROVIDER_KEY),
        Reply::pieces(vec![Piece::Bytes(
            format!("HTTP/1.1 302 Found\r\nlocation: http://x/?key={PROVIDER_KEY}\r\ncontent-length: 0\r\n\r\n")
                .into_bytes(),
        )]),
        Reply::pieces(vec![Piece::Bytes(format!("{PROVIDER_KEY} is no HTTP\r\n\r\n").into_bytes())]),
    ]
}

#[tokio::test]
async fn no_secret_prompt_or_answer_is_logged_told_counted_or_filed() {
    let database = Database::fresh().await;
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    let key = "api_key = \"env:CANARY_KEY\"";
    let mut settings = Settings::new()
        .provider("alpha", "openai", &alpha.base_url(), key)
        .provider("closed", "openai", &nobody_listens().await, key)
        .provider("beta", "openai", &beta.base_url(), key)
        .route("sound", &["beta/m1"], "")
        .route("closed", &["closed/m1"], "max_attempts = 1");
    for n in 0..echoes().len() {
        settings = settings.route(&format!("echo-{n}"), &[&format!("alpha/m{n}")], "max_attempts = 1");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (config, log) = (folder.path().join("interlock.toml"), folder.path().join("log"));
    std::fs::write(&config, settings.to_toml(folder.path(), &database.url)).expect("settings");
    let (mut child, application, operator) = serve_with_everything_logged(&config, &log).await;
    let store = interlock::store::Store::connect(&providers::adapter::Secret::new(database.url.clone()), 1)
        .await
        .expect("the database");
    let client = Client { address: application, token: make_key(&store, "acme", None).await };
    let operator = Client { address: operator, token: OPERATOR_TOKEN.to_owned() };

    let mut told = misfortunes(&client, &alpha).await;
    beta.always(Reply::answer(OUTPUT));
    assert_eq!(client.chat("sound", &prompt("sound")).await.expect(200).content(), OUTPUT);
    let sent = [alpha.calls(), beta.calls()].concat();
    assert!(sent.iter().all(|call| call.header("authorization") == Some(&format!("Bearer {PROVIDER_KEY}"))));
    for path in ["/v1/jobs", "/metrics"] {
        told.push(client.get(path).await.expect(200));
    }
    for path in ["/admin/v1/jobs", "/admin/v1/races", "/admin/v1/providers", "/metrics"] {
        told.push(operator.get(path).await.expect(200));
    }
    let secret = client.token.rsplit('_').nth(1).expect("a secret").to_owned();
    let said: String = told.iter().map(|answer| format!("{:?}\n{}\n", answer.headers, answer.text())).collect();
    assert_absent("what callers were told", &said, &[PROVIDER_KEY, WRONG_KEY, OPERATOR_TOKEN, &secret, PROMPT, OUTPUT]);
    let rows: String = database.value(ROWS).await;
    assert!(rows.contains("[secret]"), "the echoes were read and masked: {rows}");
    assert_absent("the rows", &rows, &[PROVIDER_KEY, WRONG_KEY, &secret, PROMPT, OUTPUT]);
    child.kill().await.expect("ended");
    let logged = String::from_utf8_lossy(&std::fs::read(&log).expect("the log")).into_owned();
    assert!(logged.contains("TRACE") && logged.contains("attempt failed"), "{} bytes", logged.len());
    assert_absent("the log", &logged, &[PROVIDER_KEY, WRONG_KEY, OPERATOR_TOKEN, &secret, PROMPT, OUTPUT]);
}

fn prompt(route: &str) -> Value {
    let mut body = ask(PROMPT);
    body["model"] = route.into();
    body
}

/// A wrong API key, every echo, a closed port: what the client was told of each.
async fn misfortunes(client: &Client, alpha: &ScriptedUpstream) -> Vec<Answer> {
    let stranger = Client { token: WRONG_KEY.to_owned(), ..client.clone() };
    let mut told = vec![stranger.chat("k", &prompt("sound")).await];
    for (n, reply) in echoes().into_iter().enumerate() {
        alpha.next(reply);
        told.push(client.chat(&format!("k{n}"), &prompt(&format!("echo-{n}"))).await);
    }
    told.push(client.chat("closed", &prompt("closed")).await);
    assert_eq!(alpha.count(), echoes().len(), "each was asked");
    assert!(told.iter().all(|answer| answer.status >= 400), "{told:#?}");
    told
}

/// The gateway's process, and the addresses of its two listeners.
async fn serve_with_everything_logged(config: &Path, log: &Path) -> (Child, SocketAddr, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_interlock"))
        .arg("--config")
        .arg(config)
        .arg("serve")
        .env("INTERLOCK_LOG", "trace")
        .env("CANARY_KEY", PROVIDER_KEY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(log).expect("a log"))
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = async || {
        let line = lines.next_line().await.expect("a line").expect("an address");
        line.split_once("http://").expect("an address").1.parse().expect("an address")
    };
    let addresses: (SocketAddr, SocketAddr) = (next().await, next().await);
    (child, addresses.0, addresses.1)
}

fn assert_absent(place: &str, text: &str, secrets: &[&str]) {
    for secret in secrets {
        let Some(at) = text.find(secret) else { continue };
        let around: String = text[..at].chars().rev().take(600).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("`{secret}` stands in {place}: …{around}[here]");
    }
}
