//! The providers, as data: who speaks which protocol, and where it departs from it.
//!
//! A row states only deviations that were measured or read, with where and when. What a row does not state is as the
//! protocol's own adapter does it. Nothing here runs: the protocols' own modules read the rows.

use std::sync::Arc;

use crate::adapter::Adapter;
use crate::anthropic::Anthropic;
use crate::canonical::Finish;
use crate::lookup::Way;
use crate::openai::OpenAi;
use crate::responses::Responses;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /chat/completions`, OpenAI's shapes.
    OpenAiChat,
    /// `POST /responses`, OpenAI's shapes.
    OpenAiResponses,
    /// `POST /messages`, Anthropic's shapes.
    AnthropicMessages,
}

/// What a 500 in the provider's own error shape proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error500 {
    EndedWithoutResult,
    /// The work may have been done: llama-server answers 500 after generating all that was asked.
    Unknown,
}

/// The shapes in which a provider's own errors come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorShape {
    /// `{"error": {"message", "type", "param", "code"}}`: an object, with at least one of them.
    OpenAi,
    /// `{"type": "error", "error": {"type", "message"}}`.
    Anthropic,
    /// `{"object": "error", "message", "type", "param", "code"}`.
    TopLevel,
    /// FastAPI's `{"detail": text or list}`, with a 4xx only.
    Detail,
    /// `{"code": "…", "error": "text"}`.
    Xai,
}

/// The name under which the output limit is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensName {
    /// Whichever the client used.
    AsSent,
    MaxTokens,
    MaxCompletionTokens,
}

/// One provider.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    pub protocol: Protocol,
    /// Where the provider documents that a client may put its own id of the request.
    pub request_id_header: Option<&'static str>,
    pub max_tokens_name: MaxTokensName,
    /// Whether `developer` is a role of its own there; it becomes `system` otherwise.
    pub developer_role: bool,
    pub error_500: Error500,
    pub error_shapes: &'static [ErrorShape],
    /// Statuses beyond 503 and 529 that say "not now", in its own shape.
    pub overloaded_statuses: &'static [u16],
    /// 4xx that come after the work was done, in its own shape.
    pub ended_statuses: &'static [u16],
    /// Whether it takes `stream_options`: usage is always asked for then. Where not, it sends usage unasked.
    pub stream_options: bool,
    /// Finish reasons beyond OpenAI's four, and what they mean.
    pub finish_words: &'static [(&'static str, Finish)],
    /// The endpoint that counts a prompt's tokens and answers `{"input_tokens": n}`.
    pub count_path: Option<&'static str>,
    /// The ways in which it can be asked about a lost answer.
    pub lookup_ways: &'static [Way],
    /// The one that the settings have switched on.
    pub lookup: Option<Way>,
    /// For protocols that demand an output limit: the one sent where the client gave none.
    pub default_max_tokens: u64,
    /// The page, and when it was read. `facts` is the project's own collection of provider facts.
    pub source: &'static str,
}

/// OpenAI as it is; every other row of its protocol is this one with its deviations.
const OPENAI: Row = Row {
    name: "openai",
    protocol: Protocol::OpenAiChat,
    request_id_header: Some("x-client-request-id"),
    max_tokens_name: MaxTokensName::AsSent,
    developer_role: true,
    error_500: Error500::EndedWithoutResult,
    error_shapes: &[ErrorShape::OpenAi],
    overloaded_statuses: &[],
    ended_statuses: &[],
    stream_options: true,
    finish_words: &[],
    count_path: None,
    lookup_ways: &[Way::Stored],
    lookup: None,
    default_max_tokens: 4096,
    source: "OpenAI OpenAPI 2.3.0; platform.openai.com/docs/api-reference/debugging-requests, 2026-11",
};

const LIKE_OPENAI: Row = Row { request_id_header: None, lookup_ways: &[], ..OPENAI };

const ROWS: &[Row] = &[
    OPENAI,
    Row {
        name: "openai-responses",
        protocol: Protocol::OpenAiResponses,
        count_path: Some("/responses/input_tokens"),
        lookup_ways: &[Way::Background],
        source: "OpenAI OpenAPI 2.3.0: createResponse, getResponse, cancelResponse, getInputTokenCounts; 2026-11",
        ..OPENAI
    },
    Row {
        name: "vllm",
        request_id_header: Some("x-request-id"),
        // Before 0.10.1 without the object `error` around it.
        error_shapes: &[ErrorShape::OpenAi, ErrorShape::TopLevel],
        source: "facts 2.1, 2.4: X-Request-Id becomes the request's id; vllm issue 12886, PR 22099; 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        name: "llama-cpp",
        error_500: Error500::Unknown,
        count_path: Some("/chat/completions/input_tokens"),
        lookup_ways: &[Way::Conversation],
        source: "facts 0.4, 2.2, 5: b11434 measured, 500 after 40 generated tokens, 2026-11-29",
        ..LIKE_OPENAI
    },
    Row {
        name: "mistral",
        developer_role: false,
        error_shapes: &[ErrorShape::OpenAi, ErrorShape::TopLevel, ErrorShape::Detail],
        finish_words: &[("model_length", Finish::Length)],
        max_tokens_name: MaxTokensName::MaxTokens,
        // Not in its schema; its recorded streams bring usage with the last chunk, unasked.
        stream_options: false,
        source: "facts 2.1, 2.2; Mistral's OpenAPI, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "groq",
        overloaded_statuses: &[498],
        ended_statuses: &[422],
        source: "console.groq.com/docs/errors: 498 'will not be processed', 422 after generation; facts 2.3, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "deepseek",
        developer_role: false,
        max_tokens_name: MaxTokensName::MaxTokens,
        source: "facts 2.1: role system, max_tokens; api-docs.deepseek.com, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "xai",
        error_shapes: &[ErrorShape::Xai, ErrorShape::OpenAi],
        source: "facts 2.2: {code, error}, a bad key is a 400; 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "openrouter",
        source: "facts 2.1: finish_reason normalised, native_finish_reason beside; 2026-11",
        ..LIKE_OPENAI
    },
    Row { name: "together", source: "no deviation recorded; 2026-11", ..LIKE_OPENAI },
    Row { name: "fireworks", source: "no deviation recorded; 2026-11", ..LIKE_OPENAI },
    Row {
        name: "ollama-openai",
        developer_role: false,
        source: "facts 2.1: role system; /v1/chat/completions; 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "anthropic",
        protocol: Protocol::AnthropicMessages,
        error_shapes: &[ErrorShape::Anthropic],
        count_path: Some("/messages/count_tokens"),
        source: "platform.claude.com/docs/en/api/messages, version 2023-06-01; facts 2.1, 2.2, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "llama-cpp-anthropic",
        protocol: Protocol::AnthropicMessages,
        error_500: Error500::Unknown,
        error_shapes: &[ErrorShape::Anthropic, ErrorShape::OpenAi],
        count_path: Some("/messages/count_tokens"),
        source: "facts 2.2, 5: b11434 answers OpenAI's error shape on /v1/messages too, 2026-11-29",
        ..LIKE_OPENAI
    },
];

/// What the operator's settings change of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `error_500 = "unknown"`: this provider's 500s prove nothing.
    pub error_500_unknown: bool,
    /// Sent where the protocol demands an output limit and the client gave none.
    pub default_max_tokens: Option<u64>,
    /// How this provider is asked about lost answers; one of its row's `lookup_ways`.
    pub lookup: Option<Way>,
}

/// The adapter of that name, as its row says.
pub fn adapter_named(name: &str) -> Option<Arc<dyn Adapter>> {
    adapter_with(name, Overrides::default())
}

/// The adapter of that name, with the operator's changes. A way of asking that its row does not have is left out.
pub fn adapter_with(name: &str, overrides: Overrides) -> Option<Arc<dyn Adapter>> {
    let mut row = row_named(name)?.clone();
    if overrides.error_500_unknown {
        row.error_500 = Error500::Unknown;
    }
    if let Some(limit) = overrides.default_max_tokens {
        row.default_max_tokens = limit;
    }
    row.lookup = overrides.lookup.filter(|way| row.lookup_ways.contains(way));
    Some(match row.protocol {
        Protocol::OpenAiChat => Arc::new(OpenAi::new(row)),
        Protocol::OpenAiResponses => Arc::new(Responses::new(row)),
        Protocol::AnthropicMessages => Arc::new(Anthropic::new(row)),
    })
}

/// The row of that name.
pub fn row_named(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// Every name that [`adapter_named`] knows, in the order of the rows.
pub fn names() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{CallContext, Head};
    use crate::failure::Proof;
    use crate::json::Json;
    use crate::openai::request::parse;

    #[test]
    fn every_row_can_write_a_request() {
        let body = Json::parse(br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#).unwrap();
        let request = parse(body.into_object().unwrap()).unwrap();
        let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
        for name in names() {
            let adapter = adapter_named(name).unwrap();
            let sent = adapter.to_upstream(&request, &context).unwrap();
            assert!(!sent.headers.iter().any(|(name, _)| name == "authorization" || name == "x-api-key"));
            assert_eq!(adapter.to_count(&request, &context).is_some(), row_named(name).unwrap().count_path.is_some());
            assert_eq!(Json::parse(&sent.body).unwrap().get("model"), Some(&Json::from("target")));
            assert_eq!(adapter.from_count(br#"{"input_tokens":32}"#), Some(32));
            assert_eq!(adapter.from_count(b"{}"), None);
        }
    }

    #[test]
    fn the_operator_may_distrust_a_providers_500() {
        let overrides = Overrides { error_500_unknown: true, default_max_tokens: Some(7), ..Overrides::default() };
        let head = Head { status: http::StatusCode::INTERNAL_SERVER_ERROR, headers: http::HeaderMap::new() };
        let own = br#"{"type":"error","error":{"type":"api_error","message":"x"}}"#;
        for name in ["openai", "anthropic"] {
            assert_eq!(adapter_named(name).unwrap().from_failure(&head, own).proof, Proof::EndedWithoutResult);
            assert_eq!(adapter_with(name, overrides).unwrap().from_failure(&head, own).proof, Proof::Unknown);
        }
    }

    #[test]
    fn every_row_has_an_adapter_of_its_own_name_and_a_source() {
        for name in names() {
            let adapter = adapter_named(name).expect("a listed name has an adapter");
            assert_eq!(adapter.name(), name);
            assert!(adapter.version().starts_with(&format!("{name}/")), "{}", adapter.version());
            assert!(!row_named(name).unwrap().source.is_empty());
        }
        assert_eq!(names().len(), names().iter().collect::<std::collections::HashSet<_>>().len());
        assert!(adapter_named("nobody").is_none());
    }
}
