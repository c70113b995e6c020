//! The request on the wire of a provider that speaks the client's own protocol: the client's document with the target's
//! `model` in it, and as little else changed as the provider's row demands. Numbers keep their digits.

use bytes::Bytes;

use crate::canonical::{Message, Request};
use crate::compatible::{MaxTokensName, Row};
use crate::json::{Json, Object};
use crate::openai::arguments;

/// The body. `stream` and `stream_options` are delivery, which the gateway does itself: they are left out.
pub(crate) fn write(row: &Row, request: &Request, model: &str) -> Bytes {
    let change = must_change(row, request);
    let members = request.body.iter().filter(|(name, _)| !matches!(*name, "stream" | "stream_options"));
    let members = members.map(|(name, value)| {
        let value = match name {
            "model" => Json::from(model),
            "messages" if change => messages(row, value),
            _ => value.clone(),
        };
        (name.to_owned(), value)
    });
    let mut body = Object::from_unique(members.collect());
    rename_limit(row, &mut body);
    Json::Object(body).to_bytes()
}

fn rename_limit(row: &Row, body: &mut Object) {
    let (from, to) = match row.max_tokens_name {
        MaxTokensName::AsSent => return,
        MaxTokensName::MaxTokens => ("max_completion_tokens", "max_tokens"),
        MaxTokensName::MaxCompletionTokens => ("max_tokens", "max_completion_tokens"),
    };
    // Where both are there they are equal, or one is null: the reader saw to that.
    if body.get(to).is_some_and(Json::is_null) {
        body.remove(to);
    }
    body.rename(from, to);
    body.remove(from);
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
