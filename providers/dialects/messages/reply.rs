//! A stored answer as a message. Its id is the job's, so that it is the same each time.
//!
//! Blocks that only another vendor's format has (`other_blocks`) come of tools that run at the provider; a request in this
//! dialect can ask only Anthropic for those, and gets that answer as it came.

use bytes::Bytes;

use crate::dialects::Rendering;
use crate::dialects::carried::{Carried, OF_MESSAGES};
use crate::dialects::cited;
use crate::dialects::said::{self, Kind};
use crate::json::{Json, Object};

/// The whole message: as an Anthropic provider gave it, or made of a chat completion.
pub(crate) fn whole(rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
    let json = Json::parse(stored).ok()?;
    match is_message(&json) {
        true => Some(stored.clone()),
        false => Some(Json::Object(of_completion(rendering, &json)?).to_bytes()),
    }
}

pub(super) fn is_message(json: &Json) -> bool {
    json.get("type").and_then(Json::as_str) == Some("message")
}

pub(super) fn id(rendering: &Rendering) -> String {
    format!("msg_{}", rendering.stem)
}

pub(super) fn of_completion(rendering: &Rendering, completion: &Json) -> Option<Object> {
    let choice = completion.get("choices")?.as_array()?.first()?;
    let mut message = opening(rendering, completion.get("model"));
    message.insert("content", content(choice)?);
    for (name, value) in ending(choice).iter() {
        message.insert(name, value.clone());
    }
    message.insert("usage", usage(completion.get_some("usage"), completion.get_some("service_tier")));
    Some(message)
}

/// A message that has said nothing yet.
pub(super) fn opening(rendering: &Rendering, model: Option<&Json>) -> Object {
    let mut message = Object::new();
    message.insert("id", id(rendering));
    message.insert("type", "message");
    message.insert("role", "assistant");
    message.insert("model", model.cloned().unwrap_or(Json::Null));
    message.insert("content", Json::Array(Vec::new()));
    message.insert("stop_reason", Json::Null);
    message.insert("stop_sequence", Json::Null);
    message
}

fn content(choice: &Json) -> Option<Json> {
    let message = choice.get("message")?;
    let list = |name: &str| message.get(name).and_then(Json::as_array).unwrap_or_default();
    let mut blocks = list("thinking_blocks").to_vec();
    let signed = !blocks.is_empty();
    for (kind, text) in message.as_object().map(said::of_message).unwrap_or_default() {
        match kind {
            // Thinking that is signed stands there already, with its signature.
            Kind::Reasoning if signed => {}
            Kind::Reasoning => blocks.push(thinking(&text).into()),
            Kind::Text | Kind::Refusal => blocks.push(text_block(&text).into()),
        }
    }
    let citations = cited::of_choice(choice, cited::citations);
    if !citations.is_empty() {
        cite(&mut blocks, citations);
    }
    for call in list("tool_calls") {
        let function = call.get("function");
        let arguments = function.and_then(|function| function.get("arguments")).and_then(Json::as_str);
        let mut block = tool_use(call.get("id"), function.and_then(|function| function.get("name")));
        block.insert("input", input(arguments.unwrap_or_default()));
        blocks.push(block.into());
    }
    let carried = message.as_object().map(Carried::of_message).unwrap_or_default();
    blocks.extend(carried.sealed(OF_MESSAGES).iter().map(|data| redacted(data).into()));
    Some(Json::Array(blocks))
}

/// Sources belong to the text; where there is none, to one without a word.
fn cite(blocks: &mut Vec<Json>, citations: Vec<Json>) {
    let is_text = |block: &Json| block.get("type").and_then(Json::as_str) == Some("text");
    if !blocks.last().is_some_and(is_text) {
        blocks.push(text_block("").into());
    }
    if let Some(text) = blocks.last_mut().and_then(Json::as_object_mut) {
        text.insert("citations", citations);
    }
}

