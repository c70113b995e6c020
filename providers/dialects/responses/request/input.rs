//! The input, item by item. Calls join the assistant's message before them, as chat completions have it.

use crate::dialects::carried::{Opened, give_back, open};
use crate::dialects::reading::{Reading, role};
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{expected, invalid, required_text};

/// The assistant's turn that is being read.
#[derive(Default)]
struct Turn {
    at: String,
    parts: Vec<Json>,
    calls: Vec<Json>,
    /// What its vendor must get back.
    opened: Vec<Opened>,
}

impl Turn {
    fn end(&mut self, reading: &mut Reading) {
        let Turn { at, parts, calls, opened } = std::mem::take(self);
        if at.is_empty() {
            return;
        }
        let mut message = role("assistant");
        message.insert("content", if parts.is_empty() { Json::Null } else { Json::Array(parts) });
        if !calls.is_empty() {
            message.insert("tool_calls", calls);
        }
        give_back(&mut message, opened);
        reading.push(&at, message);
    }

    fn begin(&mut self, at: &str) {
        if self.at.is_empty() {
            at.clone_into(&mut self.at);
        }
    }
}

pub(super) fn read(reading: &mut Reading, input: Option<&Json>) -> Result<(), InvalidRequest> {
    let items = match input {
        Some(Json::Array(items)) if !items.is_empty() => items,
        Some(text @ Json::String(_)) => {
            let mut message = role("user");
            message.insert("content", text.clone());
            reading.push("input", message);
            return Ok(());
        }
        Some(Json::Array(_)) => return Err(invalid("input", "empty_array", "send at least one item")),
        Some(other) => return Err(expected("input", "a string or an array of items", other)),
        None => return Err(invalid("input", "missing_required_parameter", "send a string or an array of items")),
    };
    let mut turn = Turn::default();
    for (i, item) in items.iter().enumerate() {
        let at = format!("input[{i}]");
        let object = item.as_object().ok_or_else(|| expected(&at, "an object", item))?;
        self::item(reading, &mut turn, &at, object)?;
    }
    turn.end(reading);
    Ok(())
}

fn item(reading: &mut Reading, turn: &mut Turn, at: &str, item: &Object) -> Result<(), InvalidRequest> {
    match item.get_some("type").map(Json::as_str) {
        None | Some(Some("message")) => message(reading, turn, at, item),
        Some(Some("function_call")) => {
            reading.lose_others(at, item, &["type", "id", "call_id", "name", "arguments", "status"]);
            turn.begin(at);
            turn.calls.push(call(at, item)?);
            Ok(())
        }
        Some(Some("function_call_output")) => {
            turn.end(reading);
            let call_id = required_text(item, at, "call_id")?;
            if reading.lost_calls.contains(&call_id) {
                reading.lose(at);
                return Ok(());
            }
            reading.lose_others(at, item, &["type", "id", "call_id", "output", "status"]);
            let mut message = role("tool");
            message.insert("tool_call_id", call_id);
            let at_output = format!("{at}.output");
            let output = item.get_some("output").ok_or_else(|| {
                invalid(&at_output, "missing_required_parameter", "must be a string or an array of parts")
            })?;
            message.insert("content", content(reading, &at_output, output)?);
            reading.push(at, message);
            Ok(())
        }
        Some(Some("reasoning")) => {
            let data = item.get("encrypted_content").and_then(Json::as_str).unwrap_or_default();
            turn.opened.extend(open(&format!("{at}.encrypted_content"), data)?);
            Ok(())
        }
        // Calls of tools that run at the provider, references to what only it holds, and what came later.
        Some(_) => {
            reading.lose(at);
            reading.lost_calls.extend(item.get("call_id").and_then(Json::as_str).map(str::to_owned));
            Ok(())
        }
    }
}

fn call(at: &str, item: &Object) -> Result<Json, InvalidRequest> {
    let mut function: Object = [("name", required_text(item, at, "name")?)].into_iter().collect();
    function.insert("arguments", required_text(item, at, "arguments")?);
    let mut call: Object = [("id", required_text(item, at, "call_id")?)].into_iter().collect();
    call.insert("type", "function");
    call.insert("function", function);
    Ok(Json::Object(call))
}

