//! The words by which providers say why they refused: codes first, sentences only where a provider has no code.
//!
//! The sentences that mean "too long" send a request to another target, so each was recorded from a provider, with its
//! name beside it (../shared/cassettes, the real llama-server, field case B064; November 2026); none is guessed. Those
//! about rates and money only keep a request from being repeated or blamed, and are taken wider (B066, B085, B088, the
//! providers' error pages). A new one is added here with its source.

/// The prompt does not fit the window.
pub const CONTEXT_CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "TOO_MANY_TOKENS", // Cohere
];

/// 429 for a quota that money or a month refills, not seconds.
pub const QUOTA_CODES: &[&str] = &["insufficient_quota", "billing_hard_limit_reached", "quota_exceeded"];

pub const RATE_CODES: &[&str] = &[
    "rate_limit_exceeded",
    "rate_limit_error",
    "RateLimitReached",
    "ThrottlingException",
    "too_many_requests",
    "ServiceQuotaExceededException",
];

pub const BILLING_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_not_active",
    "billing_hard_limit_reached",
    "insufficient_balance",
    "insufficient_credits",
    "payment_required",
];

pub const POLICY_CODES: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "ResponsibleAIPolicyViolation",
    "moderation_blocked",
    "invalid_prompt",
];

/// Our key, model name or entitlement is wrong, whatever the status (xAI and Gemini answer a bad key with 400).
pub const SETUP_CODES: &[&str] = &[
    "invalid_api_key",
    "authentication_error",
    "permission_error",
    "permission_denied",
    "model_not_found",
    "model_not_supported",
    "model_not_available",
    "not_found_error",
    "DeploymentNotFound",
    "API_KEY_INVALID",     // Gemini
    "FAILED_PRECONDITION", // Gemini: the account's country or plan (ai.google.dev/gemini-api/docs/troubleshooting)
];

const CONTEXT_WORDS: &[&str] = &[
    "maximum context length",                       // OpenAI, vLLM, DeepSeek, OpenRouter
    "max context length",                           // Ollama: "prompt too long; exceeded max context length by …"
    "prompt is too long",                           // Anthropic
    "prompt too long",                              // Ollama, field case B064
    "exceeds the available context",                // llama-server
    "exceeded model token limit",                   // Moonshot, MoonshotAI/kimi-cli issue 2011
    "exceeds the maximum number of tokens allowed", // Vertex, recorded 2026-08
    "input is too long for requested model",        // Bedrock, aws-samples/bedrock-chat issue 95
    // text-generation-inference, router/src/validation.rs, and those who serve with it (Together, Hugging Face).
    "`inputs` tokens + `max_new_tokens` must be <=",
    "`inputs` must have less than",
];

const RATE_WORDS: &[&str] =
    &["per minute", "per second", "per hour", "per day", "rate limit", "rate-limit", "too many requests", "throttl"];

const QUOTA_WORDS: &[&str] =
    &["monthly limit", "monthly quota", "weekly limit", "check your plan and billing", "spending limit", "spend limit"];

const BILLING_WORDS: &[&str] = &[
    "credit balance", // Anthropic: "Your credit balance is too low …"
    "account balance",
    "out of credit",
    "insufficient balance", // DeepSeek
    "insufficient credit",
    "check your plan and billing",
];

const SETUP_WORDS: &[&str] = &[
    "incorrect api key",
    "invalid api key",
    "api key not valid",
    "invalid x-api-key",
    "model identifier is invalid", // Bedrock, recorded
];

fn says(message: &str, words: &[&str]) -> bool {
    let lower = message.to_ascii_lowercase();
    words.iter().any(|word| lower.contains(word))
}

pub fn means_context(message: &str) -> bool {
    says(message, CONTEXT_WORDS)
}

/// For statuses that a provider uses for little else.
pub fn speaks_of_tokens(message: &str) -> bool {
    says(message, &["token", "context length"])
}

pub fn means_rate(message: &str) -> bool {
    says(message, RATE_WORDS)
}

pub fn means_quota(message: &str) -> bool {
    says(message, QUOTA_WORDS)
}

pub fn means_billing(message: &str) -> bool {
    says(message, BILLING_WORDS)
}

pub fn means_setup(message: &str) -> bool {
    says(message, SETUP_WORDS)
}

/// Masks words that look like an API key: providers echo the key that they refuse. The caller who has the key masks it
/// as well ([`crate::failure::Failure::masked`]); this is for the keys of others, and for partly starred ones.
pub fn mask_keys(text: &str) -> String {
    const PREFIXES: &[&str] = &["sk-", "sk_", "gsk_", "xai-", "AIza", "hf_", "r8_", "fw_", "pplx-", "ABSK"];
    const SHORTEST_KEY: usize = 8;
    let is_key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_key_char) {
        let (before, tail) = rest.split_at(start);
        let end = tail.find(|c| !is_key_char(c)).unwrap_or(tail.len());
        let (word, after) = tail.split_at(end);
        out.push_str(before);
        let key = word.len() >= SHORTEST_KEY && PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        out.push_str(if key { "[secret]" } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echoed_key_is_masked_and_nothing_else_is() {
        assert_eq!(
            mask_keys("Incorrect API key provided: sk-proj-abc***XYZ. See https://x.ai/sk-"),
            "Incorrect API key provided: [secret]. See https://x.ai/sk-"
        );
        assert_eq!(mask_keys("ä: model gpt-4.1 not found"), "ä: model gpt-4.1 not found");
    }

    #[test]
    fn an_ordinary_sentence_means_nothing() {
        for text in ["messages: at least one required", "model not enabled for this account", ""] {
            assert!(!means_context(text) && !means_rate(text) && !means_billing(text) && !means_quota(text));
        }
    }
}
