//! The HTTP stack held to what `classify` relies on: a scripted server does to a call all that a provider or a hop can
//! do, and counts. Two things must hold whatever happens: nothing is called "not sent" of which the server read a byte
//! of a request, and no `send` reaches a server twice. If an update of the HTTP client breaks this file, the client's
//! shapes have changed: change `classify`, never the expectation.

mod self_signed;
mod server;

use std::time::Duration;

use bytes::Bytes;

use super::{Endpoint, MAX_ANSWER, Transport};
use crate::adapter::{Head, UpstreamRequest};
use crate::compatible::adapter_named;
use crate::failure::{Failure, Proof, Rejection};

use Step::{Drain, Pause, ReadBytes, ReadRequest, Reset, Write};
use server::{Server, Step};

const OWN_ERROR: &str = r#"{"error":{"message":"busy","type":"server_error","code":null,"param":null}}"#;

fn endpoint(scheme: &str, port: u16) -> Endpoint {
    let connect_timeout = Duration::from_secs(2);
    Endpoint { connect_timeout, ..Endpoint::new(format!("{scheme}://127.0.0.1:{port}/v1")) }
}

fn request(body: impl Into<Bytes>) -> UpstreamRequest {
    UpstreamRequest { path: "/chat/completions".into(), headers: Vec::new(), body: body.into() }
}

fn answer(status: &str, headers: &str, body: &str) -> Step {
    let length = body.len();
    Write(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes())
}

fn raw(text: &str) -> Step {
    Write(text.as_bytes().to_vec())
}

async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("the test hung")
}

async fn call(transport: &Transport, body: impl Into<Bytes>) -> Result<(Head, Bytes), Failure> {
    bounded(async { transport.send(request(body)).await?.whole(MAX_ANSWER).await }).await
}

/// One call at a server with this script. Holds the two rules, and returns what came of it.
async fn after(script: Vec<Step>, body: impl Into<Bytes>) -> (Result<(Head, Bytes), Failure>, Server) {
    let server = Server::start(vec![script]).await;
    let transport = Transport::new(&endpoint("http", server.port)).unwrap();
    let outcome = call(&transport, body).await;
    hold_rules(&outcome, &server, 1);
    (outcome, server)
}

fn hold_rules(outcome: &Result<(Head, Bytes), Failure>, server: &Server, sends: usize) {
    if let Err(failure) = outcome
        && failure.proof == Proof::NotSent
    {
        assert_eq!(server.bytes(), 0, "not sent, yet the server read bytes: {failure:?}");
    }
    assert!(server.requests() <= sends && server.connections() <= sends, "sent more often than asked: {server:?}");
}

async fn assert_unknown(name: &str, script: Vec<Step>, reason: &str) {
    let (outcome, server) = after(script, "{}").await;
    let failure = outcome.expect_err(name);
    assert_eq!((failure.proof, failure.reason), (Proof::Unknown, reason), "{name}: {failure:?}");
    assert_eq!((server.connections(), server.requests()), (1, 1), "{name}");
    assert!(!failure.message.contains("127.0.0.1"), "{name}: {}", failure.message);
}

#[tokio::test]
async fn what_never_connects_was_not_sent() {
    // A port that was just free: nothing listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let failure = call(&Transport::new(&endpoint("http", port)).unwrap(), "{}").await.unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::NotSent, "connect_refused"), "{failure:?}");

    let nowhere = Endpoint::new("http://nowhere.invalid/v1");
    let failure = call(&Transport::new(&nowhere).unwrap(), "{}").await.unwrap_err();
    assert_eq!(failure.proof, Proof::NotSent);
    assert!(matches!(failure.reason, "dns" | "connect_timeout"), "{failure:?}");
}

#[tokio::test]
async fn a_connection_that_hangs_was_not_sent() {
    // A listener that never accepts, its queue filled until one more connection hangs.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    bounded(async {
        while let Ok(stream) =
            tokio::time::timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await
        {
            queued.push(stream.unwrap());
        }
    })
    .await;
    let connect_timeout = Duration::from_millis(300);
    let hanging = Endpoint { connect_timeout, ..endpoint("http", address.port()) };
    let failure = call(&Transport::new(&hanging).unwrap(), "{}").await.unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::NotSent, "connect_timeout"), "{failure:?}");
}

