//! What Google's complete answer other than 2xx proves: `{"error": {"code", "message", "status", "details"}}`, on
//! `streamGenerateContent` also as the only item of an array, and the statuses of the table in [`crate::refusal`].
//!
//! Two things are said in `details` alone: how long to wait (`RetryInfo`, no header), and whether a quota refills in a
//! minute or a day (`QuotaFailure`). The message speaks of "plan and billing" in both cases (recorded 2026-08).

use std::time::Duration;

use crate::adapter::Head;
use crate::compatible::Row;
use crate::error_shapes::own_error;
use crate::failure::{Failure, Proof, Rejection};
use crate::json::Json;
use crate::refusal;
use crate::retry_after::LONGEST;

pub(crate) fn read(row: &Row, head: &Head, body: &[u8]) -> Failure {
    let failure = refusal::judge(row, head, own_error(row, head.status, body));
    let details = Json::parse(body).ok().map(|body| details(&body)).unwrap_or_default();
    let retry_after = failure.retry_after.or_else(|| wish(&details));
    let minute = violations(&details).any(|id| id.contains("PerMinute")) || retry_after.is_some();
    let day = violations(&details).any(|id| id.contains("PerDay") || id.contains("PerMonth"));
    let (proof, reason) = match failure.proof {
        Proof::Rejected(Rejection::QuotaExhausted) if minute && !day => {
            (Proof::Rejected(Rejection::RateLimited), "rate_limited")
        }
        Proof::Rejected(Rejection::RateLimited) if day => {
            (Proof::Rejected(Rejection::QuotaExhausted), "quota_exhausted")
        }
        proof => (proof, failure.reason),
    };
    Failure { proof, reason, retry_after, ..failure }
}

fn details(body: &Json) -> Vec<Json> {
    let body = match body {
        Json::Array(items) => items.first().unwrap_or(body),
        _ => body,
    };
    let details = body.get("error").and_then(|error| error.get("details")).and_then(Json::as_array);
    details.unwrap_or_default().to_vec()
}

/// `"retryDelay": "48s"`, fractions included.
fn wish(details: &[Json]) -> Option<Duration> {
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s'))?;
    let plain = !delay.is_empty() && delay.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = if plain { delay.parse().ok()? } else { return None };
    Duration::try_from_secs_f64(seconds.min(LONGEST.as_secs_f64())).ok()
}

fn violations(details: &[Json]) -> impl Iterator<Item = &str> {
    let lists = details.iter().filter_map(|detail| detail.get("violations").and_then(Json::as_array));
    lists.flatten().filter_map(|violation| violation.get("quotaId")?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatible::row_named;

    fn failure(status: u16, body: &str) -> Failure {
        let status = http::StatusCode::from_u16(status).unwrap();
        read(row_named("gemini").unwrap(), &Head { status, headers: http::HeaderMap::new() }, body.as_bytes())
    }

    fn quota(id: &str) -> String {
        format!(
            r#"{{"error":{{"code":429,"message":"You exceeded your current quota, please check your plan and billing.",
            "status":"RESOURCE_EXHAUSTED","details":[{{"violations":[{{"quotaId":"{id}"}}]}},{{"retryDelay":"48.5s"}}]}}}}"#
        )
    }

    #[test]
    fn a_quota_of_a_minute_is_a_rate_and_one_of_a_day_is_a_quota() {
        let minute = failure(429, &quota("GenerateContentPaidTierInputTokensPerModelPerMinute"));
        assert_eq!(minute.proof, Proof::Rejected(Rejection::RateLimited));
        assert_eq!(minute.retry_after, Some(Duration::from_millis(48_500)));
        let day = failure(429, &quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"));
        assert_eq!(day.proof, Proof::Rejected(Rejection::QuotaExhausted));
    }

    #[test]
    fn every_class_of_error_keeps_its_words() {
        let rejected = |status, message: &str, word, class, reason| {
            let body = format!(r#"{{"error":{{"code":{status},"message":"{message}","status":"{word}"}}}}"#);
            for body in [body.clone(), format!("[{body}]")] {
                let failure = failure(status, &body);
                assert_eq!((failure.proof, failure.reason), (class, reason), "{message}");
                assert_eq!((failure.message.as_str(), failure.kind.as_deref()), (message, Some(word)));
            }
        };
        let refusal = Proof::Rejected;
        let long = "The input token count (7) exceeds the maximum number of tokens allowed (4).";
        rejected(400, long, "INVALID_ARGUMENT", refusal(Rejection::ContextLength), "context_length");
        rejected(400, "API key not valid.", "INVALID_ARGUMENT", refusal(Rejection::Setup), "unauthorized");
        rejected(400, "Unknown name x", "INVALID_ARGUMENT", refusal(Rejection::BadRequest), "bad_request");
        rejected(403, "no", "PERMISSION_DENIED", refusal(Rejection::Setup), "unauthorized");
        rejected(404, "models/x is not found", "NOT_FOUND", refusal(Rejection::Setup), "not_found");
        rejected(500, "internal", "INTERNAL", Proof::EndedWithoutResult, "provider_error");
        rejected(503, "overloaded", "UNAVAILABLE", refusal(Rejection::Overloaded), "overloaded");
        rejected(504, "deadline", "DEADLINE_EXCEEDED", Proof::Unknown, "provider_timeout");
        rejected(499, "cancelled", "CANCELLED", Proof::Unknown, "foreign_answer");
    }
}
