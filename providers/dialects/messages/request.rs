//! A Messages body in the words of chat completions, or a refusal that names the field and its cure.
//!
//! Every member is translated, or noted as lost ([`Reading::lose`]): then only a provider of this wire format can take
//! the request. Nothing is dropped.

mod blocks;
mod parameters;

use crate::canonical::Request;
use crate::dialects::Dialect;
use crate::dialects::reading::{Reading, role};
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{expected, invalid, positive};

pub(crate) fn parse(body: Object) -> Result<Request, InvalidRequest> {
    let mut reading = Reading::new(Dialect::Messages);
    if positive(&body, "max_tokens")?.is_none() {
        let message = "say how many tokens the answer may have: \"max_tokens\": 1024";
        return Err(invalid("max_tokens", "missing_required_parameter", message));
    }
    if let Some(system) = body.get_some("system") {
        system_message(&mut reading, "system", system)?;
    }
    conversation(&mut reading, body.get_some("messages"))?;
    let mut chat = Object::new();
    parameters::write(&mut reading, &body, &mut chat)?;
    reading.finish(body, chat)
}

/// A member of the chat completion, by its name in this dialect.
pub(crate) fn own_member(body: &Object, param: &str) -> String {
    let own = match param {
        "reasoning_effort" if body.get_some("thinking").is_some() => "thinking",
        "max_completion_tokens" => "max_tokens",
        "user" => "metadata.user_id",
        "parallel_tool_calls" => "tool_choice.disable_parallel_tool_use",
        "reasoning_effort" => "output_config.effort",
        _ if param.starts_with("stop") => return param.replacen("stop", "stop_sequences", 1),
        _ if param.starts_with("response_format") => "output_config.format",
        _ => return param.replace(".function.parameters", ".input_schema").replace(".function", ""),
    };
    own.to_owned()
}

fn system_message(reading: &mut Reading, at: &str, content: &Json) -> Result<(), InvalidRequest> {
    let parts = match content {
        Json::String(_) => content.clone(),
        Json::Array(blocks) => {
            let mut parts = Vec::with_capacity(blocks.len());
            for (i, block) in blocks.iter().enumerate() {
                parts.extend(blocks::text_only(reading, &format!("{at}[{i}]"), block)?);
            }
            Json::Array(parts)
        }
        other => return Err(expected(at, "a string or an array of text blocks", other)),
    };
    let mut message = role("system");
    message.insert("content", parts);
    reading.push(at, message);
    Ok(())
}

fn conversation(reading: &mut Reading, messages: Option<&Json>) -> Result<(), InvalidRequest> {
    let messages = match messages {
        Some(Json::Array(messages)) if !messages.is_empty() => messages,
        Some(Json::Array(_)) => return Err(invalid("messages", "empty_array", "send at least one message")),
        Some(other) => return Err(expected("messages", "an array", other)),
        None => {
            let message = "send an array with at least one message";
            return Err(invalid("messages", "missing_required_parameter", message));
        }
    };
    for (i, message) in messages.iter().enumerate() {
        let at = format!("messages[{i}]");
        let object = message.as_object().ok_or_else(|| expected(&at, "an object", message))?;
        reading.lose_others(&at, object, &["role", "content"]);
        let content = object.get_some("content").ok_or_else(|| {
            let message = "must be a string or an array of blocks";
            invalid(format!("{at}.content"), "missing_required_parameter", message)
        })?;
        match object.get("role").and_then(Json::as_str) {
            Some("user") => blocks::user(reading, &at, content)?,
            Some("assistant") => blocks::assistant(reading, &at, content)?,
            Some("system") => system_message(reading, &at, content)?,
            _ => return Err(invalid(format!("{at}.role"), "invalid_value", "must be user, assistant or system")),
        }
    }
    Ok(())
}
