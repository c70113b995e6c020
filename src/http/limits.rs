//! Owners' limits as clients see them: OpenAI's `x-ratelimit-*` headers on every answer to a request that may make a
//! job, and the words of a 429.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};

use super::auth::Caller;
use crate::domain::ids::OwnerId;
use crate::domain::limits::{Gauge, Limit, Measure, Refusal};
use crate::engine::Engine;

/// Who turned out to be asking, where there are limits.
#[derive(Debug, Clone, Default)]
struct Noted(Arc<OnceLock<(OwnerId, Limit)>>);

/// Notes whose limits the answer tells of.
pub fn note(parts: &Parts, caller: &Caller) {
    if let Some(noted) = parts.extensions.get::<Noted>().filter(|_| !caller.limit.is_unlimited()) {
        let _ = noted.0.set((caller.owner, caller.limit));
    }
}

/// Tells in the answer's headers how far the owner's limits are used up.
pub async fn tell(State(engine): State<Engine>, mut request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let noted = Noted::default();
    request.extensions_mut().insert(noted.clone());
    let mut response = next.run(request).await;
    if let Some((owner, limit)) = noted.0.get() {
        let standing = engine.limits().standing(*owner, limit);
        let out = response.headers_mut();
        let names = ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
        gauge(out, names, standing.requests);
        let names = ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];
        gauge(out, names, standing.tokens);
    }
    response
}

fn gauge(out: &mut HeaderMap, [limit, remaining, reset]: [&'static str; 3], gauge: Option<Gauge>) {
    let Some(gauge) = gauge else { return };
    out.insert(HeaderName::from_static(limit), HeaderValue::from(gauge.limit));
    out.insert(HeaderName::from_static(remaining), HeaderValue::from(gauge.remaining));
    if let Ok(value) = HeaderValue::from_str(&as_openai_writes(gauge.reset)) {
        out.insert(HeaderName::from_static(reset), value);
    }
}

/// `0s`, `120ms`, `59.5s`, `1m5s`: the form in which OpenAI writes these times.
fn as_openai_writes(time: Duration) -> String {
    let millis = time.as_millis();
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    match (minutes, rest) {
        (0, 0) => "0s".to_owned(),
        (0, 1..1_000) => format!("{rest}ms"),
        (0, _) => format!("{}s", rest as f64 / 1_000.0),
        (_, _) => format!("{minutes}m{}s", rest as f64 / 1_000.0),
    }
}

/// What a 429 says.
pub fn words(refusal: &Refusal) -> String {
    let Refusal { limit, used, asked, .. } = refusal;
    let (what, setting) = match refusal.measure {
        Measure::Requests => ("requests per minute", "requests_per_minute"),
        Measure::Tokens => ("tokens per minute", "tokens_per_minute"),
        Measure::Jobs => ("jobs at once (running, or with an unknown outcome)", "concurrent_jobs"),
    };
    match refusal.retry_after {
        Some(pause) => {
            let seconds = pause.as_millis().div_ceil(1000).max(1);
            format!(
                "your limit of {limit} {what} is used up ({used} used, {asked} more asked); repeat the request with the same Idempotency-Key in {seconds} s. Nothing was sent"
            )
        }
        None => format!(
            "this request may use {asked} of {limit} {what}, more than the whole limit: lower max_tokens or shorten the prompt, or have the operator raise {setting}. Nothing was sent"
        ),
    }
}

/// The same as data.
pub fn details(refusal: &Refusal) -> Value {
    json!({
        "measure": refusal.measure.as_str(),
        "limit": refusal.limit,
        "used": refusal.used,
        "asked": refusal.asked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_openai_writes_them() {
        let written = |millis| as_openai_writes(Duration::from_millis(millis));
        assert_eq!([0, 7, 999].map(written), ["0s", "7ms", "999ms"]);
        assert_eq!([1_000, 59_500].map(written), ["1s", "59.5s"]);
        assert_eq!([60_000, 65_000, 3_600_250].map(written), ["1m0s", "1m5s", "60m0.25s"]);
    }
}