fn message(reading: &mut Reading, turn: &mut Turn, at: &str, item: &Object) -> Result<(), InvalidRequest> {
    reading.lose_others(at, item, &["type", "id", "role", "content", "status"]);
    let name = required_text(item, at, "role")?;
    let at_content = format!("{at}.content");
    let Some(value) = item.get_some("content") else {
        return Err(invalid(at_content, "missing_required_parameter", "must be a string or an array of parts"));
    };
    let content = content(reading, &at_content, value)?;
    match name.as_str() {
        "assistant" => {
            // Chat completions have no place for text behind a call, and moving it would change what was said when.
            // Without a word it only held the sources of an answer that named them last.
            if !turn.calls.is_empty() {
                if !is_silent(&content) {
                    reading.lose(at);
                }
                return Ok(());
            }
            // What came before the first word belongs to it.
            if !turn.at.is_empty() {
                turn.end(reading);
            }
            turn.begin(at);
            match content {
                Json::Array(parts) => turn.parts = parts,
                text => turn.parts = vec![Object::from_iter([("type", Json::from("text")), ("text", text)]).into()],
            }
        }
        "user" | "system" | "developer" => {
            turn.end(reading);
            let mut message = role(&name);
            message.insert("content", content);
            reading.push(at, message);
        }
        _ => {
            let message = "must be user, assistant, system or developer";
            return Err(invalid(format!("{at}.role"), "invalid_value", message));
        }
    }
    Ok(())
}

fn is_silent(content: &Json) -> bool {
    let texts = content.as_array().unwrap_or_default();
    !texts.is_empty() && texts.iter().all(|part| part.get("text").and_then(Json::as_str) == Some(""))
}

fn content(reading: &mut Reading, at: &str, content: &Json) -> Result<Json, InvalidRequest> {
    let parts = match content {
        Json::String(_) => return Ok(content.clone()),
        Json::Array(parts) => parts,
        other => return Err(expected(at, "a string or an array of parts", other)),
    };
    let mut written = Vec::with_capacity(parts.len());
    for (j, part) in parts.iter().enumerate() {
        let at = format!("{at}[{j}]");
        let object = part.as_object().ok_or_else(|| expected(&at, "an object", part))?;
        match object.get("type").and_then(Json::as_str) {
            Some("input_text" | "output_text" | "text") => {
                reading.lose_others(&at, object, &["type", "text", "annotations", "logprobs"]);
                written.push(part_of("text", "text", required_text(object, &at, "text")?.into()));
            }
            Some("refusal") => {
                reading.lose_others(&at, object, &["type", "refusal"]);
                written.push(part_of("refusal", "refusal", required_text(object, &at, "refusal")?.into()));
            }
            Some("input_image") => written.extend(image(reading, &at, object)),
            Some("input_file") => written.extend(file(reading, &at, object)),
            Some(_) => reading.lose(at),
            None => {
                let message = "must name the kind of part";
                return Err(invalid(format!("{at}.type"), "missing_required_parameter", message));
            }
        }
    }
    Ok(Json::Array(written))
}

fn part_of(kind: &str, name: &str, value: Json) -> Json {
    Object::from_iter([("type", Json::from(kind)), (name, value)]).into()
}

fn image(reading: &mut Reading, at: &str, part: &Object) -> Option<Json> {
    reading.lose_others(at, part, &["type", "image_url", "detail"]);
    let Some(url) = part.get_some("image_url") else {
        reading.lose(at);
        return None;
    };
    let mut image: Object = [("url", url.clone())].into_iter().collect();
    // `auto` is what chat completions do unasked.
    if let Some(detail) = part.get_some("detail").filter(|detail| detail.as_str() != Some("auto")) {
        image.insert("detail", detail.clone());
    }
    Some(part_of("image_url", "image_url", image.into()))
}

/// A file by its data or id; by address only OpenAI responses take one.
fn file(reading: &mut Reading, at: &str, part: &Object) -> Option<Json> {
    const CARRIED: [&str; 3] = ["filename", "file_data", "file_id"];
    reading.lose_others(at, part, &["type", "filename", "file_data", "file_id"]);
    let members = CARRIED.into_iter().filter_map(|name| Some((name, part.get_some(name)?.clone())));
    let file: Object = members.collect();
    (!file.is_empty()).then(|| part_of("file", "file", file.into()))
}
