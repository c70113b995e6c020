//! The conversation as a list of items, in the client's order: messages, calls of functions and their results. System
//! and developer messages keep their role and their place.
//!
//! Reasoning that the provider had encrypted goes back unread, before the turn that it led to, as `reasoning_items`
//! of an answer brought it. Empty turns are not made: they would part a call from its result (field case B038).

use super::content::{assistant_parts, parts};
use super::{WHO, refuse_others};
use crate::adapter::Unsupported;
use crate::call_id::fitting;
use crate::canonical::{Message, Request, SystemRole, ToolCall};
use crate::json::Json;
use crate::leftover::{self, object};
use crate::numbered::unnumbered;

/// The longest id of a call (`FunctionCallOutputItemParam`).
const LONGEST_ID: usize = 64;

pub(super) fn write(request: &Request) -> Result<Json, Unsupported> {
    let sent = request.body.get("messages").and_then(Json::as_array).unwrap_or_default();
    let mut items = Vec::with_capacity(request.messages.len());
    for (i, message) in request.messages.iter().enumerate() {
        let (at, sent) = (format!("messages[{i}]"), sent.get(i));
        refuse_members(&at, sent)?;
        match message {
            Message::System { role, parts: written } => {
                let role = match role {
                    SystemRole::System => "system",
                    SystemRole::Developer => "developer",
                };
                items.push(self::message(role, parts(&at, written, sent)?));
            }
            Message::User { parts: written, .. } => items.push(self::message("user", parts(&at, written, sent)?)),
            Message::Assistant { parts: written, refusal, tool_calls } => {
                items.extend(reasoning(sent));
                let content = assistant_parts(&at, written, refusal.as_deref(), sent)?;
                if !content.is_empty() {
                    items.push(self::message("assistant", Json::Array(content)));
                }
                items.extend(tool_calls.iter().map(call));
            }
            Message::Tool { tool_call_id, parts: written } => {
                let output = output(parts(&at, written, sent)?);
                items.push(object([
                    ("type", "function_call_output".into()),
                    ("call_id", fitting(tool_call_id, LONGEST_ID, |_| true).as_ref().into()),
                    ("output", output),
                ]));
            }
        }
    }
    Ok(Json::Array(items))
}

fn message(role: &str, content: Json) -> Json {
    object([("type", "message".into()), ("role", role.into()), ("content", content)])
}

/// The arguments are the model's own text; none at all are `{}`.
fn call(call: &ToolCall) -> Json {
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
    object([
        ("type", "function_call".into()),
        ("call_id", fitting(&call.id, LONGEST_ID, |_| true).as_ref().into()),
        ("name", call.name.as_str().into()),
        ("arguments", arguments.into()),
    ])
}

/// A single text goes as a text, which every server takes.
fn output(parts: Json) -> Json {
    match parts.as_array() {
        Some([Json::Object(only)]) if only.len() == 2 && only.contains_key("text") => {
            only.get("text").cloned().unwrap_or(Json::Null)
        }
        _ => parts,
    }
}

/// Only what carries its own content: an id alone means nothing where nothing was stored.
fn reasoning(sent: Option<&Json>) -> Vec<Json> {
    let items = sent.and_then(|message| message.get("reasoning_items")).and_then(Json::as_array).unwrap_or_default();
    items.iter().filter(|item| is_encrypted_reasoning(item)).map(unnumbered).collect()
}

pub(in crate::responses) fn is_encrypted_reasoning(item: &Json) -> bool {
    item.get("type").and_then(Json::as_str) == Some("reasoning")
        && item.get("encrypted_content").and_then(Json::as_str).is_some()
}

fn refuse_members(at: &str, sent: Option<&Json>) -> Result<(), Unsupported> {
    if sent.and_then(|message| message.get_some("name")).is_some() {
        let why = "OpenAI responses has no names of participants: put it into the text";
        return Err(Unsupported::new(format!("{at}.name"), why));
    }
    match sent.and_then(|message| message.get("role")).and_then(Json::as_str) {
        // By-products of an answer, as clients send them back: no input to any model but the one that wrote them.
        Some("assistant") => {
            let known = ["role", "content", "refusal", "tool_calls"];
            leftover::refuse_others(at, sent.unwrap_or(&Json::Null), &known, WHO)
        }
        Some("tool") => refuse_others(at, sent, &["role", "content", "tool_call_id"]),
        _ => refuse_others(at, sent, &["role", "content"]),
    }
}
