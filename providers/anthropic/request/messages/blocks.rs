//! Single blocks: text, image, a call, its result; and what a message may not hold.

use std::borrow::Cow;

use crate::adapter::Unsupported;
use crate::anthropic::request::object;
use crate::call_id::fitting;
use crate::canonical::{Part, Request, ToolCall};
use crate::json::{Json, Object};

pub(super) fn text(content: &str) -> Json {
    object([("type", Json::from("text")), ("text", Json::from(content))])
}

/// Anthropic refuses text blocks without visible characters.
pub(super) fn is_blank(content: &str) -> bool {
    content.trim().is_empty()
}

/// A user's part; blank text beside other parts gives no block.
pub(super) fn user_block(at: &str, part: &Part) -> Result<Option<Json>, Unsupported> {
    match part {
        Part::Text(content) if is_blank(content) => Ok(None),
        Part::Text(content) => Ok(Some(text(content))),
        Part::Image { url, detail } => {
            if detail.as_deref().is_some_and(|detail| detail != "auto") {
                let why = "Anthropic has no such choice: leave it out";
                return Err(Unsupported::new(format!("{at}.image_url.detail"), why));
            }
            image(at, url).map(Some)
        }
        Part::Other(kind) => {
            let kind: String = kind.chars().take(64).collect();
            Err(Unsupported::new(at, format!("Anthropic takes text and images here, not `{kind}`")))
        }
    }
}

fn image(at: &str, url: &str) -> Result<Json, Unsupported> {
    let source = if url.starts_with("https://") {
        object([("type", Json::from("url")), ("url", Json::from(url))])
    } else {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let Some((media_type, data)) = data else {
            let why = "must be an https: address or a data: address in base64";
            return Err(Unsupported::new(format!("{at}.image_url.url"), why));
        };
        if !matches!(media_type, "image/jpeg" | "image/png" | "image/gif" | "image/webp") {
            let why = "Anthropic takes JPEG, PNG, GIF and WebP images";
            return Err(Unsupported::new(format!("{at}.image_url.url"), why));
        }
        object([("type", "base64".into()), ("media_type", media_type.into()), ("data", data.into())])
    };
    Ok(object([("type", Json::from("image")), ("source", source)]))
}

/// The arguments become an object with every digit as the model wrote it; none at all become `{}`.
pub(super) fn tool_use(i: usize, j: usize, call: &ToolCall) -> Result<Json, Unsupported> {
    let at = || format!("messages[{i}].tool_calls[{j}].function.arguments");
    let input = if is_blank(&call.arguments) {
        Json::Object(Object::new())
    } else {
        Json::parse(call.arguments.as_bytes()).map_err(|error| Unsupported::new(at(), error.to_string()))?
    };
    if input.as_object().is_none() {
        return Err(Unsupported::new(at(), format!("Anthropic takes a JSON object here, not {}", input.kind())));
    }
    Ok(object([
        ("type", Json::from("tool_use")),
        ("id", Json::from(tool_id(&call.id).as_ref())),
        ("name", Json::from(call.name.as_str())),
        ("input", input),
    ]))
}

pub(super) fn tool_result(i: usize, id: &str, parts: &[Part]) -> Result<Json, Unsupported> {
    let mut result = Object::new();
    result.insert("type", "tool_result");
    result.insert("tool_use_id", tool_id(id).as_ref());
    match parts {
        [] => {}
        [Part::Text(only)] => {
            result.insert("content", only.as_str());
        }
        _ => {
            let mut blocks = Vec::with_capacity(parts.len());
            for (j, part) in parts.iter().enumerate() {
                blocks.extend(user_block(&format!("messages[{i}].content[{j}]"), part)?);
            }
            result.insert("content", blocks);
        }
    }
    Ok(Json::Object(result))
}

/// Anthropic takes letters, digits, `_` and `-` in ids, 64 at most; other providers' ids hold more.
fn tool_id(id: &str) -> Cow<'_, str> {
    fitting(id, 64, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// What the canonical form does not hold must not vanish either: a member that nobody here reads is refused.
pub(super) fn refuse_unknown_members(request: &Request) -> Result<(), Unsupported> {
    let messages = request.body.get("messages").and_then(Json::as_array).unwrap_or_default();
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages[{i}]");
        refuse_others(&at, message, &["role", "content", "tool_calls", "tool_call_id", "refusal", "name"], |name| {
            // By-products of an answer, as clients send them back: no input to any model but the one that wrote them.
            matches!(name, "annotations" | "reasoning_content" | "reasoning" | "reasoning_details")
                || matches!(name, "thinking_blocks" | "other_blocks")
        })?;
        let is_user = message.get("role").and_then(Json::as_str) == Some("user");
        if !is_user && message.get_some("name").is_some() {
            let why = "Anthropic has no names of participants: put it into the text";
            return Err(Unsupported::new(format!("{at}.name"), why));
        }
        let parts = message.get("content").and_then(Json::as_array).unwrap_or_default();
        for (j, part) in parts.iter().enumerate() {
            refuse_others(&format!("{at}.content[{j}]"), part, &["type", "text", "image_url", "refusal"], |_| {
                // Kinds that only OpenAI knows are refused as a whole, by their kind.
                !matches!(part.get("type").and_then(Json::as_str), Some("text" | "image_url" | "refusal"))
            })?;
        }
    }
    Ok(())
}

fn refuse_others(at: &str, value: &Json, known: &[&str], ignored: impl Fn(&str) -> bool) -> Result<(), Unsupported> {
    let Some(object) = value.as_object() else { return Ok(()) };
    let unknown = object.iter().find(|(name, value)| !known.contains(name) && !ignored(name) && !value.is_null());
    match unknown {
        None => Ok(()),
        Some((name, _)) => {
            let name: String = name.chars().take(64).collect();
            Err(Unsupported::new(format!("{at}.{name}"), "Anthropic messages has no place for it: leave it out"))
        }
    }
}
