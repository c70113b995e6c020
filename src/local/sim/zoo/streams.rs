//! Streams that do not say what the whole answer says, or do not end.

use serde_json::{Value, json};

use super::rewrite::{events, piece};
use super::{Act, BOTH, Misbehaviour, OPENAI, ROUND_TRIP};
use crate::local::sim::Wire;

/// Changes the events of a stream.
macro_rules! stream {
    ($name:literal, $does:literal, $source:literal, $change:expr) => {
        Misbehaviour::new($name, $does, $source, ROUND_TRIP, BOTH, &[Act::Events($change)])
    };
}

pub(super) const ROWS: &[Misbehaviour] = &[
    stream!("stream-loses-the-last-piece", "leaves the last piece of text out of a stream", "B010", loses_last),
    stream!("stream-loses-the-first-piece", "leaves the first piece of text out of a stream", "B018", loses_first),
    stream!("stream-repeats-pieces", "sends each piece of a stream twice", "reconnecting proxies", repeats),
    stream!("stream-grows", "sends the whole text so far in each piece", "older completion servers", grows),
    stream!("stream-reorders-pieces", "sends two pieces of a stream in the wrong order", "B003", reorders),
    stream!("stream-breaks-characters", "decodes each piece by itself", "B010", breaks),
    stream!("stream-trims-pieces", "trims the blanks of each piece", "SSE readers that trim", trims),
    stream!("stream-without-end", "ends a stream without its finish reason", "B021", without_end),
    stream!("stream-cut", "closes a stream in the middle", "B021", cut),
    stream!("stream-comments-only", "streams comments and nothing else", "B013", comments_only),
    stream!("stream-error-in-a-200", "streams an error as its only event", "B018", error_only),
    stream!("stream-error-code-null", "streams an error object whose code is null", "B019", error_without_code),
    stream!("stream-error-midway", "streams an error after half of the text", "B018", error_midway),
    stream!(
        "stream-other-finish",
        "ends a stream with another finish reason than the whole answer",
        "B025",
        other_finish
    ),
    stream!("stream-not-json", "cuts the JSON of an event", "B013", broken_json),
    stream!("stream-of-nothing", "streams a finish reason and no text", "B032", of_nothing),
    Misbehaviour::new(
        "stream-usage-absent",
        "leaves out the usage that include_usage asked for",
        "B031",
        ROUND_TRIP,
        OPENAI,
        &[Act::Events(|all, _| events(all, no_usage))],
    ),
    Misbehaviour::new(
        "stream-usage-differs",
        "bills a streamed answer otherwise than a whole one",
        "B025",
        ROUND_TRIP,
        BOTH,
        &[Act::Events(|all, _| events(all, double_usage))],
    ),
];

fn is_text(event: &str) -> bool {
    let data = event.split_once("data: ").and_then(|(_, data)| serde_json::from_str(data.trim_end()).ok());
    data.is_some_and(|mut data: Value| piece(&mut data).is_some())
}

fn loses_last(mut all: Vec<String>, _: Wire) -> Vec<String> {
    if let Some(at) = all.iter().rposition(|event| is_text(event)) {
        all.remove(at);
    }
    all
}

fn loses_first(mut all: Vec<String>, _: Wire) -> Vec<String> {
    if let Some(at) = all.iter().position(|event| is_text(event)) {
        all.remove(at);
    }
    all
}

fn repeats(all: Vec<String>, _: Wire) -> Vec<String> {
    all.into_iter().flat_map(|event| vec![event.clone(); if is_text(&event) { 2 } else { 1 }]).collect()
}

fn grows(all: Vec<String>, _: Wire) -> Vec<String> {
    let so_far = std::cell::RefCell::new(String::new());
    events(all, |event| {
        if let Some(text) = piece(event) {
            so_far.borrow_mut().push_str(text);
            text.clone_from(&so_far.borrow());
        }
    })
}

fn reorders(mut all: Vec<String>, _: Wire) -> Vec<String> {
    let places: Vec<usize> = (0..all.len()).filter(|at| is_text(&all[*at])).collect();
    if let [first, .., last] = places.as_slice() {
        all.swap(*first, *last);
    }
    all
}

