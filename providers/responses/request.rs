//! The request in the words of OpenAI's responses. Whatever has no place there is refused by its name; nothing is
//! dropped.

mod content;
mod input;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use crate::adapter::Unsupported;
use crate::canonical::Request;
use crate::dialects::Dialect;
use crate::dialects::carried::is_carried;
use crate::dialects::responses::is_own_id;
use crate::json::{Json, Object};
use crate::leftover::{object, refuse_all_others};

pub(super) use input::is_encrypted_reasoning;

/// The name in refusals.
const WHO: &str = "OpenAI responses";

/// The document of a client that speaks this protocol itself.
pub(super) fn own_document(request: &Request) -> Option<&Object> {
    let native = request.native.as_deref().filter(|native| native.dialect == Dialect::Responses);
    native.map(|native| native.body.as_ref())
}

/// What the gateway does itself: earlier responses are in the input already, and work in the background is the job's.
const OURS: [&str; 3] = ["stream", "background", "previous_response_id"];

/// The client's own document with the target's model and the delivery that was asked for.
fn passed_on(native: &Object, model: &str) -> Object {
    let members = native.iter().filter(|(name, _)| !OURS.contains(name));
    let members = members.map(|(name, value)| {
        let value = match (name, value) {
            ("model", _) => Json::from(model),
            ("input", Json::Array(items)) => {
                items.iter().filter(|item| !is_foreign(item)).cloned().collect::<Vec<_>>().into()
            }
            _ => value.clone(),
        };
        (name.to_owned(), value)
    });
    Object::from_unique(members.collect())
}

/// Reasoning of another vendor's answer: OpenAI can neither read it nor find it by the id that it was given here.
fn is_foreign(item: &Json) -> bool {
    let text = |name: &str| item.get(name).and_then(Json::as_str);
    text("type") == Some("reasoning")
        && match text("encrypted_content") {
            Some(data) => is_carried(data),
            None => text("id").is_some_and(is_own_id),
        }
}

/// The body of `POST /responses`.
pub(crate) fn write(request: &Request, model: &str) -> Result<Object, Unsupported> {
    if let Some(native) = own_document(request) {
        let mut body = passed_on(native, model);
        if request.stream {
            body.insert("stream", true);
        } else {
            body.remove("stream_options");
        }
        return Ok(body);
    }
    let mut body = prompt(request, model)?;
    if let Some(limit) = parameters::max_output_tokens(request)? {
        body.insert("max_output_tokens", limit);
    }
    for (name, value) in [("temperature", &request.temperature), ("top_p", &request.top_p)] {
        if let Some(value) = value {
            body.insert(name, value.clone());
        }
    }
    parameters::write_logprobs(request, &mut body)?;
    parameters::pass_on(request, &mut body);
    // Chat completions are not stored unless the client says so, responses are unless it says no.
    body.insert("store", parameters::store(request)?);
    if request.stream {
        body.insert("stream", true);
        if let Some(options) = parameters::stream_options(request) {
            body.insert("stream_options", options);
        }
    }
    Ok(body)
}

/// The body of `POST /responses/input_tokens`: what makes up the prompt, and nothing else.
pub(crate) fn write_count(request: &Request, model: &str) -> Result<Object, Unsupported> {
    // Counted in the words of a chat completion, whatever the client speaks: the prompt is the same.
    prompt(request, model)
}

fn prompt(request: &Request, model: &str) -> Result<Object, Unsupported> {
    parameters::refuse_unknown(request)?;
    let mut body = Object::new();
    body.insert("model", model);
    body.insert("input", input::write(request)?);
    if !request.tools.is_empty() {
        body.insert("tools", tools::write(request)?);
    }
    if let Some(choice) = &request.tool_choice {
        body.insert("tool_choice", tools::choice(choice));
    }
    if let Some(parallel) = request.parallel_tool_calls {
        body.insert("parallel_tool_calls", parallel);
    }
    if let Some(text) = parameters::text(request)? {
        body.insert("text", text);
    }
    if let Some(effort) = request.body.get_some("reasoning_effort") {
        body.insert("reasoning", object([("effort", effort.clone())]));
    }
    Ok(body)
}

/// What the canonical form does not hold must not vanish either: a member that nobody here reads is refused.
fn refuse_others(at: &str, value: Option<&Json>, known: &[&str]) -> Result<(), Unsupported> {
    value.map_or(Ok(()), |value| refuse_all_others(at, value, known, WHO))
}