#[tokio::test]
async fn a_failed_tls_handshake_was_not_sent() {
    let plaintext = vec![ReadBytes(1), raw("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"), Drain];
    for (script, timeout, reason) in [
        (plaintext, 5_000, "tls"),
        (vec![ReadBytes(1)], 5_000, "connect_failed"),
        (vec![Drain], 300, "connect_timeout"),
    ] {
        let server = Server::start(vec![script]).await;
        let connect_timeout = Duration::from_millis(timeout);
        let transport = Transport::new(&Endpoint { connect_timeout, ..endpoint("https", server.port) }).unwrap();
        let failure = call(&transport, "{}").await.unwrap_err();
        assert_eq!(failure.proof, Proof::NotSent, "{failure:?}");
        assert_eq!(failure.reason, reason, "{failure:?}");
        // Only a ClientHello may have been read, never a request.
        assert_eq!((server.requests(), server.connections()), (0, 1));
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_signed_gets_no_request() {
    let (port, server) = self_signed::start();
    let failure = call(&Transport::new(&endpoint("https", port)).unwrap(), "{}").await.unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::NotSent, "tls"), "{failure:?}");
    assert!(failure.message.contains("certificate"), "{}", failure.message);
    assert_eq!(server.join().unwrap(), 0, "the server read a request");
}

#[tokio::test]
async fn a_fresh_connection_that_closes_at_once_is_not_sent_only_if_nothing_was_read() {
    for script in [vec![], vec![Reset]] {
        // Which of the two comes first, the close or our first byte, is a race: both verdicts are right, as long as
        // "not sent" is only said when the server read nothing (`after` holds that).
        let (outcome, _server) = after(script, "{}").await;
        let failure = outcome.unwrap_err();
        assert!(matches!(failure.proof, Proof::NotSent | Proof::Unknown), "{failure:?}");
    }
}

#[tokio::test]
async fn a_call_lost_after_its_request_is_unknown() {
    assert_unknown("FIN before the head", vec![ReadRequest], "connection_lost").await;
    assert_unknown("reset before the head", vec![ReadRequest, Reset], "connection_lost").await;
    let silence = Pause(Duration::from_millis(100));
    assert_unknown("silence, then FIN", vec![ReadRequest, silence], "connection_lost").await;
    assert_unknown("half a head", vec![ReadRequest, raw("HTTP/1.1 200 OK\r\ncontent-")], "connection_lost").await;
    assert_unknown("garbage", vec![ReadRequest, raw("SSH-2.0-OpenSSH_9\r\n\r\n")], "garbage_answer").await;
    let headers: String = (0..200).map(|i| format!("x-{i}: {i}\r\n")).collect();
    assert_unknown("200 headers", vec![ReadRequest, answer("200 OK", &headers, "{}")], "garbage_answer").await;
    let early = raw("HTTP/1.1 100 Continue\r\n\r\n");
    assert_unknown("1xx, then FIN", vec![ReadRequest, early], "connection_lost").await;
}

#[tokio::test]
async fn a_request_that_was_partly_read_is_unknown() {
    let (outcome, server) = after(vec![ReadBytes(100_000), Reset], vec![b' '; 8_000_000]).await;
    assert_eq!(outcome.unwrap_err().proof, Proof::Unknown);
    assert!(server.bytes() >= 100_000 && server.requests() == 0);
}

