//! The members beside the conversation: limits, sampling, tools, the answer's format.

use crate::dialects::reading::{Reading, object};
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{boolean, expected, invalid, number, optional_text, required_text};

const KNOWN: &[&str] = &[
    "model",
    "messages",
    "system",
    "max_tokens",
    "stop_sequences",
    "temperature",
    "top_p",
    "metadata",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "service_tier",
    "stream",
];

/// The name that chat completions demand of a schema, where it has no title.
const SCHEMA_NAME: &str = "answer";

pub(super) fn write(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    reading.lose_others("", body, KNOWN);
    if let Some(limit) = body.get_some("max_tokens") {
        chat.insert("max_completion_tokens", limit.clone());
    }
    for name in ["temperature", "top_p"] {
        if let Some(value) = number(body, name)? {
            chat.insert(name, value);
        }
    }
    match body.get_some("stop_sequences") {
        None => {}
        Some(Json::Array(stops)) if stops.is_empty() => {}
        Some(stops @ Json::Array(_)) => drop(chat.insert("stop", stops.clone())),
        Some(other) => return Err(expected("stop_sequences", "an array of strings", other)),
    }
    metadata(reading, body, chat)?;
    tools(reading, body, chat)?;
    choice(reading, body, chat)?;
    output(reading, body, chat)?;
    match body.get_some("thinking") {
        None => {}
        // Models of others think unasked: that this one must not, goes on.
        Some(thinking) if is_disabled(thinking) && !chat.contains_key("reasoning_effort") => {
            chat.insert("reasoning_effort", "none");
        }
        Some(_) => reading.lose("thinking"),
    }
    match body.get_some("service_tier").map(Json::as_str) {
        None | Some(Some("auto")) => {}
        Some(Some("standard_only")) => drop(chat.insert("service_tier", "default")),
        Some(_) => reading.lose("service_tier"),
    }
    if boolean(body, "stream")? == Some(true) {
        chat.insert("stream", true);
    }
    Ok(())
}

fn is_disabled(thinking: &Json) -> bool {
    thinking.get("type").and_then(Json::as_str) == Some("disabled")
}

fn metadata(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let Some(metadata) = object(body, "metadata")? else { return Ok(()) };
    reading.lose_others("metadata", metadata, &["user_id"]);
    if let Some(user) = optional_text(metadata, "metadata", "user_id")? {
        chat.insert("user", user);
    }
    Ok(())
}

/// The client's own functions. Tools that run at the provider are Anthropic's alone.
fn tools(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let tools = match body.get_some("tools") {
        None => return Ok(()),
        Some(Json::Array(tools)) => tools,
        Some(other) => return Err(expected("tools", "an array", other)),
    };
    let mut written = Vec::with_capacity(tools.len());
    for (i, tool) in tools.iter().enumerate() {
        let at = format!("tools[{i}]");
        let object = tool.as_object().ok_or_else(|| expected(&at, "an object", tool))?;
        match object.get_some("type").map(Json::as_str) {
            None | Some(Some("custom")) => {}
            Some(_) => {
                reading.lose(at);
                continue;
            }
        }
        reading.lose_others(&at, object, &["type", "name", "description", "input_schema", "strict"]);
        let mut function: Object = [("name", required_text(object, &at, "name")?)].into_iter().collect();
        for (name, own) in [("description", "description"), ("parameters", "input_schema"), ("strict", "strict")] {
            if let Some(value) = object.get_some(own) {
                function.insert(name, value.clone());
            }
        }
        let mut tool: Object = [("type", "function")].into_iter().collect();
        tool.insert("function", function);
        written.push(Json::Object(tool));
    }
    if !written.is_empty() {
        chat.insert("tools", written);
    }
    Ok(())
}

fn choice(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let Some(choice) = object(body, "tool_choice")? else { return Ok(()) };
    reading.lose_others("tool_choice", choice, &["type", "name", "disable_parallel_tool_use"]);
    let written = match choice.get("type").and_then(Json::as_str) {
        Some("auto") => Json::from("auto"),
        Some("any") => Json::from("required"),
        Some("none") => Json::from("none"),
        Some("tool") => {
            let function: Object = [("name", required_text(choice, "tool_choice", "name")?)].into_iter().collect();
            let mut written: Object = [("type", "function")].into_iter().collect();
            written.insert("function", function);
            Json::Object(written)
        }
        _ => return Err(invalid("tool_choice.type", "invalid_value", "must be auto, any, tool or none")),
    };
    // Chat completions refuse a choice without tools; where it leaves everything open it says nothing.
    if chat.contains_key("tools") || written != Json::from("auto") {
        chat.insert("tool_choice", written);
    }
    if boolean(choice, "disable_parallel_tool_use")? == Some(true) {
        chat.insert("parallel_tool_calls", false);
    }
    Ok(())
}

fn output(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let Some(config) = object(body, "output_config")? else { return Ok(()) };
    reading.lose_others("output_config", config, &["format", "effort"]);
    match config.get_some("effort").map(Json::as_str) {
        None => {}
        Some(Some(effort @ ("low" | "medium" | "high"))) => drop(chat.insert("reasoning_effort", effort)),
        Some(_) => reading.lose("output_config.effort"),
    }
    let Some(format) = config.get_some("format") else { return Ok(()) };
    let schema = format.get("schema").filter(|schema| schema.as_object().is_some());
    match (format.get("type").and_then(Json::as_str), schema, format.as_object()) {
        (Some("json_schema"), Some(schema), Some(members)) => {
            reading.lose_others("output_config.format", members, &["type", "schema"]);
            let mut named: Object = [("name", schema_name(schema))].into_iter().collect();
            named.insert("schema", schema.clone());
            // Anthropic enforces a schema, always.
            named.insert("strict", true);
            let mut written: Object = [("type", "json_schema")].into_iter().collect();
            written.insert("json_schema", named);
            chat.insert("response_format", written);
        }
        (Some("json_schema"), None, _) => {
            return Err(invalid("output_config.format.schema", "missing_required_parameter", "must be a JSON Schema"));
        }
        _ => reading.lose("output_config.format"),
    }
    Ok(())
}

/// OpenAI takes letters, digits, `_` and `-`, at most 64 of them.
fn schema_name(schema: &Json) -> String {
    let title = schema.get("title").and_then(Json::as_str).unwrap_or_default();
    let name: String = title.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(64).collect();
    if name.is_empty() { SCHEMA_NAME.to_owned() } else { name }
}
