//! DESIGN 4, 5: what each failure of the primary allows: the same target again, the next one, or neither.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, nobody_listens};

/// A fails in some way; B is sound and holds a permit.
struct Pair {
    alpha: ScriptedUpstream,
    beta: ScriptedUpstream,
    app: App,
    client: Client,
}

async fn pair(reply: Reply, lines: &str) -> Pair {
    let (alpha, beta) = (ScriptedUpstream::start().await, ScriptedUpstream::start().await);
    alpha.always(reply);
    beta.always(Reply::answer("of B"));
    let app = App::start(&Settings::two(&alpha, &beta, lines)).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    Pair { alpha, beta, app, client }
}

impl Pair {
    async fn assert_fails_over(self, what: &str, reason: &str) {
        let answer = self.client.chat("k", &ask("hi")).await;
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert_eq!(answer.content(), "of B", "{what}");
        assert_eq!((self.alpha.count(), self.beta.count()), (1, 1), "{what}");
        let job = self.client.job(&answer.job_id()).await;
        assert_eq!(job["attempts"][0]["state"], "failed", "{what}");
        assert_eq!(job["attempts"][0]["reason"], reason, "{what}");
    }

    async fn assert_returned(self, what: &str, status: u16, code: &str) -> Answer {
        let answer = self.client.chat("k", &ask("hi")).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert_eq!(answer.code(), code, "{what}");
        let again = self.client.chat("k", &ask("hi")).await.expect(status);
        assert_eq!((again.code(), again.is_replayed()), (code.to_owned(), true), "{what}: for good");
        assert_eq!((self.alpha.count(), self.beta.count()), (1, 0), "{what}: neither retried nor routed around");
        assert_eq!(self.client.job(&answer.job_id()).await["state"], "failed", "{what}");
        answer
    }
}

// B089
#[tokio::test]
async fn a_refused_connection_fails_over() {
    let beta = ScriptedUpstream::start().await;
    let settings = Settings::new()
        .provider("alpha", "openai", &nobody_listens().await, "")
        .upstream("beta", &beta)
        .route("support", &["alpha/m1", "beta/m2"], "");
    let app = App::start(&settings).await;
    app.permit("beta/m2").await;
    let client = app.client("acme").await;
    let answer = client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.header("x-interlock-provider"), Some("beta"));
    assert_eq!(client.job(&answer.job_id()).await["attempts"][0]["reason"], "connect_refused");
}

// B097
#[tokio::test]
async fn an_overloaded_provider_fails_over() {
    let own = |status| Reply::error(status, "overloaded_error", "overloaded");
    pair(own(503), "").await.assert_fails_over("503", "overloaded").await;
    pair(own(529), "").await.assert_fails_over("529", "overloaded").await;
    pair(Reply::error(429, "rate_limit_exceeded", "slow down"), "")
        .await
        .assert_fails_over("429", "rate_limited")
        .await;
    pair(own(500), "").await.assert_fails_over("500 of its own", "provider_error").await;
}

#[tokio::test]
async fn a_fault_of_our_set_up_fails_over() {
    let own = |status| Reply::error(status, "denied", "not for you");
    pair(own(401), "retries = 2").await.assert_fails_over("401", "unauthorized").await;
    pair(own(403), "retries = 2").await.assert_fails_over("403", "unauthorized").await;
    pair(own(404), "retries = 2").await.assert_fails_over("404", "not_found").await;
}

#[tokio::test]
async fn an_answer_that_is_none_fails_over_and_its_cost_is_kept() {
    let no_choices =
        r#"{"id":"x","object":"chat.completion","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
    let pair = pair(Reply::whole(200, "application/json", no_choices), "").await;
    let answer = pair.client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.content(), "of B");
    let first = &pair.client.job(&answer.job_id()).await["attempts"][0];
    assert_eq!((&first["reason"], &first["usage"]["input_tokens"]), (&json!("invalid_answer"), &json!(9)));
}

