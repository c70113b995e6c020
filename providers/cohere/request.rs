//! The request in Cohere's words. Whatever has no place there is refused by its name; nothing is dropped.

mod messages;
#[cfg(test)]
mod tests;

use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat, Tool, ToolChoice};
use crate::json::{Json, Object};
use crate::leftover::{
    add_as_sent, add_sampling, add_stops, object, refuse_choice_without_tools, refuse_message_members,
    refuse_one_at_a_time, refuse_parameters, refuse_several_answers, short,
};

/// The name in refusals.
pub(super) const WHO: &str = "Cohere";

const CARRIED: &[&str] = &["seed", "presence_penalty", "frequency_penalty", "reasoning_effort"];

/// The body of `POST /v2/chat`.
pub(crate) fn write(request: &Request, model: &str) -> Result<Json, Unsupported> {
    refuse_parameters(request, WHO, CARRIED)?;
    refuse_message_members(request, WHO)?;
    refuse_several_answers(request, WHO)?;
    refuse_one_at_a_time(request, WHO)?;
    refuse_choice_without_tools(request)?;
    let mut body = Object::new();
    body.insert("model", model);
    body.insert("messages", messages::write(request)?);
    if request.stream {
        body.insert("stream", true);
    }
    tools(request, &mut body)?;
    if let Some(format) = format(request) {
        body.insert("response_format", format);
    }
    if let Some(limit) = request.max_tokens {
        body.insert("max_tokens", limit);
    }
    add_stops(&mut body, "stop_sequences", request);
    add_sampling(&mut body, "p", request);
    add_as_sent(&mut body, &["seed", "presence_penalty", "frequency_penalty"], request);
    if let Some(thinking) = thinking(request)? {
        body.insert("thinking", thinking);
    }
    Ok(Json::Object(body))
}

/// The schema itself is enforced, so `strict` is always met; its name is a label without a place here.
fn format(request: &Request) -> Option<Json> {
    let kind = ("type", Json::from("json_object"));
    match &request.response_format {
        None | Some(ResponseFormat::Text) => None,
        Some(ResponseFormat::JsonObject) => Some(object([kind])),
        Some(ResponseFormat::JsonSchema { schema, .. }) => Some(object([kind, ("json_schema", schema.clone())])),
    }
}

/// One strict tool holds all to their schemas: more than was asked for, and never less.
fn tools(request: &Request, body: &mut Object) -> Result<(), Unsupported> {
    if request.tools.is_empty() {
        return Ok(());
    }
    body.insert("tools", request.tools.iter().map(tool).collect::<Vec<_>>());
    if request.tools.iter().any(|tool| tool.strict == Some(true)) {
        body.insert("strict_tools", true);
    }
    match &request.tool_choice {
        None | Some(ToolChoice::Auto) => {}
        Some(ToolChoice::None) => drop(body.insert("tool_choice", "NONE")),
        Some(ToolChoice::Required) => drop(body.insert("tool_choice", "REQUIRED")),
        Some(ToolChoice::Function(_)) => {
            let why = "Cohere can be made to call a tool, but not a certain one: send \"required\" and that tool alone";
            return Err(Unsupported::new("tool_choice", why));
        }
    }
    Ok(())
}

fn tool(tool: &Tool) -> Json {
    let mut function = Object::new();
    function.insert("name", tool.name.as_str());
    if let Some(description) = &tool.description {
        function.insert("description", description.as_str());
    }
    let none = || object([("type", "object".into()), ("properties", Json::Object(Object::new()))]);
    function.insert("parameters", tool.parameters.clone().unwrap_or_else(none));
    object([("type", "function".into()), ("function", Json::Object(function))])
}

/// A model that reasons does so unless it is told not to; there are no degrees.
fn thinking(request: &Request) -> Result<Option<Json>, Unsupported> {
    match request.body.get_some("reasoning_effort") {
        None => Ok(None),
        Some(Json::String(word)) if word == "none" => Ok(Some(object([("type", "disabled".into())]))),
        Some(other) => {
            let found = short(other.as_str().unwrap_or(other.kind()));
            let why = format!("Cohere has no degrees of reasoning, so no `{found}`: send none, or leave it out");
            Err(Unsupported::new("reasoning_effort", why))
        }
    }
}
