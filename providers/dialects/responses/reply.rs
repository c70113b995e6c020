//! A stored answer as a response. Its id is the job's, so that it can be asked for by it, and is the same each time.

use bytes::Bytes;

use crate::dialects::carried::{Carried, OF_RESPONSES};
use crate::dialects::cited;
use crate::dialects::said::{self, Kind};
use crate::dialects::{Over, Rendering};
use crate::json::{Json, Object};

/// The id of the job's response.
pub fn id(stem: &str) -> String {
    format!("resp_{stem}")
}

/// The job behind a response's id: 32 hexadecimal digits.
pub fn stem_of(id: &str) -> Option<&str> {
    id.strip_prefix("resp_").filter(|stem| stem.len() == 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The id of the item at this place of the output.
pub(super) fn item_id(prefix: &str, rendering: &Rendering, index: usize) -> String {
    format!("{prefix}_{}{index:04x}", rendering.stem)
}

/// The whole response: as an OpenAI provider gave it, under our own id, or made of a chat completion.
pub(crate) fn whole(rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
    let mut json = Json::parse(stored).ok()?;
    if is_response(&json) {
        adopt(rendering, json.as_object_mut()?);
        return Some(json.to_bytes());
    }
    Some(Json::Object(of_completion(rendering, &json)?).to_bytes())
}

pub(super) fn is_response(json: &Json) -> bool {
    json.get("object").and_then(Json::as_str) == Some("response")
}

/// A provider's response under the job's id, and with what the gateway did in its stead.
pub(super) fn adopt(rendering: &Rendering, response: &mut Object) {
    response.insert("id", id(&rendering.stem));
    let asked = |name: &str| rendering.request.get_some(name).cloned();
    response.insert("previous_response_id", asked("previous_response_id").unwrap_or(Json::Null));
    response.insert("background", asked("background").unwrap_or_else(|| false.into()));
}

/// A response that has no answer yet, or never will: `queued`, `in_progress`, `failed`, `cancelled`.
pub fn unfinished(rendering: &Rendering, over: &Over<'_>) -> Bytes {
    let mut response = opening(rendering, over.status, over.created, rendering.request.get("model"));
    write_over(over, &mut response);
    Json::Object(response).to_bytes()
}

pub(super) fn write_over(over: &Over<'_>, response: &mut Object) {
    response.insert("status", over.status);
    if let Some((code, message)) = over.error {
        response.insert("error", Object::from_iter([("code", code), ("message", message)]));
    }
}

/// Everything but the answer, members in OpenAI's order. What the client did not choose is null where the protocol has
/// no default that the gateway would know.
pub(super) fn opening(rendering: &Rendering, status: &str, created: u64, model: Option<&Json>) -> Object {
    let asked = |name: &str| rendering.request.get_some(name).cloned();
    let or_null = |name: &str| asked(name).unwrap_or(Json::Null);
    let mut response = Object::new();
    response.insert("id", id(&rendering.stem));
    response.insert("object", "response");
    response.insert("created_at", created);
    response.insert("status", status);
    response.insert("background", asked("background").unwrap_or_else(|| false.into()));
    response.insert("error", Json::Null);
    response.insert("incomplete_details", Json::Null);
    for name in ["instructions", "max_output_tokens"] {
        response.insert(name, or_null(name));
    }
    response.insert("model", model.cloned().unwrap_or(Json::Null));
    response.insert("output", Vec::new());
    response.insert("parallel_tool_calls", asked("parallel_tool_calls").unwrap_or_else(|| true.into()));
    response.insert("previous_response_id", or_null("previous_response_id"));
    let mut reasoning: Object = [("effort", Json::Null), ("summary", Json::Null)].into_iter().collect();
    if let Some(effort) = rendering.request.get("reasoning").and_then(|reasoning| reasoning.get("effort")) {
        reasoning.insert("effort", effort.clone());
    }
    response.insert("reasoning", reasoning);
    response.insert("store", asked("store").unwrap_or_else(|| true.into()));
    response.insert("temperature", or_null("temperature"));
    response.insert("text", text(rendering));
    response.insert("tool_choice", asked("tool_choice").unwrap_or_else(|| "auto".into()));
    response.insert("tools", asked("tools").unwrap_or_else(|| Vec::new().into()));
    response.insert("top_p", or_null("top_p"));
    response.insert("truncation", "disabled");
    response.insert("usage", Json::Null);
    response.insert("user", or_null("user"));
    response.insert("metadata", asked("metadata").unwrap_or_else(|| Object::new().into()));
    response
}

fn text(rendering: &Rendering) -> Object {
    let mut text = rendering.request.get("text").and_then(Json::as_object).cloned().unwrap_or_default();
    if text.get_some("format").is_none() {
        text.insert("format", Object::from_iter([("type", "text")]));
    }
    text
}

pub(super) fn created(completion: &Json) -> u64 {
    completion.get("created").and_then(Json::as_u64).unwrap_or_default()
}

pub(super) fn of_completion(rendering: &Rendering, completion: &Json) -> Option<Object> {
    let choice = completion.get("choices")?.as_array()?.first()?;
    let ending = Ending::of(choice);
    let mut response = opening(rendering, ending.status, created(completion), completion.get("model"));
    let mut items = items(rendering, choice);
    if let Some(Json::Object(last)) = items.last_mut() {
        ending.mark(last);
    }
    let carried = choice.get("message").and_then(Json::as_object).map(Carried::of_message).unwrap_or_default();
    for data in carried.sealed(OF_RESPONSES) {
        items.push(opaque(rendering, items.len(), &data).into());
    }
    response.insert("output", items);
    ending.write(completion.get_some("usage"), completion.get_some("service_tier"), &mut response);
    Some(response)
}

/// How a response ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub status: &'static str,
    reason: Option<&'static str>,
}

impl Default for Ending {
    fn default() -> Self {
        Ending { status: "completed", reason: None }
    }
}

impl Ending {
    /// Nothing more comes.
    pub const CUT: Ending = Ending { status: "incomplete", reason: None };

    pub fn of(choice: &Json) -> Ending {
        let reason = match choice.get("finish_reason").and_then(Json::as_str) {
            Some("length") => "max_output_tokens",
            Some("content_filter") => "content_filter",
            _ => return Ending::default(),
        };
        Ending { status: "incomplete", reason: Some(reason) }
    }

    /// The item that was being written when the response ended.
    pub fn mark(self, item: &mut Object) {
        if item.contains_key("status") {
            item.insert("status", self.status);
        }
    }

    pub fn write(self, usage: Option<&Json>, service_tier: Option<&Json>, response: &mut Object) {
        response.insert("status", self.status);
        if let Some(reason) = self.reason {
            response.insert("incomplete_details", Object::from_iter([("reason", reason)]));
        }
        response.insert("usage", usage.map_or(Json::Null, |usage| self::usage(usage).into()));
        if let Some(tier) = service_tier {
            // Groq's and Google's words for the tier that OpenAI calls its default.
            let usual = matches!(tier.as_str(), Some("on_demand" | "standard"));
            response.insert("service_tier", if usual { Json::from("default") } else { tier.clone() });
        }
    }
}

fn items(rendering: &Rendering, choice: &Json) -> Vec<Json> {
    let empty = Object::new();
    let message = choice.get("message").and_then(Json::as_object).unwrap_or(&empty);
    let mut items: Vec<Object> = Vec::new();
    for (kind, text) in said::of_message(message) {
        let index = items.len();
        match kind {
            Kind::Reasoning => {
                let mut item = reasoning(rendering, index);
                item.insert("summary", vec![Json::from(summary(&text))]);
                items.push(item);
            }
            Kind::Text | Kind::Refusal => {
                let part = part(kind, &text);
                match items.last_mut() {
                    Some(last) if is_message(last) => push_part(last, part),
                    _ => {
                        let mut item = self::message(rendering, index);
                        push_part(&mut item, part);
                        items.push(item);
                    }
                }
            }
        }
    }
    let logprobs = choice.get("logprobs").and_then(|logprobs| logprobs.get("content")).and_then(Json::as_array);
    let annotations = cited::of_choice(choice, cited::annotations);
    if !annotations.is_empty() && !items.iter_mut().any(|item| first_text(item).is_some()) {
        let mut item = self::message(rendering, items.len());
        push_part(&mut item, part(Kind::Text, ""));
        items.push(item);
    }
    if let Some(text) = items.iter_mut().rev().find_map(first_text) {
        text.insert("logprobs", self::logprobs(logprobs.unwrap_or_default()));
        text.insert("annotations", annotations);
    }
    for call in message.get("tool_calls").and_then(Json::as_array).unwrap_or_default() {
        let function = call.get("function");
        let of_function = |name: &str| function.and_then(|function| function.get(name));
        let mut item = self::call(rendering, items.len(), call.get("id"), of_function("name"));
        item.insert("arguments", of_function("arguments").cloned().unwrap_or_else(|| "".into()));
        items.push(item);
    }
    items
        .into_iter()
        .map(|mut item| {
            item.get_mut("status").into_iter().for_each(|status| *status = "completed".into());
            item.into()
        })
        .collect()
}

/// Log probabilities as responses have them: a token's bytes are always there. Where nobody said them they are those of
/// its text.
pub(super) fn logprobs(tokens: &[Json]) -> Vec<Json> {
    let with_bytes = |token: &Json| {
        let mut written = token.as_object().cloned().unwrap_or_default();
        if written.get_some("bytes").is_none() {
            let text = token.get("token").and_then(Json::as_str).unwrap_or_default();
            written.insert("bytes", text.bytes().map(|byte| Json::from(u64::from(byte))).collect::<Vec<_>>());
        }
        written
    };
    let whole = |token: &Json| {
        let mut written = with_bytes(token);
        let top = token.get("top_logprobs").and_then(Json::as_array).unwrap_or_default();
        written.insert("top_logprobs", top.iter().map(|other| with_bytes(other).into()).collect::<Vec<Json>>());
        written.into()
    };
    tokens.iter().map(whole).collect()
}

fn is_message(item: &Object) -> bool {
    item.get("type").and_then(Json::as_str) == Some("message")
}

pub(super) fn push_part(item: &mut Object, part: Object) {
    if let Some(Json::Array(content)) = item.get_mut("content") {
        content.push(part.into());
    }
}

fn first_text(item: &mut Object) -> Option<&mut Object> {
    let Some(Json::Array(content)) = item.get_mut("content") else { return None };
    content.iter_mut().filter_map(Json::as_object_mut).find(|part| part.contains_key("text"))
}

/// A message, a call, reasoning: as they are when they begin.
pub(super) fn message(rendering: &Rendering, index: usize) -> Object {
    let mut item: Object = [("id", item_id("msg", rendering, index))].into_iter().collect();
    for (name, value) in [("type", "message"), ("status", "in_progress"), ("role", "assistant")] {
        item.insert(name, value);
    }
    item.insert("content", Vec::new());
    item
}

pub(super) fn call(rendering: &Rendering, index: usize, call_id: Option<&Json>, name: Option<&Json>) -> Object {
    let mut item: Object = [("id", item_id("fc", rendering, index))].into_iter().collect();
    item.insert("type", "function_call");
    item.insert("status", "in_progress");
    item.insert("call_id", call_id.cloned().unwrap_or(Json::Null));
    item.insert("name", name.cloned().unwrap_or(Json::Null));
    item.insert("arguments", "");
    item
}

pub(super) fn reasoning(rendering: &Rendering, index: usize) -> Object {
    let mut item: Object = [("id", item_id("rs", rendering, index))].into_iter().collect();
    item.insert("type", "reasoning");
    item.insert("summary", Vec::new());
    item
}

/// What only its own vendor can read.
pub(super) fn opaque(rendering: &Rendering, index: usize, data: &str) -> Object {
    let mut item = reasoning(rendering, index);
    item.insert("encrypted_content", data);
    item
}

/// Whether an item's id is one that was made here: no provider has ever seen it.
pub(crate) fn is_own_id(id: &str) -> bool {
    let made = id.split_once('_').map_or("", |(_, made)| made);
    made.len() == 36 && made.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn summary(text: &str) -> Object {
    [("type", "summary_text"), ("text", text)].into_iter().collect()
}

pub(super) fn part(kind: Kind, text: &str) -> Object {
    if kind == Kind::Refusal {
        return [("type", "refusal"), ("refusal", text)].into_iter().collect();
    }
    let mut part: Object = [("type", "output_text"), ("text", text)].into_iter().collect();
    part.insert("annotations", Vec::new());
    part.insert("logprobs", Vec::new());
    part
}

fn usage(usage: &Json) -> Object {
    let count = |name: &str| usage.get(name).cloned().unwrap_or(Json::Null);
    let detail = |list: &str, name: &str| usage.get(list).and_then(|details| details.get_some(name)).cloned();
    let cached =
        detail("prompt_tokens_details", "cached_tokens").or_else(|| usage.get("prompt_cache_hit_tokens").cloned());
    let mut input: Object = [("cached_tokens", cached.unwrap_or_else(|| 0.into()))].into_iter().collect();
    let written_to = detail("prompt_tokens_details", "cache_write_tokens");
    input.insert("cache_write_tokens", written_to.unwrap_or_else(|| 0.into()));
    let reasoning = detail("completion_tokens_details", "reasoning_tokens").unwrap_or_else(|| 0.into());
    let mut written = Object::new();
    written.insert("input_tokens", count("prompt_tokens"));
    written.insert("input_tokens_details", input);
    written.insert("output_tokens", count("completion_tokens"));
    written.insert("output_tokens_details", Object::from_iter([("reasoning_tokens", reasoning)]));
    written.insert("total_tokens", count("total_tokens"));
    written
}
