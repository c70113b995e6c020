//! The members beside the input: limits, sampling, tools, the answer's format.

use crate::dialects::reading::{Reading, object};
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{boolean, expected, number, positive, required_text};

/// Read here or in a sibling, or held by the job itself.
const KNOWN: &[&str] = &[
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "background",
    "store",
    "metadata",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "include",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "tools",
    "tool_choice",
    "truncation",
    "stream",
    "stream_options",
];

/// The same name and meaning in both.
const PASSED_ON: &[&str] = &[
    "parallel_tool_calls",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
];

const LOGPROBS: &str = "message.output_text.logprobs";

pub(super) fn write(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let known: Vec<&str> = [KNOWN, PASSED_ON].concat();
    reading.lose_others("", body, &known);
    object(body, "metadata")?;
    if positive(body, "max_output_tokens")?.is_some()
        && let Some(limit) = body.get_some("max_output_tokens")
    {
        chat.insert("max_completion_tokens", limit.clone());
    }
    for name in ["temperature", "top_p"] {
        if let Some(value) = number(body, name)? {
            chat.insert(name, value);
        }
    }
    for name in PASSED_ON {
        if let Some(value) = body.get_some(name) {
            chat.insert(*name, value.clone());
        }
    }
    logprobs(reading, body, chat)?;
    tools(reading, body, chat)?;
    choice(reading, body, chat);
    text(reading, body, chat)?;
    if let Some(reasoning) = object(body, "reasoning")? {
        reading.lose_others("reasoning", reasoning, &["effort"]);
        if let Some(effort) = reasoning.get_some("effort") {
            chat.insert("reasoning_effort", effort.clone());
        }
    }
    if body.get_some("truncation").is_some_and(|truncation| truncation.as_str() != Some("disabled")) {
        reading.lose("truncation");
    }
    if boolean(body, "store")? == Some(false) {
        chat.insert("store", false);
    }
    delivery(reading, body, chat)
}

fn delivery(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    if boolean(body, "stream")? == Some(true) {
        chat.insert("stream", true);
    }
    let Some(options) = object(body, "stream_options")? else { return Ok(()) };
    // Nothing is obfuscated here: that is not what was asked for where it was.
    let off = options.get("include_obfuscation").and_then(Json::as_bool) == Some(false);
    reading.lose_others("stream_options", options, if off { &["include_obfuscation"] } else { &[] });
    Ok(())
}

/// Log probabilities are asked for as something to be included.
fn logprobs(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let include = match body.get_some("include") {
        None => &[],
        Some(Json::Array(include)) => include.as_slice(),
        Some(other) => return Err(expected("include", "an array of strings", other)),
    };
    for (i, item) in include.iter().enumerate() {
        match item.as_str() {
            Some(LOGPROBS) => drop(chat.insert("logprobs", true)),
            _ => reading.lose(format!("include[{i}]")),
        }
    }
    if let Some(top) = body.get_some("top_logprobs") {
        // Without the other it asks for nothing, here as there.
        if chat.contains_key("logprobs") {
            chat.insert("top_logprobs", top.clone());
        } else if top.as_u64() != Some(0) {
            reading.lose("top_logprobs");
        }
    }
    Ok(())
}

/// The client's own functions. Tools that run at the provider, and free-form ones, are OpenAI responses' alone.
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
        if object.get("type").and_then(Json::as_str) != Some("function") {
            reading.lose(at);
            continue;
        }
        reading.lose_others(&at, object, &["type", "name", "description", "parameters", "strict"]);
        let mut function: Object = [("name", required_text(object, &at, "name")?)].into_iter().collect();
        for name in ["description", "parameters", "strict"] {
            if let Some(value) = object.get_some(name) {
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

fn choice(reading: &mut Reading, body: &Object, chat: &mut Object) {
    let Some(choice) = body.get_some("tool_choice") else { return };
    let kind = choice.get("type").and_then(Json::as_str);
    match (choice, kind, choice.get("name")) {
        (Json::String(word), ..) if word == "auto" && !chat.contains_key("tools") => {}
        (Json::String(_), ..) => drop(chat.insert("tool_choice", choice.clone())),
        (_, Some("function"), Some(name)) => {
            let function: Object = [("name", name.clone())].into_iter().collect();
            let mut written: Object = [("type", "function")].into_iter().collect();
            written.insert("function", function);
            chat.insert("tool_choice", written);
        }
        _ => reading.lose("tool_choice"),
    }
}

fn text(reading: &mut Reading, body: &Object, chat: &mut Object) -> Result<(), InvalidRequest> {
    let Some(text) = object(body, "text")? else { return Ok(()) };
    reading.lose_others("text", text, &["format", "verbosity"]);
    if let Some(verbosity) = text.get_some("verbosity") {
        chat.insert("verbosity", verbosity.clone());
    }
    let format = match text.get_some("format") {
        None => return Ok(()),
        Some(Json::Object(format)) => format,
        Some(other) => return Err(expected("text.format", "an object", other)),
    };
    let mut written: Object = format.get("type").map(|kind| ("type", kind.clone())).into_iter().collect();
    if format.get("type").and_then(Json::as_str) == Some("json_schema") {
        let members = format.iter().filter(|(name, _)| *name != "type");
        let schema: Object = members.map(|(name, value)| (name, value.clone())).collect();
        written.insert("json_schema", schema);
    }
    // Plain text is what comes unasked.
    if format.get("type").and_then(Json::as_str) != Some("text") {
        chat.insert("response_format", written);
    }
    Ok(())
}