/// As if each piece were cut by bytes: what is not ASCII arrives as replacement characters.
fn breaks(all: Vec<String>, _: Wire) -> Vec<String> {
    events(all, |event| {
        if let Some(text) = piece(event) {
            *text = text.chars().map(|c| if c.is_ascii() { c } else { '\u{fffd}' }).collect();
        }
    })
}

fn trims(all: Vec<String>, _: Wire) -> Vec<String> {
    events(all, |event| {
        if let Some(text) = piece(event) {
            *text = text.trim().to_owned();
        }
    })
}

fn without_end(all: Vec<String>, wire: Wire) -> Vec<String> {
    let last = match wire {
        Wire::OpenAiChat => "\"finish_reason\":\"",
        Wire::AnthropicMessages => "message_stop",
        Wire::Gemini => "\"finishReason\":\"",
    };
    all.into_iter().filter(|event| !event.contains(last)).collect()
}

fn cut(mut all: Vec<String>, _: Wire) -> Vec<String> {
    all.truncate(all.len() / 2);
    all
}

fn comments_only(_: Vec<String>, _: Wire) -> Vec<String> {
    vec![": warming up\n\n".to_owned(); 3]
}

fn error(wire: Wire, error: Value) -> String {
    match wire {
        Wire::OpenAiChat => format!("data: {}\n\n", json!({"error": error})),
        Wire::AnthropicMessages => format!("event: error\ndata: {}\n\n", json!({"type": "error", "error": error})),
        Wire::Gemini => {
            let error = json!({"code": 503, "message": error["message"], "status": "UNAVAILABLE"});
            format!("data: {}\n\n", json!({ "error": error }))
        }
    }
}

fn error_only(_: Vec<String>, wire: Wire) -> Vec<String> {
    vec![error(wire, json!({"type": "overloaded_error", "code": "overloaded", "message": "busy"}))]
}

fn error_without_code(_: Vec<String>, wire: Wire) -> Vec<String> {
    vec![error(wire, json!({"type": "api_error", "code": null, "message": "no capacity"}))]
}

fn error_midway(mut all: Vec<String>, wire: Wire) -> Vec<String> {
    all.truncate(all.len() / 2);
    all.push(error(wire, json!({"type": "api_error", "code": 500, "message": "internal"})));
    all
}

fn other_finish(all: Vec<String>, _: Wire) -> Vec<String> {
    events(all, |event| {
        if let Some(reason) = event.pointer_mut("/choices/0/finish_reason").filter(|reason| reason.is_string()) {
            *reason = json!("length");
        }
        if let Some(reason) = event.pointer_mut("/delta/stop_reason").filter(|reason| reason.is_string()) {
            *reason = json!("max_tokens");
        }
        if let Some(reason) = event.pointer_mut("/candidates/0/finishReason").filter(|reason| reason.is_string()) {
            *reason = json!("MAX_TOKENS");
        }
    })
}

fn broken_json(mut all: Vec<String>, _: Wire) -> Vec<String> {
    if let Some(at) = all.iter().position(|event| is_text(event)) {
        let half = (all[at].len() / 2..).find(|half| all[at].is_char_boundary(*half)).unwrap_or(0);
        all[at].truncate(half);
        all[at].push_str("\n\n");
    }
    all
}

fn of_nothing(all: Vec<String>, _: Wire) -> Vec<String> {
    all.into_iter().filter(|event| !is_text(event)).collect()
}

fn no_usage(event: &mut Value) {
    if event["choices"].as_array().is_some_and(Vec::is_empty) {
        *event = Value::Null;
    } else if let Some(event) = event.as_object_mut() {
        event.remove("usage");
    }
}

fn double_usage(event: &mut Value) {
    for place in [
        "/usage/prompt_tokens",
        "/usage/completion_tokens",
        "/usage/input_tokens",
        "/usage/output_tokens",
        "/usageMetadata/promptTokenCount",
        "/usageMetadata/candidatesTokenCount",
    ] {
        if let Some(number) = event.pointer_mut(place) {
            *number = json!(number.as_u64().unwrap_or(0) * 2 + 40);
        }
    }
}