#[tokio::test]
async fn a_cut_answer_is_unknown() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"a\":1}";
    assert_unknown("content-length", vec![ReadRequest, raw(cut)], "answer_cut").await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n";
    assert_unknown("no last chunk", vec![ReadRequest, raw(chunked)], "answer_cut").await;
    let within = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{\"a\":1}";
    assert_unknown("within a chunk", vec![ReadRequest, raw(within), Reset], "answer_cut").await;
    let open = "HTTP/1.1 200 OK\r\n\r\n{\"choices\":[{\"index\":0";
    assert_unknown("no length, cut JSON", vec![ReadRequest, raw(open)], "answer_without_length").await;
    let empty = "HTTP/1.1 200 OK\r\n\r\n";
    assert_unknown("no length, nothing", vec![ReadRequest, raw(empty)], "answer_without_length").await;
}

#[tokio::test]
async fn an_answer_without_a_length_is_complete_if_its_json_is() {
    let (outcome, _server) = after(vec![ReadRequest, raw("HTTP/1.1 200 OK\r\n\r\n{\"a\":1}")], "{}").await;
    assert_eq!(outcome.unwrap().1, "{\"a\":1}");
}

#[tokio::test]
async fn a_connection_that_dies_while_pooled_is_never_asked_twice() {
    // It dies as the second request is read: unknown, and no third connection.
    let dying = vec![ReadRequest, answer("200 OK", "", "{}"), ReadRequest];
    let server = Server::start(vec![dying, vec![ReadRequest, answer("200 OK", "", "{}")]]).await;
    let transport = Transport::new(&endpoint("http", server.port)).unwrap();
    call(&transport, "{}").await.unwrap();
    let failure = call(&transport, "{}").await.unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::Unknown, "connection_lost"), "{failure:?}");
    assert_eq!((server.connections(), server.requests()), (1, 2));

    // It is closed between two calls: the second one either connects anew, unwritten, or is lost; never both.
    let closing = vec![ReadRequest, answer("200 OK", "", "{}")];
    let server = Server::start(vec![closing]).await;
    let transport = Transport::new(&endpoint("http", server.port)).unwrap();
    for sends in 1..=20 {
        let outcome = call(&transport, "{}").await;
        hold_rules_pooled(&outcome, &server, sends);
    }
}

fn hold_rules_pooled(outcome: &Result<(Head, Bytes), Failure>, server: &Server, sends: usize) {
    if let Err(failure) = outcome {
        assert!(matches!(failure.proof, Proof::Unknown | Proof::NotSent), "{failure:?}");
    }
    assert!(server.requests() <= sends, "{server:?} after {sends} sends");
}

#[tokio::test]
async fn without_a_pool_every_call_connects_anew() {
    let server = Server::start(vec![vec![ReadRequest, answer("200 OK", "", "{}"), Drain]]).await;
    let pool_idle_timeout = Duration::ZERO;
    let transport = Transport::new(&Endpoint { pool_idle_timeout, ..endpoint("http", server.port) }).unwrap();
    for _ in 0..3 {
        call(&transport, "{}").await.unwrap();
    }
    assert_eq!((server.connections(), server.requests()), (3, 3));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let moved = answer("307 Temporary Redirect", "location: /elsewhere\r\n", "");
    let (outcome, server) = after(vec![ReadRequest, moved, ReadRequest], "{}").await;
    let (head, body) = outcome.unwrap();
    let failure = adapter_named("openai").unwrap().from_failure(&head, &body);
    assert_eq!((failure.proof, failure.reason), (Proof::Rejected(Rejection::Setup), "redirected"));
    assert_eq!((server.connections(), server.requests()), (1, 1));
}

/// The environment of a running process cannot be changed safely, so this test starts itself again within another one.
#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    const TARGET: &str = "INTERLOCK_HTTP_STACK_TARGET";
    if let Some(port) = std::env::var_os(TARGET) {
        let port = port.to_str().unwrap().parse().unwrap();
        call(&Transport::new(&endpoint("http", port)).unwrap(), "{}").await.unwrap();
        return;
    }
    let target = Server::start(vec![vec![ReadRequest, answer("200 OK", "", "{}"), Drain]]).await;
    let proxy = Server::start(vec![vec![ReadRequest, answer("200 OK", "", "{}"), Drain]]).await;
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "transport::http_stack::a_proxy_in_the_environment_is_not_used"]);
    again.env(TARGET, target.port.to_string());
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, &address);
    }
    let status = tokio::task::spawn_blocking(move || again.output().unwrap().status).await.unwrap();
    assert!(status.success());
    assert_eq!((proxy.connections(), target.requests()), (0, 1));
}

