//! The functions that the model may call.

use super::InvalidRequest;
use super::fields::{expected, invalid, optional_text, required_text};
use crate::canonical::{Tool, ToolChoice};
use crate::json::Json;

pub(super) fn read(value: Option<&Json>) -> Result<Vec<Tool>, InvalidRequest> {
    match value {
        None => Ok(Vec::new()),
        Some(Json::Array(items)) => {
            items.iter().enumerate().map(|(i, item)| tool(item, &format!("tools[{i}]"))).collect()
        }
        Some(other) => Err(expected("tools", "an array", other)),
    }
}

fn tool(value: &Json, at: &str) -> Result<Tool, InvalidRequest> {
    let object = value.as_object().ok_or_else(|| expected(at, "an object", value))?;
    // Mistral's own clients leave the type out.
    let kind = match optional_text(object, at, "type")? {
        None if object.get_some("function").is_some() => "function".to_owned(),
        None => required_text(object, at, "type")?,
        Some(kind) => kind,
    };
    if kind != "function" {
        return Err(invalid(format!("{at}.type"), "unsupported_value", "only `function` tools are carried"));
    }
    let at = format!("{at}.function");
    let Some(function) = object.get("function").and_then(Json::as_object) else {
        return Err(invalid(at, "missing_required_parameter", "must be an object with name and parameters"));
    };
    let name = required_text(function, &at, "name")?;
    if name.is_empty() {
        return Err(invalid(format!("{at}.name"), "invalid_value", "must not be empty"));
    }
    let parameters = match function.get_some("parameters") {
        None => None,
        Some(schema @ Json::Object(_)) => Some(schema.clone()),
        Some(other) => return Err(expected(format!("{at}.parameters"), "an object (a JSON Schema)", other)),
    };
    let strict = match function.get_some("strict") {
        None => None,
        Some(Json::Bool(strict)) => Some(*strict),
        Some(other) => return Err(expected(format!("{at}.strict"), "a boolean", other)),
    };
    Ok(Tool { name, description: optional_text(function, &at, "description")?, parameters, strict })
}

pub(super) fn read_choice(value: Option<&Json>) -> Result<Option<ToolChoice>, InvalidRequest> {
    let word = |word: &str| match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(invalid("tool_choice", "invalid_value", "must be auto, none, required or a function to call")),
    };
    match value {
        None => Ok(None),
        Some(Json::String(text)) => word(text).map(Some),
        Some(Json::Object(object)) => {
            if object.get("type").and_then(Json::as_str) != Some("function") {
                return Err(invalid("tool_choice.type", "unsupported_value", "only `function` is carried"));
            }
            let Some(function) = object.get("function").and_then(Json::as_object) else {
                return Err(invalid(
                    "tool_choice.function",
                    "missing_required_parameter",
                    "must be an object with name",
                ));
            };
            required_text(function, "tool_choice.function", "name").map(|name| Some(ToolChoice::Function(name)))
        }
        Some(other) => Err(expected("tool_choice", "a string or an object", other)),
    }
}
