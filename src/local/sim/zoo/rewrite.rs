//! Ways to take hold of a request, an answer or a stream, for the rows to change something in it.

use serde_json::{Map, Value};

use crate::local::sim::Wire;
use crate::local::sim::model::{Ask, Format, Reply};

/// Every object that was written to a schema: a structured text, or the arguments of each call.
pub(super) fn objects(reply: &mut Reply, ask: &Ask, change: impl Fn(&mut Map<String, Value>, &Value)) {
    let texts = outputs(reply, ask);
    for (text, schema) in texts {
        if let Ok(Value::Object(mut object)) = serde_json::from_str(text) {
            change(&mut object, &schema);
            *text = Value::Object(object).to_string();
        }
    }
}

/// Every text that was written to a schema, changed as text.
pub(super) fn written(reply: &mut Reply, ask: &Ask, change: impl Fn(&str) -> String) {
    for (text, _) in outputs(reply, ask) {
        *text = change(text);
    }
}

/// Structured texts, each with the schema that it was written to.
fn outputs<'a>(reply: &'a mut Reply, ask: &Ask) -> Vec<(&'a mut String, Value)> {
    let schema = match &ask.format {
        Format::Schema(schema) => schema.clone(),
        Format::Text | Format::AnyObject => Value::Null,
    };
    let tool = |name: &str| ask.tools.iter().find(|tool| tool.name == name).map(|tool| tool.schema.clone());
    let calls = reply.calls.iter_mut().map(|call| {
        let schema = tool(&call.name).unwrap_or(Value::Null);
        (&mut call.arguments, schema)
    });
    let mut all: Vec<_> = calls.collect();
    if reply.structured {
        all.push((&mut reply.text, schema));
    }
    all
}

/// The names of the members that a schema gives an `enum`, with its values.
pub(super) fn enums(schema: &Value) -> Vec<(&str, Vec<&str>)> {
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let values = |part: &'_ Value| part.get("enum").and_then(Value::as_array).cloned();
    members
        .filter(|(_, part)| values(part).is_some())
        .map(|(name, part)| {
            let values = part["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            (name.as_str(), values)
        })
        .collect()
}

/// Every value inside, itself last.
pub(super) fn each(value: &mut Value, change: &impl Fn(&mut Value)) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| each(member, change)),
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        _ => {}
    }
    change(value);
}

/// The texts of a request's system prompt and messages, in order.
pub(super) fn texts(body: &mut Value) -> Vec<&mut String> {
    let mut all = Vec::new();
    let Some(body) = body.as_object_mut() else { return all };
    let mut messages = None;
    for (name, value) in body.iter_mut() {
        match name.as_str() {
            "system" => content(value, &mut all),
            "messages" | "contents" => messages = value.as_array_mut(),
            "systemInstruction" => parts(value, &mut all),
            _ => {}
        }
    }
    for message in messages.into_iter().flatten() {
        match message {
            Value::Object(turn) if turn.contains_key("parts") => parts(message, &mut all),
            _ => {
                if let Some(value) = message.get_mut("content") {
                    content(value, &mut all);
                }
            }
        }
    }
    all
}

/// Gemini's turns hold parts where the others have content.
fn parts<'a>(turn: &'a mut Value, all: &mut Vec<&'a mut String>) {
    if let Some(value) = turn.get_mut("parts") {
        content(value, all);
    }
}

fn content<'a>(value: &'a mut Value, all: &mut Vec<&'a mut String>) {
    match value {
        Value::String(text) => all.push(text),
        Value::Array(parts) => {
            for part in parts {
                if let Some(Value::String(text)) = part.get_mut("text") {
                    all.push(text);
                }
            }
        }
        _ => {}
    }
}

/// Takes members out of a request.
pub(super) fn without(body: &mut Value, names: &[&str]) {
    if let Some(body) = body.as_object_mut() {
        for name in names {
            body.remove(*name);
        }
    }
}

/// Takes a keyword out of every schema that the model is given.
pub(super) fn without_keywords(ask: &mut Ask, keywords: &[&str]) {
    let strip = |value: &mut Value| without(value, keywords);
    if let Format::Schema(schema) = &mut ask.format {
        each(schema, &strip);
    }
    for tool in &mut ask.tools {
        each(&mut tool.schema, &strip);
    }
}

/// The message of each OpenAI choice.
pub(super) fn messages(answer: &mut Value) -> impl Iterator<Item = &mut Value> {
    let choices = answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten();
    choices.filter_map(|choice| choice.get_mut("message"))
}

/// The tool calls of an answer: OpenAI's, or Anthropic's blocks.
pub(super) fn calls(answer: &mut Value) -> Vec<&mut Value> {
    if answer.get("choices").is_some() {
        let calls = messages(answer).filter_map(|message| message.get_mut("tool_calls")?.as_array_mut());
        return calls.flatten().collect();
    }
    let blocks = answer.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    blocks.filter(|block| block["type"] == "tool_use").collect()
}

/// Sets the word for why the answer ended.
pub(super) fn finish(answer: &mut Value, wire: Wire, openai: &str, anthropic: &str) {
    match wire {
        Wire::OpenAiChat => {
            for choice in answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
                choice["finish_reason"] = Value::from(openai);
            }
        }
        Wire::AnthropicMessages => answer["stop_reason"] = Value::from(anthropic),
        Wire::Gemini => {
            let word = match openai {
                "length" => "MAX_TOKENS",
                "content_filter" => "SAFETY",
                _ => "STOP",
            };
            for candidate in candidates(answer) {
                candidate["finishReason"] = Value::from(word);
            }
        }
    }
}

/// Gemini's candidates.
pub(super) fn candidates(answer: &mut Value) -> impl Iterator<Item = &mut Value> {
    answer.get_mut("candidates").and_then(Value::as_array_mut).into_iter().flatten()
}

/// Changes the data of each event that holds JSON; an event that is emptied to `null` is left out.
pub(super) fn events(events: Vec<String>, change: impl Fn(&mut Value)) -> Vec<String> {
    let mut out = Vec::new();
    for event in events {
        let Some((head, data)) = event.split_once("data: ") else {
            out.push(event);
            continue;
        };
        let Ok(mut value) = serde_json::from_str::<Value>(data.trim_end()) else {
            out.push(event);
            continue;
        };
        change(&mut value);
        if !value.is_null() {
            out.push(format!("{head}data: {value}\n\n"));
        }
    }
    out
}

/// The piece of text inside an event, of any protocol.
pub(super) fn piece(event: &mut Value) -> Option<&mut String> {
    let place = match event {
        Value::Object(event) if event.contains_key("choices") => "/choices/0/delta/content",
        Value::Object(event) if event.contains_key("candidates") => "/candidates/0/content/parts/0/text",
        _ => "/delta/text",
    };
    match event.pointer_mut(place) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}
