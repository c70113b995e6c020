//! A response as OpenAI's chat completion, members in the order of those.

use bytes::Bytes;

use super::{Counted, Whole};
use crate::canonical::ToolCall;
use crate::json::{Json, Object};

pub(super) fn completion(whole: &Whole) -> Bytes {
    let mut body = Object::new();
    body.insert("id", text(whole.reply.id.as_deref()));
    body.insert("object", "chat.completion");
    body.insert("created", whole.created);
    body.insert("model", text(whole.reply.model.as_deref()));
    body.insert("choices", vec![choice(whole)]);
    if let Some(counted) = whole.counted {
        body.insert("usage", usage(counted));
    }
    if let Some(tier) = &whole.service_tier {
        body.insert("service_tier", tier.clone());
    }
    Json::Object(body).to_bytes()
}

fn text(value: Option<&str>) -> Json {
    value.map_or(Json::Null, Json::from)
}

fn choice(whole: &Whole) -> Json {
    let (choice, items) = (whole.choice(), &whole.items);
    let mut message = Object::new();
    message.insert("role", "assistant");
    message.insert("content", text(choice.text.as_deref()));
    message.insert("refusal", text(choice.refusal.as_deref()));
    if !choice.tool_calls.is_empty() {
        message.insert("tool_calls", choice.tool_calls.iter().map(tool_call).collect::<Vec<_>>());
    }
    if !items.reasoning.is_empty() {
        message.insert("reasoning_content", items.reasoning.as_str());
    }
    for (name, kept) in kept(whole) {
        message.insert(name, kept.to_vec());
    }
    let mut written = Object::new();
    written.insert("index", choice.index);
    written.insert("message", message);
    written.insert("logprobs", logprobs(&items.logprobs));
    written.insert("finish_reason", choice.finish.as_openai());
    written.insert("native_finish_reason", choice.native_finish.as_str());
    Json::Object(written)
}

/// The items that stay whole, under the name that they have in a message.
pub(in crate::responses) fn kept(whole: &Whole) -> impl Iterator<Item = (&'static str, &[Json])> {
    let both = [("reasoning_items", &whole.items.encrypted[..]), ("other_items", &whole.items.other[..])];
    both.into_iter().filter(|(_, kept)| !kept.is_empty())
}

/// The same shape there as here, in an object with a list for each kind of text.
pub(in crate::responses) fn logprobs(tokens: &[Json]) -> Json {
    if tokens.is_empty() {
        return Json::Null;
    }
    let mut written = Object::new();
    written.insert("content", tokens.to_vec());
    written.insert("refusal", Json::Null);
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

pub(in crate::responses) fn usage(counted: Counted) -> Json {
    let tokens = counted.usage;
    let mut input: Object = [("cached_tokens", tokens.cached_input_tokens)].into_iter().collect();
    if counted.cache_writes > 0 {
        input.insert("cache_write_tokens", counted.cache_writes);
    }
    let mut written = Object::new();
    written.insert("prompt_tokens", tokens.input_tokens);
    written.insert("completion_tokens", tokens.output_tokens);
    written.insert("total_tokens", tokens.input_tokens.saturating_add(tokens.output_tokens));
    written.insert("prompt_tokens_details", input);
    if let Some(reasoning) = counted.reasoning {
        let output: Object = [("reasoning_tokens", reasoning)].into_iter().collect();
        written.insert("completion_tokens_details", output);
    }
    Json::Object(written)
}