#[tokio::test]
async fn a_request_that_is_wrong_is_returned_and_goes_nowhere_else() {
    let answer = pair(Reply::bad_request(), "retries = 2").await.assert_returned("400", 400, "request_refused").await;
    assert!(answer.json()["error"]["message"].as_str().expect("a message").contains("temperature must be below 2"));
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let odd = Reply::error(418, "teapot", "short and stout");
    pair(odd, "retries = 2").await.assert_returned("418", 418, "request_refused").await;
}

#[tokio::test]
async fn a_refusal_by_policy_is_returned_and_not_routed_around() {
    let refusal = Reply::error(400, "content_policy_violation", "not that");
    pair(refusal, "retries = 2").await.assert_returned("policy", 400, "content_policy").await;
}

#[tokio::test]
async fn a_prompt_too_long_may_go_to_a_permitted_target() {
    let too_long = || Reply::error(400, "context_length_exceeded", "maximum context length is 8192 tokens");
    pair(too_long(), "").await.assert_fails_over("too long", "context_length").await;
    let alpha = ScriptedUpstream::start().await;
    alpha.always(too_long());
    let app = App::start(&Settings::one(&alpha, "")).await;
    let answer = app.client("acme").await.chat("k", &ask("hi")).await.expect(400);
    assert_eq!(answer.code(), "context_length_exceeded");
}

// B088: another provider's bill is not the gateway's to run up, unless the route says so.
#[tokio::test]
async fn an_account_without_credit_fails_over_only_where_the_route_allows_it() {
    let broke = || Reply::error(402, "insufficient_balance", "account balance too low for this call");
    let refused = pair(broke(), "").await;
    let answer = refused.client.chat("k", &ask("hi")).await.expect(502);
    assert_eq!(answer.code(), "all_targets_failed");
    assert_eq!(refused.beta.count(), 0);
    pair(broke(), "fail_over_on_billing = true").await.assert_fails_over("402", "billing").await;
    // Anthropic says it with a 400; it is the account all the same.
    let anthropic = Reply::error(400, "invalid_request_error", "Your credit balance is too low to access the API");
    pair(anthropic, "fail_over_on_billing = true").await.assert_fails_over("400", "billing").await;
}

/// The times between one call and the next.
fn gaps(upstream: &ScriptedUpstream) -> Vec<Duration> {
    upstream.calls().windows(2).map(|two| two[1].at - two[0].at).collect()
}

#[tokio::test]
async fn the_same_target_is_retried_with_growing_pauses_before_the_next_is_tried() {
    let p = pair(Reply::overloaded(), "retries = 2").await;
    let answer = p.client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.content(), "of B");
    assert_eq!(answer.header("x-interlock-attempts"), Some("4"));
    assert_eq!((p.alpha.count(), p.beta.count()), (3, 1));
    let gaps = gaps(&p.alpha);
    assert!(gaps[0] >= Duration::from_millis(375) && gaps[1] >= Duration::from_millis(750), "{gaps:?}");
    let ids: std::collections::HashSet<_> = p.alpha.calls().into_iter().map(|call| call.attempt_id).collect();
    assert_eq!(ids.len(), 3, "each try has an id of its own");
}

// B084
#[tokio::test]
async fn retry_after_is_a_floor() {
    let p = pair(Reply::answer("of A"), "retries = 2").await;
    p.alpha.next(Reply::error(429, "rate_limit_exceeded", "slow down").header("retry-after", "2"));
    let answer = p.client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!(answer.content(), "of A");
    assert!(gaps(&p.alpha)[0] >= Duration::from_secs(2), "{:?}", gaps(&p.alpha));
    assert_eq!(p.beta.count(), 0);
}

