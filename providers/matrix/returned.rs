//! There and back: each format's answer, as a client of each dialect has it, sent back in that client's next request. Its
//! signature must come to the vendor that wrote it, and to no other.

use super::answers::client;
use super::{formats, samples, send};
use crate::compatible::adapter_named;
use crate::dialects::Dialect;
use crate::json::{Json, Object};
use crate::leftover::object;

const SIGNATURE: &str = "c2lnTk8x";

/// The formats whose models read each other's signatures.
fn vendor(format: &str) -> &str {
    match format {
        "bedrock" => "anthropic",
        "vertex" => "gemini",
        other => other,
    }
}

fn list<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    json.get(name).and_then(Json::as_array).unwrap_or_default()
}

fn of_kind<'a>(items: &'a [Json], kind: &'a str) -> impl Iterator<Item = &'a Json> {
    items.iter().filter(move |item| item.get("type").and_then(Json::as_str) == Some(kind))
}

fn member(json: &Json, name: &str) -> Json {
    json.get(name).cloned().unwrap_or(Json::Null)
}

fn said(role: &str, content: Json) -> Json {
    object([("role", role.into()), ("content", content)])
}

/// The next request's members: what was asked, the answer as it came, and the results of its calls.
fn next(dialect: Dialect, answer: &Json) -> Object {
    let asked = said("user", "hi".into());
    match dialect {
        Dialect::Messages => {
            let content = list(answer, "content");
            let result = |call: &Json| {
                object([("type", "tool_result".into()), ("tool_use_id", member(call, "id")), ("content", "r".into())])
            };
            let results: Vec<Json> = of_kind(content, "tool_use").map(result).collect();
            let turns = vec![asked, said("assistant", content.to_vec().into()), said("user", results.into())];
            [("max_tokens", Json::from(99)), ("messages", turns.into())].into_iter().collect()
        }
        Dialect::Responses => {
            let output = list(answer, "output");
            let result = |call: &Json| {
                let (id, kind) = (member(call, "call_id"), "function_call_output".into());
                object([("type", kind), ("call_id", id), ("output", "r".into())])
            };
            let mut input = vec![asked];
            input.extend_from_slice(output);
            input.extend(of_kind(output, "function_call").map(result));
            [("input", input)].into_iter().collect()
        }
        Dialect::Chat | Dialect::Embeddings => {
            let message = member(&list(answer, "choices")[0], "message");
            let result = |call: &Json| {
                object([("role", "tool".into()), ("tool_call_id", member(call, "id")), ("content", "r".into())])
            };
            let results: Vec<Json> = list(&message, "tool_calls").iter().map(result).collect();
            let mut messages = vec![asked, message];
            messages.extend(results);
            [("messages", messages)].into_iter().collect()
        }
    }
}

#[test]
fn a_signature_comes_back_to_its_vendor_through_every_dialect_and_to_no_other() {
    let (mut back, mut kept_away) = (0, 0);
    for format in formats() {
        for (dialect, streamed) in
            [Dialect::Chat, Dialect::Messages, Dialect::Responses].map(|d| [(d, false), (d, true)]).concat()
        {
            let sample = samples::full(format, streamed);
            if !String::from_utf8_lossy(&sample.body).contains(SIGNATURE) {
                continue;
            }
            let answer = client(dialect, format, &sample, streamed).unwrap();
            let members = Json::from(next(dialect, &answer)).to_bytes();
            // Without its braces.
            let members = std::str::from_utf8(&members[1..members.len() - 1]).unwrap();
            for target in formats() {
                let at = format!("{format} to {target} by {dialect:?}, streamed: {streamed}");
                let sent = send(dialect, adapter_named(target).unwrap().as_ref(), members);
                let sent = sent.unwrap_or_else(|param| panic!("{at}: {param} is refused"));
                let body = String::from_utf8(sent.body.to_vec()).unwrap();
                if vendor(format) == vendor(target) {
                    assert!(body.contains(&format!("\"{SIGNATURE}\"")), "{at}: {body}");
                    back += 1;
                } else {
                    assert!(!body.contains(SIGNATURE), "{at}: {body}");
                    kept_away += 1;
                }
                assert!(!body.contains("interlock:"), "{at}: {body}");
            }
        }
    }
    println!("{back} came back, {kept_away} kept away");
    // Five formats that sign, in three dialects, whole and streamed; to one or two formats of their vendor.
    assert_eq!((back, kept_away), (54, 5 * 6 * formats().len() - 54));
}
