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
use crate::json::{Json, Object};

pub(super) use input::is_encrypted_reasoning;

/// The body of `POST /responses`.
pub(crate) fn write(request: &Request, model: &str) -> Result<Object, Unsupported> {
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

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().collect())
}

/// What the canonical form does not hold must not vanish either: a member that nobody here reads is refused.
fn refuse_others(at: &str, value: Option<&Json>, known: &[&str]) -> Result<(), Unsupported> {
    let Some(object) = value.and_then(Json::as_object) else { return Ok(()) };
    match object.iter().find(|(name, value)| !known.contains(name) && !value.is_null()) {
        None => Ok(()),
        Some((name, _)) => {
            let name: String = name.chars().take(64).collect();
            Err(Unsupported::new(format!("{at}.{name}"), "OpenAI responses has no place for it: leave it out"))
        }
    }
}
