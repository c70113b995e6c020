//! What each answer other than 2xx proves.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::*;
use crate::compatible::{Error500, row_named};
use crate::failure::Proof::{self, EndedWithoutResult, Rejected, Unknown};
use crate::failure::Rejection::{
    BadRequest, Billing, ContentPolicy, ContextLength, Overloaded, QuotaExhausted, RateLimited, Setup,
};

fn head(status: u16, headers: &[(&'static str, &'static str)]) -> Head {
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
    Head { status: StatusCode::from_u16(status).unwrap(), headers }
}

fn proof(row: &str, status: u16, body: &str) -> Proof {
    read(row_named(row).unwrap(), &head(status, &[]), body.as_bytes()).proof
}

const OWN: &str = r#"{"error":{"message":"x","type":"t","param":null,"code":null}}"#;
const HTML: &str = "<html><body>nginx</body></html>";
const OTHER: &str = r#"{"message":"Forbidden"}"#;

#[test]
fn the_status_decides_in_the_providers_own_shape() {
    for (status, expected) in [
        (307, Rejected(Setup)),
        (400, Rejected(BadRequest)),
        (401, Rejected(Setup)),
        (402, Rejected(Billing)),
        (403, Rejected(Setup)),
        (404, Rejected(Setup)),
        (405, Rejected(Setup)),
        (408, Unknown),
        (409, Unknown),
        (413, Rejected(BadRequest)),
        (415, Rejected(BadRequest)),
        (418, Rejected(BadRequest)),
        (422, Rejected(BadRequest)),
        (424, Unknown),
        (425, Rejected(Overloaded)),
        (429, Rejected(RateLimited)),
        (499, Unknown),
        (500, EndedWithoutResult),
        (501, EndedWithoutResult),
        (502, Unknown),
        (503, Rejected(Overloaded)),
        (504, Unknown),
        (520, Unknown),
        (522, Unknown),
        (524, Unknown),
        (529, Rejected(Overloaded)),
        (599, EndedWithoutResult),
    ] {
        assert_eq!(proof("openai", status, OWN), expected, "{status}");
    }
}

#[test]
fn another_hops_shape_proves_only_what_its_status_cannot_say_after_the_work() {
    for body in [
        HTML,
        OTHER,
        "",
        "null",
        r#"{"error":null}"#,
        r#"{"error":7}"#,
        r#"{"error":{}}"#,
        r#"{"timestamp":1,"status":500,"error":"Internal Server Error"}"#,
    ] {
        for status in [400, 403, 408, 409, 418, 422, 424, 499, 500, 502, 503, 504, 520, 524, 529, 599] {
            assert_eq!(proof("openai", status, body), Unknown, "{status} {body}");
        }
        for status in [401, 404, 405] {
            assert_eq!(proof("openai", status, body), Rejected(Setup), "{status} {body}");
        }
        assert_eq!(proof("openai", 429, body), Rejected(RateLimited));
        assert_eq!(proof("openai", 413, body), Rejected(BadRequest));
        assert_eq!(proof("openai", 402, body), Rejected(Billing));
    }
}

#[test]
fn a_context_overflow_is_known_by_code_or_by_recorded_words() {
    for body in [
        r#"{"error":{"type":"context_window_exceeded","code":400,"message":"x"}}"#,
        r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
        r#"{"error":{"type":"invalid_request_error","message":"prompt too long (5001 > 4096)"}}"#,
        r#"{"error":{"type":"exceed_context_size_error","n_ctx":4096}}"#,
        r#"{"error":{"message":"This endpoint's maximum context length is 200000 tokens.","code":400}}"#,
    ] {
        assert_eq!(proof("openai", 400, body), Rejected(ContextLength), "{body}");
    }
    let entitlement = r#"{"error":{"message":"model not enabled for this account","code":"model_not_supported"}}"#;
    assert_eq!(proof("openai", 400, entitlement), Rejected(Setup));
}

#[test]
fn a_rate_vetoes_a_length() {
    let body = r#"{"error":{"message":"Too many tokens: limit 30000 tokens per minute exceeded"}}"#;
    assert_eq!(proof("openai", 429, body), Rejected(RateLimited));
    assert_eq!(proof("openai", 400, body), Rejected(RateLimited));
    let groq = r#"{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 6000, maximum context length","code":"rate_limit_exceeded"}}"#;
    assert_eq!(proof("groq", 413, groq), Rejected(RateLimited));
}

