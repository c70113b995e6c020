//! The request in Anthropic's words. Whatever has no place there is refused by its name; nothing is dropped.

mod messages;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat};
use crate::compatible::Row;
use crate::json::{Json, Object};

/// The body of `POST /messages`.
pub(crate) fn write(row: &Row, request: &Request, model: &str) -> Result<Json, Unsupported> {
    let mut body = prompt(request, model)?;
    body.insert("max_tokens", request.max_tokens.unwrap_or(row.default_max_tokens));
    if let Some(stops) = parameters::stop_sequences(request)? {
        body.insert("stop_sequences", stops);
    }
    if let Some(temperature) = parameters::temperature(request)? {
        body.insert("temperature", temperature);
    }
    if let Some(top_p) = &request.top_p {
        body.insert("top_p", top_p.clone());
    }
    if let Some(metadata) = parameters::metadata(request)? {
        body.insert("metadata", metadata);
    }
    if request.stream {
        body.insert("stream", true);
    }
    Ok(Json::Object(body))
}

/// The body of `POST /messages/count_tokens`: what makes up the prompt, and nothing else.
pub(crate) fn write_count(_row: &Row, request: &Request, model: &str) -> Result<Json, Unsupported> {
    prompt(request, model).map(Json::Object)
}

fn prompt(request: &Request, model: &str) -> Result<Object, Unsupported> {
    parameters::refuse_unknown(request)?;
    let conversation = messages::write(request)?;
    let mut body = Object::new();
    body.insert("model", model);
    if !conversation.system.is_empty() {
        body.insert("system", conversation.system);
    }
    body.insert("messages", conversation.turns);
    if !request.tools.is_empty() {
        body.insert("tools", tools::write(&request.tools));
    }
    if let Some(choice) = tools::choice(request)? {
        body.insert("tool_choice", choice);
    }
    if let Some(config) = output_config(request)? {
        body.insert("output_config", config);
    }
    Ok(body)
}

/// A schema's `name` is a label without a place here; the schema itself is enforced, so `strict` is always met.
fn output_config(request: &Request) -> Result<Option<Json>, Unsupported> {
    match &request.response_format {
        None | Some(ResponseFormat::Text) => Ok(None),
        Some(ResponseFormat::JsonObject) => Err(Unsupported::new(
            "response_format",
            "Anthropic has no json_object mode: send json_schema with a schema",
        )),
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            let format = object([("type", Json::from("json_schema")), ("schema", schema.clone())]);
            Ok(Some(object([("format", format)])))
        }
    }
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().collect())
}
