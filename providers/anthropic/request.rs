//! The request in Anthropic's words. Whatever has no place there is refused by its name; nothing is dropped.

mod messages;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use crate::adapter::Unsupported;
use crate::canonical::{Request, ResponseFormat};
use crate::compatible::Row;
use crate::dialects::Dialect;
use crate::dialects::carried::is_carried;
use crate::json::{Json, Object};

/// The body of `POST /messages`.
pub(crate) fn write(row: &Row, request: &Request, model: &str) -> Result<Json, Unsupported> {
    if let Some(native) = own_document(request) {
        return Ok(passed_on(native, model, request.stream));
    }
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
    if let Some(native) = own_document(request) {
        let Json::Object(mut body) = passed_on(native, model, false) else { return Ok(Json::Null) };
        for name in NOT_COUNTED {
            body.remove(name);
        }
        return Ok(Json::Object(body));
    }
    prompt(request, model).map(Json::Object)
}

/// What the endpoint that counts does not take, since it does not make up the prompt.
const NOT_COUNTED: [&str; 8] =
    ["max_tokens", "stop_sequences", "temperature", "top_p", "top_k", "metadata", "service_tier", "container"];

/// The document of a client that speaks this protocol itself.
pub(super) fn own_document(request: &Request) -> Option<&Object> {
    let native = request.native.as_deref().filter(|native| native.dialect == Dialect::Messages);
    native.map(|native| native.body.as_ref())
}

/// The client's own document with the target's model and the delivery that was asked for, and nothing else changed: but
/// reasoning that another vendor's answer brought has no signature, and would be refused.
fn passed_on(native: &Object, model: &str, stream: bool) -> Json {
    let mut body = Object::from_unique(
        native
            .iter()
            .filter(|(name, _)| *name != "stream")
            .map(|(name, value)| (name.to_owned(), if name == "model" { model.into() } else { value.clone() }))
            .collect(),
    );
    if let Some(Json::Array(messages)) = body.get_mut("messages") {
        for message in messages {
            let Json::Object(message) = message else { continue };
            if let Some(Json::Array(blocks)) = message.get_mut("content") {
                blocks.retain(|block| !is_foreign(block));
            }
        }
    }
    if stream {
        body.insert("stream", true);
    }
    Json::Object(body)
}

/// Unsigned thinking, what only another vendor can read, and sources without a text, which nobody else makes.
fn is_foreign(block: &Json) -> bool {
    let text = |name: &str| block.get(name).and_then(Json::as_str);
    match text("type") {
        Some("thinking") => text("signature").is_some_and(str::is_empty),
        Some("redacted_thinking") => text("data").is_some_and(is_carried),
        Some("text") => text("text") == Some("") && block.get_some("citations").is_some(),
        _ => false,
    }
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
