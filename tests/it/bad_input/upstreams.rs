//! What a provider sends that is odd, hostile or compressed: it is stored as bytes, told as it is, and its headers stay
//! where they came from.

use super::openai_error;
use crate::support::app::App;
use crate::support::ask;
use crate::support::settings::Settings;
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};

const ANSWER: &str = r#"{"id":"r1","object":"chat.completion","created":1,"model":"m1","choices":[{"index":0,"message":{"role":"assistant","content":"CONTENT"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;

fn json_answer(content: &str) -> Reply {
    Reply::whole(200, "application/json", &ANSWER.replace("CONTENT", content))
}

/// B143.
#[tokio::test]
async fn nul_in_an_answer_is_stored_and_replayed_byte_for_byte() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    alpha.next(json_answer(r"x\u0000y"));
    let first = client.chat("k", &ask("hi")).await.expect(200);
    assert!(first.text().contains(r"x\u0000y") && first.content() == "x\u{0}y", "{first:?}");
    let again = client.chat("k", &ask("hi")).await.expect(200);
    assert!(again.is_replayed() && again.body == first.body);
    assert_eq!(client.result(&first.job_id()).await.expect(200).body, first.body);
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn nul_in_a_question_is_passed_on_and_makes_a_payload_of_its_own() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    client.chat("k", &ask("a\u{0}b")).await.expect(200);
    assert_eq!(alpha.calls()[0].json()["messages"][0]["content"], "a\u{0}b");
    assert!(client.chat("k", &ask("a\u{0}b")).await.expect(200).is_replayed());
    client.chat("k", &ask("ab")).await.expect(409);
    alpha.next(Reply::error(400, "a\u{0}type", "no\u{0}thing"));
    let refused = client.chat("k2", &ask("hi")).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    client.job_in_state(&refused.job_id(), "failed").await;
}

/// B145, from the other side.
#[tokio::test]
async fn an_answer_that_is_too_deep_or_no_json_is_told_as_a_failed_answer() {
    let alpha = ScriptedUpstream::start().await;
    // A model each, so that none is left alone for the failures of another.
    let mut settings = Settings::one(&alpha, "");
    for n in 0..6 {
        settings = settings.route(&format!("r{n}"), &[&format!("alpha/model-{n}")], "max_attempts = 1");
    }
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let noted = ANSWER.replace("\"id\":\"r1\"", &format!("\"note\":{deep}"));
    for (n, body) in [&deep, &noted, "ok", "", "null", r#"{"choices":[{"index":NaN}]}"#].into_iter().enumerate() {
        alpha.next(Reply::whole(200, "application/json", body));
        let mut question = ask("hi");
        question["model"] = format!("r{n}").into();
        let answer = client.chat(&format!("k{n}"), &question).await;
        assert!(matches!(answer.status, 502 | 504), "{n}: {answer:?}");
        assert!(answer.body.len() < 10_000, "{n}: {} bytes", answer.body.len());
    }
    client.chat("sound", &ask("hi")).await.expect(200);
}

/// B152: accepted where servers are known to write it, and the client gets JSON.
#[tokio::test]
async fn minus_infinity_among_logprobs_reaches_no_client() {
    let alpha = ScriptedUpstream::start().await;
    let settings = Settings::new().provider("alpha", "vllm", &alpha.base_url(), "").route("support", &["alpha/m1"], "");
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let logprobs = r#""finish_reason":"stop","logprobs":{"content":[{"token":"Up","logprob":0.0,"bytes":[85,112],"top_logprobs":[{"token":"~","logprob":-Infinity,"bytes":[126]}]}]}"#;
    alpha.next(Reply::whole(200, "application/json", &ANSWER.replace(r#""finish_reason":"stop""#, logprobs)));
    let mut body = ask("hi");
    body["logprobs"] = true.into();
    let answer = client.chat("k", &body).await.expect(200);
    assert!(answer.json()["choices"][0]["logprobs"]["content"][0]["token"] == "Up", "{answer:?}");
}

/// gzip with stored blocks: RFC 1952, 1951.
fn gzip(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a short text");
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(text.as_bytes());
    out.extend(crc32fast::hash(text.as_bytes()).to_le_bytes());
    out.extend(u32::from(length).to_le_bytes());
    out
}

fn compressed(status: u16, text: &str, more: &str) -> Reply {
    let body = gzip(text);
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n{more}\r\n",
        body.len()
    );
    Reply::pieces(vec![Piece::Bytes([head.into_bytes(), body].concat())])
}

/// B159: what the gateway says of a body is about the body that it sends.
#[tokio::test]
async fn headers_about_the_body_are_the_gateway_s_own() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    alpha.next(compressed(200, &ANSWER.replace("CONTENT", "ok"), "set-cookie: a=b\r\nserver: theirs\r\n"));
    let call = client.chat_call("k", &ask("hi")).header("accept-encoding", "br, gzip");
    let first = call.send().await.expect(200);
    let again = client.chat("k", &ask("hi")).await.expect(200);
    alpha.next(compressed(
        400,
        r#"{"error":{"message":"no","type":"invalid_request_error","code":null,"param":null}}"#,
        "",
    ));
    let refused = client.chat("k2", &ask("hi")).await.expect(400);
    for answer in [&first, &again, &refused] {
        for foreign in ["content-encoding", "transfer-encoding", "set-cookie", "server"] {
            assert_eq!(answer.header(foreign), None, "{answer:?}");
        }
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()), "{answer:?}");
        answer.json();
    }
    assert_eq!((first.content(), first.body == again.body), ("ok".to_owned(), true));
}

/// B153, from the other side: bytes beyond ASCII in a header, and a message that would forge one.
#[tokio::test]
async fn odd_upstream_headers_and_messages_harm_nobody() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let body = ANSWER.replace("CONTENT", "ok");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-model: m \u{e9}\r\nx-latin: \r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    alpha.next(Reply::pieces(vec![Piece::Bytes([head.into_bytes(), body.into_bytes()].concat())]));
    client.chat("k1", &ask("hi")).await.expect(200);
    alpha.next(Reply::error(400, "x\r\nX-Admin: 1", "no\r\nX-Admin: 1\u{1b}[2J\u{202e}"));
    let refused = client.chat("k2", &ask("hi")).await;
    let message = openai_error(&refused, 400, "request_refused");
    assert!(!message.contains('\u{1b}') && !message.contains('\u{202e}'), "{message}");
    assert_eq!(refused.header("x-admin"), None);
}
