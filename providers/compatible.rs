//! The providers, as data: who speaks which protocol, and where it departs from it.
//!
//! A row states only deviations that were measured or read, with where and when. What a row does not state is as the
//! protocol's own adapter does it. Nothing here runs: the protocols' own modules read the rows.

mod rows;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::adapter::Adapter;
use crate::anthropic::Anthropic;
pub use crate::auth::Auth;
use crate::bedrock::Bedrock;
use crate::canonical::Finish;
use crate::cohere::Cohere;
use crate::gemini::Gemini;
use crate::lookup::Way;
use crate::ollama::Ollama;
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
    /// `POST /models/M:generateContent`, Google's shapes.
    GenerateContent,
    /// `POST /api/chat`, Ollama's shapes.
    OllamaChat,
    /// `POST /v2/chat`, Cohere's shapes.
    CohereChat,
    /// `POST /model/M/converse`, Bedrock's shapes.
    Converse,
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
    /// `{"error": {"code": int, "message", "status", "details"}}`, also as the only item of an array.
    Google,
    /// `{"error": "text"}`; with a 503 only where the text says that the server is busy.
    Text,
    /// `{"error": "text", "error_type": "…"}`.
    TextAndType,
    /// `{"id", "message"[, "error_type"]}`: a message, and one of the two others.
    Cohere,
}

/// The name under which the output limit is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensName {
    /// Whichever the client used.
    AsSent,
    MaxTokens,
    MaxCompletionTokens,
}

/// Where `POST /chat/completions` stands under the base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatPath {
    /// `/chat/completions`.
    Plain,
    /// `/openai/deployments/M/chat/completions`: the target's model is the deployment's name.
    Deployment,
}

/// How closely the request must keep to the provider's own schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// As sent: what it does not know it ignores or refuses itself.
    Open,
    /// Mistral's: a message with any other member is a 422, `seed` is `random_seed`, and ids of calls are nine letters
    /// and digits.
    Mistral,
}

/// The endpoints of a server that show its tokenizer. They stand beside `/v1`, at the server's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizerApi {
    /// `/apply-template`, `/tokenize`, `/detokenize`.
    LlamaCpp,
    /// `/tokenize` (of a text or a conversation), `/detokenize`.
    Vllm,
}

/// One provider.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    pub protocol: Protocol,
    /// Where it wants its key.
    pub auth: Auth,
    pub path: ChatPath,
    /// The service's name in AWS signatures, where requests may be signed instead of carrying a key.
    pub signing: Option<&'static str>,
    /// The version of its API, sent as the query `api-version`, where it demands one.
    pub api_version: Option<Cow<'static, str>>,
    /// Parameters that it refuses or ignores: they are refused here, by name, before anything is sent.
    pub refused: &'static [&'static str],
    pub schema: Schema,
    /// Whether it reads the signatures that Google's answers hold (`extra_content`). They go to nobody else.
    pub google_signatures: bool,
    /// Whether it answers with `reasoning_details` and takes them back (OpenRouter; the schemas of its own provider for
    /// the AI SDK, @openrouter/ai-sdk-provider 0.7.2, read 2026-12-01).
    pub reasoning_details: bool,
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
    /// 4xx that are our account's fault there, or our model's, whatever they are called elsewhere.
    pub setup_statuses: &'static [u16],
    /// 4xx that say, where they speak of tokens, that prompt and answer do not fit the window.
    pub context_statuses: &'static [u16],
    /// Whether it takes `stream_options`: usage is always asked for then. Where not, it sends usage unasked.
    pub stream_options: bool,
    /// Whether it closes the connection after each stream although it says `Keep-Alive`: it is told to close, or the
    /// next request on that connection would be lost with an unknown outcome.
    pub closes_after_stream: bool,
    /// Finish reasons beyond OpenAI's four, and what they mean.
    pub finish_words: &'static [(&'static str, Finish)],
    /// The endpoint that counts a prompt's tokens and answers `{"input_tokens": n}` or `{"count": n}`.
    pub count_path: Option<&'static str>,
    pub tokenizer_api: Option<TokenizerApi>,
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
    auth: Auth::Bearer,
    path: ChatPath::Plain,
    signing: None,
    api_version: None,
    refused: &[],
    schema: Schema::Open,
    google_signatures: false,
    reasoning_details: false,
    request_id_header: Some("x-client-request-id"),
    max_tokens_name: MaxTokensName::AsSent,
    developer_role: true,
    error_500: Error500::EndedWithoutResult,
    error_shapes: &[ErrorShape::OpenAi],
    overloaded_statuses: &[],
    ended_statuses: &[],
    setup_statuses: &[],
    context_statuses: &[],
    stream_options: true,
    closes_after_stream: false,
    finish_words: &[],
    count_path: None,
    tokenizer_api: None,
    lookup_ways: &[Way::Stored],
    lookup: None,
    default_max_tokens: 4096,
    source: "OpenAI OpenAPI 2.3.0; platform.openai.com/docs/api-reference/debugging-requests, 2026-11",
};