// B085
#[tokio::test]
async fn a_retry_after_beyond_any_callers_patience_fails_over_at_once() {
    for seconds in ["60", "1382400"] {
        let limit = Reply::error(429, "rate_limit_exceeded", "monthly limit reached").header("retry-after", seconds);
        let p = pair(limit, "retries = 5").await;
        let asked = Instant::now();
        assert_eq!(p.client.chat("k", &ask("hi")).await.expect(200).content(), "of B");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        assert_eq!((p.alpha.count(), p.beta.count()), (1, 1));
    }
}

// B091: with nothing to wait for, no SDK walks the whole chain again by itself.
#[tokio::test]
async fn when_every_target_has_failed_the_answer_lists_them_and_the_same_key_goes_on() {
    let p = pair(Reply::overloaded(), "").await;
    p.beta.always(Reply::overloaded());
    let failed = p.client.chat("k", &ask("hi")).await.expect(503);
    assert_eq!(failed.code(), "all_targets_failed");
    assert_eq!(failed.header("x-should-retry"), Some("false"));
    let attempts = failed.json()["error"]["attempts"].to_string();
    assert!(attempts.contains("alpha/m1") && attempts.contains("beta/m2"), "{attempts}");
    assert_eq!((p.alpha.count(), p.beta.count()), (1, 1));
    assert_eq!(p.client.job(&failed.job_id()).await["state"], "queued", "a stored `overloaded` is no answer for ever");
    p.alpha.always(Reply::answer("of A"));
    let answer = p.client.chat("k", &ask("hi")).await.expect(200);
    assert_eq!((answer.content().as_str(), answer.job_id()), ("of A", failed.job_id()));
    assert_eq!(answer.header("x-interlock-attempts"), Some("3"));
    assert_eq!(p.app.database.count("SELECT round::int8 FROM jobs").await, 2);
    assert_eq!(p.client.job(&answer.job_id()).await["error"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_job_that_has_used_up_its_attempts_has_failed_for_good() {
    let p = pair(Reply::overloaded(), "max_attempts = 2\nretries = 5").await;
    let failed = p.client.chat("k", &ask("hi")).await.expect(502);
    assert_eq!(failed.code(), "max_attempts");
    let again = p.client.chat("k", &ask("hi")).await.expect(502);
    assert_eq!((again.is_replayed(), again.header("x-should-retry")), (true, Some("false")));
    assert_eq!((p.alpha.count(), p.beta.count()), (2, 0));
    assert_eq!(p.client.job(&failed.job_id()).await["state"], "failed");
}

#[tokio::test]
async fn a_job_past_its_deadline_has_failed_for_good() {
    let p = pair(Reply::overloaded(), "job_deadline = \"700ms\"").await;
    p.beta.always(Reply::overloaded());
    p.client.chat("k", &ask("hi")).await.expect(503);
    crate::support::eventually("the deadline has passed", async || {
        p.app.database.count("SELECT count(*) FROM jobs WHERE deadline_at < now()").await == 1
    })
    .await;
    assert_eq!(p.client.chat("k", &ask("hi")).await.expect(504).code(), "job_deadline");
    assert_eq!((p.alpha.count(), p.beta.count()), (1, 1));
}

// B090: what cannot be translated is wrong at once, for every target, and there is no job of it.
#[tokio::test]
async fn a_request_that_cannot_be_translated_is_refused_before_there_is_a_job() {
    let p = pair(Reply::answer("of A"), "").await;
    let body = json!({
        "model": "support",
        "messages": [
            { "role": "user", "content": "q" },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "c1", "type": "function",
                "function": { "name": "rd", "arguments": "{\"path\":\"a\"}{\"path\":\"b\"}" } }] },
            { "role": "tool", "tool_call_id": "c1", "content": "R" },
        ],
        "tools": [{ "type": "function", "function": { "name": "rd", "parameters": { "type": "object" } } }],
    });
    let refused = p.client.chat("k", &body).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!((p.alpha.count(), p.beta.count()), (0, 0));
    assert_eq!(p.app.database.count("SELECT count(*) FROM jobs").await, 0);
}
