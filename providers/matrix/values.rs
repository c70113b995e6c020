//! The way back: every value of a provider's sound answer is found again in what the client gets, whole or streamed.
//!
//! What is not a value but the protocol's own furniture (its names for kinds of blocks, a role that is always the same)
//! is listed here, each with the provider that has it.

use serde_json::Value;

use crate::fixtures::{PROVIDERS, all};

/// The ends of the paths whose values are none of the answer's.
const FURNITURE: &[(&str, &str)] = &[
    // Kinds of blocks, which the client's shape says as well.
    ("anthropic", ".content.type"),
    ("cohere", ".content.type"),
    ("gemini", ".thought"),
    ("openai-responses", ".object"),
    ("openai-responses", ".type"),
    // `stop` beside calls is `tool_calls` (field decision D5).
    ("openai", ".finish_reason"),
    ("azure-openai", ".finish_reason"),
    // Times and ends that the client's shape holds in its own way.
    ("bedrock", ".metrics.latencyMs"),
    ("ollama", ".created_at"),
    ("ollama", ".done"),
    ("openai-responses", ".status"),
    // Ids of pieces, by which nothing can be asked for; those of reasoning that goes back are kept in it.
    ("openai-responses", ".output.id"),
    // The request, said again.
    ("openai-responses", ".background"),
    ("openai-responses", ".parallel_tool_calls"),
    ("openai-responses", ".store"),
    ("openai-responses", ".temperature"),
    ("openai-responses", ".tool_choice"),
    ("openai-responses", ".top_p"),
    ("openai-responses", ".truncation"),
];

fn leaves(value: &Value, path: &str, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| leaves(value, &format!("{path}.{name}"), out))
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, path, out)),
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => out.push((path.to_owned(), text.clone())),
        other => out.push((path.to_owned(), other.to_string())),
    }
}

/// Every text of the client's answer, arguments of calls read as the JSON that they are.
fn said(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            out.push_str(name);
            out.push('\n');
            said(value, out);
        }),
        Value::Array(items) => items.iter().for_each(|item| said(item, out)),
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
            if let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
                said(&inner, out);
            }
        }
        other => {
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

#[test]
fn nothing_that_a_provider_answers_is_lost_on_the_way_to_the_client() {
    let (mut kept, mut lost) = (0, Vec::new());
    for (provider, _) in PROVIDERS {
        for fixture in all(provider) {
            let (response, reply) = (&fixture["response"]["body"], &fixture["reply"]);
            if !response.is_object() || !reply.is_object() {
                continue;
            }
            let mut text = String::new();
            said(reply, &mut text);
            let mut values = Vec::new();
            leaves(response, "", &mut values);
            for (path, value) in values {
                let furniture = FURNITURE.iter().any(|(of, end)| of == provider && path.ends_with(end));
                if text.contains(&value) {
                    kept += 1;
                } else if !furniture {
                    lost.push(format!("{provider}: {path} = {value}"));
                }
            }
        }
    }
    lost.sort();
    lost.dedup();
    println!("{kept} values kept");
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert!(kept > 500, "the fixtures hold {kept} values");
}
