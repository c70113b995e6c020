//! A streamed answer as it grows, choice by choice (field case B030), and at last as one `chat.completion`.
//!
//! How members of many chunks become one: within a delta, text is appended, lists are appended, `audio` and
//! `function_call` are merged by the same rules, and of anything else the last value holds; `role` and names keep their
//! first. In a choice, `logprobs` are appended, and of the rest the last value holds; so it is at the top, where null
//! and empty text never replace a value. Tool calls have rules of their own ([`super::calls`]).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::calls::Calls;
use super::with_choices;
use crate::adapter::StreamPiece;
use crate::json::{Json, Object};
use crate::numbered::{TRANSLATED, unnumbered};

/// More choices than this are no answer to any request.
const MAX_CHOICES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Assembly {
    members: Object,
    usage: Option<Json>,
    choices: BTreeMap<u64, Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    message: Object,
    calls: Calls,
    members: Object,
    /// The provider's own word.
    finish: Option<String>,
    held: Option<Held>,
}

/// The chunk with the finish reason, which waits for the stream's end.
#[derive(Debug)]
struct Held {
    members: Object,
    choice: Object,
    raw: Option<Bytes>,
}

/// What was taken from one choice of a chunk.
pub(super) struct Taken {
    pub index: u64,
    pub finish: Option<String>,
    /// The client must see something else than what came.
    pub changed: bool,
}

impl Assembly {
    /// How many choices there are, where each of them has its finish reason.
    pub fn finished(&self) -> Option<usize> {
        let all = !self.choices.is_empty() && self.choices.values().all(|choice| choice.finish.is_some());
        all.then_some(self.choices.len())
    }

    /// The chunk's own members, without its choices.
    pub fn take_members(&mut self, chunk: &Object) {
        for (name, value) in chunk.iter() {
            let empty = value.is_null() || value.as_str() == Some("");
            match name {
                "object" | "choices" | "obfuscation" => {}
                "usage" if !empty => self.usage = Some(value.clone()),
                "usage" => {}
                "id" | "created" | "model" if self.has_value(name) => {}
                _ if empty && self.members.contains_key(name) => {}
                // The usual case: no copy of what every chunk repeats.
                _ if self.members.get(name) == Some(value) => {}
                _ => drop(self.members.insert(name, value.clone())),
            }
        }
    }

    fn has_value(&self, name: &str) -> bool {
        self.members
            .get_some(name)
            .is_some_and(|value| !matches!(value.as_str(), Some("")) && value.as_u64() != Some(0))
    }

    /// Takes over what the `i`th choice of a chunk adds, and puts right what the client must not see as it came.
    pub fn take(&mut self, i: usize, choice: &mut Object) -> Result<Taken, String> {
        let mut changed = false;
        let index = match choice.get_some("index") {
            None => {
                changed = true;
                choice.insert("index", i as u64);
                i as u64
            }
            Some(index) => index.as_u64().ok_or("the index of a choice is no integer")?,
        };
        if choice.get_some("delta").is_none() && choice.get_some("message").is_some() {
            choice.remove("delta");
            choice.rename("message", "delta");
            changed = true;
        }
        if self.choices.len() >= MAX_CHOICES && !self.choices.contains_key(&index) {
            return Err(format!("more than {MAX_CHOICES} choices"));
        }
        let whole = self.choices.entry(index).or_default();
        match choice.get_mut("delta") {
            None | Some(Json::Null) => {}
            Some(Json::Object(delta)) => changed |= whole.take_delta(delta)?,
            Some(_) => return Err("a delta is no object".to_owned()),
        }
        let finish = match choice.get_some("finish_reason") {
            None => None,
            Some(Json::String(word)) if word.is_empty() => {
                choice.insert("finish_reason", Json::Null);
                changed = true;
                None
            }
            Some(Json::String(word)) => Some(word.clone()),
            Some(_) => return Err("a finish_reason is no text".to_owned()),
        };
        whole.finish = finish.clone().or(whole.finish.take());
        whole.take_members(choice);
        Ok(Taken { index, finish, changed })
    }

    /// Keeps the chunk with a choice's finish reason; the last one holds.
    pub fn hold(&mut self, index: u64, members: Object, choice: Object, raw: Option<Bytes>) {
        if let Some(whole) = self.choices.get_mut(&index) {
            whole.held = Some(Held { members, choice, raw });
        }
    }

    /// What ends a choice for the client: `{}` for calls whose arguments never came, and the finish reason.
    pub fn last_chunks(&mut self, index: u64, word: &str) -> Vec<StreamPiece> {
        let Some(whole) = self.choices.get_mut(&index) else { return Vec::new() };
        let Some(Held { members, mut choice, raw }) = whole.held.take() else { return Vec::new() };
        let mut out = Vec::new();
        if let Some(fragments) = whole.calls.missing_arguments() {
            let delta: Object = [("tool_calls", fragments)].into_iter().collect();
            let mut choice = Object::new();
            choice.insert("index", index);
            choice.insert("delta", delta);
            choice.insert("finish_reason", Json::Null);
            out.push(StreamPiece::Chunk { data: with_choices(&members, vec![choice]), content: true });
        }
        let as_it_came = raw.filter(|_| choice.get("finish_reason").and_then(Json::as_str) == Some(word));
        let data = as_it_came.unwrap_or_else(|| {
            choice.insert("finish_reason", word);
            with_choices(&members, vec![choice])
        });
        out.push(StreamPiece::Chunk { data, content: false });
        out
    }

