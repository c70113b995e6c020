//! Tools and the choice among them. A tool is strict here unless it says otherwise, and is not in the client's dialect:
//! so it always says.

use super::refuse_others;
use crate::adapter::Unsupported;
use crate::canonical::{Request, Tool, ToolChoice};
use crate::json::{Json, Object};
use crate::leftover::object;

pub(super) fn write(request: &Request) -> Result<Json, Unsupported> {
    let sent = request.body.get("tools").and_then(Json::as_array).unwrap_or_default();
    for (i, tool) in sent.iter().enumerate() {
        refuse_others(&format!("tools[{i}]"), Some(tool), &["type", "function"])?;
        let known = ["name", "description", "parameters", "strict"];
        refuse_others(&format!("tools[{i}].function"), tool.get("function"), &known)?;
    }
    Ok(Json::Array(request.tools.iter().map(tool).collect()))
}

fn tool(tool: &Tool) -> Json {
    let mut written = Object::new();
    written.insert("type", "function");
    written.insert("name", tool.name.as_str());
    if let Some(description) = &tool.description {
        written.insert("description", description.as_str());
    }
    written.insert("parameters", tool.parameters.clone().unwrap_or_else(no_arguments));
    written.insert("strict", tool.strict.unwrap_or(false));
    Json::Object(written)
}

/// The client's dialect takes an absent schema for that of no arguments.
fn no_arguments() -> Json {
    object([
        ("type", "object".into()),
        ("properties", Json::Object(Object::new())),
        ("additionalProperties", false.into()),
    ])
}

pub(super) fn choice(choice: &ToolChoice) -> Json {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Function(name) => object([("type", "function".into()), ("name", name.as_str().into())]),
    }
}
