//! R2: when two payloads are the same intent, and what reaches the provider of one (the equality table of DESIGN 3).

use serde_json::json;

use crate::support::app::App;
use crate::support::ask;
use crate::support::client::Client;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};

const PLAIN: &str = r#"{"model":"support","messages":[{"role":"user","content":"hi"}],"temperature":1,"seed":1}"#;

struct Gateway {
    alpha: ScriptedUpstream,
    app: App,
    client: Client,
}

async fn gateway() -> Gateway {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    Gateway { alpha, app, client }
}

impl Gateway {
    /// The second is answered with the first one's stored answer.
    async fn assert_same(&self, key: &str, first: &str, second: &str) {
        let one = self.client.chat_text(key, first).await.expect(200);
        let calls = self.alpha.count();
        let two = self.client.chat_text(key, second).await.expect(200);
        assert!(two.is_replayed(), "{key}: {second}");
        assert_eq!((one.job_id(), &one.body), (two.job_id(), &two.body), "{key}");
        assert_eq!(self.alpha.count(), calls, "{key}: sent twice");
    }

    /// The second is refused, and nothing of it happens.
    async fn assert_other(&self, key: &str, first: &str, second: &str) {
        let one = self.client.chat_text(key, first).await.expect(200);
        let before = (self.alpha.count(), self.app.database.count("SELECT count(*) FROM jobs").await);
        let two = self.client.chat_text(key, second).await.expect(409);
        assert_eq!(two.code(), "idempotency_key_conflict", "{key}");
        assert_eq!(two.job_id(), one.job_id(), "{key}: it names the job that has the key");
        assert_eq!(two.header("x-should-retry"), Some("false"), "{key}: SDKs retry a 409 otherwise");
        assert!(!two.text().contains("\"ok\""), "{key}: never stored content");
        let after = (self.alpha.count(), self.app.database.count("SELECT count(*) FROM jobs").await);
        assert_eq!(before, after, "{key}: nothing happened");
    }
}

// B109
#[tokio::test]
async fn key_order_white_space_escapes_and_the_form_of_a_number_do_not_matter() {
    let g = gateway().await;
    let reordered = "{ \"seed\": 1,\n\t\"messages\": [ {\"content\":\"h\\u0069\", \"role\":\"user\"} ],\n\"temperature\": 1.0, \"model\":\"support\" }";
    g.assert_same("order", PLAIN, reordered).await;
    g.assert_same("float", PLAIN, &PLAIN.replace("\"seed\":1", "\"seed\":1.0")).await;
    g.assert_same(
        "exponent",
        &PLAIN.replace("\"seed\":1", "\"seed\":100"),
        &PLAIN.replace("\"seed\":1", "\"seed\":1e2"),
    )
    .await;
}

#[tokio::test]
async fn stream_is_delivery_and_not_intent() {
    let g = gateway().await;
    g.assert_same("stream", PLAIN, &PLAIN.replacen('{', "{\"stream\":false,", 1)).await;
    // Streams come in their own issue: until then a clear 400, which neither takes the key nor conflicts with it.
    let streamed = g.client.chat_text("stream", &PLAIN.replacen('{', "{\"stream\":true,", 1)).await.expect(400);
    assert_eq!(streamed.code(), "stream_not_supported");
    g.assert_same("stream", PLAIN, PLAIN).await;
}

#[tokio::test]
async fn integers_beyond_two_to_the_53_compare_exactly() {
    let g = gateway().await;
    let with = |seed: &str| PLAIN.replace("\"seed\":1", &format!("\"seed\":{seed}"));
    g.assert_other("2^53", &with("9007199254740992"), &with("9007199254740993")).await;
    g.assert_same("2^53-again", &with("9007199254740993"), &with("9007199254740993")).await;
    g.assert_other("i64", &with("9223372036854775806"), &with("9223372036854775807")).await;
}

#[tokio::test]
async fn text_is_not_normalised_and_null_is_not_absent() {
    let g = gateway().await;
    let say = |text: &str| PLAIN.replace("\"hi\"", &format!("\"{text}\""));
    g.assert_other("nfc", &say("caf\u{e9}"), &say("cafe\u{301}")).await;
    g.assert_other("space", &say("hi"), &say("hi ")).await;
    g.assert_other("null", PLAIN, &PLAIN.replacen('{', "{\"stop\":null,", 1)).await;
    g.assert_other("type", PLAIN, &PLAIN.replace("\"temperature\":1", "\"temperature\":0.5")).await;
}

