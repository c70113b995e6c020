//! The two renderings of a draft: chunks for a streaming client, and the stored `chat.completion`, members in OpenAI's
//! order.

use bytes::Bytes;

use super::{Counted, Drafted};
use crate::adapter::{Head, StreamPiece};
use crate::canonical::{Choice, Reply};
use crate::json::{Json, Object};

/// What every chunk of an answer repeats.
pub(super) struct Chunks<'a> {
    pub head: &'a Head,
    pub id: Option<&'a str>,
    pub model: Option<&'a str>,
    pub members: &'a Object,
}

impl Chunks<'_> {
    /// The first chunk of a choice.
    pub fn opening(&self, index: u64, out: &mut Vec<StreamPiece>) {
        let mut delta = object("role", "assistant");
        delta.insert("refusal", Json::Null);
        self.push(index, delta, Vec::new(), false, out);
    }

    /// One member of the message, or a piece of it.
    pub fn delta(&self, index: u64, name: &str, value: Json, logprobs: Vec<Json>, out: &mut Vec<StreamPiece>) {
        self.push(index, object(name, value), logprobs, true, out);
    }

    pub fn opened(
        &self,
        index: u64,
        number: usize,
        id: &str,
        name: &str,
        beside: Option<&(&'static str, Json)>,
        out: &mut Vec<StreamPiece>,
    ) {
        let mut function = object("name", name);
        function.insert("arguments", "");
        let mut call = object("index", number as u64);
        call.insert("id", id);
        call.insert("type", "function");
        call.insert("function", function);
        if let Some((name, value)) = beside {
            call.insert(*name, value.clone());
        }
        self.delta(index, "tool_calls", Json::Array(vec![call.into()]), Vec::new(), out);
    }

    pub fn arguments(&self, index: u64, number: usize, more: &str, out: &mut Vec<StreamPiece>) {
        let mut call = object("index", number as u64);
        call.insert("function", object("arguments", more));
        self.delta(index, "tool_calls", Json::Array(vec![call.into()]), Vec::new(), out);
    }

    /// The chunk with the finish reason. A text without a word is told here: no piece has said that there is one.
    pub fn last(&self, drafted: &Drafted, choice: &Choice, out: &mut Vec<StreamPiece>) {
        let empty = drafted.logprobs.is_empty() && choice.text.as_deref() == Some("");
        let mut last = object("index", choice.index);
        last.insert("delta", if empty { object("content", "") } else { Object::new() });
        if drafted.logprobs.is_empty() {
            last.insert("logprobs", Json::Null);
        }
        for (name, value) in drafted.members.iter() {
            last.insert(name, value.clone());
        }
        last.insert("finish_reason", choice.finish.as_openai());
        last.insert("native_finish_reason", choice.native_finish.as_str());
        let data = self.bytes("chat.completion.chunk", vec![last.into()], None);
        out.push(StreamPiece::Chunk { data, content: false });
    }

    pub fn usage(&self, counted: &Counted, out: &mut Vec<StreamPiece>) {
        out.push(StreamPiece::Usage { data: self.bytes("chat.completion.chunk", Vec::new(), Some(usage(counted))) });
    }

    pub fn whole(&self, drafts: &[Drafted], reply: &Reply, counted: Option<&Counted>) -> Bytes {
        let choices = drafts.iter().zip(&reply.choices).map(|(drafted, read)| choice(drafted, read)).collect();
        self.bytes("chat.completion", choices, counted.map(usage))
    }

    fn push(&self, index: u64, delta: Object, logprobs: Vec<Json>, content: bool, out: &mut Vec<StreamPiece>) {
        let mut choice = object("index", index);
        choice.insert("delta", delta);
        if !logprobs.is_empty() {
            choice.insert("logprobs", object("content", logprobs));
        }
        choice.insert("finish_reason", Json::Null);
        let data = self.bytes("chat.completion.chunk", vec![choice.into()], None);
        out.push(StreamPiece::Chunk { data, content });
    }

    fn bytes(&self, kind: &str, choices: Vec<Json>, usage: Option<Json>) -> Bytes {
        let mut body = object("id", text(self.id));
        body.insert("object", kind);
        body.insert("created", created(self.head));
        body.insert("model", text(self.model));
        body.insert("choices", choices);
        if let Some(usage) = usage {
            body.insert("usage", usage);
        }
        for (name, value) in self.members.iter() {
            body.insert(name, value.clone());
        }
        Json::Object(body).to_bytes()
    }
}

fn choice(drafted: &Drafted, choice: &Choice) -> Json {
    let mut message = object("role", "assistant");
    message.insert("content", text(choice.text.as_deref()));
    message.insert("refusal", text(choice.refusal.as_deref()));
    if !choice.tool_calls.is_empty() {
        let calls = choice.tool_calls.iter().zip(&drafted.call_members).map(|(call, beside)| {
            let mut function = object("name", call.name.as_str());
            function.insert("arguments", call.arguments.as_str());
            let mut written = object("id", call.id.as_str());
            written.insert("type", "function");
            written.insert("function", function);
            if let Some((name, value)) = beside {
                written.insert(*name, value.clone());
            }
            Json::Object(written)
        });
        message.insert("tool_calls", calls.collect::<Vec<_>>());
    }
    if !drafted.reasoning.is_empty() {
        message.insert("reasoning_content", drafted.reasoning.as_str());
    }
    for (name, value) in drafted.message.iter() {
        message.insert(name, value.clone());
    }
    let mut written = object("index", choice.index);
    written.insert("message", message);
    let logprobs = &drafted.logprobs;
    written
        .insert("logprobs", if logprobs.is_empty() { Json::Null } else { object("content", logprobs.clone()).into() });
    for (name, value) in drafted.members.iter() {
        written.insert(name, value.clone());
    }
    written.insert("finish_reason", choice.finish.as_openai());
    written.insert("native_finish_reason", choice.native_finish.as_str());
    Json::Object(written)
}

/// Tokens as OpenAI counts them, and the provider's own object beside.
fn usage(counted: &Counted) -> Json {
    let tokens = counted.usage;
    let mut details = object("cached_tokens", tokens.cached_input_tokens);
    if counted.cache_writes > 0 {
        details.insert("cache_write_tokens", counted.cache_writes);
    }
    let mut written = object("prompt_tokens", tokens.input_tokens);
    written.insert("completion_tokens", tokens.output_tokens);
    written.insert("total_tokens", tokens.input_tokens.saturating_add(tokens.output_tokens));
    written.insert("prompt_tokens_details", details);
    if let Some(reasoning) = counted.reasoning {
        written.insert("completion_tokens_details", object("reasoning_tokens", reasoning));
    }
    written.insert("native_usage", counted.native.clone());
    Json::Object(written)
}

fn text(value: Option<&str>) -> Json {
    value.map_or(Json::Null, Json::from)
}

/// Seconds since 1970 by the provider's own `Date`.
fn created(head: &Head) -> u64 {
    let date = head.headers.get(http::header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

fn object(name: &str, value: impl Into<Json>) -> Object {
    let mut object = Object::new();
    object.insert(name, value);
    object
}
