//! What a message holds: text, images and files of the input, text and refusals of an earlier answer.

use super::refuse_others;
use crate::adapter::Unsupported;
use crate::canonical::Part;
use crate::json::{Json, Object};
use crate::leftover::object;

/// The content of a message that is input, or the output of a call: a list of parts; an empty text where there are none.
pub(super) fn parts(at: &str, parts: &[Part], sent: Option<&Json>) -> Result<Json, Unsupported> {
    if parts.is_empty() {
        return Ok("".into());
    }
    let sent = sent.and_then(|message| message.get("content")).and_then(Json::as_array).unwrap_or_default();
    let written =
        parts.iter().enumerate().map(|(j, part)| input_part(&format!("{at}.content[{j}]"), part, sent.get(j)));
    written.collect::<Result<Vec<_>, _>>().map(Json::Array)
}

fn input_part(at: &str, part: &Part, sent: Option<&Json>) -> Result<Json, Unsupported> {
    let mut written = match part {
        Part::Text(text) => {
            refuse_others(at, sent, &["type", "text", "prompt_cache_breakpoint"])?;
            input("input_text", "text", text)
        }
        Part::Image { url, detail } => {
            refuse_others(at, sent, &["type", "image_url", "prompt_cache_breakpoint"])?;
            let image = sent.and_then(|part| part.get("image_url"));
            refuse_others(&format!("{at}.image_url"), image, &["url", "detail"])?;
            let mut written = input("input_image", "image_url", url);
            written.insert("detail", detail.as_deref().unwrap_or("auto"));
            written
        }
        Part::Other(kind) if kind == "file" => {
            refuse_others(at, sent, &["type", "file", "prompt_cache_breakpoint"])?;
            file(at, sent.and_then(|part| part.get("file")))?
        }
        Part::Other(kind) => {
            let kind: String = kind.chars().take(64).collect();
            return Err(Unsupported::new(
                at,
                format!("OpenAI responses takes text, images and files here, not `{kind}`"),
            ));
        }
    };
    if let Some(breakpoint) = sent.and_then(|part| part.get_some("prompt_cache_breakpoint")) {
        written.insert("prompt_cache_breakpoint", breakpoint.clone());
    }
    Ok(Json::Object(written))
}

fn input(kind: &str, name: &str, value: &str) -> Object {
    [("type", kind), (name, value)].into_iter().collect()
}

/// The three members have the same names and meanings there.
fn file(at: &str, sent: Option<&Json>) -> Result<Object, Unsupported> {
    let at = format!("{at}.file");
    let Some(file) = sent.and_then(Json::as_object) else {
        return Err(Unsupported::new(at, "must be an object with file_data or file_id"));
    };
    refuse_others(&at, sent, &["filename", "file_data", "file_id"])?;
    let mut written: Object = [("type", "input_file")].into_iter().collect();
    for (name, value) in file.iter().filter(|(_, value)| !value.is_null()) {
        written.insert(name, value.clone());
    }
    Ok(written)
}

/// What the assistant has said before. Empty text says nothing and makes no part.
pub(super) fn assistant_parts(
    at: &str,
    parts: &[Part],
    refusal: Option<&str>,
    sent: Option<&Json>,
) -> Result<Vec<Json>, Unsupported> {
    let sent = sent.and_then(|message| message.get("content")).and_then(Json::as_array).unwrap_or_default();
    for (j, part) in sent.iter().enumerate() {
        if let Some("text" | "refusal") = part.get("type").and_then(Json::as_str) {
            refuse_others(&format!("{at}.content[{j}]"), Some(part), &["type", "text", "refusal"])?;
        }
    }
    let mut written = Vec::with_capacity(parts.len());
    for (j, part) in parts.iter().enumerate() {
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => written.push(object([("type", "output_text".into()), ("text", text.as_str().into())])),
            Part::Image { .. } | Part::Other(_) => {
                let why = "OpenAI responses takes only text in assistant messages";
                return Err(Unsupported::new(format!("{at}.content[{j}]"), why));
            }
        }
    }
    if let Some(refusal) = refusal.filter(|refusal| !refusal.is_empty()) {
        written.push(object([("type", "refusal".into()), ("refusal", refusal.into())]));
    }
    Ok(written)
}
