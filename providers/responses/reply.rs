//! A response, read and rendered as a chat completion; the rendering depends on the response alone, so that it is the
//! same bytes each time.
//!
//! Nothing is lost: summaries and texts of reasoning go into `reasoning_content`, encrypted reasoning stays whole in
//! `reasoning_items`, and items that chat completions have no word for in `other_items`. Only `completed` and
//! `incomplete` are answers; a response that is still worked on proves nothing.

mod items;
pub(super) mod render;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::adapter::Head;
use crate::canonical::{Answer, Choice, Finish, Reply, Usage};
use crate::error_shapes::error_within_success;
use crate::failure::{Failure, Proof};
use crate::json::Json;
use crate::refusal;

pub(super) use items::{BETWEEN_THOUGHTS, Items};

/// What is told of usage beside the tokens that are billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub usage: Usage,
    cache_writes: u64,
    reasoning: Option<u64>,
}

/// The usage object is there and cannot be read: cost is unknown, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unreadable;

/// A response that is an answer.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub reply: Reply,
    pub items: Items,
    pub counted: Option<Counted>,
    /// Seconds since 1970.
    pub created: u64,
    pub service_tier: Option<Json>,
}

impl Whole {
    /// Always one.
    pub fn choice(&self) -> &Choice {
        &self.reply.choices[0]
    }

    pub fn into_answer(self) -> Answer {
        let body = render::completion(&self);
        Answer { reply: self.reply, body }
    }

    /// For a client of this protocol, who gets the response as it came.
    pub fn into_native_answer(self, body: Bytes) -> Answer {
        Answer { reply: self.reply, body }
    }
}

pub(crate) fn read(head: &Head, body: &[u8], native: bool) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    let whole = read_response(head, &json)?;
    Ok(if native { whole.into_native_answer(Bytes::copy_from_slice(body)) } else { whole.into_answer() })
}

/// Reads a response, whole as it came or from the terminal event of a stream.
pub(super) fn read_response(head: &Head, json: &Json) -> Result<Whole, Failure> {
    let status = json.get("status").and_then(Json::as_str).unwrap_or_default();
    match status {
        "failed" | "cancelled" => return Err(ended(head, json, status)),
        "completed" | "incomplete" | "" => {}
        // Queued, in progress, or a word that came after this was written: it may go on.
        _ => return Err(unfinished(head, status)),
    }
    if let Some(error) = json.get_some("error") {
        let failure = refusal::error_in_answer(head.status, error_within_success(error));
        return Err(Failure { usage: billed(json), ..failure });
    }
    let invalid = |why: &str| Failure { usage: billed(json), ..refusal::invalid_answer(head.status, why) };
    let items = Items::read(json).map_err(|why| invalid(&why))?;
    let (finish, native) = finish(json, status, &items).map_err(invalid)?;
    let usage = usage(json);
    let choice = Choice {
        index: 0,
        text: text(&items, finish),
        refusal: items.refusal.clone(),
        tool_calls: items.calls.clone(),
        finish,
        native_finish: native.to_owned(),
    };
    let of_response = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
    let reply = Reply {
        id: of_response("id"),
        model: of_response("model"),
        choices: vec![choice],
        usage_unreadable: usage == Err(Unreadable),
        usage: usage.ok().flatten().map(|counted| counted.usage),
    };
    Ok(Whole {
        reply,
        items,
        counted: usage.ok().flatten(),
        created: created(json),
        service_tier: json.get_some("service_tier").cloned(),
    })
}

/// When the response was made, in seconds since 1970; 0 where it does not say.
pub(super) fn created(json: &Json) -> u64 {
    json.get("created_at").and_then(Json::as_u64).unwrap_or_default()
}

/// It is over, and there is no answer.
fn ended(head: &Head, json: &Json, status: &str) -> Failure {
    let mut error = json.get_some("error").map(error_within_success).unwrap_or_default();
    if error.message.is_empty() {
        error.message = format!("the response is {status}, without a word why");
    }
    let reason = if status == "failed" { "response_failed" } else { "response_cancelled" };
    Failure { reason, usage: billed(json), ..refusal::error_in_answer(head.status, error) }
}

fn unfinished(head: &Head, status: &str) -> Failure {
    let why = format!("the response is not over: its status is {status}");
    Failure { status: Some(head.status.as_u16()), ..Failure::new(Proof::Unknown, "response_unfinished", why) }
}

/// Why it stopped, and the provider's own word for it.
fn finish<'a>(json: &'a Json, status: &'a str, items: &Items) -> Result<(Finish, &'a str), &'static str> {
    if status == "completed" {
        return match (&items.text, &items.refusal) {
            _ if !items.calls.is_empty() => Ok((Finish::ToolCalls, status)),
            // An empty text is an answer; nothing at all, without a word why, is an empty success.
            (None, None) => Err("the response is empty: no text, no refusal, no call"),
            _ => Ok((Finish::Stop, status)),
        };
    }
    if status != "incomplete" {
        return Err("the response has no status");
    }
    match json.get("incomplete_details").and_then(|details| details.get("reason")).and_then(Json::as_str) {
        Some(reason @ ("max_output_tokens" | "max_tokens")) => Ok((Finish::Length, reason)),
        Some(reason @ "content_filter") => Ok((Finish::ContentFilter, reason)),
        _ => Err("the response is incomplete for an unknown reason"),
    }
}

/// Where the limit left nothing of an answer, it is an empty one (field case B025).
fn text(items: &Items, finish: Finish) -> Option<String> {
    match finish {
        Finish::Length if items.refusal.is_none() && items.calls.is_empty() => {
            Some(items.text.clone().unwrap_or_default())
        }
        _ => items.text.clone(),
    }
}

pub(super) fn billed(json: &Json) -> Option<Usage> {
    usage(json).ok().flatten().map(|counted| counted.usage)
}

/// Cached tokens are among the input's, and reasoning tokens among the output's, as chat completions count.
fn usage(json: &Json) -> Result<Option<Counted>, Unreadable> {
    let Some(usage) = json.get_some("usage") else { return Ok(None) };
    let required = |name: &str| usage.get(name).and_then(Json::as_u64).ok_or(Unreadable);
    let detail = |object: &str, name: &str| match usage.get_some(object).and_then(|details| details.get_some(name)) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or(Unreadable),
    };
    let cache_writes = detail("input_tokens_details", "cache_write_tokens")?.unwrap_or_default();
    let reasoning = detail("output_tokens_details", "reasoning_tokens")?;
    let usage = Usage {
        input_tokens: required("input_tokens")?,
        output_tokens: required("output_tokens")?,
        cached_input_tokens: detail("input_tokens_details", "cached_tokens")?.unwrap_or_default(),
        cache_write_tokens: cache_writes,
        reasoning_tokens: reasoning.unwrap_or_default(),
        billed_apart: !Usage::is_standard_tier(json.get("service_tier")),
        ..Usage::default()
    };
    Ok(Some(Counted { usage, cache_writes, reasoning }))
}
