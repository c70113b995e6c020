//! A provider whose requests are signed and whose streams are binary (Bedrock), through the whole gateway.

use serde_json::json;
use tempfile::TempDir;

use crate::support::app::App;
use crate::support::settings::Settings;
use crate::support::sse::Heard;
use crate::support::upstream::{Piece, Reply, ScriptedUpstream};
use crate::support::{ask, ask_stream};

/// The gateway before a scripted Bedrock; its access keys stand in files.
async fn bedrock(upstream: &ScriptedUpstream, folder: &TempDir) -> App {
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("file:{}", path.display())
    };
    let lines = format!(
        "region = \"eu-central-1\"\naccess_key_id = \"{}\"\nsecret_access_key = \"{}\"\nsession_token = \"{}\"",
        file("id", "AKIDOFTHETEST"),
        file("secret", "secret-of-the-test"),
        file("token", "token-of-the-test"),
    );
    let base = upstream.base_url();
    let settings = Settings::new().provider("alpha", "bedrock", base.trim_end_matches("/v1"), &lines);
    App::start(&settings.route("support", &["alpha/eu.amazon.nova-lite-v1:0"], "")).await
}

#[tokio::test]
async fn a_signed_request_is_answered_and_no_secret_leaves() {
    let (alpha, folder) = (ScriptedUpstream::start().await, TempDir::new().unwrap());
    let answer = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}}, "stopReason": "end_turn",
        "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}, "metrics": {"latencyMs": 1},
    });
    alpha.next(Reply::whole(200, "application/json", &answer.to_string()));
    let app = bedrock(&alpha, &folder).await;
    let client = app.client("acme").await;
    let whole = client.chat("whole", &ask("hi")).await.expect(200);
    assert_eq!((whole.content().as_str(), &whole.json()["usage"]["total_tokens"]), ("ok", &json!(4)));
    let seen = &alpha.calls()[0];
    assert_eq!(seen.path, "/model/eu.amazon.nova-lite-v1%3A0/converse");
    let signature = seen.header("authorization").unwrap();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDOFTHETEST/"), "{signature}");
    assert!(signature.contains("/eu-central-1/bedrock/aws4_request"), "{signature}");
    assert!(signature.contains("content-type;host;x-amz-date;x-amz-security-token"), "{signature}");
    assert_eq!(seen.header("x-amz-security-token"), Some("token-of-the-test"));
    assert!(!format!("{seen:?}").contains("secret-of-the-test"));
    assert_eq!(seen.json()["requestMetadata"]["interlock_attempt_id"], json!(whole.attempt_id()));
}

/// One frame of Amazon's event stream.
fn frame(event: &str, payload: &serde_json::Value) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let step = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xedb8_8320 * (c & 1)));
        (!bytes.iter().fold(u32::MAX, step)).to_be_bytes()
    };
    let mut headers = Vec::new();
    for (name, value) in [(":event-type", event), (":message-type", "event")] {
        headers.push(name.len() as u8);
        headers.extend(name.as_bytes());
        headers.push(7);
        headers.extend((value.len() as u16).to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let payload = payload.to_string();
    let mut frame = ((16 + headers.len() + payload.len()) as u32).to_be_bytes().to_vec();
    frame.extend((headers.len() as u32).to_be_bytes());
    frame.extend(crc(&frame));
    frame.extend(headers);
    frame.extend(payload.as_bytes());
    frame.extend(crc(&frame));
    frame
}

fn stream(frames: &[Vec<u8>]) -> Reply {
    let body = frames.concat();
    let kind = "application/vnd.amazon.eventstream";
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    let (first, second) = body.split_at(body.len() / 2);
    Reply::pieces(vec![Piece::Bytes([head.as_bytes(), first].concat()), Piece::Bytes(second.to_vec())])
}

#[tokio::test]
async fn a_binary_stream_goes_out_as_events_and_a_cut_one_is_unknown() {
    let (alpha, folder) = (ScriptedUpstream::start().await, TempDir::new().unwrap());
    let said = |text: &str| frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}}));
    let start = frame("messageStart", &json!({"role": "assistant"}));
    let usage = json!({"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}, "metrics": {"latencyMs": 1}});
    let end = [frame("messageStop", &json!({"stopReason": "end_turn"})), frame("metadata", &usage)];
    let app = bedrock(&alpha, &folder).await;
    let client = app.client("acme").await;
    alpha.next(stream(&[start.clone(), said("Hel"), said("lo"), end.concat()]));
    let mut sound = client.chat_call("stream", &ask_stream("hi")).open().await;
    Heard::of(&sound.rest().await).assert_whole("Hello");
    assert_eq!(alpha.calls()[0].path, "/model/eu.amazon.nova-lite-v1%3A0/converse-stream");
    alpha.next(stream(&[start, said("Hel")]));
    let mut cut = client.chat_call("cut", &ask_stream("hi")).open().await;
    Heard::of(&cut.rest().await).assert_broken("attempt_unknown");
}
