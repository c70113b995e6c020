//! Errors that are not told as what they are, and requests that ought to be refused and are not.

use serde_json::json;

use super::{Act, BOTH, Misbehaviour, ROUND_TRIP, Raw, Skip};
use crate::local::sim::Wire;
use crate::local::sim::wire::Fault;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, ROUND_TRIP, BOTH, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row(
        "answers-any-model",
        "answers whatever model is named",
        "llama-server answers under any model name",
        &[Act::Skip(Skip::Model)],
    ),
    row(
        "error-in-a-200",
        "answers 200 with an error inside",
        "B018",
        &[Act::Error(|fault, wire| told(fault, wire, 200))],
    ),
    row(
        "bad-request-as-500",
        "answers 500 where a request is at fault",
        "B065",
        &[Act::Error(|fault, wire| told(fault, wire, 500))],
    ),
    row(
        "errors-in-html",
        "answers errors as HTML",
        "B065",
        &[Act::Error(|_, _| Some(Raw::new(400, "text/html", "<html><body><h1>400 Bad Request</h1></body></html>")))],
    ),
    row(
        "errors-without-body",
        "answers errors with no body",
        "load balancers in between",
        &[Act::Error(|_, _| Some(Raw::new(400, "text/plain", "")))],
    ),
    row(
        "unknown-model-as-500",
        "answers 500 for an unknown model",
        "B065",
        &[Act::Error(|fault, wire| match fault {
            Fault::UnknownModel { .. } => told(fault, wire, 500),
            _ => None,
        })],
    ),
    row(
        "unknown-model-as-overload",
        "answers 503 for an unknown model",
        "B066",
        &[Act::Error(|fault, wire| match fault {
            Fault::UnknownModel { .. } => told(fault, wire, if wire == Wire::AnthropicMessages { 529 } else { 503 }),
            _ => None,
        })],
    ),
    row(
        "too-long-as-500",
        "answers 500 for a prompt beyond its window",
        "B065",
        &[Act::Error(|fault, wire| match fault {
            Fault::TooLong { .. } => told(fault, wire, 500),
            _ => None,
        })],
    ),
    row("too-long-as-rate-limit", "answers 429 for a prompt beyond its window", "B066", &[Act::Error(rate_limited)]),
    row("too-long-unworded", "refuses a prompt beyond its window as some bad request", "B064", &[Act::Error(unworded)]),
    row("accepts-bad-tools", "takes tools whose schema is none", "B053", &[Act::Skip(Skip::Tools)]),
];

impl Raw {
    pub(super) fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Raw {
        Raw { status, kind, encoding: None, body: body.into(), cut: false }
    }
}

fn error(wire: Wire, status: u16, kind: &str, message: &str) -> Option<Raw> {
    let error = json!({"message": message, "type": kind, "param": null, "code": null});
    let body = match wire {
        Wire::OpenAiChat => json!({ "error": error }),
        Wire::AnthropicMessages => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Wire::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
    };
    Some(Raw::new(status, "application/json", body.to_string()))
}

/// The fault in the provider's own shape, under another status.
fn told(fault: &Fault, wire: Wire, status: u16) -> Option<Raw> {
    let kind = match (wire, status) {
        (Wire::Gemini, 200) => "INVALID_ARGUMENT",
        (Wire::Gemini, 503) => "UNAVAILABLE",
        (Wire::Gemini, _) => "INTERNAL",
        (_, 200) => "invalid_request_error",
        (Wire::OpenAiChat, _) => "server_error",
        (Wire::AnthropicMessages, 529) => "overloaded_error",
        (Wire::AnthropicMessages, _) => "api_error",
    };
    let words = match fault {
        Fault::UnknownModel { model } => format!("model {model} could not be loaded"),
        Fault::TooLong { .. } => "an internal error occurred".to_owned(),
        Fault::Invalid { message, .. } | Fault::BadSchema { message, .. } => message.clone(),
        _ => "the request failed".to_owned(),
    };
    error(wire, status, kind, &words)
}

fn rate_limited(fault: &Fault, wire: Wire) -> Option<Raw> {
    let Fault::TooLong { tokens, window } = fault else { return None };
    let words = format!("tokens per minute exceeded: {tokens} > {window}");
    let kind = match wire {
        Wire::OpenAiChat => "rate_limit_exceeded",
        Wire::AnthropicMessages => "rate_limit_error",
        Wire::Gemini => "RESOURCE_EXHAUSTED",
    };
    error(wire, 429, kind, &words)
}

fn unworded(fault: &Fault, wire: Wire) -> Option<Raw> {
    let Fault::TooLong { .. } = fault else { return None };
    let kind = if wire == Wire::Gemini { "INVALID_ARGUMENT" } else { "invalid_request_error" };
    error(wire, 400, kind, "the request could not be processed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_told_fault_keeps_the_providers_shape() {
        for wire in [Wire::OpenAiChat, Wire::AnthropicMessages, Wire::Gemini] {
            let raw = told(&Fault::UnknownModel { model: "m".into() }, wire, 500).unwrap();
            let body: serde_json::Value = serde_json::from_slice(&raw.body).unwrap();
            assert!(raw.status == 500 && body["error"]["message"].is_string(), "{body}");
        }
    }
}
