//! Odd and allowed: what a suite must not hold against a provider.

use serde_json::{Value, json};

use super::rewrite::{events, finish};
use super::{Act, BOTH, Expect, Misbehaviour, OPENAI};
use crate::local::sim::Wire;

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, Expect::Harmless, BOTH, acts)
}

const fn openai(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, Expect::Harmless, OPENAI, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row(
        "stream-crlf",
        "ends the lines of a stream with CR LF",
        "B014",
        &[Act::Events(|all, _| all.into_iter().map(|event| event.replace('\n', "\r\n")).collect())],
    ),
    row(
        "stream-cr",
        "ends the lines of a stream with CR",
        "B014",
        &[Act::Events(|all, _| all.into_iter().map(|event| event.replace('\n', "\r")).collect())],
    ),
    row(
        "stream-with-comments",
        "sends comments between the events of a stream",
        "B013",
        &[Act::Events(|all, _| all.into_iter().flat_map(|event| [": keep-alive\n\n".to_owned(), event]).collect())],
    ),
    row("stream-in-bytes", "sends a stream in pieces of a few bytes", "B010", &[Act::Events(in_bytes)]),
    row(
        "stream-with-a-bom",
        "begins a stream with a byte order mark",
        "the event-stream grammar allows one",
        &[Act::Events(|mut all, _| {
            if let Some(first) = all.first_mut() {
                first.insert(0, '\u{feff}');
            }
            all
        })],
    ),
    openai(
        "stream-without-done",
        "ends a stream without [DONE]",
        "B022",
        &[Act::Events(|all, _| all.into_iter().filter(|event| !event.contains("[DONE]")).collect())],
    ),
    openai(
        "stream-repeats-finish",
        "says the finish reason in the last two chunks",
        "B024",
        &[Act::Events(repeats_finish)],
    ),
    openai(
        "stream-without-tool-index",
        "leaves the index out of the deltas of a single call",
        "B002",
        &[Act::Events(|all, _| events(all, no_index))],
    ),
    row(
        "more-members",
        "adds members that the protocol does not name",
        "every provider adds some",
        &[Act::Answer(|answer, _| answer["x_provider"] = json!({"region": "eu-north-1", "queue_ms": 3}))],
    ),
    row(
        "white-space-around",
        "puts line breaks around an answer's JSON",
        "keep-alive bytes of slow answers",
        &[Act::Bytes(|raw| {
            raw.body.splice(..0, *b"\n\n  ");
            raw.body.extend(b"\r\n");
        })],
    ),
    row(
        "other-content-type",
        "labels JSON as plain text",
        "compatible servers",
        &[Act::Bytes(|raw| {
            raw.kind = "text/plain; charset=utf-8";
        })],
    ),
    openai(
        "tool-call-says-stop",
        "calls tools and says stop",
        "B023",
        &[Act::Answer(|answer, wire| {
            if !super::rewrite::calls(answer).is_empty() {
                finish(answer, wire, "stop", "tool_use");
            }
        })],
    ),
    openai(
        "no-optional-members",
        "leaves out every member that the protocol lets it",
        "small compatible servers",
        &[Act::Answer(bare)],
    ),
    row("sampling-noise", "words, lays out and cuts its answers otherwise each time", "any sampler", &[Act::Noisy]),
];

/// The same bytes, cut after every seventh character.
fn in_bytes(all: Vec<String>, _: Wire) -> Vec<String> {
    let all: Vec<char> = all.concat().chars().collect();
    all.chunks(7).map(|piece| piece.iter().collect()).collect()
}

fn repeats_finish(all: Vec<String>, _: Wire) -> Vec<String> {
    let last = |event: &String| event.contains("\"finish_reason\":\"");
    all.into_iter().flat_map(|event| vec![event.clone(); if last(&event) { 2 } else { 1 }]).collect()
}

fn no_index(event: &mut Value) {
    let calls = event.pointer_mut("/choices/0/delta/tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten().filter(|call| call["index"] == 0) {
        super::rewrite::without(call, &["index"]);
    }
}

fn bare(answer: &mut Value, _: Wire) {
    super::rewrite::without(answer, &["service_tier", "system_fingerprint", "created"]);
    for message in super::rewrite::messages(answer) {
        super::rewrite::without(message, &["refusal", "annotations"]);
    }
    for choice in answer["choices"].as_array_mut().into_iter().flatten() {
        super::rewrite::without(choice, &["logprobs"]);
    }
}
