//! Tool calls that get lost, mixed up or cannot be answered.

use serde_json::{Value, json};

use super::rewrite::{calls, events, messages};
use super::{Act, BOTH, Expect, Memory, Misbehaviour, OPENAI, ROUND_TRIP};
use crate::local::sim::Wire;
use crate::local::sim::model::{Ask, End, Reply};

const fn row(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, ROUND_TRIP, BOTH, acts)
}

const fn openai(name: &'static str, does: &'static str, source: &'static str, acts: &'static [Act]) -> Misbehaviour {
    Misbehaviour::new(name, does, source, ROUND_TRIP, OPENAI, acts)
}

pub(super) const ROWS: &[Misbehaviour] = &[
    row(
        "only-first-tool-call",
        "returns the first of several calls",
        "B029",
        &[Act::Reply(|reply, _, _| {
            reply.calls.truncate(1);
        })],
    ),
    row("merges-tool-calls", "joins the arguments of several calls into one", "B002", &[Act::Reply(merges)]),
    row(
        "duplicate-tool-ids",
        "gives every call the same id",
        "B004",
        &[
            Act::Answer(|answer, _| calls(answer).into_iter().for_each(|call| call["id"] = json!("call_1"))),
            Act::Events(|all, _| events(all, same_id)),
        ],
    ),
    row(
        "tool-ids-empty",
        "gives calls an empty id",
        "B004",
        &[Act::Answer(|answer, _| {
            calls(answer).into_iter().for_each(|call| call["id"] = json!(""));
        })],
    ),
    openai(
        "empty-arguments-as-text",
        "writes no arguments as an empty string",
        "B008",
        &[Act::Answer(|answer, _| {
            arguments(answer, |text| if text == "{}" { json!("") } else { json!(text) });
        })],
    ),
    // The adapter reads null as no arguments.
    Misbehaviour::new(
        "empty-arguments-as-null",
        "writes no arguments as null",
        "B008",
        Expect::Harmless,
        OPENAI,
        &[Act::Answer(|answer, _| {
            arguments(answer, |text| if text == "{}" { Value::Null } else { json!(text) });
        })],
    ),
    openai(
        "arguments-as-object",
        "writes arguments as an object instead of text",
        "Ollama's own protocol",
        &[Act::Answer(|answer, _| {
            arguments(answer, |text| serde_json::from_str(text).unwrap_or_default());
        })],
    ),
    openai(
        "arguments-encoded-twice",
        "writes arguments as text inside text",
        "templates that quote arguments",
        &[Act::Answer(|answer, _| arguments(answer, |text| json!(Value::String(text.to_owned()).to_string())))],
    ),
    row("tool-ids-rounded", "sends 19-digit ids in arguments through a double", "B060", &[Act::Reply(rounds)]),
    row(
        "tool-call-as-text",
        "writes the call into the text",
        "servers without a tool-call parser",
        &[Act::Reply(as_text)],
    ),
    row(
        "invented-tool",
        "calls a tool that was not offered",
        "small models",
        &[Act::Reply(|reply, _, _| {
            reply.calls.iter_mut().for_each(|call| call.name.push_str("_v2"));
        })],
    ),
    row(
        "tool-arguments-cut",
        "cuts arguments and says tool_calls",
        "B021",
        &[Act::Reply(|reply, _, _| {
            for call in &mut reply.calls {
                call.arguments.truncate(call.arguments.len() / 2);
            }
        })],
    ),
    row(
        "calls-a-tool-unasked",
        "calls a tool where tool_choice forbids it",
        "compatible servers that drop tool_choice",
        &[Act::Reply(unasked)],
    ),
    // The adapter tells calls apart by their ids.
    Misbehaviour::new(
        "stream-tool-indexes-collide",
        "streams every call under index 0",
        "B004",
        Expect::Harmless,
        OPENAI,
        &[Act::Events(|all, wire| tool_deltas(all, wire, |call| call["index"] = json!(0)))],
    ),
    openai(
        "stream-tool-index-per-chunk",
        "streams the pieces of all calls to the last one opened",
        "B003",
        &[Act::Events(|all, wire| {
            tool_deltas(all, wire, |call| {
                if call.get("id").is_none() {
                    call["index"] = json!(0);
                }
            })
        })],
    ),
];

fn merges(reply: &mut Reply, _: &Ask, _: &Memory) {
    let all: String = reply.calls.iter().map(|call| call.arguments.as_str()).collect();
    reply.calls.truncate(1);
    if let Some(call) = reply.calls.first_mut() {
        call.arguments = all;
    }
}

fn same_id(event: &mut Value) {
    if let Some(call) = event.pointer_mut("/choices/0/delta/tool_calls/0").filter(|call| call.get("id").is_some()) {
        call["id"] = json!("call_1");
    }
    if let Some(block) = event.get_mut("content_block").filter(|block| block["type"] == "tool_use") {
        block["id"] = json!("call_1");
    }
}

/// Changes the arguments of OpenAI's calls.
fn arguments(answer: &mut Value, change: impl Fn(&str) -> Value) {
    let calls = messages(answer).filter_map(|message| message.get_mut("tool_calls")?.as_array_mut());
    for call in calls.flatten() {
        if let Some(text) = call.pointer("/function/arguments").and_then(Value::as_str) {
            let changed = change(text);
            call["function"]["arguments"] = changed;
        }
    }
}

fn rounds(reply: &mut Reply, _: &Ask, _: &Memory) {
    for call in &mut reply.calls {
        let Ok(Value::Object(mut object)) = serde_json::from_str(&call.arguments) else { continue };
        for value in object.values_mut() {
            if let Some(number) = value.as_u64() {
                *value = json!(number as f64 as u64);
            }
        }
        call.arguments = Value::Object(object).to_string();
    }
}

fn as_text(reply: &mut Reply, _: &Ask, _: &Memory) {
    if let Some(call) = reply.calls.first() {
        reply.text =
            format!("<tool_call>{{\"name\": \"{}\", \"arguments\": {}}}</tool_call>", call.name, call.arguments);
        reply.calls.clear();
        reply.end = End::Natural;
    }
}

fn unasked(reply: &mut Reply, ask: &Ask, _: &Memory) {
    use crate::local::sim::model::{Called, ToolChoice};
    if let (Some(tool), ToolChoice::Forbidden, true) = (ask.tools.first(), &ask.choice, reply.calls.is_empty()) {
        reply.text.clear();
        reply.calls.push(Called { name: tool.name.clone(), arguments: "{}".to_owned() });
        reply.end = End::Tool;
    }
}

fn tool_deltas(all: Vec<String>, _: Wire, change: impl Fn(&mut Value)) -> Vec<String> {
    events(all, |event| {
        let calls = event.pointer_mut("/choices/0/delta/tool_calls").and_then(Value::as_array_mut);
        calls.into_iter().flatten().for_each(&change);
    })
}
