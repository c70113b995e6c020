//! The request on the wire of a provider that speaks the client's own protocol: the client's document with the target's
//! `model` in it, and as little else changed as the provider's row demands. Numbers keep their digits.

use std::borrow::Cow;

use bytes::Bytes;

use crate::canonical::{Message, Request};
use crate::compatible::{MaxTokensName, Row};
use crate::json::Json;
use crate::openai::arguments;

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
    let change = must_change(row, request);
    let members = request.body.iter().filter(|(name, _)| !matches!(*name, "stream" | "stream_options"));
    let members = members.map(|(name, value)| match name {
        "model" => (name, Cow::Owned(Json::from(model))),
        "messages" if change => (name, Cow::Owned(messages(row, value))),
        _ => (name, Cow::Borrowed(value)),
    });
    let mut body: Members<'a> = members.collect();
    rename_limit(row, &mut body);
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

fn must_change(row: &Row, request: &Request) -> bool {
    let messages = request.body.get("messages").and_then(Json::as_array).unwrap_or_default();
    if messages.iter().any(|message| message.get("thinking_blocks").is_some()) {
        return true;
    }
    request.messages.iter().any(|message| match message {
        Message::Assistant { tool_calls, .. } => tool_calls.iter().any(|call| is_blank(&call.arguments)),
        Message::System { .. } => !row.developer_role,
        Message::User { .. } | Message::Tool { .. } => false,
    })
}

fn messages(row: &Row, value: &Json) -> Json {
    let mut value = value.clone();
    let Json::Array(items) = &mut value else { return value };
    for item in items {
        let Json::Object(message) = item else { continue };
        if !row.developer_role && message.get("role").and_then(Json::as_str) == Some("developer") {
            message.insert("role", "system");
        }
        // Servers fail to read a call whose arguments are an empty text (field case B008).
        arguments::fill(message, |arguments| arguments.and_then(Json::as_str).is_some_and(is_blank));
        // Another vendor's signed reasoning: only that vendor can read it, and this one refuses the member (B033).
        if message.remove("thinking_blocks").is_some() {
            message.remove("reasoning_content");
        }
    }
    value
}
