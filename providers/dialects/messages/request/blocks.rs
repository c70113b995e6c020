//! The content of messages, block by block.

use crate::dialects::carried::{give_back, is_carried, open};
use crate::dialects::reading::{Reading, role};
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{expected, invalid, required_text};

/// The blocks of a content, each with its path and its type.
fn blocks<'a>(at: &str, content: &'a Json) -> Result<Vec<(String, &'a str, &'a Object)>, InvalidRequest> {
    let Json::Array(blocks) = content else {
        return Err(expected(format!("{at}.content"), "a string or an array of blocks", content));
    };
    let read = |(j, block): (usize, &'a Json)| {
        let at = format!("{at}.content[{j}]");
        let object = block.as_object().ok_or_else(|| expected(&at, "an object", block))?;
        match object.get("type").and_then(Json::as_str) {
            Some(kind) => Ok((at, kind, object)),
            None => Err(invalid(format!("{at}.type"), "missing_required_parameter", "must name the kind of block")),
        }
    };
    blocks.iter().enumerate().map(read).collect()
}

/// A block where only text may stand, as a part of a chat message; nothing where it is of another kind.
pub(super) fn text_only(reading: &mut Reading, at: &str, block: &Json) -> Result<Option<Json>, InvalidRequest> {
    let object = block.as_object().ok_or_else(|| expected(at, "an object", block))?;
    if object.get("type").and_then(Json::as_str) == Some("text") {
        return text(reading, at, object).map(Some);
    }
    reading.lose(at);
    Ok(None)
}

fn text(reading: &mut Reading, at: &str, block: &Object) -> Result<Json, InvalidRequest> {
    reading.lose_others(at, block, &["type", "text"]);
    plain(at, block)
}

/// What a model wrote: the sources that it named are input to nobody but its vendor.
fn answered(reading: &mut Reading, at: &str, block: &Object) -> Result<Json, InvalidRequest> {
    reading.lose_others(at, block, &["type", "text", "citations"]);
    plain(at, block)
}

fn plain(at: &str, block: &Object) -> Result<Json, InvalidRequest> {
    let mut part: Object = [("type", "text")].into_iter().collect();
    part.insert("text", required_text(block, at, "text")?);
    Ok(Json::Object(part))
}

/// Results of calls first, each a message of its own, as both protocols want it; then what the user says.
pub(super) fn user(reading: &mut Reading, at: &str, content: &Json) -> Result<(), InvalidRequest> {
    let mut message = role("user");
    if let Json::String(_) = content {
        message.insert("content", content.clone());
        reading.push(at, message);
        return Ok(());
    }
    let (mut parts, mut results) = (Vec::new(), 0);
    for (at, kind, block) in blocks(at, content)? {
        match kind {
            "text" => parts.push(text(reading, &at, block)?),
            "image" => parts.extend(image(reading, &at, block)),
            "tool_result" => {
                results += 1;
                tool_result(reading, &at, block)?;
            }
            // Documents, search results, and what came after this was written.
            _ => reading.lose(at),
        }
    }
    if !parts.is_empty() || results == 0 {
        message.insert("content", parts);
        reading.push(at, message);
    }
    Ok(())
}

fn image(reading: &mut Reading, at: &str, block: &Object) -> Option<Json> {
    reading.lose_others(at, block, &["type", "source"]);
    let url = block.get("source").and_then(|source| {
        let text = |name: &str| source.get(name).and_then(Json::as_str);
        match text("type")? {
            "base64" => Some(format!("data:{};base64,{}", text("media_type")?, text("data")?)),
            "url" => Some(text("url")?.to_owned()),
            _ => None,
        }
    });
    let Some(url) = url else {
        reading.lose(format!("{at}.source"));
        return None;
    };
    let mut part: Object = [("type", "image_url")].into_iter().collect();
    part.insert("image_url", Object::from_iter([("url", url)]));
    Some(Json::Object(part))
}

fn tool_result(reading: &mut Reading, at: &str, block: &Object) -> Result<(), InvalidRequest> {
    let failed = block.get("is_error").and_then(Json::as_bool) == Some(true);
    let known: &[&str] = match failed {
        true => &["type", "tool_use_id", "content"],
        false => &["type", "tool_use_id", "content", "is_error"],
    };
    reading.lose_others(at, block, known);
    let mut message = role("tool");
    message.insert("tool_call_id", required_text(block, at, "tool_use_id")?);
    let content = match block.get_some("content") {
        None => Json::from(""),
        Some(text @ Json::String(_)) => text.clone(),
        Some(Json::Array(blocks)) => {
            let mut parts = Vec::with_capacity(blocks.len());
            for (j, block) in blocks.iter().enumerate() {
                parts.extend(text_only(reading, &format!("{at}.content[{j}]"), block)?);
            }
            Json::Array(parts)
        }
        Some(other) => return Err(expected(format!("{at}.content"), "a string or an array of blocks", other)),
    };
    message.insert("content", content);
    reading.push(at, message);
    Ok(())
}

pub(super) fn assistant(reading: &mut Reading, at: &str, content: &Json) -> Result<(), InvalidRequest> {
    let mut message = role("assistant");
    if let Json::String(_) = content {
        message.insert("content", content.clone());
        reading.push(at, message);
        return Ok(());
    }
    let (mut parts, mut calls, mut thinking, mut thoughts) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    let mut opened = Vec::new();
    for (at, kind, block) in blocks(at, content)? {
        match kind {
            // Chat completions have no place for text behind a call, and moving it would change what was said when.
            // Without a word it only held the sources of an answer that named them last.
            "text" if !calls.is_empty() && block.get("text").and_then(Json::as_str) == Some("") => {}
            "text" if !calls.is_empty() => reading.lose(at),
            "text" => parts.push(answered(reading, &at, block)?),
            "tool_use" => calls.push(tool_use(reading, &at, block)?),
            "redacted_thinking" if block.get("data").and_then(Json::as_str).is_some_and(is_carried) => {
                let data = block.get("data").and_then(Json::as_str).unwrap_or_default();
                opened.extend(open(&format!("{at}.data"), data)?);
            }
            "thinking" | "redacted_thinking" => {
                thoughts.push_str(block.get("thinking").and_then(Json::as_str).unwrap_or_default());
                thinking.push(Json::Object(block.clone()));
            }
            _ => reading.lose(at),
        }
    }
    message.insert("content", if parts.is_empty() { Json::Null } else { Json::Array(parts) });
    if !thoughts.is_empty() {
        message.insert("reasoning_content", thoughts);
    }
    if !thinking.is_empty() {
        message.insert("thinking_blocks", thinking);
    }
    if !calls.is_empty() {
        message.insert("tool_calls", calls);
    }
    give_back(&mut message, opened);
    reading.push(at, message);
    Ok(())
}

/// The input becomes text with every digit as it came.
fn tool_use(reading: &mut Reading, at: &str, block: &Object) -> Result<Json, InvalidRequest> {
    reading.lose_others(at, block, &["type", "id", "name", "input"]);
    let input = match block.get_some("input") {
        Some(input @ Json::Object(_)) => String::from_utf8_lossy(&input.to_bytes()).into_owned(),
        Some(other) => return Err(expected(format!("{at}.input"), "an object", other)),
        None => "{}".to_owned(),
    };
    let mut function: Object = [("name", required_text(block, at, "name")?)].into_iter().collect();
    function.insert("arguments", input);
    let mut call: Object = [("id", required_text(block, at, "id")?)].into_iter().collect();
    call.insert("type", "function");
    call.insert("function", function);
    Ok(Json::Object(call))
}
