//! A `POST /responses` body in the words of chat completions, or a refusal that names the field and its cure.
//!
//! Every member is translated, kept by the gateway itself (`background`, `store`, `metadata`, `previous_response_id`:
//! the job holds them), or noted as lost: then only a provider of this wire format can take the request. Reasoning of
//! earlier turns is its own provider's: no other can read it, and none needs it. What a translated answer had brought
//! sealed ([`crate::dialects::carried`]) goes back to the vendor that wrote it.

mod input;
mod parameters;

use crate::canonical::Request;
use crate::dialects::Dialect;
use crate::dialects::reading::{Reading, role};
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{boolean, expected, invalid};

/// `previous_response_id` is taken as resolved: see [`continued`].
pub(crate) fn parse(body: Object) -> Result<Request, InvalidRequest> {
    let mut reading = Reading::new(Dialect::Responses);
    match body.get_some("instructions") {
        None => {}
        Some(text @ Json::String(_)) => {
            let mut message = role("system");
            message.insert("content", text.clone());
            reading.push("instructions", message);
        }
        Some(other) => return Err(expected("instructions", "a string", other)),
    }
    if boolean(&body, "background")? == Some(true) && boolean(&body, "store")? == Some(false) {
        let message = "is false, but work in the background is stored to be fetched: leave one of the two out";
        return Err(invalid("store", "invalid_value", message));
    }
    input::read(&mut reading, body.get_some("input"))?;
    let mut chat = Object::new();
    parameters::write(&mut reading, &body, &mut chat)?;
    reading.finish(body, chat)
}

/// A member of the chat completion, by its name in this dialect.
pub(crate) fn own_member(param: &str) -> String {
    let own = match param {
        "messages" => "input",
        "max_completion_tokens" => "max_output_tokens",
        "reasoning_effort" => "reasoning.effort",
        "verbosity" => "text.verbosity",
        "logprobs" => "include",
        _ if param.starts_with("response_format") => "text.format",
        _ => return param.replace(".function", ""),
    };
    own.to_owned()
}

/// Whether the client wants an answer at once, and to ask for the work's later.
pub fn wants_background(body: &Object) -> bool {
    body.get("background").and_then(Json::as_bool) == Some(true)
}

/// The input of a body as a list of items.
pub fn input_items(body: &Object) -> Vec<Json> {
    match body.get_some("input") {
        Some(Json::Array(items)) => items.clone(),
        Some(text @ Json::String(_)) => {
            let mut item = role("user");
            item.insert("content", text.clone());
            vec![item.into()]
        }
        _ => Vec::new(),
    }
}

/// The body of a request that goes on from an earlier response: its input is that one's input and output, then its own.
/// Instructions are not carried over, as OpenAI documents it.
pub fn continued(mut body: Object, before: &Object, response: &Json) -> Object {
    let mut items = input_items(before);
    items.extend_from_slice(response.get("output").and_then(Json::as_array).unwrap_or_default());
    items.extend(input_items(&body));
    body.insert("input", items);
    body
}
