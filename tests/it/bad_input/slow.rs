//! Clients that dawdle, or write what is no HTTP: each loses its own connection and nobody else's.

use std::time::{Duration, Instant};

use super::unharmed;
use crate::support::app::App;
use crate::support::client::raw;
use crate::support::settings::Settings;
use crate::support::upstream::ScriptedUpstream;

const SOON: Duration = Duration::from_secs(5);

fn head(token: &str, more: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nidempotency-key: k\r\n{more}"
    )
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_with_408() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "").server("body_timeout = \"300ms\"")).await;
    let client = app.client("acme").await;
    for (announced, sent) in
        [("content-length: 100\r\n", "{\"model\":"), ("transfer-encoding: chunked\r\n", "5\r\n{\"mod\r\n")]
    {
        let began = Instant::now();
        let answer = raw(app.application, (head(&client.token, announced) + "\r\n" + sent).as_bytes()).await;
        assert!(
            answer.starts_with("HTTP/1.1 408")
                && answer.contains("request_timeout")
                && answer.contains("server.body_timeout"),
            "{answer}"
        );
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn a_head_that_does_not_end_loses_its_connection() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "").server("header_timeout = \"300ms\"")).await;
    let client = app.client("acme").await;
    for sent in ["", "POST", "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"] {
        let began = Instant::now();
        let answer = raw(app.application, sent.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(began.elapsed() < SOON, "{sent}: {:?}", began.elapsed());
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn what_is_no_http_is_answered_with_400_or_not_at_all() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "").server("header_timeout = \"1s\"")).await;
    let client = app.client("acme").await;
    let large = format!("x-large: {}\r\n\r\n", "x".repeat(70_000));
    let many = (0..200).map(|n| format!("x-{n}: y\r\n")).collect::<String>() + "\r\n";
    for bytes in [
        "hello\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\0".to_owned(),
        head(&client.token, "content-length: x\r\n\r\n"),
        head(&client.token, "content-length: 2\r\ncontent-length: 3\r\n\r\n{}"),
        head(&client.token, "x-request-id: a\rx-evil: 1\r\n\r\n"),
        head(&client.token, "x-nul: \0\r\n\r\n"),
        head(&client.token, &large),
        head(&client.token, &many),
    ] {
        let answer = raw(app.application, bytes.as_bytes()).await;
        let refused = ["HTTP/1.1 400", "HTTP/1.1 431", "HTTP/1.0 400"].iter().any(|line| answer.starts_with(line));
        assert!(answer.is_empty() || refused, "{:?}: {answer}", &bytes[..bytes.len().min(200)]);
        assert!(!answer.contains("x-evil"), "{answer}");
    }
    unharmed(&app, &client, &alpha).await;
}

/// Smuggling: a length and chunks together are one request or none, never two.
#[tokio::test]
async fn a_request_with_two_lengths_never_becomes_two_requests() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "").server("header_timeout = \"1s\"")).await;
    let client = app.client("acme").await;
    let inner = format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", client.token);
    let bytes = head(&client.token, "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n") + &inner;
    let answer = raw(app.application, bytes.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.matches("HTTP/1.1 200").count() == 0, "{answer}");
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn those_who_wait_for_a_place_get_one_when_another_leaves() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "").server("max_connections = 2\nheader_timeout = \"500ms\"")).await;
    let client = app.client("acme").await;
    let mut idle = Vec::new();
    for _ in 0..2 {
        idle.push(tokio::net::TcpStream::connect(app.application).await.expect("connected"));
    }
    // Both places are taken until the header deadline strikes; then this call is served.
    client.get("/v1/models").await.expect(200);
    drop(idle);
}
