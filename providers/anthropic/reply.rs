//! Anthropic's whole answer, read and rendered as a chat completion. The rendering depends on the answer alone, so that
//! it is the same bytes each time: `created` is the answer's `Date`, or 0.
//!
//! Nothing is lost: thinking goes into `reasoning_content` and, signed, into `thinking_blocks`; blocks that OpenAI has no
//! word for stay whole in `other_blocks`. `pause_turn` needs a continuation that chat completions cannot ask for, so
//! there it is no answer. For a client of this protocol (`native`) the answer is checked, and goes on as it came.

pub(super) mod render;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::adapter::Head;
use crate::canonical::{Answer, Choice, Finish, Reply, ToolCall, Usage};
use crate::error_shapes::error_within_success;
use crate::failure::Failure;
use crate::json::Json;
use crate::refusal;

/// What the content blocks held.
#[derive(Debug, Default)]
struct Blocks {
    text: Option<String>,
    tool_calls: Vec<ToolCall>,
    thinking: Vec<Json>,
    other: Vec<Json>,
}

/// Tokens as Anthropic counts them.
#[derive(Debug, Clone, PartialEq)]
struct Counted {
    usage: Usage,
    cache_writes: u64,
    /// Of the output, where it is said.
    reasoning: Option<u64>,
    /// As it came: what it says beyond this stays readable.
    native: Json,
}

/// The usage object is there and cannot be read: cost is unknown, never zero.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable;

pub(crate) fn read(head: &Head, body: &[u8], native: bool) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    if native {
        return read_native(head, json, None, |_| Bytes::copy_from_slice(body));
    }
    read_message(head, &json, None)
}

/// For a client of this protocol, who can go on with a paused turn.
pub(super) fn read_native(
    head: &Head,
    json: Json,
    streamed: Option<&Streamed<'_>>,
    body: impl FnOnce(&Json) -> Bytes,
) -> Result<Answer, Failure> {
    let paused = json.get("stop_reason").and_then(Json::as_str) == Some("pause_turn");
    let answer = match (paused, &json) {
        (true, Json::Object(message)) => {
            let mut message = message.clone();
            message.insert("stop_reason", "end_turn");
            read_message(head, &Json::Object(message), streamed)?
        }
        _ => read_message(head, &json, streamed)?,
    };
    Ok(Answer { body: body(&json), ..answer })
}

/// What only a stream knows of its message: each block's arguments as the client has seen them, by their place.
pub(super) struct Streamed<'a> {
    pub arguments: Vec<Option<&'a str>>,
}

/// Reads the message, whole as it came or put together from a stream.
pub(super) fn read_message(head: &Head, json: &Json, streamed: Option<&Streamed<'_>>) -> Result<Answer, Failure> {
    if let Some(error) = json.get_some("error") {
        let failure = refusal::error_in_answer(head.status, error_within_success(error));
        return Err(Failure { usage: billed(json), ..failure });
    }
    let blocks = blocks(json, streamed).map_err(|message| invalid(head, json, &message))?;
    let Some(native) = json.get("stop_reason").and_then(Json::as_str) else {
        return Err(invalid(head, json, "the answer has no stop_reason: it did not end"));
    };
    let finish = match finish(native) {
        Some(Finish::Stop) if !blocks.tool_calls.is_empty() => Finish::ToolCalls,
        Some(Finish::ToolCalls) if blocks.tool_calls.is_empty() => {
            return Err(invalid(head, json, "the answer stopped for a tool call and has none"));
        }
        Some(finish) => finish,
        None => return Err(invalid(head, json, "the answer stopped for an unknown reason")),
    };
    let (text, refusal) = words(json, finish, &blocks, streamed.is_some());
    let usage = usage(json);
    let choice = Choice {
        index: 0,
        text,
        refusal,
        tool_calls: blocks.tool_calls.clone(),
        finish,
        native_finish: native.to_owned(),
    };
    let reply = Reply {
        id: json.get("id").and_then(Json::as_str).map(str::to_owned),
        model: json.get("model").and_then(Json::as_str).map(str::to_owned),
        choices: vec![choice],
        usage_unreadable: usage == Err(Unreadable),
        usage: usage.as_ref().ok().and_then(Option::as_ref).map(|counted| counted.usage),
    };
    let beside = json.as_object().map(render::Beside::of).unwrap_or_default();
    let body = render::completion(head, &reply, &blocks, usage.ok().flatten(), &beside);
    Ok(Answer { reply, body })
}

/// The work was done: what it cost is kept where it can be read.
pub(super) fn invalid(head: &Head, json: &Json, message: &str) -> Failure {
    Failure { usage: billed(json), ..refusal::invalid_answer(head.status, message) }
}

fn billed(json: &Json) -> Option<Usage> {
    usage(json).ok().flatten().map(|counted| counted.usage)
}

