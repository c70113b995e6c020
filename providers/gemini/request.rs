//! The request in Google's words. Whatever has no place there is refused by its name; nothing is dropped.

mod contents;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use crate::adapter::Unsupported;
use crate::canonical::Request;
use crate::compatible::Row;
use crate::json::{Json, Object};
use crate::leftover::{object, refuse_choice_without_tools, refuse_message_members, refuse_one_at_a_time};

/// The name in refusals.
pub(super) const WHO: &str = "Gemini";

/// The body of `models/M:generateContent`.
pub(crate) fn write(request: &Request, model: &str) -> Result<Json, Unsupported> {
    let mut body = prompt(request, model)?;
    let config = parameters::write(request, model)?;
    if !config.is_empty() {
        body.insert("generationConfig", config);
    }
    Ok(Json::Object(body))
}

/// The body of `models/M:countTokens`. The Gemini API counts a system prompt and tools only within a whole request;
/// Vertex takes them as they are.
pub(crate) fn write_count(row: &Row, request: &Request, model: &str) -> Result<Json, Unsupported> {
    let prompt = prompt(request, model)?;
    if row.name == "vertex" {
        return Ok(Json::Object(prompt));
    }
    let mut whole = Object::new();
    whole.insert("model", format!("models/{model}"));
    for (name, value) in prompt.iter() {
        whole.insert(name, value.clone());
    }
    Ok(object([("generateContentRequest", Json::Object(whole))]))
}

/// What makes up the prompt.
fn prompt(request: &Request, model: &str) -> Result<Object, Unsupported> {
    parameters::refuse_unknown(request)?;
    refuse_message_members(request, WHO)?;
    refuse_choice_without_tools(request)?;
    refuse_one_at_a_time(request, WHO)?;
    let conversation = contents::write(request, model)?;
    let mut body = Object::new();
    body.insert("contents", conversation.contents);
    if !conversation.system.is_empty() {
        body.insert("systemInstruction", object([("parts", Json::Array(conversation.system))]));
    }
    if !request.tools.is_empty() {
        body.insert("tools", tools::write(&request.tools));
    }
    if let Some(config) = tools::config(request) {
        body.insert("toolConfig", config);
    }
    Ok(body)
}
