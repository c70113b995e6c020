//! The conversation as Cohere wants it: OpenAI's roles in OpenAI's order, each system message in its place.

use super::WHO;
use crate::adapter::Unsupported;
use crate::canonical::{Message, Part, Request};
use crate::json::{Json, Object};
use crate::leftover::{arguments, object, only_text, results_in_order, unknown_part};

pub(super) fn write(request: &Request) -> Result<Json, Unsupported> {
    let mut written = Vec::new();
    let mut i = 0;
    while i < request.messages.len() {
        match &request.messages[i] {
            Message::System { parts, .. } => written.push(message("system", only_text(i, parts, WHO, "system")?)),
            Message::User { parts, .. } => written.push(message("user", user(i, parts)?)),
            Message::Assistant { parts, refusal, tool_calls } => {
                let mut text = only_text(i, parts, WHO, "assistant")?;
                text.push_str(refusal.as_deref().unwrap_or_default());
                let mut said = message("assistant", text);
                let mut calls = Vec::new();
                for (j, call) in tool_calls.iter().enumerate() {
                    let arguments = Json::Object(arguments(i, j, call, WHO)?).to_bytes();
                    let arguments = String::from_utf8_lossy(&arguments).into_owned();
                    let function = object([("name", call.name.as_str().into()), ("arguments", arguments.into())]);
                    let id = Json::from(call.id.as_str());
                    calls.push(object([("id", id), ("type", "function".into()), ("function", function)]));
                }
                if !calls.is_empty() {
                    // A turn of calls alone has no content there; an empty one is refused.
                    if said.get("content").and_then(Json::as_str) == Some("") {
                        said.remove("content");
                    }
                    said.insert("tool_calls", calls);
                }
                written.push(said);
            }
            Message::Tool { .. } => {
                let results = results_in_order(&request.messages, i);
                for i in &results {
                    let Message::Tool { tool_call_id, parts } = &request.messages[*i] else { continue };
                    let mut result = message("tool", only_text(*i, parts, WHO, "tool")?);
                    result.insert("tool_call_id", tool_call_id.as_str());
                    written.push(result);
                }
                i += results.len();
                continue;
            }
        }
        i += 1;
    }
    Ok(Json::Array(written.into_iter().map(Json::Object).collect()))
}

fn message(role: &str, content: impl Into<Json>) -> Object {
    let mut message = Object::new();
    message.insert("role", role);
    message.insert("content", content);
    message
}

/// Text alone is a text; with images, the parts in their order.
fn user(i: usize, parts: &[Part]) -> Result<Json, Unsupported> {
    if let [] | [Part::Text(_)] = parts {
        return only_text(i, parts, WHO, "user").map(Json::from);
    }
    let part = |(j, part): (usize, &Part)| match part {
        Part::Text(text) => Ok(object([("type", "text".into()), ("text", text.as_str().into())])),
        Part::Image { url, detail } => {
            let mut image = Object::new();
            image.insert("url", url.as_str());
            if let Some(detail) = detail {
                image.insert("detail", detail.as_str());
            }
            Ok(object([("type", "image_url".into()), ("image_url", Json::Object(image))]))
        }
        Part::Other(kind) => Err(unknown_part(&format!("messages[{i}].content[{j}]"), kind, WHO)),
    };
    parts.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>().map(Json::Array)
}
