//! A complete 2xx answer in OpenAI's shape, read and checked. It passes through byte for byte, unless it contradicts
//! itself: `stop` beside tool calls is `tool_calls` (field decision D5), and a provider's own finish word becomes
//! OpenAI's. It must never let an answer pass whose every choice did not end.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::adapter::Head;
use crate::canonical::{Answer, Choice, Finish, Reply, ToolCall, Usage};
use crate::compatible::Row;
use crate::error_shapes::error_within_success;
use crate::failure::{Failure, Proof};
use crate::json::Json;
use crate::openai::arguments;
use crate::refusal;

/// Reads the answer; an answer that is none is a failure that ended without a result, with its usage where readable.
pub(crate) fn read(row: &Row, head: &Head, body: &Bytes) -> Result<Answer, Failure> {
    let (mut json, mut changed) = match Json::parse(body) {
        Ok(json) => (json, false),
        Err(error) => match Json::parse_with_loose_logprobs(body) {
            Ok(json) => (json, true),
            Err(_) => return Err(refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}"))),
        },
    };
    if let Some(error) = error_within(&json) {
        return Err(with_usage(refusal::error_in_answer(head.status, error_within_success(error)), &json));
    }
    let choices = choices(row, &json).map_err(|invalid| with_usage(failure(head, invalid), &json))?;
    changed |= patch(&mut json, &choices);
    let usage = usage(&json);
    let reply = Reply {
        id: text(&json, "id"),
        model: text(&json, "model"),
        choices,
        usage_unreadable: usage == Err(Unreadable),
        usage: usage.unwrap_or(None),
    };
    let body = if changed { json.to_bytes() } else { body.clone() };
    Ok(Answer { reply, body })
}

/// The work was done: what it cost is kept where it can be read.
pub(super) fn with_usage(mut failure: Failure, json: &Json) -> Failure {
    failure.usage = usage(json).unwrap_or(None);
    failure
}

/// What an answer that holds no answer proves.
fn failure(head: &Head, invalid: Invalid) -> Failure {
    match invalid {
        Invalid::Answer(message) => refusal::invalid_answer(head.status, message),
        Invalid::Ended(word) => {
            let message = format!("the provider stopped with finish_reason \"{word}\"");
            let failure = Failure::new(Proof::EndedWithoutResult, "error_in_answer", message);
            Failure { status: Some(head.status.as_u16()), ..failure }
        }
    }
}

/// Any `error` that is not null, whatever its type (field case B019); OpenRouter also puts one into a choice.
pub(super) fn error_within(json: &Json) -> Option<&Json> {
    let in_choices = || json.get("choices")?.as_array()?.iter().find_map(|choice| choice.get_some("error"));
    json.get_some("error").or_else(in_choices)
}

enum Invalid {
    Answer(String),
    /// The provider's finish word says that it failed.
    Ended(String),
}

fn answer(message: impl Into<String>) -> Invalid {
    Invalid::Answer(message.into())
}

fn choices(row: &Row, json: &Json) -> Result<Vec<Choice>, Invalid> {
    let items = json.get("choices").and_then(Json::as_array).filter(|items| !items.is_empty());
    let items = items.ok_or_else(|| answer("the answer has no choices"))?;
    items.iter().enumerate().map(|(i, item)| choice(row, i, item)).collect()
}

fn choice(row: &Row, i: usize, item: &Json) -> Result<Choice, Invalid> {
    let message = item.get("message").filter(|message| message.as_object().is_some());
    let message = message.ok_or_else(|| answer(format!("choices[{i}] has no message")))?;
    let Some(native) = item.get("finish_reason").and_then(Json::as_str) else {
        return Err(answer(format!("choices[{i}] has no finish_reason: the answer did not end")));
    };
    let tool_calls = tool_calls(i, message)?;
    let finish = ended(row, i, native, !tool_calls.is_empty())?;
    let text = content(i, message)?;
    let refusal = text_of(message.get_some("refusal"));
    // An empty string is an answer; nothing at all, without a word why, is an empty success.
    if finish == Finish::Stop && text.is_none() && refusal.is_none() && message.get_some("audio").is_none() {
        return Err(answer(format!("choices[{i}] is empty: no content, no refusal, no tool call")));
    }
    if finish == Finish::ToolCalls && tool_calls.is_empty() {
        return Err(answer(format!("choices[{i}] ended with tool_calls and has none")));
    }
    let index = item.get("index").and_then(Json::as_u64).unwrap_or(i as u64);
    Ok(Choice { index, text, refusal, tool_calls, finish, native_finish: native.to_owned() })
}

/// What the finish word means, beside tool calls or without.
fn ended(row: &Row, i: usize, native: &str, calls: bool) -> Result<Finish, Invalid> {
    match finish(row, native) {
        Some(Finish::Stop) if calls => Ok(Finish::ToolCalls),
        Some(finish) => Ok(finish),
        // Words of failure that were seen: error (Mistral, OpenRouter), abort (vLLM), insufficient_system_resource
        // (DeepSeek).
        None if matches!(native, "error" | "abort" | "insufficient_system_resource") => {
            Err(Invalid::Ended(native.to_owned()))
        }
        None => Err(answer(format!("choices[{i}] has an unknown finish_reason"))),
    }
}

