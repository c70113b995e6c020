//! A reply as OpenAI's chat completion, members in OpenAI's order.

use bytes::Bytes;

use super::{Blocks, Counted};
use crate::adapter::Head;
use crate::canonical::{Choice, Reply, ToolCall};
use crate::json::{Json, Object};

/// What Anthropic says beside the content, and chat completions elsewhere.
#[derive(Debug, Default)]
pub(in crate::anthropic) struct Beside {
    /// In OpenAI's words; it has none for a batch's.
    pub service_tier: Option<&'static str>,
    /// The stop string that was met: vLLM's place for it, of those who speak chat completions.
    pub stop: Option<String>,
}

impl Beside {
    pub fn of(message: &Object) -> Beside {
        let tier = message.get("usage").and_then(|usage| usage.get("service_tier")?.as_str());
        let service_tier = match tier {
            Some("standard") => Some("default"),
            Some("priority") => Some("priority"),
            _ => None,
        };
        Beside { service_tier, stop: message.get("stop_sequence").and_then(Json::as_str).map(str::to_owned) }
    }
}

pub(super) fn completion(
    head: &Head,
    reply: &Reply,
    blocks: &Blocks,
    counted: Option<Counted>,
    beside: &Beside,
) -> Bytes {
    let mut body = Object::new();
    body.insert("id", text(reply.id.as_deref()));
    body.insert("object", "chat.completion");
    body.insert("created", created(head));
    body.insert("model", text(reply.model.as_deref()));
    let choices = reply.choices.iter().map(|choice| self::choice(choice, blocks, beside)).collect::<Vec<_>>();
    body.insert("choices", choices);
    body.insert("usage", counted.map_or(Json::Null, usage));
    if let Some(tier) = beside.service_tier {
        body.insert("service_tier", tier);
    }
    Json::Object(body).to_bytes()
}

fn text(value: Option<&str>) -> Json {
    value.map_or(Json::Null, Json::from)
}

/// Seconds since 1970 by the provider's own `Date`.
pub(in crate::anthropic) fn created(head: &Head) -> u64 {
    let date = head.headers.get(http::header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

fn choice(choice: &Choice, blocks: &Blocks, beside: &Beside) -> Json {
    let mut message = Object::new();
    message.insert("role", "assistant");
    message.insert("content", text(choice.text.as_deref()));
    message.insert("refusal", text(choice.refusal.as_deref()));
    if !choice.tool_calls.is_empty() {
        message.insert("tool_calls", choice.tool_calls.iter().map(tool_call).collect::<Vec<_>>());
    }
    let thoughts: String =
        blocks.thinking.iter().filter_map(|block| block.get("thinking").and_then(Json::as_str)).collect();
    if !thoughts.is_empty() {
        message.insert("reasoning_content", thoughts);
    }
    for (name, kept) in [("thinking_blocks", &blocks.thinking), ("other_blocks", &blocks.other)] {
        if !kept.is_empty() {
            message.insert(name, kept.clone());
        }
    }
    let mut written = Object::new();
    written.insert("index", choice.index);
    written.insert("message", message);
    written.insert("logprobs", Json::Null);
    written.insert("finish_reason", choice.finish.as_openai());
    written.insert("native_finish_reason", choice.native_finish.as_str());
    if let Some(stop) = &beside.stop {
        written.insert("stop_reason", stop.as_str());
    }
    Json::Object(written)
}

fn tool_call(call: &ToolCall) -> Json {
    let function: Object = [("name", call.name.as_str()), ("arguments", call.arguments.as_str())].into_iter().collect();
    let mut written = Object::new();
    written.insert("id", call.id.as_str());
    written.insert("type", "function");
    written.insert("function", function);
    Json::Object(written)
}

pub(super) fn usage(counted: Counted) -> Json {
    let tokens = counted.usage;
    let mut details: Object = [("cached_tokens", tokens.cached_input_tokens)].into_iter().collect();
    if counted.cache_writes > 0 {
        details.insert("cache_write_tokens", counted.cache_writes);
    }
    let mut written = Object::new();
    written.insert("prompt_tokens", tokens.input_tokens);
    written.insert("completion_tokens", tokens.output_tokens);
    written.insert("total_tokens", tokens.input_tokens.saturating_add(tokens.output_tokens));
    written.insert("prompt_tokens_details", details);
    if let Some(reasoning) = counted.reasoning {
        written.insert("completion_tokens_details", Object::from_iter([("reasoning_tokens", reasoning)]));
    }
    written.insert("native_usage", counted.native);
    Json::Object(written)
}