pub(super) fn finish(word: &str) -> Option<Finish> {
    match word {
        "end_turn" | "stop_sequence" => Some(Finish::Stop),
        "max_tokens" | "model_context_window_exceeded" => Some(Finish::Length),
        "tool_use" => Some(Finish::ToolCalls),
        "refusal" => Some(Finish::ContentFilter),
        _ => None,
    }
}

/// Content and refusal. A refusal's own explanation stays apart from what was said before it; without one, what was
/// said is the refusal. An ended turn without a block is an empty string, not nothing: Anthropic documents it.
fn words(json: &Json, finish: Finish, blocks: &Blocks, streamed: bool) -> (Option<String>, Option<String>) {
    let text = blocks.text.clone();
    match finish {
        Finish::ContentFilter => {
            let details = json.get("stop_details").and_then(|details| details.get("explanation"));
            match details.and_then(Json::as_str).filter(|text| !text.is_empty()) {
                Some(explanation) => (text, Some(explanation.to_owned())),
                // It has reached the client as content already.
                None if streamed => (text, None),
                None => (None, text),
            }
        }
        Finish::ToolCalls => (text, None),
        Finish::Stop | Finish::Length => (Some(text.unwrap_or_default()), None),
    }
}

fn blocks(json: &Json, streamed: Option<&Streamed<'_>>) -> Result<Blocks, String> {
    let items = json.get("content").and_then(Json::as_array).ok_or("the answer has no content")?;
    let mut blocks = Blocks::default();
    for (i, item) in items.iter().enumerate() {
        match item.get("type").and_then(Json::as_str) {
            Some("text") => {
                let text = item.get("text").and_then(Json::as_str);
                let text = text.ok_or_else(|| format!("content[{i}] is a text block without text"))?;
                blocks.text.get_or_insert_default().push_str(text);
                if item.get_some("citations").is_some() {
                    blocks.other.push(item.clone());
                }
            }
            Some("tool_use") => {
                let written = streamed.and_then(|streamed| *streamed.arguments.get(i)?);
                let call = tool_call(item, written);
                blocks.tool_calls.push(call.ok_or_else(|| format!("content[{i}] lacks an id, a name or an input"))?);
            }
            Some("thinking" | "redacted_thinking") => blocks.thinking.push(item.clone()),
            Some(_) => blocks.other.push(item.clone()),
            None => return Err(format!("content[{i}] is a block without a type")),
        }
    }
    Ok(blocks)
}

/// The input becomes text with every digit as it came (field case B060).
fn tool_call(block: &Json, written: Option<&str>) -> Option<ToolCall> {
    let arguments = match written {
        Some(written) => written.to_owned(),
        None => text_of(block.get("input").filter(|input| input.as_object().is_some())?),
    };
    Some(ToolCall {
        id: block.get("id")?.as_str()?.to_owned(),
        name: block.get("name")?.as_str()?.to_owned(),
        arguments,
    })
}

/// A value as the text that a client gets.
pub(super) fn text_of(value: &Json) -> String {
    String::from_utf8_lossy(&value.to_bytes()).into_owned()
}

/// The usage object of the client's dialect, where it can be read.
pub(super) fn rendered_usage(json: &Json) -> Option<Json> {
    usage(json).ok().flatten().map(render::usage)
}

/// Input tokens as OpenAI counts them: uncached, written to and read from the cache together (field case B068).
fn usage(json: &Json) -> Result<Option<Counted>, Unreadable> {
    let Some(usage) = json.get_some("usage") else { return Ok(None) };
    let required = |name: &str| usage.get(name).and_then(Json::as_u64).ok_or(Unreadable);
    let optional = |name: &str| match usage.get(name) {
        None | Some(Json::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or(Unreadable),
    };
    let uncached = required("input_tokens")?;
    let cache_writes = optional("cache_creation_input_tokens")?;
    let cached_input_tokens = optional("cache_read_input_tokens")?;
    let input = uncached.checked_add(cache_writes).and_then(|sum| sum.checked_add(cached_input_tokens));
    let input_tokens = input.ok_or(Unreadable)?;
    let by_time = usage.get_some("cache_creation");
    let for_an_hour = by_time.and_then(|writes| writes.get_some("ephemeral_1h_input_tokens"));
    let counted = Usage {
        input_tokens,
        output_tokens: required("output_tokens")?,
        cached_input_tokens,
        cache_write_tokens: cache_writes,
        cache_write_1h_tokens: for_an_hour.map_or(Ok(0), |tokens| tokens.as_u64().ok_or(Unreadable))?,
        billed_apart: !Usage::is_standard_tier(usage.get("service_tier")),
        ..Usage::default()
    };
    let reasoning = usage.get("output_tokens_details").and_then(|details| details.get("thinking_tokens")?.as_u64());
    Ok(Some(Counted { usage: counted, cache_writes, reasoning, native: usage.clone() }))
}
