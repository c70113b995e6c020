//! The conversation, message by message. Every message is read into some form or refused by its path; none is dropped.

use super::fields::{expected, invalid, optional_text, required_text};
use super::{InvalidRequest, MAX_MESSAGES, MAX_TOOL_CALLS};
use crate::canonical::{Message, Part, SystemRole, ToolCall};
use crate::json::{Json, Object};

pub(super) fn read(value: Option<&Json>) -> Result<Vec<Message>, InvalidRequest> {
    let items = match value {
        Some(Json::Array(items)) => items,
        None | Some(Json::Null) => {
            return Err(invalid("messages", "missing_required_parameter", "send an array with at least one message"));
        }
        Some(other) => return Err(expected("messages", "an array", other)),
    };
    if items.is_empty() {
        return Err(invalid("messages", "empty_array", "send at least one message"));
    }
    if items.len() > MAX_MESSAGES {
        let message = format!("has {} messages, at most {MAX_MESSAGES} are taken: shorten the history", items.len());
        return Err(invalid("messages", "array_above_max_length", message));
    }
    items.iter().enumerate().map(|(i, item)| message(item, &format!("messages[{i}]"))).collect()
}

fn message(value: &Json, at: &str) -> Result<Message, InvalidRequest> {
    let object = value.as_object().ok_or_else(|| expected(at, "an object", value))?;
    let role = required_text(object, at, "role")?;
    match role.as_str() {
        "system" => Ok(Message::System { role: SystemRole::System, parts: required_content(object, at)? }),
        "developer" => Ok(Message::System { role: SystemRole::Developer, parts: required_content(object, at)? }),
        "user" => Ok(Message::User { parts: required_content(object, at)?, name: optional_text(object, at, "name")? }),
        "assistant" => assistant(object, at),
        "tool" => Ok(Message::Tool {
            tool_call_id: required_text(object, at, "tool_call_id")?,
            parts: required_content(object, at)?,
        }),
        "function" => Err(invalid(
            format!("{at}.role"),
            "unsupported_value",
            "`function` was replaced by `tool`: send role \"tool\" with the call's tool_call_id",
        )),
        _ => Err(invalid(format!("{at}.role"), "invalid_value", "must be system, developer, user, assistant or tool")),
    }
}

fn assistant(object: &Object, at: &str) -> Result<Message, InvalidRequest> {
    if object.get_some("function_call").is_some() {
        let cure = "replaced by tool_calls: send the call there";
        return Err(invalid(format!("{at}.function_call"), "unsupported_value", cure));
    }
    let (mut parts, mut refusal) = (Vec::new(), optional_text(object, at, "refusal")?);
    // Null, an empty string and no content at all are the same tool-only turn (field decision D8).
    if let Some(content) = object.get_some("content") {
        for part in content_parts(content, at)? {
            match part {
                Read::Part(part) => parts.push(part),
                Read::Refusal(text) => refusal.get_or_insert_default().push_str(&text),
            }
        }
    }
    Ok(Message::Assistant { parts, refusal, tool_calls: tool_calls(object.get_some("tool_calls"), at)? })
}

/// The content of a message that must have some. An empty string gives no part.
fn required_content(object: &Object, at: &str) -> Result<Vec<Part>, InvalidRequest> {
    let Some(content) = object.get_some("content") else {
        let message = "must be a string or an array of parts";
        return Err(invalid(format!("{at}.content"), "missing_required_parameter", message));
    };
    content_parts(content, at)?
        .into_iter()
        .enumerate()
        .map(|(i, part)| match part {
            Read::Part(part) => Ok(part),
            Read::Refusal(_) => Err(invalid(
                format!("{at}.content[{i}].type"),
                "invalid_value",
                "`refusal` belongs into assistant messages only",
            )),
        })
        .collect()
}

enum Read {
    Part(Part),
    Refusal(String),
}

fn content_parts(content: &Json, at: &str) -> Result<Vec<Read>, InvalidRequest> {
    match content {
        Json::String(text) if text.is_empty() => Ok(Vec::new()),
        Json::String(text) => Ok(vec![Read::Part(Part::Text(text.clone()))]),
        Json::Array(items) => {
            items.iter().enumerate().map(|(i, item)| part(item, &format!("{at}.content[{i}]"))).collect()
        }
        other => Err(expected(format!("{at}.content"), "a string or an array of parts", other)),
    }
}

fn part(value: &Json, at: &str) -> Result<Read, InvalidRequest> {
    let object = value.as_object().ok_or_else(|| expected(at, "an object", value))?;
    let kind = required_text(object, at, "type")?;
    match kind.as_str() {
        "text" => Ok(Read::Part(Part::Text(required_text(object, at, "text")?))),
        "refusal" => Ok(Read::Refusal(required_text(object, at, "refusal")?)),
        "image_url" => image(object, at).map(Read::Part),
        _ => Ok(Read::Part(Part::Other(kind))),
    }
}

fn image(object: &Object, at: &str) -> Result<Part, InvalidRequest> {
    let at = format!("{at}.image_url");
    match object.get_some("image_url") {
        Some(Json::Object(image)) => {
            Ok(Part::Image { url: required_text(image, &at, "url")?, detail: optional_text(image, &at, "detail")? })
        }
        Some(other) => Err(expected(at, "an object with url", other)),
        None => Err(invalid(at, "missing_required_parameter", "must be an object with url")),
    }
}

fn tool_calls(value: Option<&Json>, at: &str) -> Result<Vec<ToolCall>, InvalidRequest> {
    match value {
        None => Ok(Vec::new()),
        Some(Json::Array(items)) if items.len() > MAX_TOOL_CALLS => {
            let message = format!("has {} calls, at most {MAX_TOOL_CALLS} are taken", items.len());
            Err(invalid(format!("{at}.tool_calls"), "array_above_max_length", message))
        }
        Some(Json::Array(items)) => {
            items.iter().enumerate().map(|(j, item)| tool_call(item, &format!("{at}.tool_calls[{j}]"))).collect()
        }
        Some(other) => Err(expected(format!("{at}.tool_calls"), "an array", other)),
    }
}

fn tool_call(value: &Json, at: &str) -> Result<ToolCall, InvalidRequest> {
    let object = value.as_object().ok_or_else(|| expected(at, "an object", value))?;
    // Some clients leave `type` out; anything else than a function cannot be carried.
    if let Some(kind) = optional_text(object, at, "type")?
        && kind != "function"
    {
        return Err(invalid(format!("{at}.type"), "unsupported_value", "only `function` calls are carried"));
    }
    let id = required_text(object, at, "id")?;
    let at = format!("{at}.function");
    let Some(function) = object.get("function").and_then(Json::as_object) else {
        return Err(invalid(at, "missing_required_parameter", "must be an object with name and arguments"));
    };
    let name = required_text(function, &at, "name")?;
    let arguments = required_text(function, &at, "arguments")?;
    // Blank arguments are a call without any (field case B008); anything else must be JSON (B090).
    if !arguments.trim().is_empty()
        && let Err(error) = Json::parse(arguments.as_bytes())
    {
        return Err(invalid(
            format!("{at}.arguments"),
            "invalid_value",
            format!("must be the text of one JSON object: {error}"),
        ));
    }
    Ok(ToolCall { id, name, arguments })
}