/// Reasoning that nobody has signed. An Anthropic provider would refuse it: it does not go back there.
pub(super) fn thinking(text: &str) -> Object {
    [("type", "thinking"), ("thinking", text), ("signature", "")].into_iter().collect()
}

/// What only its own vendor can read.
pub(super) fn redacted(data: &str) -> Object {
    [("type", "redacted_thinking"), ("data", data)].into_iter().collect()
}

pub(super) fn text_block(text: &str) -> Object {
    [("type", "text"), ("text", text)].into_iter().collect()
}

pub(super) fn tool_use(id: Option<&Json>, name: Option<&Json>) -> Object {
    let mut block: Object = [("type", "tool_use")].into_iter().collect();
    block.insert("id", id.cloned().unwrap_or(Json::Null));
    block.insert("name", name.cloned().unwrap_or(Json::Null));
    block.insert("input", Object::new());
    block
}

/// The arguments as an object, digit for digit. What a limit cut off in the middle is kept as it is.
pub(crate) fn input(arguments: &str) -> Json {
    if arguments.trim().is_empty() {
        return Json::Object(Object::new());
    }
    match Json::parse(arguments.as_bytes()) {
        Ok(input @ Json::Object(_)) => input,
        _ => Object::from_iter([("INVALID_JSON", arguments)]).into(),
    }
}

/// Why it stopped. vLLM says which stop string it was.
pub(super) fn ending(choice: &Json) -> Object {
    let finish = choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default();
    let stop = choice.get("stop_reason").filter(|_| finish == "stop").and_then(Json::as_str);
    let reason = match finish {
        "stop" if stop.is_some() => "stop_sequence",
        "length" => "max_tokens",
        "tool_calls" | "function_call" => "tool_use",
        "content_filter" => "refusal",
        _ => "end_turn",
    };
    let mut ending: Object = [("stop_reason", reason)].into_iter().collect();
    ending.insert("stop_sequence", stop.map_or(Json::Null, Json::from));
    ending
}

/// Tokens as Anthropic counts them: what was read from a cache and written to it stands apart. What is not known is
/// null, never zero.
pub(super) fn usage(usage: Option<&Json>, tier: Option<&Json>) -> Object {
    let count = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Json::as_u64);
    let detail = |name: &str| usage.and_then(|usage| usage.get("prompt_tokens_details")?.get(name)?.as_u64());
    let known = |count: Option<u64>| count.map_or(Json::Null, Json::from);
    // DeepSeek's own word.
    let read = detail("cached_tokens").or_else(|| count("prompt_cache_hit_tokens")).unwrap_or_default();
    let written_to = detail("cache_write_tokens").unwrap_or_default();
    // More than the whole cannot be a part of it: some count what was cached beside the prompt.
    let without = |all: u64, part: u64| all.checked_sub(part).unwrap_or(all);
    let uncached = count("prompt_tokens").map(|all| without(without(all, read), written_to));
    let mut written = Object::new();
    written.insert("input_tokens", known(uncached));
    written.insert("cache_creation_input_tokens", known(uncached.map(|_| written_to)));
    written.insert("cache_read_input_tokens", known(uncached.map(|_| read)));
    written.insert("output_tokens", known(count("completion_tokens")));
    let reasoning = usage.and_then(|usage| usage.get("completion_tokens_details")?.get("reasoning_tokens")?.as_u64());
    if let Some(reasoning) = reasoning {
        written.insert("output_tokens_details", Object::from_iter([("thinking_tokens", reasoning)]));
    }
    if let Some(tier) = self::tier(tier) {
        written.insert("service_tier", tier);
    }
    written
}

/// The tier in Anthropic's words; it has none for others' further tiers.
pub(super) fn tier(tier: Option<&Json>) -> Option<&'static str> {
    match tier?.as_str()? {
        "default" | "standard" | "on_demand" => Some("standard"),
        "priority" => Some("priority"),
        "batch" => Some("batch"),
        _ => None,
    }
}
