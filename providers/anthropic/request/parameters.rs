//! The members of the client's body beside the conversation: which are translated, which ask for nothing, and the rest,
//! which are refused by name.

use crate::adapter::Unsupported;
use crate::canonical::Request;
use crate::json::{Json, Number};

/// Translated here or in a sibling, or understood by the gateway itself.
const CARRIED: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "stop",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stream",
    "stream_options",
    "user",
];

/// Refuses the first member that has no place in this protocol. Null is absent, and so is a value that asks for nothing.
pub(super) fn refuse_unknown(request: &Request) -> Result<(), Unsupported> {
    let unknown = request.body.iter().find(|(name, value)| !CARRIED.contains(name) && !asks_nothing(name, value));
    if let Some((name, _)) = unknown {
        let name: String = name.chars().take(64).collect();
        return Err(Unsupported::new(name, "Anthropic messages has no such parameter: leave it out"));
    }
    if request.n.is_some_and(|n| n > 1) {
        return Err(Unsupported::new("n", "Anthropic gives one answer per request: send n = 1 or leave it out"));
    }
    Ok(())
}

/// The value that the parameter has when it is absent.
fn asks_nothing(name: &str, value: &Json) -> bool {
    match (name, value) {
        (_, Json::Null) => true,
        ("logprobs" | "store", Json::Bool(false)) => true,
        ("presence_penalty" | "frequency_penalty" | "top_logprobs", Json::Number(n)) => n.as_f64() == 0.0,
        ("logit_bias" | "metadata", Json::Object(members)) => members.is_empty(),
        ("modalities", Json::Array(items)) => matches!(items.as_slice(), [Json::String(only)] if only == "text"),
        ("service_tier", Json::String(tier)) => tier == "auto",
        _ => false,
    }
}

/// Anthropic refuses stop strings without visible characters (field case B040).
pub(super) fn stop_sequences(request: &Request) -> Result<Option<Json>, Unsupported> {
    if request.stop.iter().any(|stop| stop.trim().is_empty()) {
        let why = "Anthropic takes no stop string that is empty or only white space: send one with visible characters";
        return Err(Unsupported::new("stop", why));
    }
    let stops: Vec<Json> = request.stop.iter().map(|stop| Json::from(stop.as_str())).collect();
    Ok((!stops.is_empty()).then_some(Json::Array(stops)))
}

pub(super) fn temperature(request: &Request) -> Result<Option<Number>, Unsupported> {
    match &request.temperature {
        Some(value) if !(0.0..=1.0).contains(&value.as_f64()) => {
            Err(Unsupported::new("temperature", "Anthropic's scale goes from 0 to 1"))
        }
        other => Ok(other.clone()),
    }
}

/// OpenAI's `user` names the end user for abuse detection; here that is `metadata.user_id`.
pub(super) fn metadata(request: &Request) -> Result<Option<Json>, Unsupported> {
    match request.body.get_some("user") {
        None => Ok(None),
        Some(Json::String(user)) => Ok(Some(super::object([("user_id", Json::from(user.as_str()))]))),
        Some(_) => Err(Unsupported::new("user", "must be a string")),
    }
}