#[tokio::test]
async fn duplicate_names_are_refused_before_there_is_a_job() {
    let g = gateway().await;
    for body in [
        PLAIN.replacen('{', "{\"temperature\":1,", 1),
        PLAIN.replace("\"role\":\"user\"", "\"role\":\"user\",\"ro\\u006ce\":\"system\""),
    ] {
        let answer = g.client.chat_text("twice", &body).await.expect(400);
        assert_eq!(answer.code(), "invalid_json");
    }
    assert_eq!(g.alpha.count(), 0);
    assert_eq!(g.app.database.count("SELECT count(*) FROM jobs").await, 0);
    g.client.chat_text("twice", PLAIN).await.expect(200);
}

#[tokio::test]
async fn another_payload_under_the_same_key_is_a_conflict_while_the_job_runs_too() {
    let g = gateway().await;
    g.alpha.always(Reply::answer("ok").held());
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(g.client.chat_call("k", &ask("hi")).send());
    g.alpha.wait_for_calls(1).await;
    let other = g.client.chat("k", &ask("something else")).await.expect(409);
    assert_eq!(other.code(), "idempotency_key_conflict");
    g.alpha.release();
    let first = calls.join_all().await.remove(0).expect(200);
    assert_eq!(other.job_id(), first.job_id());
    assert_eq!(g.alpha.count(), 1);
}

#[tokio::test]
async fn the_quoted_key_is_the_bare_key() {
    let g = gateway().await;
    let bare = g.client.chat("abc", &ask("hi")).await.expect(200);
    let quoted = g.client.chat("\"abc\"", &ask("hi")).await.expect(200);
    assert_eq!(bare.job_id(), quoted.job_id());
    assert!(quoted.is_replayed());
    assert_eq!(quoted.header("idempotency-key"), Some("abc"));
    assert_eq!(g.alpha.count(), 1);
}

// B114: the operation is part of the intent, so one route's job is never another route's answer.
#[tokio::test]
async fn one_key_on_two_routes_is_a_conflict() {
    let g = gateway().await;
    let job = g.client.create_job("k", &ask("hi")).await.expect(201);
    let chat = g.client.chat("k", &ask("hi")).await.expect(409);
    assert_eq!(chat.code(), "idempotency_key_conflict");
    assert_eq!(chat.job_id(), job.job_id());
    assert_eq!(chat.json()["error"]["job_id"], job.job_id(), "in the dialect's own shape");
    g.client.job_in_state(&job.job_id(), "succeeded").await;
    assert_eq!(g.alpha.count(), 1);
}

// B111: headers are no part of the intent; `metadata` inside a job's order is.
#[tokio::test]
async fn headers_do_not_matter_and_metadata_does() {
    let g = gateway().await;
    g.client.chat_call("k", &ask("hi")).header("x-request-id", "1").send().await.expect(200);
    assert!(g.client.chat_call("k", &ask("hi")).header("x-request-id", "2").send().await.expect(200).is_replayed());
    let order =
        |trace: &str| json!({ "url": "/v1/chat/completions", "body": ask("hi"), "metadata": { "trace": trace } });
    let post = |order| g.client.request(http::Method::POST, "/v1/jobs").key("j").json(&order).send();
    let job = post(order("1")).await.expect(201).job_id();
    assert_eq!(post(order("1")).await.expect(201).job_id(), job);
    post(order("2")).await.expect(409);
    g.client.job_in_state(&job, "succeeded").await;
}

#[tokio::test]
async fn digits_and_unknown_members_reach_the_provider_unharmed() {
    let g = gateway().await;
    let body = r#"{"model":"support","messages":[{"role":"user","content":"hi"}],"temperature":0.1,"top_p":1e0,
        "seed":1234567890123456789,"logit_bias":{"50256":-1E2},"x_trace":{"id":9223372036854775807,"w":0.30000000000000004}}"#;
    g.client.chat_text("digits", body).await.expect(200);
    let sent = g.alpha.calls().remove(0).body;
    for digits in ["0.1", "1234567890123456789", "-1E2", "9223372036854775807", "0.30000000000000004", "1e0"] {
        assert!(sent.contains(digits), "{digits} is not in {sent}");
    }
    assert!(sent.contains("\"model\":\"m1\""), "the provider's own name for the model: {sent}");
}

// The job's order is stored anew; its digits are the client's all the same.
#[tokio::test]
async fn digits_of_a_job_reach_the_provider_unharmed() {
    let g = gateway().await;
    let order = r#"{"url":"/v1/chat/completions","body":{"model":"support","messages":[{"role":"user","content":"hi"}],
        "seed":1234567890123456789,"top_p":1e0,"temperature":0.1}}"#;
    let call = g.client.request(http::Method::POST, "/v1/jobs").key("digits").body(order);
    let job = call.send().await.expect(201).job_id();
    g.client.job_in_state(&job, "succeeded").await;
    let sent = g.alpha.calls().remove(0).body;
    assert!(["1234567890123456789", "1e0", "0.1"].iter().all(|digits| sent.contains(digits)), "{sent}");
}