#[tokio::test]
async fn a_complete_answer_is_judged_by_its_shape() {
    let html = "<html><body><h1>502 Bad Gateway</h1></body></html>";
    for (status, body, proof) in [
        ("502 Bad Gateway", html, Proof::Unknown),
        ("503 Service Unavailable", html, Proof::Unknown),
        ("503 Service Unavailable", OWN_ERROR, Proof::Rejected(Rejection::Overloaded)),
        ("500 Internal Server Error", OWN_ERROR, Proof::EndedWithoutResult),
        ("504 Gateway Timeout", OWN_ERROR, Proof::Unknown),
    ] {
        let (outcome, server) = after(vec![ReadRequest, answer(status, "", body), Drain], "{}").await;
        let (head, body) = outcome.unwrap();
        let failure = adapter_named("openai").unwrap().from_failure(&head, &body);
        assert_eq!(failure.proof, proof, "{status} {failure:?}");
        assert_eq!(server.requests(), 1);
    }
}

#[tokio::test]
async fn an_early_refusal_of_a_large_body_is_heard() {
    let refusal = answer("413 Payload Too Large", "connection: close\r\n", OWN_ERROR);
    let (outcome, server) = after(vec![ReadBytes(1_000), refusal, Drain], vec![b' '; 1_000_000]).await;
    assert_eq!(outcome.unwrap().0.status, 413);
    assert!(server.requests() == 0 && server.connections() == 1);
}

#[tokio::test]
async fn a_compressed_answer_arrives_decoded_or_not_at_all() {
    let gzip = gzip_fixture();
    let whole = [b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n".to_vec(), length(gzip.len()), gzip.clone()].concat();
    let (outcome, _server) = after(vec![ReadRequest, Write(whole)], "{}").await;
    assert_eq!(outcome.unwrap().1, format!("{{\"gzip\":\"{}\"}}", "a".repeat(40)));

    let cut = &gzip[..gzip.len() - 10];
    let cut = [b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n".to_vec(), length(cut.len()), cut.to_vec()].concat();
    assert_unknown("cut gzip", vec![ReadRequest, Write(cut)], "answer_cut").await;
}

fn length(bytes: usize) -> Vec<u8> {
    format!("content-length: {bytes}\r\n\r\n").into_bytes()
}

/// `{"gzip":"aaaa…"}` with 40 letters, as Python's gzip packs it.
fn gzip_fixture() -> Vec<u8> {
    const HEX: &str = "1f8b0800000000000203ab564aafca2c50b2524a241228d502005580a4a533000000";
    from_hex(HEX)
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_unknown() {
    let server = Server::start(vec![vec![ReadRequest, answer("200 OK", "", "{\"a\":\"12345678\"}"), Drain]]).await;
    let transport = Transport::new(&endpoint("http", server.port)).unwrap();
    let failure = bounded(async { transport.send(request("{}")).await?.whole(8).await }).await.unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::Unknown, "answer_too_large"));
    assert_eq!(failure.status, Some(200));
}

#[test]
fn a_wrong_address_is_refused_by_the_settings_name_without_repeating_it() {
    for wrong in [
        "",
        "api.example.com/v1",
        "ftp://host/",
        "https://",
        "https://user:secret@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1#secret",
        "http://[::1",
        "unix:///secret",
    ] {
        let error = Transport::new(&Endpoint::new(wrong)).unwrap_err();
        assert_eq!(error.field, "base_url", "{wrong}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let connect_timeout = Duration::ZERO;
    let error = Transport::new(&Endpoint { connect_timeout, ..Endpoint::new("http://host") }).unwrap_err();
    assert_eq!(error.field, "connect_timeout");
    Transport::new(&Endpoint::new("https://host/v1/")).unwrap();
}
