//! From a complete answer other than 2xx to what it proves: the rows of DESIGN 4 that begin with a status.
//!
//! Adapters read their own error shape into an [`ErrorBody`]; this table does the rest. What stands here is decided on
//! the status and on codes, and on wording only where no code exists (`wording.rs`). A shape that is not the
//! provider's own came from some hop in between: it proves nothing, unless its status is one that a server answers
//! with before it looks at the request's content.

use std::time::Duration;

use http::StatusCode;

use crate::adapter::Head;
use crate::compatible::{Error500, Row};
use crate::failure::{Failure, Proof, Rejection, clean};
use crate::json::Json;
use crate::retry_after::retry_after;
use crate::wording;

/// A 429 that asks for more than this is no rate limit but a quota: it will not refill while a request waits.
const LONGEST_RATE_LIMIT: Duration = Duration::from_secs(3600);

/// An error in the provider's own shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorBody {
    pub message: String,
    pub code: Option<String>,
    pub kind: Option<String>,
    pub param: Option<String>,
    /// The model had already generated when this was refused (Groq's `failed_generation`).
    pub generated: bool,
}

impl ErrorBody {
    /// Reads the usual four members from an error object. A number as `code` becomes its text.
    pub fn from_members(error: &Json) -> ErrorBody {
        let text = |name: &str| match error.get(name) {
            Some(Json::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(Json::Number(number)) => Some(number.as_str().to_owned()),
            _ => None,
        };
        ErrorBody {
            message: text("message").unwrap_or_default(),
            code: text("code"),
            // Google's `status` is a word; Azure writes the number there.
            kind: text("type").or_else(|| error.get("status")?.as_str().map(str::to_owned)),
            param: text("param"),
            generated: error.get_some("failed_generation").is_some(),
        }
    }

    /// Whether `code` or `type` is one of `words`.
    fn is_called(&self, words: &[&str]) -> bool {
        [&self.code, &self.kind].into_iter().flatten().any(|word| words.contains(&word.as_str()))
    }
}

/// What the answer proves. `error` is `None` where the body is not the provider's own error shape.
pub fn judge(row: &Row, head: &Head, error: Option<ErrorBody>) -> Failure {
    let status = head.status;
    let wish = retry_after(&head.headers);
    let (proof, reason) = match &error {
        _ if status.is_redirection() => (Proof::Rejected(Rejection::Setup), "redirected"),
        Some(error) => own_shape(row, status, error, wish),
        None => foreign_shape(status),
    };
    let failure = described(proof, reason, status, &error.unwrap_or_default());
    Failure { retry_after: wish, ..failure }
}

/// A 200 whose body says `error`: the provider ended without a result.
pub fn error_in_answer(status: StatusCode, error: ErrorBody) -> Failure {
    described(Proof::EndedWithoutResult, "error_in_answer", status, &error)
}

fn described(proof: Proof, reason: &'static str, status: StatusCode, error: &ErrorBody) -> Failure {
    Failure {
        status: Some(status.as_u16()),
        code: error.code.as_deref().map(clean),
        kind: error.kind.as_deref().map(clean),
        param: error.param.as_deref().map(clean),
        ..Failure::new(proof, reason, message(status, error))
    }
}

/// A complete 2xx answer that is no valid one. Only a 200 says that this was all: 202 says that the work goes on.
pub fn invalid_answer(status: StatusCode, message: impl AsRef<str>) -> Failure {
    let (proof, reason) = match status {
        StatusCode::OK => (Proof::EndedWithoutResult, "invalid_answer"),
        _ => (Proof::Unknown, "unexpected_status"),
    };
    Failure { status: Some(status.as_u16()), ..Failure::new(proof, reason, message) }
}

fn message(status: StatusCode, error: &ErrorBody) -> String {
    if error.message.is_empty() {
        format!("{status}, without a word in the provider's own error shape")
    } else {
        wording::mask_keys(&error.message)
    }
}

/// Statuses that some hop answers before anything reads the request's content, or that are about admission by their
/// definition (RFC 9110, RFC 6585). 400, 403, 409, 422 and 424 are not among them: filters that read the *answer*
/// use them too, after the work was done.
fn foreign_shape(status: StatusCode) -> (Proof, &'static str) {
    match status.as_u16() {
        401 | 407 => (Proof::Rejected(Rejection::Setup), "unauthorized"),
        404 | 405 | 410 | 421 | 426 => (Proof::Rejected(Rejection::Setup), "not_found"),
        402 => (Proof::Rejected(Rejection::Billing), "billing"),
        411 | 413 | 414 | 415 | 431 => (Proof::Rejected(Rejection::BadRequest), "bad_request"),
        429 => (Proof::Rejected(Rejection::RateLimited), "rate_limited"),
        408 | 504 | 524 => (Proof::Unknown, "provider_timeout"),
        _ => (Proof::Unknown, "foreign_answer"),
    }
}

fn own_shape(row: &Row, status: StatusCode, error: &ErrorBody, wish: Option<Duration>) -> (Proof, &'static str) {
    let code = status.as_u16();
    if row.overloaded_statuses.contains(&code) {
        return (Proof::Rejected(Rejection::Overloaded), "overloaded");
    }
    if row.ended_statuses.contains(&code) {
        return (Proof::EndedWithoutResult, "provider_error");
    }
    if row.setup_statuses.contains(&code) {
        return (Proof::Rejected(Rejection::Setup), "precondition_failed");
    }
    match code {
        // Somebody gave up waiting; the work may go on.
        408 | 504 | 524 => (Proof::Unknown, "provider_timeout"),
        // A duplicate: the first one may have run, or be running.
        409 => (Proof::Unknown, "conflict"),
        // 424: a dependency failed, after some of the work. 499: somebody hung up.
        424 | 499 | 502 | 520..=523 | 525..=527 => (Proof::Unknown, "foreign_answer"),
        425 => (Proof::Rejected(Rejection::Overloaded), "too_early"),
        503 | 529 => (Proof::Rejected(Rejection::Overloaded), "overloaded"),
        500..=599 if row.error_500 == Error500::Unknown => (Proof::Unknown, "provider_error"),
        500..=599 => (Proof::EndedWithoutResult, "provider_error"),
        402 => (Proof::Rejected(Rejection::Billing), "billing"),
        429 => too_many(error, wish),
        400..=499 => refused(row, code, error),
        _ => (Proof::Unknown, "unexpected_status"),
    }
}

fn too_many(error: &ErrorBody, wish: Option<Duration>) -> (Proof, &'static str) {
    let quota = error.is_called(wording::QUOTA_CODES) || wording::means_quota(&error.message);
    if quota || wish.is_some_and(|wish| wish > LONGEST_RATE_LIMIT) {
        (Proof::Rejected(Rejection::QuotaExhausted), "quota_exhausted")
    } else {
        (Proof::Rejected(Rejection::RateLimited), "rate_limited")
    }
}

/// The remaining 4xx, by what they mean. The order matters: "tokens per minute" is a rate, not a length (B066).
fn refused(row: &Row, status: u16, error: &ErrorBody) -> (Proof, &'static str) {
    let rejected = |rejection, reason| (Proof::Rejected(rejection), reason);
    if error.generated || error.is_called(&["tool_use_failed"]) {
        return (Proof::EndedWithoutResult, "failed_generation");
    }
    if error.is_called(wording::RATE_CODES) || wording::means_rate(&error.message) {
        return rejected(Rejection::RateLimited, "rate_limited");
    }
    if error.is_called(wording::BILLING_CODES) || wording::means_billing(&error.message) {
        return rejected(Rejection::Billing, "billing");
    }
    if matches!(status, 401 | 404 | 405 | 410 | 421 | 426) {
        return rejected(Rejection::Setup, if status == 401 { "unauthorized" } else { "not_found" });
    }
    if error.is_called(wording::POLICY_CODES) {
        return rejected(Rejection::ContentPolicy, "content_policy");
    }
    if row.context_statuses.contains(&status) && wording::speaks_of_tokens(&error.message) {
        return rejected(Rejection::ContextLength, "context_length");
    }
    if status == 403 || error.is_called(wording::SETUP_CODES) || wording::means_setup(&error.message) {
        return rejected(Rejection::Setup, "unauthorized");
    }
    if error.is_called(wording::CONTEXT_CODES) || wording::means_context(&error.message) {
        return rejected(Rejection::ContextLength, "context_length");
    }
    rejected(Rejection::BadRequest, "bad_request")
}
