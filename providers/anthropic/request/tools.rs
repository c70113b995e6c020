//! Tools and the choice among them.

use super::object;
use crate::adapter::Unsupported;
use crate::canonical::{Request, Tool, ToolChoice};
use crate::json::{Json, Object};

pub(super) fn write(tools: &[Tool]) -> Json {
    Json::Array(tools.iter().map(tool).collect())
}

fn tool(tool: &Tool) -> Json {
    let mut written = Object::new();
    written.insert("name", tool.name.as_str());
    if let Some(description) = &tool.description {
        written.insert("description", description.as_str());
    }
    written.insert("input_schema", schema(tool.parameters.as_ref()));
    if tool.strict == Some(true) {
        written.insert("strict", true);
    }
    Json::Object(written)
}

/// As sent; a schema without `type` (or none at all) is an object's here, because Anthropic demands the word.
fn schema(parameters: Option<&Json>) -> Json {
    match parameters {
        Some(schema) if schema.get("type").is_some() => schema.clone(),
        Some(Json::Object(members)) => {
            let typed = std::iter::once(("type".to_owned(), Json::from("object")));
            let members = members.iter().map(|(name, value)| (name.to_owned(), value.clone()));
            Json::Object(Object::from_unique(typed.chain(members).collect()))
        }
        _ => object([("type", Json::from("object")), ("properties", Json::Object(Object::new()))]),
    }
}

pub(super) fn choice(request: &Request) -> Result<Option<Json>, Unsupported> {
    if request.tools.is_empty() {
        return match request.tool_choice {
            None | Some(ToolChoice::Auto | ToolChoice::None) => Ok(None),
            Some(ToolChoice::Required | ToolChoice::Function(_)) => {
                Err(Unsupported::new("tool_choice", "demands a call, but there are no tools"))
            }
        };
    }
    let one_at_a_time = request.parallel_tool_calls == Some(false);
    let mut written = Object::new();
    match &request.tool_choice {
        None if !one_at_a_time => return Ok(None),
        None | Some(ToolChoice::Auto) => written.insert("type", "auto"),
        Some(ToolChoice::None) => return Ok(Some(object([("type", Json::from("none"))]))),
        Some(ToolChoice::Required) => written.insert("type", "any"),
        Some(ToolChoice::Function(name)) => {
            written.insert("type", "tool");
            written.insert("name", name.as_str())
        }
    };
    if one_at_a_time {
        written.insert("disable_parallel_tool_use", true);
    }
    Ok(Some(Json::Object(written)))
}
