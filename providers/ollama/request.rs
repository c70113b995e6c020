//! The request in Ollama's words. Whatever has no place there is refused by its name; nothing is dropped.

mod messages;
#[cfg(test)]
mod tests;

use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat, Tool, ToolChoice};
use crate::json::{Json, Object};
use crate::leftover::{
    add_as_sent, add_sampling, add_stops, object, refuse_message_members, refuse_one_at_a_time, refuse_parameters,
    refuse_several_answers, short,
};

/// The name in refusals.
pub(super) const WHO: &str = "Ollama";

const CARRIED: &[&str] =
    &["seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "reasoning_effort"];

/// The body of `POST /api/chat`. It streams unless it is told not to.
pub(crate) fn write(request: &Request, model: &str) -> Result<Json, Unsupported> {
    refuse_parameters(request, WHO, CARRIED)?;
    refuse_message_members(request, WHO)?;
    refuse_several_answers(request, WHO)?;
    refuse_one_at_a_time(request, WHO)?;
    let mut body = Object::new();
    body.insert("model", model);
    body.insert("messages", messages::write(request)?);
    body.insert("stream", request.stream);
    if let Some(tools) = tools(request)? {
        body.insert("tools", tools);
    }
    match &request.response_format {
        None | Some(ResponseFormat::Text) => {}
        Some(ResponseFormat::JsonObject) => drop(body.insert("format", "json")),
        // The schema is enforced by a grammar, so `strict` is always met; its name is a label without a place here.
        Some(ResponseFormat::JsonSchema { schema, .. }) => drop(body.insert("format", schema.clone())),
    }
    let options = options(request);
    if !options.is_empty() {
        body.insert("options", options);
    }
    if let Some(think) = think(request)? {
        body.insert("think", think);
    }
    add_as_sent(&mut body, &["logprobs", "top_logprobs"], request);
    Ok(Json::Object(body))
}

fn options(request: &Request) -> Object {
    let mut options = Object::new();
    if let Some(limit) = request.max_tokens {
        options.insert("num_predict", limit);
    }
    add_stops(&mut options, "stop", request);
    add_sampling(&mut options, "top_p", request);
    add_as_sent(&mut options, &["seed", "presence_penalty", "frequency_penalty"], request);
    options
}

/// There is no choice among tools: none at all is the same as no tools, and a call cannot be demanded.
fn tools(request: &Request) -> Result<Option<Json>, Unsupported> {
    match &request.tool_choice {
        None | Some(ToolChoice::Auto) => {}
        Some(ToolChoice::None) => return Ok(None),
        Some(ToolChoice::Required | ToolChoice::Function(_)) => {
            let why = "Ollama cannot be made to call a tool: leave it out, or send \"auto\" or \"none\"";
            return Err(Unsupported::new("tool_choice", why));
        }
    }
    if let Some(i) = request.tools.iter().position(|tool| tool.strict == Some(true)) {
        let why = "Ollama does not hold calls to their schema: leave it out";
        return Err(Unsupported::new(format!("tools[{i}].function.strict"), why));
    }
    let tools: Vec<Json> = request.tools.iter().map(tool).collect();
    Ok((!tools.is_empty()).then_some(Json::Array(tools)))
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

fn think(request: &Request) -> Result<Option<Json>, Unsupported> {
    let Some(effort) = request.body.get_some("reasoning_effort") else { return Ok(None) };
    match effort.as_str() {
        Some("none") => Ok(Some(Json::Bool(false))),
        Some(word @ ("low" | "medium" | "high" | "max")) => Ok(Some(Json::from(word))),
        other => {
            let found = short(other.unwrap_or(effort.kind()));
            let why = format!("Ollama knows no `{found}`: send none, low, medium, high or max");
            Err(Unsupported::new("reasoning_effort", why))
        }
    }
}
