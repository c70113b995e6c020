//! The request in Converse's words. Whatever has no place there is refused by its name; nothing is dropped.

mod messages;
#[cfg(test)]
mod tests;

use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat, Tool, ToolChoice};
use crate::json::{Json, Object};
use crate::leftover::{
    add_sampling, add_stops, object, refuse_choice_without_tools, refuse_message_members, refuse_one_at_a_time,
    refuse_parameters, refuse_several_answers, short,
};
use crate::openai::METADATA_KEY;

/// The name in refusals.
pub(super) const WHO: &str = "Bedrock";

const CARRIED: &[&str] = &["metadata", "service_tier", "reasoning_effort", "response_format.json_schema.description"];

/// Pairs that `requestMetadata` may hold.
const MOST_PAIRS: usize = 16;

/// The body of `converse` and `converse-stream`.
pub(crate) fn write(request: &Request, attempt_id: &str) -> Result<Json, Unsupported> {
    refuse_parameters(request, WHO, CARRIED)?;
    refuse_several_answers(request, WHO)?;
    let mut body = prompt(request)?;
    let inference = inference(request);
    if !inference.is_empty() {
        body.insert("inferenceConfig", inference);
    }
    let output = output(request)?;
    if !output.is_empty() {
        body.insert("outputConfig", output);
    }
    if let Some(tier) = tier(request)? {
        body.insert("serviceTier", object([("type", tier.into())]));
    }
    body.insert("requestMetadata", metadata(request, attempt_id)?);
    Ok(Json::Object(body))
}

/// The body of `count-tokens`: the prompt alone.
pub(crate) fn write_count(request: &Request) -> Result<Json, Unsupported> {
    let prompt = Json::Object(prompt(request)?);
    Ok(object([("input", object([("converse", prompt)]))]))
}

fn prompt(request: &Request) -> Result<Object, Unsupported> {
    refuse_message_members(request, WHO)?;
    refuse_one_at_a_time(request, WHO)?;
    refuse_choice_without_tools(request)?;
    let conversation = messages::write(request)?;
    let mut body = Object::new();
    body.insert("messages", conversation.turns);
    if !conversation.system.is_empty() {
        body.insert("system", conversation.system);
    }
    if !request.tools.is_empty() {
        body.insert("toolConfig", tools(request)?);
    }
    Ok(body)
}

fn inference(request: &Request) -> Object {
    let mut config = Object::new();
    if let Some(limit) = request.max_tokens {
        config.insert("maxTokens", limit);
    }
    add_sampling(&mut config, "topP", request);
    add_stops(&mut config, "stopSequences", request);
    config
}

/// A schema is a text there. It is always enforced, so `strict` is always met.
fn output(request: &Request) -> Result<Object, Unsupported> {
    let mut config = Object::new();
    match &request.response_format {
        None | Some(ResponseFormat::Text) => {}
        Some(ResponseFormat::JsonObject) => {
            let why = "Bedrock has no JSON without a schema: send `json_schema`, or ask for JSON in the prompt";
            return Err(Unsupported::new("response_format", why));
        }
        Some(ResponseFormat::JsonSchema { name, schema, .. }) => {
            let text = String::from_utf8_lossy(&schema.to_bytes()).into_owned();
            let mut written = Object::new();
            written.insert("name", name.as_str());
            let sent = request.body.get("response_format").and_then(|format| format.get("json_schema"));
            if let Some(description) = sent.and_then(|schema| schema.get_some("description")) {
                written.insert("description", description.clone());
            }
            written.insert("schema", text);
            let schema = Json::Object(written);
            let kind = ("type", Json::from("json_schema"));
            config.insert("textFormat", object([kind, ("structure", object([("jsonSchema", schema)]))]));
        }
    }
    match request.body.get_some("reasoning_effort") {
        None => {}
        Some(Json::String(word)) if matches!(word.as_str(), "low" | "medium" | "high" | "xhigh" | "max") => {
            config.insert("effort", word.as_str());
        }
        Some(other) => {
            let found = short(other.as_str().unwrap_or(other.kind()));
            let why = format!("Bedrock takes low, medium, high, xhigh and max, not `{found}`");
            return Err(Unsupported::new("reasoning_effort", why));
        }
    }
    Ok(config)
}

fn tools(request: &Request) -> Result<Json, Unsupported> {
    let mut config = Object::new();
    config.insert("tools", request.tools.iter().map(tool).collect::<Vec<_>>());
    let empty = || Json::Object(Object::new());
    let choice = match &request.tool_choice {
        None => None,
        Some(ToolChoice::Auto) => Some(object([("auto", empty())])),
        Some(ToolChoice::Required) => Some(object([("any", empty())])),
        Some(ToolChoice::Function(name)) => Some(object([("tool", object([("name", name.as_str().into())]))])),
        Some(ToolChoice::None) => {
            let why = "Bedrock cannot be kept from calling a tool that it is given: leave the tools out";
            return Err(Unsupported::new("tool_choice", why));
        }
    };
    if let Some(choice) = choice {
        config.insert("toolChoice", choice);
    }
    Ok(Json::Object(config))
}

fn tool(tool: &Tool) -> Json {
    let mut spec = Object::new();
    spec.insert("name", tool.name.as_str());
    if let Some(description) = &tool.description {
        spec.insert("description", description.as_str());
    }
    let none = || object([("type", "object".into()), ("properties", Json::Object(Object::new()))]);
    spec.insert("inputSchema", object([("json", tool.parameters.clone().unwrap_or_else(none))]));
    if let Some(strict) = tool.strict {
        spec.insert("strict", strict);
    }
    object([("toolSpec", Json::Object(spec))])
}

fn tier(request: &Request) -> Result<Option<&str>, Unsupported> {
    match request.body.get_some("service_tier") {
        None => Ok(None),
        Some(Json::String(word)) => match word.as_str() {
            "auto" => Ok(None),
            known @ ("default" | "flex" | "priority") => Ok(Some(known)),
            other => {
                let why = format!("Bedrock has the tiers default, flex and priority, not `{}`", short(other));
                Err(Unsupported::new("service_tier", why))
            }
        },
        Some(other) => Err(Unsupported::new("service_tier", format!("must be a text, not {}", other.kind()))),
    }
}

/// The client's pairs and the attempt's id, by which the call is found in the invocation logs.
fn metadata(request: &Request, attempt_id: &str) -> Result<Object, Unsupported> {
    let mut pairs = match request.body.get_some("metadata") {
        None => Object::new(),
        Some(Json::Object(pairs)) => pairs.clone(),
        Some(other) => return Err(Unsupported::new("metadata", format!("must be an object, not {}", other.kind()))),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || ":_@$#=/+,-.".contains(c);
    let fits = |text: &str| text.chars().count() <= 256 && text.chars().all(plain);
    for (name, value) in pairs.iter() {
        if name.is_empty() || !fits(name) || !value.as_str().is_some_and(fits) {
            let why = "Bedrock takes texts of at most 256 letters, digits, spaces and :_@$#=/+,-. here";
            return Err(Unsupported::new(format!("metadata.{}", short(name)), why));
        }
    }
    if pairs.len() >= MOST_PAIRS || pairs.contains_key(METADATA_KEY) {
        let why = format!("Bedrock takes {MOST_PAIRS} pairs, and one, {METADATA_KEY}, is the gateway's own");
        return Err(Unsupported::new("metadata", why));
    }
    pairs.insert(METADATA_KEY, attempt_id);
    Ok(pairs)
}
