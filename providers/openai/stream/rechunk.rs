//! A stored whole answer as the chunks of a stream: always the same ones, so that a replay can be resumed anywhere.
//!
//! The choices come one after the other. Each begins with its role and what is empty or null; then reasoning, then the
//! other members in their order, long texts in pieces, and of each tool call first its name and then its arguments; its
//! logprobs come with its first text; the rest of the choice comes with its finish reason. Members at the top that
//! OpenAI repeats are repeated, others come with the first chunk. Nothing of the answer is left out: the decoder makes
//! the same answer of them.

use bytes::Bytes;

use super::{has_content, with_choices};
use crate::adapter::StreamPiece;
use crate::json::{Json, Object};

/// A piece of text has at most this many bytes: well below the event size that readers allow.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// Members at the top that every chunk has.
const REPEATED: [&str; 5] = ["id", "created", "model", "system_fingerprint", "service_tier"];

/// A whole `chat.completion` as the payloads of a stream, with its usage chunk where it is wanted and known. `None`
/// where the bytes are no finished answer.
pub fn rechunk(answer: &[u8], include_usage: bool) -> Option<Vec<Bytes>> {
    let pieces = rechunk_pieces(answer)?.into_iter();
    let payloads = pieces.filter_map(|piece| match piece {
        StreamPiece::Chunk { data, .. } => Some(data),
        StreamPiece::Usage { data } => include_usage.then_some(data),
    });
    Some(payloads.collect())
}

/// The same as a decoder gives them out.
pub(crate) fn rechunk_pieces(answer: &[u8]) -> Option<Vec<StreamPiece>> {
    let answer = Json::parse(answer).ok()?.into_object()?;
    let mut chunks = Chunks::new(&answer);
    for (i, choice) in answer.get("choices")?.as_array()?.iter().enumerate() {
        chunks.choice(i, choice.as_object()?)?;
    }
    if chunks.out.is_empty() {
        return None;
    }
    if let Some(usage) = answer.get_some("usage") {
        chunks.members.insert("usage", usage.clone());
        chunks.out.push(StreamPiece::Usage { data: with_choices(&chunks.members, Vec::new()) });
    }
    Some(chunks.out)
}

struct Chunks {
    members: Object,
    /// What only the first chunk has.
    once: Vec<(String, Json)>,
    out: Vec<StreamPiece>,
}

impl Chunks {
    fn new(answer: &Object) -> Self {
        let mut members = Object::new();
        members.insert("id", answer.get("id").cloned().unwrap_or(Json::Null));
        members.insert("object", "chat.completion.chunk");
        for name in REPEATED {
            if let Some(value) = answer.get(name) {
                members.insert(name, value.clone());
            }
        }
        let known = |name: &str| REPEATED.contains(&name) || matches!(name, "object" | "choices" | "usage");
        let once = answer.iter().filter(|(name, _)| !known(name));
        let once = once.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        Chunks { members, once, out: Vec::new() }
    }

    fn choice(&mut self, i: usize, choice: &Object) -> Option<()> {
        let index = choice.get("index").and_then(Json::as_u64).unwrap_or(i as u64);
        let finish = choice.get("finish_reason")?.as_str()?;
        let message = choice.get("message")?.as_object()?;
        let mut logprobs = choice.get_some("logprobs").cloned();
        self.push(index, opening(message), None);
        for (name, value) in in_order(message) {
            match value {
                Json::String(text) => {
                    for piece in pieces(text) {
                        let logprobs = logprobs.take_if(|_| matches!(name, "content" | "refusal"));
                        self.push(index, object(name, Json::from(piece)), logprobs);
                    }
                }
                Json::Array(calls) if name == "tool_calls" => {
                    for (at, call) in calls.iter().enumerate() {
                        self.call(index, at, call.as_object()?);
                    }
                }
                Json::Array(items) if items.is_empty() => {}
                value => self.push(index, object(name, value.clone()), None),
            }
        }
        let mut last = Object::new();
        last.insert("index", index);
        last.insert("delta", Object::new());
        let rest = choice.iter().filter(|(name, _)| !matches!(*name, "index" | "message" | "logprobs"));
        for (name, value) in rest {
            last.insert(name, value.clone());
        }
        if choice.contains_key("logprobs") {
            last.insert("logprobs", logprobs.unwrap_or(Json::Null));
        }
        last.insert("finish_reason", finish);
        self.push_choice(last);
        Some(())
    }

    /// Id, type, name and everything else first, with empty arguments; then the arguments.
    fn call(&mut self, index: u64, at: usize, call: &Object) {
        let mut opened = Object::new();
        opened.insert("index", at as u64);
        for (name, value) in call.iter().filter(|(name, _)| *name != "index") {
            opened.insert(name, value.clone());
        }
        let mut arguments = None;
        if let Some(Json::Object(function)) = opened.get_mut("function") {
            arguments = function.get("arguments").and_then(Json::as_str).map(str::to_owned);
            if arguments.is_some() {
                function.insert("arguments", "");
            }
        }
        self.push_fragment(index, opened);
        for piece in pieces(arguments.as_deref().unwrap_or_default()) {
            let mut fragment = Object::new();
            fragment.insert("index", at as u64);
            fragment.insert("function", object("arguments", Json::from(piece)));
            self.push_fragment(index, fragment);
        }
    }

    fn push_fragment(&mut self, index: u64, fragment: Object) {
        self.push(index, object("tool_calls", Json::Array(vec![Json::Object(fragment)])), None);
    }

    fn push(&mut self, index: u64, delta: Object, logprobs: Option<Json>) {
        let mut choice = Object::new();
        choice.insert("index", index);
        choice.insert("delta", delta);
        if let Some(logprobs) = logprobs {
            choice.insert("logprobs", logprobs);
        }
        choice.insert("finish_reason", Json::Null);
        self.push_choice(choice);
    }

    fn push_choice(&mut self, choice: Object) {
        let content = has_content(&choice);
        let data = if self.once.is_empty() {
            with_choices(&self.members, vec![choice])
        } else {
            let mut members = self.members.clone();
            for (name, value) in std::mem::take(&mut self.once) {
                members.insert(name, value);
            }
            with_choices(&members, vec![choice])
        };
        self.out.push(StreamPiece::Chunk { data, content });
    }
}

/// The first delta of a choice: its role, and what is empty or null. Content is opened with an empty text.
fn opening(message: &Object) -> Object {
    let mut delta = Object::new();
    delta.insert("role", message.get_some("role").cloned().unwrap_or_else(|| Json::from("assistant")));
    for (name, value) in message.iter().filter(|(name, _)| *name != "role") {
        match value {
            Json::String(text) if name == "content" || text.is_empty() => drop(delta.insert(name, "")),
            Json::Null => drop(delta.insert(name, Json::Null)),
            Json::Array(items) if items.is_empty() => drop(delta.insert(name, value.clone())),
            _ => {}
        }
    }
    delta
}

/// Reasoning comes before what it led to.
fn in_order(message: &Object) -> impl Iterator<Item = (&str, &Json)> {
    let is_reasoning = |name: &str| name.starts_with("reasoning");
    let first = message.iter().filter(move |(name, _)| is_reasoning(name));
    let members = first.chain(message.iter().filter(move |(name, _)| !is_reasoning(name)));
    members.filter(|(name, value)| *name != "role" && !value.is_null())
}

/// The text in pieces of a size that every reader takes, cut between characters; none of an empty text.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES.min(text.len()));
        let (piece, rest) = text.split_at(end);
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn object(name: &str, value: Json) -> Object {
    [(name, value)].into_iter().collect()
}
