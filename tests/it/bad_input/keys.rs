//! Idempotency keys that are missing, doubled or no keys at all (B118, B120), and addresses that lead nowhere.

use http::Method;
use serde_json::json;
use uuid::Uuid;

use super::{openai_error, problem, unharmed};
use crate::support::app::App;
use crate::support::ask;
use crate::support::client::raw;
use crate::support::settings::Settings;
use crate::support::upstream::ScriptedUpstream;

#[tokio::test]
async fn a_missing_key_is_refused_with_the_cure_for_each_common_client() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let message = openai_error(&client.post("/v1/chat/completions", &ask("hi")).await, 400, "idempotency_key_missing");
    for cure in [
        "curl: -H 'Idempotency-Key:",
        "openai-python",
        "extra_headers={\"Idempotency-Key\"",
        "openai-node",
        "AI SDK",
        "same on every retry",
    ] {
        assert!(message.contains(cure), "{cure}: {message}");
    }
    let order = json!({ "url": "/v1/chat/completions", "body": ask("hi") });
    problem(&client.post("/v1/jobs", &order).await, 400, "idempotency_key_missing");
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn a_key_that_is_no_key_is_refused_with_what_is_wrong_with_it() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let random: String =
        (0..150).map(|n: u32| char::from(b'!' + (n * 37 % 90) as u8)).collect::<String>().replace('"', "x").repeat(20);
    for (key, why) in [
        ("", "empty"),
        ("\"\"", "empty"),
        ("a b", "offset 1"),
        ("a\tb", "offset 1"),
        ("\"abc", "quote"),
        ("abc\"", "quote"),
        ("\"a\\nb\"", "offset"),
        (&"x".repeat(256), "256 bytes"),
        (&"a".repeat(3000), "3000 bytes"),
        (&random, "3000 bytes"),
    ] {
        let message = openai_error(&client.chat(key, &ask("hi")).await, 400, "idempotency_key_invalid");
        assert!(message.contains(why) && !message.contains("aaaa"), "{key}: {message}");
        problem(&client.create_job(key, &ask("hi")).await, 400, "idempotency_key_invalid");
    }
    let two = client.chat_call("k1", &ask("hi")).key("k1").send().await;
    assert!(openai_error(&two, 400, "idempotency_key_invalid").contains("two"));
    let bytes = [
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-length: 2\r\nidempotency-key: caf", client.token).as_bytes(),
        b"\xc3\xa9\r\n\r\n{}",
    ]
    .concat();
    let answer = raw(app.application, &bytes).await;
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("idempotency_key_invalid") && answer.contains("offset 3"),
        "{answer}"
    );
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn the_longest_key_and_the_quoted_key_are_keys() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    client.chat(&"~".repeat(255), &ask("hi")).await.expect(200);
    let first = client.chat("abc", &ask("hi")).await.expect(200);
    let quoted = client.chat("\"abc\"", &ask("hi")).await.expect(200);
    assert!(quoted.is_replayed() && quoted.job_id() == first.job_id());
    assert_eq!(quoted.header("idempotency-key"), Some("abc"));
    assert_eq!(alpha.count(), 2);
}

#[tokio::test]
async fn an_address_or_a_method_that_leads_nowhere_is_told_as_a_problem() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    for path in [
        "/",
        "/v1",
        "/v1/chat",
        "/v1/chat/completions/",
        "/v2/chat/completions",
        "/admin/v1/jobs",
        "/v1/jobs/x/y/z",
        "/..%2f..%2fetc/passwd",
    ] {
        problem(&client.get(path).await, 404, "not_found");
    }
    for (method, path) in [
        (Method::GET, "/v1/chat/completions"),
        (Method::DELETE, "/v1/jobs"),
        (Method::POST, "/v1/models"),
        (Method::PUT, "/healthz"),
    ] {
        let answer = client.request(method.clone(), path).send().await;
        problem(&answer, 405, "method_not_allowed");
        assert!(answer.header("allow").is_some(), "{method} {path}: RFC 9110 wants Allow: {answer:?}");
    }
    let operator = app.operator();
    problem(&operator.get("/admin/v1/nothing").await, 404, "not_found");
    problem(&operator.request(Method::PUT, "/admin/v1/races").send().await, 405, "method_not_allowed");
    unharmed(&app, &client, &alpha).await;
}

/// R11: what cannot be an id is answered as an id that is not there.
#[tokio::test]
async fn what_is_no_id_and_an_id_of_nothing_get_the_same_404() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let (client, operator) = (app.client("acme").await, app.operator());
    let nothing = Uuid::now_v7().to_string();
    for (method, prefix, suffix) in
        [(Method::GET, "/v1/jobs/", ""), (Method::GET, "/v1/jobs/", "/result"), (Method::POST, "/v1/jobs/", "/cancel")]
    {
        let expected = client.request(method.clone(), &format!("{prefix}{nothing}{suffix}")).send().await;
        problem(&expected, 404, "not_found");
        for id in
            ["x", "0", "%00", "%ff", "..", "1e3", "{id}", &nothing[1..], &format!("{nothing}0"), "'%20OR%20'1'='1"]
        {
            let answer = client.request(method.clone(), &format!("{prefix}{id}{suffix}")).send().await;
            assert_eq!((answer.status, answer.text()), (expected.status, expected.text()), "{id}{suffix}");
        }
    }
    for (method, path) in [
        (Method::GET, "/admin/v1/jobs/"),
        (Method::GET, "/admin/v1/contract-runs/"),
        (Method::DELETE, "/admin/v1/permits/"),
    ] {
        for id in ["x", &nothing] {
            let answer =
                operator.request(method.clone(), &format!("{path}{id}")).json(&json!({"reason": "why"})).send().await;
            problem(&answer, 404, "not_found");
        }
    }
    for deed in ["release", "cancel", "fail"] {
        for id in ["x", &nothing] {
            problem(&app.clear(id, deed).await, 404, "not_found");
        }
    }
    unharmed(&app, &client, &alpha).await;
}

#[tokio::test]
async fn a_query_that_cannot_be_read_is_refused_as_a_problem() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, "")).await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("hi")).await.expect(200).job_id();
    for query in ["wait=soon", "wait=-1", "wait="] {
        let told = problem(&client.get(&format!("/v1/jobs/{job}?{query}")).await, 400, "invalid_request");
        assert!(told["detail"].as_str().is_some_and(|detail| detail.contains("wait")), "{told}");
    }
    let twice = client.get(&format!("/v1/jobs/{job}?wait=1s&wait=2s")).await;
    assert_eq!((twice.status, twice.header("content-type")), (400, Some("application/problem+json")), "{twice:?}");
    problem(&client.get("/v1/jobs?idempotency_key=%00").await, 400, "invalid_request");
    problem(&app.operator().get("/admin/v1/permits?route=a%00b").await, 400, "invalid_request");
    assert_eq!(
        client.get("/v1/jobs?idempotency_key=%C3%A9").await.expect(200).json()["data"],
        json!([]),
        "nobody's key"
    );
    let states = problem(&app.operator().get("/admin/v1/jobs?state=runing").await, 400, "invalid_request");
    assert!(states["detail"].as_str().is_some_and(|detail| detail.contains("running")), "{states}");
}
