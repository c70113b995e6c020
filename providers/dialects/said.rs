//! What a chat completion's message, or a delta of one, says in words: text, reasoning, refusal. Content is a text, or,
//! as Mistral answers, a list of parts in which thinking stands too.

use crate::json::{Json, Object};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    Text,
    Refusal,
}

/// The words of a member, in their order; empty ones are left out.
pub(super) fn words<'a>(name: &str, value: &'a Json) -> Vec<(Kind, &'a str)> {
    let mut words = Vec::new();
    match (name, value) {
        ("content", Json::String(text)) => words.push((Kind::Text, text.as_str())),
        ("content", Json::Array(parts)) => parts.iter().for_each(|part| of_part(part, &mut words)),
        ("reasoning_content" | "reasoning", Json::String(text)) => words.push((Kind::Reasoning, text)),
        ("refusal", Json::String(text)) => words.push((Kind::Refusal, text)),
        _ => {}
    }
    words.retain(|(_, text)| !text.is_empty());
    words
}

fn of_part<'a>(part: &'a Json, words: &mut Vec<(Kind, &'a str)>) {
    let text = |name: &str| part.get(name).and_then(Json::as_str);
    match text("type") {
        Some("text") => words.extend(text("text").map(|text| (Kind::Text, text))),
        Some("refusal") => words.extend(text("refusal").map(|text| (Kind::Refusal, text))),
        Some("thinking") => match part.get("thinking") {
            Some(Json::String(text)) => words.push((Kind::Reasoning, text)),
            Some(Json::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                words.extend(texts.map(|text| (Kind::Reasoning, text)));
            }
            _ => {}
        },
        _ => {}
    }
}

/// The words of a whole message: reasoning first, then text and refusals; what is of one kind in a row is one.
pub(super) fn of_message(message: &Object) -> Vec<(Kind, String)> {
    let mut said: Vec<(Kind, String)> = Vec::new();
    // A provider that sends both names means the same by them.
    let reasoning = if message.get_some("reasoning_content").is_some() { "reasoning_content" } else { "reasoning" };
    for name in [reasoning, "content", "refusal"] {
        for (kind, text) in message.get(name).map_or_else(Vec::new, |value| words(name, value)) {
            match said.last_mut() {
                Some((last, whole)) if *last == kind => whole.push_str(text),
                _ => said.push((kind, text.to_owned())),
            }
        }
    }
    said
}
