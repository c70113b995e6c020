//! The request on the wire of a provider that speaks the client's own protocol: the client's document with the target's
//! `model` in it, and as little else changed as the provider's row demands. Numbers keep their digits.

use std::borrow::Cow;

use bytes::Bytes;

use crate::adapter::Unsupported;
use crate::canonical::{Message, Request};
use crate::compatible::{MaxTokensName, Row, Schema};
use crate::json::{Json, Object};
use crate::leftover::asks_nothing;
use crate::openai::arguments;

mod mistral;

/// The body. Of `stream` and `stream_options`, which are delivery, a whole answer needs neither; a stream is asked for
/// with its usage, whether or not the client wants to see it, so that its cost is known.
pub(crate) fn write(row: &Row, request: &Request, model: &str) -> Bytes {
    let mut body = prompt(row, request, model);
    if request.stream {
        body.push(("stream", Cow::Owned(Json::from(true))));
        if row.stream_options {
            // What else the client asks of the delivery goes along (`include_obfuscation`).
            let asked = request.body.get("stream_options").and_then(Json::as_object);
            let mut options = asked.cloned().unwrap_or_default();
            options.insert("include_usage", true);
            body.push(("stream_options", Cow::Owned(Json::from(options))));
        }
    }
    to_bytes(&body)
}

/// Refuses the first parameter that the provider refuses or ignores, unless its value asks for nothing.
pub(crate) fn refuse(row: &Row, request: &Request) -> Result<(), Unsupported> {
    let asked = |name: &&&str| request.body.get(name).is_some_and(|value| !asks_nothing(name, value));
    match row.refused.iter().find(asked) {
        None if row.schema == Schema::Mistral => mistral::refuse(row, request),
        None => Ok(()),
        Some(name) => Err(Unsupported::new(*name, format!("{} has no such parameter: leave it out", row.name))),
    }
}

/// A deployment's name as a part of the path.
pub(crate) fn in_path(deployment: &str) -> Result<&str, Unsupported> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if deployment.is_empty() || deployment.starts_with('.') || !deployment.bytes().all(plain) {
        let why = "the target's model is no deployment's name: letters, digits, `-`, `_` and `.`";
        return Err(Unsupported::new("model", why));
    }
    Ok(deployment)
}

/// The body for an endpoint that counts the prompt's tokens.
pub(crate) fn write_count(row: &Row, request: &Request, model: &str) -> Bytes {
    to_bytes(&prompt(row, request, model))
}

/// The client's members where they stand; only what changes is a copy. Each name comes once.
type Members<'a> = Vec<(&'a str, Cow<'a, Json>)>;

fn to_bytes(members: &Members<'_>) -> Bytes {
    Json::members_to_bytes(members.iter().map(|(name, value)| (*name, value.as_ref())))
}

fn prompt<'a>(row: &Row, request: &'a Request, model: &str) -> Members<'a> {
    let change = row.schema != Schema::Open || must_change(row, request);
    let members = request.body.iter().filter(|(name, _)| !matches!(*name, "stream" | "stream_options"));
    let members = members.map(|(name, value)| match name {
        "model" => (name, Cow::Owned(Json::from(model))),
        "messages" if change => (name, Cow::Owned(messages(row, request, value))),
        _ => (name, Cow::Borrowed(value)),
    });
    let mut body: Members<'a> = members.collect();
    rename_limit(row, &mut body);
    if row.schema == Schema::Mistral
        && let Some((name, _)) = body.iter_mut().find(|(name, _)| *name == "seed")
    {
        *name = "random_seed";
    }
    body
}

fn rename_limit(row: &Row, body: &mut Members<'_>) {
    let (from, to) = match row.max_tokens_name {
        MaxTokensName::AsSent => return,
        MaxTokensName::MaxTokens => ("max_completion_tokens", "max_tokens"),
        MaxTokensName::MaxCompletionTokens => ("max_tokens", "max_completion_tokens"),
    };
    // Where both are there they are equal, or one is null: the reader saw to that.
    body.retain(|(name, value)| *name != to || !value.is_null());
    if body.iter().any(|(name, _)| *name == to) {
        body.retain(|(name, _)| *name != from);
    } else if let Some((name, _)) = body.iter_mut().find(|(name, _)| *name == from) {
        *name = to;
    }
}

fn is_blank(arguments: &str) -> bool {
    arguments.trim().is_empty()
}

/// What the answers of other protocols hold, signed reasoning first: only their vendor can read it, and this one refuses
/// the members (field case B033). The reasoning itself goes with them.
const FOREIGN: &[&str] = &["thinking_blocks", "other_blocks", "reasoning_items", "other_items"];

/// What another dialect's client brought back goes to the row that wrote it; what a client of chat completions sends is
/// its own affair.
fn foreign(row: &Row, request: &Request) -> impl Iterator<Item = &'static str> {
    let details = !row.reasoning_details && request.native.is_some();
    FOREIGN.iter().copied().chain(details.then_some("reasoning_details"))
}

fn must_change(row: &Row, request: &Request) -> bool {
    let messages = request.body.get("messages").and_then(Json::as_array).unwrap_or_default();
    let foreign = |message: &Json| foreign(row, request).any(|name| message.get(name).is_some());
    if messages.iter().any(|message| foreign(message) || has_foreign_signatures(row, message)) {
        return true;
    }
    request.messages.iter().any(|message| match message {
        Message::Assistant { tool_calls, .. } => tool_calls.iter().any(|call| is_blank(&call.arguments)),
        Message::System { .. } => !row.developer_role,
        Message::User { .. } | Message::Tool { .. } => false,
    })
}

fn messages(row: &Row, request: &Request, value: &Json) -> Json {
    let mut value = value.clone();
    let Json::Array(items) = &mut value else { return value };
    for item in items {
        let Json::Object(message) = item else { continue };
        if !row.developer_role && message.get("role").and_then(Json::as_str) == Some("developer") {
            message.insert("role", "system");
        }
        // Servers fail to read a call whose arguments are an empty text (field case B008).
        arguments::fill(message, |arguments| arguments.and_then(Json::as_str).is_some_and(is_blank));
        if row.schema == Schema::Mistral {
            mistral::fit(message);
        }
        let removed = foreign(row, request).filter(|name| message.remove(name).is_some()).count();
        if removed > 0 {
            message.remove("reasoning_content");
        }
        if !row.google_signatures {
            drop_signatures(message);
        }
    }
    value
}

/// Google's signatures, as its answers hold them: on the message and on each call.
fn has_foreign_signatures(row: &Row, message: &Json) -> bool {
    if row.google_signatures {
        return false;
    }
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    std::iter::once(message).chain(calls).any(|holder| is_googles(holder.get("extra_content")))
}

fn is_googles(content: Option<&Json>) -> bool {
    content.is_some_and(|content| content.get("google").is_some())
}

/// Only Google can read them, and others refuse the member. Its own chat dialect is spoken by a row of its own.
fn drop_signatures(message: &mut Object) {
    if is_googles(message.get("extra_content")) {
        message.remove("extra_content");
    }
    let Some(Json::Array(calls)) = message.get_mut("tool_calls") else { return };
    for call in calls {
        if let Json::Object(call) = call
            && is_googles(call.get("extra_content"))
        {
            call.remove("extra_content");
        }
    }
}
