//! The one form that every dialect is read into and every wire format is written from.
//!
//! A [`Request`] keeps the client's own document beside what was understood of it, so that a provider of the same
//! format gets every field, known or not, with its digits unharmed. Nothing here does I/O.

use std::sync::Arc;

use crate::dialects::Native;
use crate::json::{Json, Number, Object};

/// A chat request as the client meant it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The client's document, whole and in order (an OpenAI chat-completions body, or what a body of another dialect
    /// is in those words). The wire formats that speak the same protocol change `model` in it and nothing else.
    pub body: Object,
    /// The client's own document, where it speaks another dialect than chat completions.
    pub native: Option<Arc<Native>>,
    /// The name the client put into `model`: a route.
    pub model: String,
    /// Every message, in the client's order.
    pub messages: Vec<Message>,
    pub tools: Vec<Tool>,
    pub tool_choice: Option<ToolChoice>,
    pub parallel_tool_calls: Option<bool>,
    pub response_format: Option<ResponseFormat>,
    /// Stop strings; one or several, as sent.
    pub stop: Vec<String>,
    /// The output limit in tokens, under whichever of its two names it came.
    pub max_tokens: Option<u64>,
    pub temperature: Option<Number>,
    pub top_p: Option<Number>,
    /// How many choices are asked for; absent means 1.
    pub n: Option<u64>,
    /// Whether the client asked for a stream. Delivery, not intent.
    pub stream: bool,
    /// Whether the client asked for the usage chunk at the stream's end (`stream_options.include_usage`).
    pub include_usage: bool,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// `system` and `developer` messages: `developer` keeps its own name on the wire of those who know it.
    System {
        role: SystemRole,
        parts: Vec<Part>,
    },
    User {
        parts: Vec<Part>,
        name: Option<String>,
    },
    Assistant {
        parts: Vec<Part>,
        refusal: Option<String>,
        tool_calls: Vec<ToolCall>,
    },
    /// The result of one tool call, named by the call's id.
    Tool {
        tool_call_id: String,
        parts: Vec<Part>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemRole {
    System,
    Developer,
}

/// One piece of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    /// An image by address (`https:` or `data:`), with OpenAI's `detail` where given.
    Image {
        url: String,
        detail: Option<String>,
    },
    /// A kind of part that only a provider of the client's own format can take (audio, file, …): its `type`.
    Other(String),
}

/// A function the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: Option<String>,
    /// The JSON Schema of the arguments; absent means no arguments.
    pub parameters: Option<Json>,
    pub strict: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    None,
    Required,
    Function(String),
}

/// A call the model made. `arguments` is the exact text: it never goes through a number type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ResponseFormat {
    Text,
    JsonObject,
    JsonSchema { name: String, schema: Json, strict: Option<bool> },
}

/// A provider's whole answer, as understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The provider's own id of the answer, where it gives one.
    pub id: Option<String>,
    /// The model that answered, in the provider's words.
    pub model: Option<String>,
    pub choices: Vec<Choice>,
    /// Absent and unreadable are both `None`; unreadable is marked in [`Reply::usage_unreadable`].
    pub usage: Option<Usage>,
    /// The provider sent a usage object that could not be read: cost is unknown, never zero.
    pub usage_unreadable: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub index: u64,
    pub text: Option<String>,
    pub refusal: Option<String>,
    pub tool_calls: Vec<ToolCall>,
    pub finish: Finish,
    /// The provider's own word for why it stopped.
    pub native_finish: String,
}

/// Why the model stopped, in OpenAI's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

impl Finish {
    /// The word that OpenAI's chat completions use.
    pub fn as_openai(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::ContentFilter => "content_filter",
        }
    }
}

/// Tokens, as billed. `input` holds uncached, cache-read and cache-write tokens together, as OpenAI counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub cached_input_tokens: u64,
    /// Of the input, written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Of those, to be kept for an hour.
    #[serde(default)]
    pub cache_write_1h_tokens: u64,
    /// Of the output, where the provider says so.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// It holds what no price per token of text covers: audio, or another tier of service than the standard one.
    #[serde(default)]
    pub billed_apart: bool,
}

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Whether a tier of service, in the provider's word, has the prices of the standard one.
    pub(crate) fn is_standard_tier(tier: Option<&Json>) -> bool {
        match tier {
            None | Some(Json::Null) => true,
            Some(tier) => matches!(tier.as_str(), Some("default" | "auto" | "standard" | "on_demand")),
        }
    }
}

/// A complete, valid answer, ready for the client: what is stored and replayed byte for byte.
#[derive(Debug, Clone)]
pub struct Answer {
    pub reply: Reply,
    /// The answer as a chat completion, or, where the provider speaks the client's own dialect, as it came.
    pub body: bytes::Bytes,
}