    /// A chunk of our own for usage that came beside something else.
    pub fn usage_chunk(&self) -> Option<Bytes> {
        let usage = self.usage()?.clone();
        let mut members = Object::new();
        members.insert("id", self.members.get("id").cloned().unwrap_or(Json::Null));
        members.insert("object", "chat.completion.chunk");
        for name in ["created", "model", "system_fingerprint", "service_tier"] {
            if let Some(value) = self.members.get(name) {
                members.insert(name, value.clone());
            }
        }
        members.insert("usage", usage);
        Some(with_choices(&members, Vec::new()))
    }

    /// Groq puts it into a member of its own when it is not asked for otherwise (facts 2.1).
    fn usage(&self) -> Option<&Json> {
        self.usage.as_ref().or_else(|| self.members.get("x_groq")?.get_some("usage"))
    }

    /// The `chat.completion` that the chunks so far make up.
    pub fn render(&self) -> Json {
        let mut answer = Object::new();
        answer.insert("id", self.members.get("id").cloned().unwrap_or(Json::Null));
        answer.insert("object", "chat.completion");
        for name in ["created", "model"] {
            if let Some(value) = self.members.get(name) {
                answer.insert(name, value.clone());
            }
        }
        answer.insert("choices", self.choices.iter().map(|(index, choice)| choice.render(*index)).collect::<Vec<_>>());
        if let Some(usage) = self.usage() {
            answer.insert("usage", usage.clone());
        }
        for (name, value) in self.members.iter() {
            answer.insert(name, value.clone());
        }
        Json::Object(answer)
    }
}

impl Choice {
    /// Whether the delta had to be changed.
    fn take_delta(&mut self, delta: &mut Object) -> Result<bool, String> {
        for (name, value) in delta.iter().filter(|(name, _)| *name != "tool_calls") {
            merge(&mut self.message, name, value);
        }
        match delta.get_mut("tool_calls") {
            None => Ok(false),
            Some(Json::Array(fragments)) if !fragments.is_empty() => self.calls.take(fragments),
            Some(none @ (Json::Null | Json::Array(_))) => {
                append(&mut self.message, "tool_calls", none);
                Ok(false)
            }
            Some(_) => Err("the tool_calls of a delta are no array".to_owned()),
        }
    }

    fn take_members(&mut self, choice: &Object) {
        for (name, value) in choice.iter() {
            match name {
                "index" | "delta" | "message" | "finish_reason" => {}
                "logprobs" => append(&mut self.members, name, value),
                _ if value.is_null() && self.members.contains_key(name) => {}
                _ => drop(self.members.insert(name, value.clone())),
            }
        }
    }

    fn render(&self, index: u64) -> Json {
        let mut message = Object::new();
        message.insert("role", self.message.get_some("role").cloned().unwrap_or_else(|| Json::from("assistant")));
        message.insert("content", self.message.get("content").cloned().unwrap_or(Json::Null));
        for (name, value) in self.message.iter().filter(|(name, _)| !matches!(*name, "role" | "content")) {
            message.insert(name, value.clone());
        }
        if let Some(calls) = self.calls.render() {
            message.insert("tool_calls", calls);
        }
        let mut choice = Object::new();
        choice.insert("index", index);
        choice.insert("message", message);
        for (name, value) in self.members.iter() {
            choice.insert(name, value.clone());
        }
        choice.insert("finish_reason", self.finish.as_deref().map_or(Json::Null, Json::from));
        Json::Object(choice)
    }
}

/// One member of a delta.
fn merge(whole: &mut Object, name: &str, value: &Json) {
    match (name, value) {
        // A short word that servers repeat.
        ("role", Json::String(_)) if whole.get_some(name).is_some() => {}
        (_, Json::Array(items)) if TRANSLATED.contains(&name) => {
            append(whole, name, &Json::Array(items.iter().map(unnumbered).collect()));
        }
        ("audio" | "function_call", _) | (_, Json::Null | Json::String(_) | Json::Array(_)) => {
            append(whole, name, value)
        }
        _ => drop(whole.insert(name, value.clone())),
    }
}

fn append(whole: &mut Object, name: &str, value: &Json) {
    match (whole.get_mut(name), value) {
        (None | Some(Json::Null), _) => drop(whole.insert(name, value.clone())),
        (Some(_), Json::Null) => {}
        (Some(Json::String(text)), Json::String(more)) if !matches!(name, "id" | "name") => text.push_str(more),
        (Some(Json::String(_)), Json::String(_)) => {}
        (Some(Json::Array(items)), Json::Array(more)) => items.extend_from_slice(more),
        // Mistral's thinking models answer in parts first and in text afterwards.
        (Some(Json::Array(items)), Json::String(more)) => append_text(items, more),
        (Some(text @ Json::String(_)), Json::Array(more)) => {
            let mut items = Vec::new();
            append_text(&mut items, text.as_str().unwrap_or_default());
            items.extend_from_slice(more);
            *text = Json::Array(items);
        }
        (Some(Json::Object(members)), Json::Object(more)) => {
            for (name, value) in more.iter() {
                append(members, name, value);
            }
        }
        (Some(old), _) => *old = value.clone(),
    }
}

/// Text behind content parts, as a part.
fn append_text(parts: &mut Vec<Json>, more: &str) {
    if more.is_empty() {
        return;
    }
    if let Some(Json::Object(last)) = parts.last_mut()
        && let Some(Json::String(text)) = last.get_mut("text")
    {
        text.push_str(more);
        return;
    }
    let part: Object = [("type", "text"), ("text", more)].into_iter().collect();
    parts.push(Json::Object(part));
}