#[test]
fn money_is_told_from_rates() {
    let quota = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    assert_eq!(proof("openai", 429, quota), Rejected(QuotaExhausted));
    assert_eq!(proof("openai", 429, r#"{"error":{"message":"monthly limit reached"}}"#), Rejected(QuotaExhausted));
    let long = read(row_named("openai").unwrap(), &head(429, &[("retry-after", "1382400")]), OWN.as_bytes());
    assert_eq!((long.proof, long.retry_after.unwrap().as_secs()), (Rejected(QuotaExhausted), 1_382_400));
    let balance = r#"{"type":"error","error":{"type":"invalid_request_error","message":"account balance too low for this call"}}"#;
    assert_eq!(proof("openai", 400, balance), Rejected(Billing));
    assert_eq!(proof("deepseek", 402, r#"{"error":{"message":"Insufficient Balance"}}"#), Rejected(Billing));
}

#[test]
fn policy_is_known_by_its_code() {
    let azure = r#"{"error":{"code":"content_filter","message":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    assert_eq!(proof("openai", 400, azure), Rejected(ContentPolicy));
    let openai = r#"{"error":{"code":"content_policy_violation","message":"x","type":"invalid_request_error"}}"#;
    assert_eq!(proof("openai", 400, openai), Rejected(ContentPolicy));
}

#[test]
fn work_that_was_done_is_not_called_a_refusal() {
    let failed =
        r#"{"error":{"code":"tool_use_failed","failed_generation":"SECRET-OUTPUT","message":"did not call a tool"}}"#;
    let failure = read(row_named("groq").unwrap(), &head(400, &[]), failed.as_bytes());
    assert_eq!(failure.proof, EndedWithoutResult);
    assert!(!format!("{failure:?}").contains("SECRET-OUTPUT"));
    assert_eq!(proof("groq", 422, OWN), EndedWithoutResult);
    assert_eq!(proof("groq", 498, OWN), Rejected(Overloaded));
}

#[test]
fn a_row_may_be_stricter_about_500() {
    let llama = r#"{"error":{"code":500,"message":"output does not match","type":"server_error"}}"#;
    assert_eq!(proof("llama-cpp", 500, llama), Unknown);
    assert_eq!(proof("llama-cpp", 503, llama), Rejected(Overloaded));
    let mut row = row_named("openai").unwrap().clone();
    row.error_500 = Error500::Unknown;
    assert_eq!(read(&row, &head(500, &[]), OWN.as_bytes()).proof, Unknown);
}

#[test]
fn each_providers_own_shape_counts_as_its_own_only() {
    let xai = r#"{"code":"invalid-argument","error":"Incorrect API key provided."}"#;
    assert_eq!(proof("xai", 400, xai), Rejected(Setup));
    let code = read(row_named("xai").unwrap(), &head(400, &[]), xai.as_bytes()).code;
    assert_eq!(code.as_deref(), Some("invalid-argument"));
    assert_eq!(proof("openai", 500, xai), Unknown);
    let mistral = r#"{"object":"error","message":"x","type":"invalid_request_error","param":null,"code":"3051"}"#;
    assert_eq!(proof("mistral", 500, mistral), EndedWithoutResult);
    assert_eq!(proof("openai", 500, mistral), Unknown);
    let old_vllm = r#"{"object":"error","message":"This model's maximum context length is 2048 tokens.","type":"BadRequestError","param":null,"code":400}"#;
    assert_eq!(proof("vllm", 400, old_vllm), Rejected(ContextLength));
    assert_eq!(
        proof("mistral", 422, r#"{"detail":[{"msg":"field required"},{"msg":"too short"}]}"#),
        Rejected(BadRequest)
    );
    assert_eq!(proof("openai", 422, r#"{"detail":"x"}"#), Unknown);
    assert_eq!(proof("mistral", 500, r#"{"detail":"Internal Server Error"}"#), Unknown);
    assert_eq!(proof("anthropic", 400, OWN), Unknown);
    assert_eq!(proof("llama-cpp-anthropic", 400, OWN), Rejected(BadRequest));
}

#[test]
fn words_are_bounded_and_clean() {
    let body = format!(r#"{{"error":{{"message":"\u001b[31m{}","code":"\u202e","type":"t"}}}}"#, "x".repeat(5_000));
    let failure = read(row_named("openai").unwrap(), &head(400, &[]), body.as_bytes());
    assert!(failure.message.chars().count() < 2_100 && !failure.message.contains('\u{1b}'));
    assert!(!failure.code.unwrap().contains('\u{202e}'));
}
