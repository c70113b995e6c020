//! The members of the client's body beside the conversation: which are translated, which ask for nothing, and the rest,
//! which are refused by name.

use crate::adapter::Unsupported;
use crate::canonical::Request;
use crate::json::{Json, Number};
use crate::leftover::{refuse_parameters, refuse_several_answers};

/// Refuses the first member that has no place in this protocol.
pub(super) fn refuse_unknown(request: &Request) -> Result<(), Unsupported> {
    refuse_parameters(request, "Anthropic messages", &["user"])?;
    refuse_several_answers(request, "Anthropic")
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