/// The failure that a stream's finish word says, as soon as it is said.
pub(super) fn failed_finish(row: &Row, head: &Head, index: u64, native: &str) -> Option<Failure> {
    ended(row, index as usize, native, false).err().map(|invalid| failure(head, invalid))
}

fn finish(row: &Row, word: &str) -> Option<Finish> {
    match word {
        "stop" => Some(Finish::Stop),
        "length" => Some(Finish::Length),
        "tool_calls" => Some(Finish::ToolCalls),
        "content_filter" => Some(Finish::ContentFilter),
        _ => row.finish_words.iter().find(|(own, _)| *own == word).map(|(_, finish)| *finish),
    }
}

/// A string, or a list of parts whose text is joined (Mistral's thinking models answer so).
fn content(i: usize, message: &Json) -> Result<Option<String>, Invalid> {
    match message.get_some("content") {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(Json::Array(parts)) => {
            Ok(Some(parts.iter().filter_map(|part| part.get("text").and_then(Json::as_str)).collect()))
        }
        Some(_) => Err(answer(format!("choices[{i}].message.content is neither text nor parts"))),
    }
}

fn tool_calls(i: usize, message: &Json) -> Result<Vec<ToolCall>, Invalid> {
    let items = match message.get_some("tool_calls") {
        None => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(_) => return Err(answer(format!("choices[{i}].message.tool_calls is no array"))),
    };
    let read = |item: &Json| {
        let function = item.get("function")?;
        Some(ToolCall {
            id: text_of(item.get("id")).filter(|id| !id.is_empty())?,
            name: text_of(function.get("name")).filter(|name| !name.is_empty())?,
            // OpenRouter leaves them out where a call has none (recorded 2025-11).
            arguments: match function.get("arguments") {
                None | Some(Json::Null) => "{}".to_owned(),
                arguments => text_of(arguments)?,
            },
        })
    };
    items
        .iter()
        .enumerate()
        .map(|(j, item)| {
            read(item).ok_or_else(|| {
                answer(format!("choices[{i}].message.tool_calls[{j}] lacks an id, a name or the text of its arguments"))
            })
        })
        .collect()
}

/// Writes what the client is told otherwise than the provider put it: the finish word, and arguments left out.
fn patch(json: &mut Json, choices: &[Choice]) -> bool {
    let mut changed = false;
    let Json::Object(answer) = json else { return false };
    let Some(Json::Array(items)) = answer.get_mut("choices") else { return false };
    for (item, choice) in items.iter_mut().zip(choices) {
        let Json::Object(item) = item else { continue };
        let word = choice.finish.as_openai();
        if choice.native_finish != word {
            item.insert("finish_reason", word);
            changed = true;
        }
        if let Some(Json::Object(message)) = item.get_mut("message") {
            changed |= arguments::fill(message, |arguments| arguments.is_none_or(Json::is_null));
        }
    }
    changed
}

/// The usage object is there and cannot be read: cost is unknown, never zero.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable;

fn usage(json: &Json) -> Result<Option<Usage>, Unreadable> {
    let Some(usage) = json.get_some("usage") else { return Ok(None) };
    let required = |name: &str| usage.get(name).and_then(Json::as_u64).ok_or(Unreadable);
    let input_tokens = required("prompt_tokens")?;
    let output_tokens = required("completion_tokens")?;
    let details = usage.get_some("prompt_tokens_details").and_then(|details| details.get_some("cached_tokens"));
    let cached = match details.or_else(|| usage.as_object()?.get_some("prompt_cache_hit_tokens")) {
        None => 0,
        Some(cached) => cached.as_u64().ok_or(Unreadable)?,
    };
    // What more is said of them is read where it can be: servers that speak this protocol put all kinds of things here.
    let detail = |object: &str, name: &str| usage.get(object)?.get(name)?.as_u64();
    let audio = |object: &str| detail(object, "audio_tokens").is_some_and(|tokens| tokens > 0);
    Ok(Some(Usage {
        input_tokens,
        output_tokens,
        cached_input_tokens: cached,
        cache_write_tokens: detail("prompt_tokens_details", "cache_write_tokens").unwrap_or_default(),
        reasoning_tokens: detail("completion_tokens_details", "reasoning_tokens").unwrap_or_default(),
        billed_apart: audio("prompt_tokens_details")
            || audio("completion_tokens_details")
            || !Usage::is_standard_tier(json.get("service_tier")),
        ..Usage::default()
    }))
}

fn text(json: &Json, name: &str) -> Option<String> {
    text_of(json.get(name))
}

fn text_of(value: Option<&Json>) -> Option<String> {
    value.and_then(Json::as_str).map(str::to_owned)
}
