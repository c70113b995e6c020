//! A prompt that certainly does not fit a target's window is not sent there: a permitted target with a larger one gets it,
//! or the request is refused, with counts, window and cure.

use http::Method;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::ask;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream, Wire};

/// `m1` holds a hundred tokens.
const SMALL: &str = "windows.m1 = { context_window = 100, tokenizer = \"cl100k_base\" }";
const LARGER: &str = "windows.m2 = { context_window = 1000, tokenizer = \"o200k_base\" }";

/// A text of so many tokens.
fn tokens(n: usize) -> String {
    format!("a{}", " a".repeat(n - 1))
}

fn long() -> Value {
    ask(&tokens(300))
}

async fn one(lines: &str) -> (ScriptedUpstream, App, Client) {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("of A"));
    let settings = Settings::one(&alpha, "").provider("alpha", "openai", &alpha.base_url(), lines);
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    (alpha, app, client)
}

fn both(alpha: &ScriptedUpstream, beta: &ScriptedUpstream) -> Settings {
    let settings = Settings::two(alpha, beta, "").provider("alpha", "openai", &alpha.base_url(), SMALL);
    settings.provider("beta", "openai", &beta.base_url(), LARGER)
}

async fn two() -> (ScriptedUpstream, ScriptedUpstream, App, Client) {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::answer("of A"));
    beta.always(Reply::answer("of B"));
    let app = App::start(&both(&alpha, &beta)).await;
    let client = app.client("acme").await;
    (alpha, beta, app, client)
}

#[track_caller]
fn assert_says(answer: &Answer, words: &[&str]) {
    for word in words {
        assert!(answer.text().contains(word), "`{word}` is not in {}", answer.text());
    }
}

async fn metric(app: &App, line: &str) -> bool {
    app.operator().get("/metrics").await.expect(200).text().lines().any(|l| l == line)
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_is_refused_before_the_provider_sees_a_byte_and_makes_no_job() {
    let (alpha, app, client) = one(SMALL).await;
    let mut streamed = long();
    streamed["stream"] = true.into();
    for body in [long(), streamed] {
        let refused = client.chat("k", &body).await.expect(400);
        assert_eq!(refused.code(), "context_length_exceeded");
        assert_eq!(refused.json()["error"]["param"], "messages");
        assert_says(
            &refused,
            &[
                "alpha/m1 was not tried: `messages` has at least 300 tokens, and its window holds 100 (settings)",
                "shorten `messages`",
            ],
        );
    }
    assert_eq!((alpha.count(), client.job_by_key("k").await), (0, None));
    assert!(metric(&app, "interlock_refused_total{reason=\"context_length\"} 2").await);
    // The key is free: what was refused never began.
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "of A");
}

