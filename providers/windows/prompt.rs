//! What of a request counts towards a window: the texts that the client wrote, and the answer it asks for.

use crate::canonical::{Message, Part as Piece, Request};
use crate::dialects::{Dialect, embeddings};
use crate::json::{Json, Object};

/// What a window has to hold at once: a whole conversation, or one of the texts that vectors are asked for.
pub(super) struct Part<'a> {
    /// As the client calls it.
    pub param: String,
    pub texts: Vec<&'a str>,
    /// What came as tokens, not as text.
    pub tokens: u64,
}

impl Part<'_> {
    /// No encoding makes more tokens of its texts.
    pub fn bytes(&self) -> u64 {
        self.texts.iter().map(|text| text.len() as u64).sum()
    }
}

/// Members by which a client, or its account's settings in its name, has the provider shorten what is too long: then
/// nothing is certain. `truncation`, `context_management`: OpenAI's OpenAPI 2.3.0 (createResponse), Anthropic's context
/// editing; `truncate_prompt_tokens`: vLLM; `truncate`: NVIDIA's and Cohere's embeddings; `prompt_truncate_len`,
/// `context_length_exceeded_behavior`: docs.fireworks.ai/tools-sdks/migrate-to-fireworks, together-python issue 439;
/// `transforms`, `plugins`: OpenRouter, whose recorded error names the plugin. Read 2026-12-01.
const SHORTENERS: &[&str] = &[
    "truncation",
    "context_management",
    "truncate_prompt_tokens",
    "truncate",
    "prompt_truncate_len",
    "context_length_exceeded_behavior",
    "transforms",
    "plugins",
];

fn document(request: &Request) -> &Object {
    request.native.as_ref().map_or(&request.body, |native| &native.body)
}

fn dialect(request: &Request) -> Dialect {
    request.native.as_ref().map_or(Dialect::Chat, |native| native.dialect)
}

pub(super) fn may_be_shortened(request: &Request) -> bool {
    let off = |value: &Json| matches!(value.as_str(), Some("disabled" | "error"));
    SHORTENERS.iter().any(|name| document(request).get_some(name).is_some_and(|value| !off(value)))
}

/// The member that limits the answer, and its limit.
pub(super) fn asked_for(request: &Request) -> Option<(&'static str, u64)> {
    let name = match dialect(request) {
        Dialect::Responses => "max_output_tokens",
        Dialect::Chat if request.body.get_some("max_completion_tokens").is_some() => "max_completion_tokens",
        Dialect::Chat | Dialect::Messages | Dialect::Embeddings => "max_tokens",
    };
    Some((name, request.max_tokens?))
}

pub(super) fn parts(request: &Request) -> Vec<Part<'_>> {
    if embeddings::is_asked(request) {
        return inputs(request);
    }
    let param = if dialect(request) == Dialect::Responses { "input" } else { "messages" };
    let texts = request.messages.iter().flat_map(contents).filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        // By size or length, not by text: the prompt is longer than what is counted.
        Piece::Image { .. } | Piece::Other(_) => None,
    });
    vec![Part { param: param.to_owned(), texts: texts.collect(), tokens: 0 }]
}

fn contents(message: &Message) -> &[Piece] {
    match message {
        Message::System { parts, .. }
        | Message::User { parts, .. }
        | Message::Assistant { parts, .. }
        | Message::Tool { parts, .. } => parts,
    }
}

/// A text, tokens, or an array of either; each is held for itself.
fn inputs(request: &Request) -> Vec<Part<'_>> {
    fn one(param: String, input: &Json) -> Part<'_> {
        let (texts, tokens) = match input {
            Json::String(text) => (vec![text.as_str()], 0),
            Json::Array(tokens) => (Vec::new(), tokens.len() as u64),
            _ => (Vec::new(), 0),
        };
        Part { param, texts, tokens }
    }
    match request.body.get_some("input") {
        Some(Json::Array(items)) if !items.iter().all(|item| matches!(item, Json::Number(_))) => {
            items.iter().enumerate().map(|(at, item)| one(format!("input[{at}]"), item)).collect()
        }
        Some(input) => vec![one("input".to_owned(), input)],
        None => Vec::new(),
    }
}
