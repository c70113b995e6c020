//! The conversation as Ollama wants it: a message has one text and, apart from it, its images.
//!
//! A text and the images beside it are one message, on whichever side of it they stood. Where text follows an image that
//! followed text, a new message of the same role begins, so that the order of the rest stays. Results of calls stand in
//! the order of the calls and name the function.

use super::WHO;
use crate::adapter::Unsupported;
use crate::canonical::{Message, Part, Request};
use crate::json::{Json, Object};
use crate::leftover::{
    arguments, called_name, inline_data, object, only_text, refuse_detail, results_in_order, unknown_part,
};

pub(super) fn write(request: &Request) -> Result<Json, Unsupported> {
    let mut written = Vec::new();
    let mut i = 0;
    while i < request.messages.len() {
        match &request.messages[i] {
            Message::System { parts, .. } => written.push(message("system", only_text(i, parts, WHO, "system")?)),
            Message::User { parts, .. } => user(i, parts, &mut written)?,
            Message::Assistant { parts, refusal, tool_calls } => {
                let mut text = only_text(i, parts, WHO, "assistant")?;
                text.push_str(refusal.as_deref().unwrap_or_default());
                let mut said = message("assistant", text);
                let mut calls = Vec::new();
                for (j, call) in tool_calls.iter().enumerate() {
                    let arguments = Json::Object(arguments(i, j, call, WHO)?);
                    let function = object([("name", call.name.as_str().into()), ("arguments", arguments)]);
                    calls.push(object([("function", function)]));
                }
                if !calls.is_empty() {
                    said.insert("tool_calls", calls);
                }
                written.push(said);
            }
            Message::Tool { .. } => {
                let results = results_in_order(&request.messages, i);
                for i in &results {
                    written.extend(result(request, *i)?);
                }
                i += results.len();
                continue;
            }
        }
        i += 1;
    }
    Ok(Json::Array(written.into_iter().map(Json::Object).collect()))
}

fn message(role: &str, text: String) -> Object {
    let mut message = Object::new();
    message.insert("role", role);
    message.insert("content", text);
    message
}

fn user(i: usize, parts: &[Part], written: &mut Vec<Object>) -> Result<(), Unsupported> {
    let (mut text, mut images) = (String::new(), Vec::new());
    // The order within one message: text before its images, images, text behind them.
    let (mut led, mut followed) = (false, false);
    let mut finish = |text: &mut String, images: &mut Vec<Json>| {
        let mut said = message("user", std::mem::take(text));
        if !images.is_empty() {
            said.insert("images", std::mem::take(images));
        }
        written.push(said);
    };
    for (j, part) in parts.iter().enumerate() {
        let at = format!("messages[{i}].content[{j}]");
        match part {
            Part::Text(content) => {
                if led && !images.is_empty() {
                    finish(&mut text, &mut images);
                    (led, followed) = (false, false);
                }
                led |= images.is_empty();
                followed |= !images.is_empty();
                text.push_str(content);
            }
            Part::Image { url, detail } => {
                refuse_detail(&at, detail.as_deref(), WHO)?;
                let Some((_, data)) = inline_data(url) else {
                    let why = "Ollama takes images as data: addresses in base64 only: send the image itself";
                    return Err(Unsupported::new(format!("{at}.image_url.url"), why));
                };
                if followed {
                    finish(&mut text, &mut images);
                    (led, followed) = (false, false);
                }
                images.push(Json::from(data));
            }
            Part::Other(kind) => return Err(unknown_part(&at, kind, WHO)),
        }
    }
    finish(&mut text, &mut images);
    Ok(())
}

fn result(request: &Request, i: usize) -> Result<Option<Object>, Unsupported> {
    let Message::Tool { tool_call_id, parts } = &request.messages[i] else { return Ok(None) };
    let mut result = message("tool", only_text(i, parts, WHO, "tool")?);
    result.insert("tool_name", called_name(&request.messages, i, tool_call_id));
    Ok(Some(result))
}
