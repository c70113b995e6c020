//! Tools and the choice among them. Schemas go as they are: `parametersJsonSchema` takes JSON Schema, references and
//! unions included, where the older `parameters` takes a subset of OpenAPI's (field cases B053, B055).

use crate::canonical::{Request, Tool, ToolChoice};
use crate::json::{Json, Object};
use crate::leftover::object;

pub(super) fn write(tools: &[Tool]) -> Json {
    let declarations = tools.iter().map(declaration).collect::<Vec<_>>();
    Json::Array(vec![object([("functionDeclarations", Json::Array(declarations))])])
}

fn declaration(tool: &Tool) -> Json {
    let mut written = Object::new();
    written.insert("name", tool.name.as_str());
    if let Some(description) = &tool.description {
        written.insert("description", description.as_str());
    }
    if let Some(schema) = &tool.parameters {
        written.insert("parametersJsonSchema", schema.clone());
    }
    Json::Object(written)
}

/// How the functions may be called. `VALIDATED` is `AUTO` held to the schemas, which is what a strict tool asks for;
/// `ANY` holds to them by itself.
pub(super) fn config(request: &Request) -> Option<Json> {
    if request.tools.is_empty() {
        return None;
    }
    let strict = request.tools.iter().any(|tool| tool.strict == Some(true));
    let mode = match &request.tool_choice {
        None | Some(ToolChoice::Auto) if strict => "VALIDATED",
        None => return None,
        Some(ToolChoice::Auto) => "AUTO",
        Some(ToolChoice::None) => "NONE",
        Some(ToolChoice::Required | ToolChoice::Function(_)) => "ANY",
    };
    let mut calling = Object::new();
    calling.insert("mode", mode);
    if let Some(ToolChoice::Function(name)) = &request.tool_choice {
        calling.insert("allowedFunctionNames", vec![Json::from(name.as_str())]);
    }
    Some(object([("functionCallingConfig", Json::Object(calling))]))
}
