//! What a response was asked with, as the list of items that OpenAI shows of it.

use super::reply::id;
use super::request::input_items;
use crate::json::{Json, Object};

/// The input's items in their order, each with an id: its own, or one that is the same each time.
pub fn listed_items(stem: &str, request: &Object) -> Vec<Object> {
    input_items(request)
        .iter()
        .filter_map(Json::as_object)
        .enumerate()
        .map(|(at, item)| shown(stem, at, item))
        .collect()
}

/// A message may be told without its type, and its content as a text.
fn shown(stem: &str, at: usize, item: &Object) -> Object {
    let kind = item.get_some("type").and_then(Json::as_str).unwrap_or("message").to_owned();
    let mut shown = Object::new();
    let made = format!("{}_in{at:04x}", id(stem).replacen("resp", prefix(&kind), 1));
    shown.insert("id", item.get_some("id").cloned().unwrap_or_else(|| made.into()));
    shown.insert("type", kind.as_str());
    if kind == "message" {
        let role = item.get_some("role").and_then(Json::as_str).unwrap_or("user").to_owned();
        shown.insert("status", "completed");
        shown.insert("role", role.as_str());
        shown.insert("content", item.get("content").map_or(Json::Null, |content| parts(&role, content)));
    }
    let more = item.iter().filter(|(name, _)| *name != "id" && *name != "type");
    for (name, value) in more.filter(|(name, _)| kind != "message" || !matches!(*name, "role" | "content")) {
        shown.insert(name, value.clone());
    }
    shown
}

fn prefix(kind: &str) -> &str {
    match kind {
        "message" => "msg",
        "function_call" => "fc",
        "function_call_output" => "fco",
        "reasoning" => "rs",
        _ => "item",
    }
}

fn parts(role: &str, content: &Json) -> Json {
    let Json::String(text) = content else { return content.clone() };
    let mut part = Object::new();
    part.insert("type", if role == "assistant" { "output_text" } else { "input_text" });
    part.insert("text", text.as_str());
    if role == "assistant" {
        part.insert("annotations", Vec::new());
    }
    Json::Array(vec![Json::Object(part)])
}
