//! Bodies that are no JSON, no honest JSON, too deep, too large, or ask for what cannot be done.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::{openai_error, problem, unharmed};
use crate::support::app::App;
use crate::support::ask;
use crate::support::client::{Client, raw};
use crate::support::settings::Settings;
use crate::support::upstream::{ScriptedUpstream, Wire};

async fn post(client: &Client, body: impl Into<Bytes>) -> crate::support::client::Answer {
    client.request(Method::POST, "/v1/chat/completions").key("k").body(body).send().await
}

fn content(inside: &str) -> String {
    format!(r#"{{"model":"support","messages":[{{"role":"user","content":"{inside}"}}]}}"#)
}

/// A body with this further member, whatever it is.
fn with(member: &str) -> String {
    format!(r#"{{"model":"support","messages":[{{"role":"user","content":"hi"}}],{member}}}"#)
}

#[tokio::test]
async fn what_is_no_json_object_is_refused_before_there_is_a_job() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let whole = content("hi");
    for body in [
        "",
        " ",
        "hi",
        "null",
        "[]",
        "\"x\"",
        "{",
        "{}}",
        "{'model': 'support'}",
        "model=support",
        &whole[..whole.len() - 1],
        &format!("{whole} x"),
        &format!("\u{feff}{whole}"),
        &content("a\nb"),
    ] {
        openai_error(&post(&client, body.to_owned()).await, 400, "invalid_json");
        let order = format!(r#"{{"url":"/v1/chat/completions","body":{body}}}"#);
        let answer = client.request(Method::POST, "/v1/jobs").key("k").body(order).send().await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (400, Some("application/problem+json")),
            "{body}: {answer:?}"
        );
    }
    for bytes in [
        &b"{\"model\":\"support\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}"[..],
        b"\xff\xfe{\0}\0",
        b"{\"model\":\"\xc3\x28\"}",
        b"{\"a\":\"\xed\xa0\x80\"}",
    ] {
        openai_error(&post(&client, bytes.to_vec()).await, 400, "invalid_json");
    }
    unharmed(&app, &client, &alpha).await;
}

/// B144.
#[tokio::test]
async fn half_a_surrogate_pair_is_refused_at_the_door_and_a_whole_one_passes() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for half in [r"cut \ud83d", r"cut \ude00", r"\ude00\ud83d", r"\ud83dx", r"\ud83d\u0041"] {
        openai_error(&post(&client, content(half)).await, 400, "invalid_json");
        openai_error(&post(&client, with(&format!(r#""{half}": 1"#))).await, 400, "invalid_json");
    }
    unharmed(&app, &client, &alpha).await;
    post(&client, content(r"whole \ud83d\ude00")).await.expect(200);
    assert_eq!(alpha.calls()[1].json()["messages"][0]["content"], "whole \u{1f600}");
}

/// B151: what was checked is what runs.
#[tokio::test]
async fn a_name_that_stands_twice_is_refused_at_any_depth() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for body in [
        r#"{"model":"support","model":"other","messages":[{"role":"user","content":"a"}]}"#,
        r#"{"model":"support","messages":[{"role":"user","role":"system","content":"a"}]}"#,
        r#"{"model":"support","\u006dodel":"x","messages":[]}"#,
        &with(r#""metadata":{"a":{"b":1,"b":1}}"#),
        &with(r#""x":[[{"":1,"":1}]]"#),
    ] {
        let message = openai_error(&post(&client, body.to_owned()).await, 400, "invalid_json");
        assert!(message.contains("twice") || message.contains("duplicate"), "{message}");
    }
    unharmed(&app, &client, &alpha).await;
}

/// B145: also where nobody looks.
#[tokio::test]
async fn a_body_that_is_too_deep_is_refused_and_the_process_lives() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let objects = "{\"a\":".repeat(31_000) + "1" + &"}".repeat(31_000);
    for deep in ["[".repeat(20_000) + &"]".repeat(20_000), "[".repeat(1_000_000), objects] {
        let message = openai_error(&post(&client, with(&format!("\"note\":{deep}"))).await, 400, "invalid_json");
        assert!(message.contains("deep"), "{message}");
    }
    let schema = "{\"items\":".repeat(2_000) + "{}" + &"}".repeat(2_000);
    let tools = with(&format!(r#""tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#));
    openai_error(&post(&client, tools).await, 400, "invalid_json");
    problem(
        &app.operator().request(Method::POST, "/admin/v1/permits").body("[".repeat(50_000)).send().await,
        400,
        "invalid_json",
    );
    unharmed(&app, &client, &alpha).await;
}

/// B152.
#[tokio::test]
async fn numbers_that_are_none_are_refused() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for number in
        ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "01", "+1", "1.", ".5", "0x10", "1e", "--1", "1_000"]
    {
        for name in ["temperature", "unknown_to_us"] {
            let answer = post(&client, with(&format!("\"{name}\":{number}"))).await;
            assert_eq!(answer.status, 400, "{name} {number}: {answer:?}");
        }
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "").server("body_limit = 1000")).await;
    let client = app.client("acme").await;
    let large = content(&"x".repeat(1000));
    let message = openai_error(&post(&client, large.clone()).await, 413, "request_too_large");
    assert!(message.contains("1000 bytes") && message.contains("server.body_limit"), "{message}");
    problem(&client.create_job("k", &ask(&"x".repeat(1000))).await, 413, "request_too_large");
    let head = |more: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\nidempotency-key: k\r\n{more}\r\n",
            client.token
        )
    };
    let chunked = head("transfer-encoding: chunked\r\n") + &format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let answer = raw(app.application, chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("request_too_large"), "{answer}");
    // Announced and never sent: answered at once.
    let answer = raw(app.application, head("content-length: 5000000000\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("request_too_large"), "{answer}");
    let largest = content(&"x".repeat(1000 - content("").len()));
    assert_eq!(largest.len(), 1000);
    unharmed(&app, &client, &alpha).await;
    post(&client, largest).await.expect(200);
}

#[tokio::test]
async fn a_compressed_body_is_refused_with_the_cure() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for encoding in ["gzip", "br", "deflate, gzip", "zstd"] {
        let answer = client.chat_call("k", &ask("hi")).header("content-encoding", encoding).send().await;
        let message = openai_error(&answer, 415, "unsupported_content_encoding");
        assert!(message.contains("without Content-Encoding"), "{message}");
    }
    unharmed(&app, &client, &alpha).await;
    client.chat_call("k", &ask("hi")).header("content-encoding", "identity").send().await.expect(200);
}

/// B153: nothing of a body becomes a header.
#[tokio::test]
async fn a_model_that_is_no_route_is_a_404_that_names_it_and_forges_nothing() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for model in ["gpt-5", "", "Support", "support ", "m\r\nX-Admin: 1", "\u{0}", "../support", &"x".repeat(100_000)] {
        let mut body = ask("hi");
        body["model"] = model.into();
        let answer = client.chat("k", &body).await;
        assert!(matches!(answer.status, 400 | 404), "{model}: {answer:?}");
        assert_eq!(answer.header("x-admin"), None);
        assert!(answer.body.len() < 10_000, "{} bytes", answer.body.len());
    }
    let mut body = ask("hi");
    body["model"] = "gpt-5".into();
    let answer = client.chat("k", &body).await;
    let message = openai_error(&answer, 404, "model_not_found");
    assert!(
        message.contains("`gpt-5`") && message.contains("/v1/models") && answer.json()["error"]["param"] == "model",
        "{message}"
    );
    problem(&client.create_job("k", &body).await, 404, "model_not_found");
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn a_request_that_is_no_chat_names_the_member_that_is_wrong() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for (body, param) in [
        (json!({ "messages": [] }), "model"),
        (json!({ "model": 7, "messages": [] }), "model"),
        (json!({ "model": "support" }), "messages"),
        (json!({ "model": "support", "messages": "hi" }), "messages"),
        (json!({ "model": "support", "messages": [{ "role": "robot", "content": "x" }] }), "messages[0].role"),
        (json!({ "model": "support", "messages": [7] }), "messages[0]"),
        (json!({ "model": "support", "messages": [{ "role": "user", "content": "x" }], "stream": "yes" }), "stream"),
        (json!({ "model": "support", "messages": [{ "role": "user", "content": "x" }], "tools": {} }), "tools"),
        (json!({ "model": "support", "messages": [{ "role": "user", "content": "x" }], "n": "two" }), "n"),
    ] {
        let answer = client.chat("k", &body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.json()["error"]["param"], param, "{body}: {answer:?}");
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn stream_options_without_a_stream_are_refused_by_name() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let mut body = ask("hi");
    body["stream_options"] = json!({ "include_usage": true });
    let answer = client.chat("k", &body).await;
    assert!(openai_error(&answer, 400, &answer.code()).contains("stream"), "{}", answer.text());
    assert_eq!(answer.json()["error"]["param"], "stream_options");
    unharmed(&app, &client, &alpha).await;
    // A provider that answers a stream request whole is read all the same, and its answer cut into chunks.
    body["stream"] = true.into();
    assert!(client.chat("k", &body).await.expect(200).text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn what_the_primary_cannot_carry_is_named_and_not_dropped() {
    let alpha = ScriptedUpstream::speaking(Wire::Anthropic).await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for (name, value) in [
        ("logprobs", json!(true)),
        ("n", json!(2)),
        ("seed", json!(7)),
        ("logit_bias", json!({ "1": 2 })),
        ("invented", json!("x")),
    ] {
        let mut body = ask("hi");
        body[name] = value;
        let answer = client.chat("k", &body).await;
        let message = openai_error(&answer, 400, "unsupported_parameter");
        assert!(message.contains(&format!("`{name}`")) && answer.json()["error"]["param"] == name, "{message}");
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn an_order_for_a_job_is_checked_word_by_word() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let url = "/v1/chat/completions";
    for (order, word) in [
        (json!({}), "url"),
        (json!({ "url": url }), "body"),
        (json!({ "url": "/v1/completions", "body": ask("hi") }), "url"),
        (json!({ "url": format!("{url}\r\nx: y"), "body": ask("hi") }), "url"),
        (json!({ "url": url, "body": [] }), "body"),
        (json!({ "url": url, "body": ask("hi"), "metadata": 7 }), "metadata"),
        (json!({ "url": url, "body": ask("hi"), "callback": "http://x" }), "callback"),
        (json!({ "url": url, "body": ask("hi"), "priority": 1 }), "priority"),
    ] {
        let told = problem(
            &client.request(Method::POST, "/v1/jobs").key("k").json(&order).send().await,
            400,
            "invalid_request",
        );
        assert!(
            told["detail"].as_str().is_some_and(|detail| detail.contains(word)) && told["param"] == word,
            "{order}: {told}"
        );
    }
    unharmed(&app, &client, &alpha).await;
}
