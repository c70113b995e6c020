//! The client's dialect, read: an OpenAI chat-completions body becomes a [`Request`], or a refusal that names the field
//! and its cure.
//!
//! The body itself is kept whole, unknown members included. What is read here is what the gateway must understand to
//! translate; whether a value suits a model (a temperature of 3, a fifth stop string) is the provider's to say.

pub(crate) mod fields;
mod history;
mod messages;
#[cfg(test)]
mod tests;
mod tools;
mod wire;

use crate::canonical::{Request, ResponseFormat};
use crate::json::{Json, Object};

use fields::{boolean, expected, invalid, number, positive};
pub(crate) use wire::{in_path, refuse, write as to_upstream, write_count};

/// Longer conversations are refused: a bound on the work that one request can cause.
pub const MAX_MESSAGES: usize = 2_000;

/// More calls than this in one assistant turn are refused: pairing them with their results costs their square.
pub const MAX_TOOL_CALLS: usize = 1_000;

/// A body that no provider would take; becomes a 400 that names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{param}: {message}")]
pub struct InvalidRequest {
    /// The member, as a path: `messages[2].content`.
    pub param: String,
    /// OpenAI's words: `missing_required_parameter`, `invalid_type`, `invalid_value`, `unsupported_value`.
    pub code: &'static str,
    /// What is wrong and what to do instead.
    pub message: String,
}

/// Reads a chat-completions body.
pub fn parse(body: Object) -> Result<Request, InvalidRequest> {
    for (legacy, cure) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if body.get_some(legacy).is_some() {
            return Err(invalid(legacy, "unsupported_value", format!("replaced by `{cure}`: send that instead")));
        }
    }
    let model = model(&body)?;
    let messages = messages::read(body.get("messages"))?;
    history::check(&messages)?;
    Ok(Request {
        model,
        messages,
        tools: tools::read(body.get_some("tools"))?,
        tool_choice: tools::read_choice(body.get_some("tool_choice"))?,
        parallel_tool_calls: boolean(&body, "parallel_tool_calls")?,
        response_format: body.get_some("response_format").map(response_format).transpose()?,
        stop: stop(body.get_some("stop"))?,
        max_tokens: max_tokens(&body)?,
        temperature: number(&body, "temperature")?,
        top_p: number(&body, "top_p")?,
        n: positive(&body, "n")?,
        stream: boolean(&body, "stream")?.unwrap_or(false),
        include_usage: include_usage(&body)?,
        native: None,
        body,
    })
}

/// `stream_options.include_usage`. The options are refused without a stream, as OpenAI does.
fn include_usage(body: &Object) -> Result<bool, InvalidRequest> {
    let options = match body.get_some("stream_options") {
        None => return Ok(false),
        Some(Json::Object(options)) => options,
        Some(other) => return Err(expected("stream_options", "an object", other)),
    };
    if body.get("stream").and_then(Json::as_bool) != Some(true) {
        let message = "only allowed with \"stream\": true: send both, or leave it out";
        return Err(invalid("stream_options", "invalid_value", message));
    }
    match options.get_some("include_usage") {
        None => Ok(false),
        Some(Json::Bool(wanted)) => Ok(*wanted),
        Some(other) => Err(expected("stream_options.include_usage", "a boolean", other)),
    }
}

fn model(body: &Object) -> Result<String, InvalidRequest> {
    let Some(value) = body.get_some("model") else {
        return Err(invalid("model", "missing_required_parameter", "name a route: \"model\": \"…\""));
    };
    let model = value.as_str().ok_or_else(|| expected("model", "a string", value))?;
    if model.is_empty() || model.chars().any(char::is_control) {
        return Err(invalid("model", "invalid_value", "must be a route's name: not empty, no control characters"));
    }
    Ok(model.to_owned())
}

fn max_tokens(body: &Object) -> Result<Option<u64>, InvalidRequest> {
    let old = positive(body, "max_tokens")?;
    let new = positive(body, "max_completion_tokens")?;
    match (old, new) {
        (Some(a), Some(b)) if a != b => Err(invalid(
            "max_completion_tokens",
            "invalid_value",
            format!("is {b}, but max_tokens is {a}: both name the one output limit, send one of them"),
        )),
        _ => Ok(new.or(old)),
    }
}

fn stop(value: Option<&Json>) -> Result<Vec<String>, InvalidRequest> {
    match value {
        None => Ok(Vec::new()),
        Some(Json::String(text)) => Ok(vec![text.clone()]),
        Some(Json::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(i, item)| match item {
                Json::String(text) => Ok(text.clone()),
                other => Err(expected(format!("stop[{i}]"), "a string", other)),
            })
            .collect(),
        Some(other) => Err(expected("stop", "a string or an array of strings", other)),
    }
}

fn response_format(value: &Json) -> Result<ResponseFormat, InvalidRequest> {
    if value.as_object().is_none() {
        return Err(expected("response_format", "an object", value));
    }
    match value.get("type").and_then(Json::as_str) {
        Some("text") => Ok(ResponseFormat::Text),
        Some("json_object") => Ok(ResponseFormat::JsonObject),
        Some("json_schema") => json_schema(value.get("json_schema")),
        _ => Err(invalid("response_format.type", "invalid_value", "must be text, json_object or json_schema")),
    }
}

fn json_schema(value: Option<&Json>) -> Result<ResponseFormat, InvalidRequest> {
    const AT: &str = "response_format.json_schema";
    let Some(object) = value.and_then(Json::as_object) else {
        return Err(invalid(AT, "missing_required_parameter", "must be an object with name and schema"));
    };
    let name = match object.get_some("name") {
        Some(Json::String(name)) if !name.is_empty() => name.clone(),
        _ => return Err(invalid(format!("{AT}.name"), "missing_required_parameter", "must be a string, not empty")),
    };
    let schema = match object.get_some("schema") {
        Some(schema @ Json::Object(_)) => schema.clone(),
        None => Json::Object(Object::new()),
        Some(other) => return Err(expected(format!("{AT}.schema"), "an object (a JSON Schema)", other)),
    };
    let strict = match object.get_some("strict") {
        None => None,
        Some(Json::Bool(strict)) => Some(*strict),
        Some(other) => return Err(expected(format!("{AT}.strict"), "a boolean", other)),
    };
    Ok(ResponseFormat::JsonSchema { name, schema, strict })
}