#[tokio::test]
async fn what_has_few_bytes_is_not_counted_and_what_fits_by_its_tokens_is_sent() {
    let (alpha, app, client) = one(SMALL).await;
    // Less than 100 bytes with all its JSON.
    client.chat("short", &ask("hello")).await.expect(200);
    let counted = "interlock_prompts_counted_total";
    assert!(!app.operator().get("/metrics").await.text().contains(counted), "a short prompt was counted");
    client.chat("exact", &ask(&tokens(100))).await.expect(200);
    assert!(metric(&app, &format!("{counted}{{verdict=\"fits\"}} 1")).await);
    client.chat("above", &ask(&tokens(101))).await.expect(400);
    assert!(metric(&app, &format!("{counted}{{verdict=\"too_long\"}} 1")).await);
    assert_eq!(alpha.count(), 2);
    // A model that nobody here counts for holds everything.
    let (alpha, _app, client) = one("windows.m1 = { context_window = 100 }").await;
    client.chat("k", &long()).await.expect(200);
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn the_answer_asked_for_takes_its_room_where_the_settings_say_so() {
    let (alpha, _app, client) = one(&SMALL.replace("tokenizer", "answer_counts = true, tokenizer")).await;
    let mut body = ask(&tokens(90));
    client.chat("k", &body).await.expect(200);
    body["max_completion_tokens"] = 20.into();
    let refused = client.chat("k2", &body).await.expect(400);
    assert_says(
        &refused,
        &["at least 90 tokens, `max_completion_tokens` asks for 20 more", "or lower `max_completion_tokens`"],
    );
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_permitted_fallback_with_a_larger_window_gets_it_and_its_answer_stays() {
    let (alpha, beta, app, client) = two().await;
    let permit = app.permit("beta/m2").await;
    let answer = client.chat("k", &long()).await.expect(200);
    assert_eq!((answer.content().as_str(), answer.header("x-interlock-attempts")), ("of B", Some("1")));
    assert_eq!((alpha.count(), beta.count()), (0, 1));
    let job = client.job(&answer.job_id()).await;
    assert_eq!(job["attempts"][0]["provider"], "beta");
    assert_eq!(job["attempts"][0]["permit_id"].as_str(), Some(&*permit));
    // What fits still goes to the primary.
    assert_eq!(client.chat("short", &ask("hi")).await.expect(200).content(), "of A");
    // The same key is the same job, though nobody would take the prompt any more (R2).
    let revoke = app.operator().request(Method::DELETE, &format!("/admin/v1/permits/{permit}"));
    revoke.json(&json!({ "reason": "test" })).send().await.expect(200);
    let replayed = client.chat("k", &long()).await.expect(200);
    assert!(replayed.is_replayed() && replayed.content() == "of B");
    client.chat("k", &ask("another")).await.expect(409);
    client.chat("k2", &long()).await.expect(400);
    assert_eq!(beta.count(), 1);
}

#[tokio::test]
async fn without_a_permit_the_error_says_what_evidence_is_missing_and_the_same_key_works_once_it_is_there() {
    let (alpha, beta, app, client) = two().await;
    let refused = client.chat("k", &long()).await.expect(400);
    assert_says(
        &refused,
        &[
            "alpha/m1 was not tried: `messages` has",
            "beta/m2 was not tried: no permit",
            "run the suite `support-triage`",
        ],
    );
    assert_eq!(refused.json()["error"]["attempts"].as_array().map(Vec::len), Some(2));
    app.permit("beta/m2").await;
    let before = beta.count();
    assert_eq!(client.chat("k", &long()).await.expect(200).content(), "of B");
    assert_eq!((alpha.count(), beta.count()), (0, before + 1));
    let longer = client.chat("k3", &ask(&tokens(2000))).await.expect(400);
    assert_says(
        &longer,
        &["its window holds 100", "beta/m2 was not tried: `messages` has at least 2000", "holds 1000"],
    );
}

#[tokio::test]
async fn a_fallback_that_is_too_small_is_passed_over_when_the_primary_fails() {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(Reply::overloaded());
    beta.always(Reply::answer("of B"));
    let lines = SMALL.replace("m1", "m2");
    let settings = Settings::two(&alpha, &beta, "").provider("beta", "openai", &beta.base_url(), &lines);
    let app = App::start(&settings).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let before = beta.count();
    let refused = client.chat("k", &long()).await.expect(503);
    assert_eq!(refused.code(), "all_targets_failed");
    assert_says(&refused, &["beta/m2 was not tried: `messages` has at least 300 tokens"]);
    assert_eq!((alpha.count(), beta.count()), (1, before));
}

#[tokio::test]
async fn a_job_whose_only_large_target_has_lost_its_permit_fails_for_good() {
    let (alpha, beta, app, client) = two().await;
    let permit = app.permit("beta/m2").await;
    beta.always(Reply::overloaded());
    let over = client.chat("k", &long()).await.expect(503);
    assert_eq!(over.code(), "all_targets_failed");
    assert_says(&over, &["alpha/m1 was not tried: `messages` has at least 300 tokens"]);
    let revoke = app.operator().request(Method::DELETE, &format!("/admin/v1/permits/{permit}"));
    revoke.json(&json!({ "reason": "test" })).send().await.expect(200);
    let failed = client.chat("k", &long()).await.expect(400);
    assert_eq!((failed.code().as_str(), failed.job_id()), ("context_length_exceeded", over.job_id()));
    assert_says(&failed, &["`messages` has at least 300 tokens", "was revoked"]);
    assert_eq!(client.job(&over.job_id()).await["state"], "failed");
    assert_eq!(alpha.count(), 0);
}

#[tokio::test]
async fn each_dialect_is_told_in_its_own_shape() {
    let (alpha, _app, client) = one(SMALL).await;
    let text = tokens(300);
    let post = async |path: &str, body: Value| {
        client.request(Method::POST, path).key(path).json(&body).send().await.expect(400).json()
    };
    let responses = post("/v1/responses", json!({ "model": "support", "input": text })).await;
    let error = &responses["error"];
    assert_eq!((&error["code"], &error["param"]), (&json!("context_length_exceeded"), &json!("input")));
    assert_eq!(error["type"], "invalid_request_error");
    let embeddings = post("/v1/embeddings", json!({ "model": "support", "input": ["x", text] })).await;
    assert_eq!(embeddings["error"]["param"], "input[1]");
    let message = json!({ "role": "user", "content": text });
    let body = json!({ "model": "support", "max_tokens": 5, "messages": [message] });
    let messages = post("/v1/messages", body.clone()).await;
    let error = &messages["error"];
    assert_eq!((&messages["type"], &error["type"]), (&json!("error"), &json!("invalid_request_error")));
    assert_eq!((&error["code"], &error["param"]), (&json!("context_length_exceeded"), &json!("messages")));
    let order = json!({ "url": "/v1/messages", "body": body });
    let job = client.request(Method::POST, "/v1/jobs").key("k").json(&order).send().await.expect(400);
    assert_eq!(job.header("content-type"), Some("application/problem+json"));
    assert_eq!(
        (job.json()["code"].as_str(), job.json()["param"].as_str()),
        (Some("context_length_exceeded"), Some("messages"))
    );
    assert_eq!(alpha.count(), 0);
}

#[tokio::test]
async fn a_provider_of_another_dialect_is_judged_by_the_same_count() {
    let alpha = ScriptedUpstream::speaking(Wire::Anthropic).await;
    alpha.always(Reply::answer("of A"));
    let settings = Settings::one(&alpha, "").provider("alpha", "anthropic", &alpha.base_url(), SMALL);
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    client.chat("k", &long()).await.expect(400);
    client.chat("k2", &ask(&tokens(100))).await.expect(200);
    assert_eq!(alpha.count(), 1);
}

// What the client lets the provider shorten is not too long.
#[tokio::test]
async fn a_request_that_may_be_shortened_is_sent() {
    let (alpha, _app, client) = one(SMALL).await;
    let mut body = long();
    body["truncate_prompt_tokens"] = 50.into();
    client.chat("k", &body).await.expect(200);
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn a_refused_prompt_takes_nothing_of_its_owners_limits() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("of A"));
    let settings = Settings::one(&alpha, "").provider("alpha", "openai", &alpha.base_url(), SMALL);
    let app = App::start(&settings.raw("[limits]\nrequests_per_minute = 1\nconcurrent_jobs = 1")).await;
    let client = app.client("acme").await;
    client.chat("k", &long()).await.expect(400);
    client.chat("k2", &ask("hi")).await.expect(200);
    client.chat("k3", &long()).await.expect(429);
}