pub(crate) const LIKE_OPENAI: Row = Row { request_id_header: None, lookup_ways: &[], ..OPENAI };

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
        // docs.vllm.ai, OpenAI-compatible server, "Tokenizer API", read 2026-11-30: of a conversation too.
        count_path: Some("/../tokenize"),
        tokenizer_api: Some(TokenizerApi::Vllm),
        source: "facts 2.1, 2.4: X-Request-Id becomes the request's id; vllm issue 12886, PR 22099; 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        name: "llama-cpp",
        error_500: Error500::Unknown,
        count_path: Some("/chat/completions/input_tokens"),
        tokenizer_api: Some(TokenizerApi::LlamaCpp),
        // Measured, b11434, 2026-11-30: FIN right after the last chunk, under `Keep-Alive: timeout=5, max=100`.
        closes_after_stream: true,
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
        schema: Schema::Mistral,
        refused: &[
            "audio",
            "logit_bias",
            "logprobs",
            "modalities",
            "safety_identifier",
            "service_tier",
            "store",
            "top_logprobs",
            "user",
            "verbosity",
            "web_search_options",
        ],
        source: "facts 2.1, 2.2: ids of nine; Mistral's OpenAPI (additionalProperties: false), 2026-11",
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
        reasoning_details: true,
        source: "facts 2.1: finish_reason normalised, native_finish_reason beside; 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "ollama-openai",
        developer_role: false,
        source: "facts 2.1: role system; /v1/chat/completions; 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "anthropic",
        protocol: Protocol::AnthropicMessages,
        auth: Auth::Header("x-api-key"),
        error_shapes: &[ErrorShape::Anthropic],
        count_path: Some("/messages/count_tokens"),
        source: "platform.claude.com/docs/en/api/messages, version 2023-06-01; facts 2.1, 2.2, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "llama-cpp-anthropic",
        protocol: Protocol::AnthropicMessages,
        auth: Auth::Header("x-api-key"),
        closes_after_stream: true,
        error_500: Error500::Unknown,
        error_shapes: &[ErrorShape::Anthropic, ErrorShape::OpenAi],
        count_path: Some("/messages/count_tokens"),
        source: "facts 2.2, 5: b11434 answers OpenAI's error shape on /v1/messages too, 2026-11-29",
        ..LIKE_OPENAI
    },
    Row {
        name: "gemini",
        protocol: Protocol::GenerateContent,
        auth: Auth::Header("x-goog-api-key"),
        error_shapes: &[ErrorShape::Google],
        count_path: Some(":countTokens"),
        source: "ai.google.dev/api/generate-content; facts 2.1-2.3: a bad key is a 400; 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "vertex",
        protocol: Protocol::GenerateContent,
        // The base URL ends with …/projects/P/locations/L/publishers/google; the key is an OAuth access token.
        error_shapes: &[ErrorShape::Google],
        count_path: Some(":countTokens"),
        source: "facts 2.1-2.3; recorded requests to aiplatform.googleapis.com, 2026-02 to 2026-07",
        ..LIKE_OPENAI
    },
    Row {
        name: "ollama",
        protocol: Protocol::OllamaChat,
        error_500: Error500::Unknown,
        error_shapes: &[ErrorShape::Text],
        source: "Ollama's OpenAPI description, 2026-11; facts 2.1: NDJSON, done: true",
        ..LIKE_OPENAI
    },
    Row {
        name: "cohere",
        protocol: Protocol::CohereChat,
        error_shapes: &[ErrorShape::Cohere],
        source: "docs.cohere.com/reference/chat; facts 2.1, 2.2; recorded exchanges, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        name: "bedrock",
        protocol: Protocol::Converse,
        signing: Some("bedrock"),
        // ModelErrorException: "an error while processing the model".
        ended_statuses: &[424],
        error_shapes: &[],
        count_path: Some("count-tokens"),
        source: "botocore 1.44.8, bedrock-runtime 2023-09-30; facts 2.1-2.3; recorded exchanges, 2026-11",
        ..LIKE_OPENAI
    },
];

/// What the operator's settings change of a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `error_500 = "unknown"`: this provider's 500s prove nothing.
    pub error_500_unknown: bool,
    /// Sent where the protocol demands an output limit and the client gave none.
    pub default_max_tokens: Option<u64>,
    /// How this provider is asked about lost answers; one of its row's `lookup_ways`.
    pub lookup: Option<Way>,
    /// Another version of its API than its row's, where its row has one.
    pub api_version: Option<String>,
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
    if let (Some(_), Some(version)) = (&row.api_version, overrides.api_version) {
        row.api_version = Some(version.into());
    }
    row.lookup = overrides.lookup.filter(|way| row.lookup_ways.contains(way));
    Some(match row.protocol {
        Protocol::OpenAiChat => Arc::new(OpenAi::new(row)),
        Protocol::OpenAiResponses => Arc::new(Responses::new(row)),
        Protocol::AnthropicMessages => Arc::new(Anthropic::new(row)),
        Protocol::GenerateContent => Arc::new(Gemini::new(row)),
        Protocol::OllamaChat => Arc::new(Ollama::new(row)),
        Protocol::CohereChat => Arc::new(Cohere::new(row)),
        Protocol::Converse => Arc::new(Bedrock::new(row)),
    })
}

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(rows::COMPATIBLE)
}

/// The row of that name.
pub fn row_named(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name == name)
}

/// Every name that [`adapter_named`] knows, in the order of the rows.
pub fn names() -> Vec<&'static str> {
    rows().map(|row| row.name).collect()
}
