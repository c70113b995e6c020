//! A stored stream as the events of a message: `message_start`, then each content block from its start to its stop, one
//! after the other, then `message_delta` with the stop reason and the usage, and `message_stop`.
//!
//! Chunks of chat completions are told as they come. Events of an Anthropic provider go on as they are. The stop reason
//! waits for the end: it comes with the usage, and only once the answer is committed.

use bytes::{Bytes, BytesMut};

use super::reply;
use crate::dialects::carried::{Carried, OF_MESSAGES};
use crate::dialects::cited;
use crate::dialects::said::{self, Kind};
use crate::dialects::{EventWriter, Rendering, frames};
use crate::json::{Json, Object};
use crate::numbered::unnumbered;

#[derive(Debug)]
pub(crate) struct Writer {
    rendering: Rendering,
    begun: bool,
    /// Blocks so far; the last may be open.
    blocks: u64,
    open: Option<Open>,
    /// The block of each tool call, by its number in the chunks.
    calls: Vec<(u64, u64)>,
    carried: Carried,
    service_tier: Option<Json>,
    /// What the last choice said of the end.
    ending: Option<Object>,
    /// The provider's own events were passed on: they bring their own end.
    native: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Words(Kind),
    Call,
}

impl Writer {
    pub fn new(rendering: &Rendering) -> Self {
        let rendering = rendering.clone();
        Writer {
            rendering,
            begun: false,
            blocks: 0,
            open: None,
            calls: Vec::new(),
            carried: Carried::default(),
            service_tier: None,
            ending: None,
            native: false,
        }
    }

    fn begin(&mut self, chunk: &Json, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.begun, true) {
            let mut message = reply::opening(&self.rendering, chunk.get("model"));
            // Not known before the end, and the protocol wants a number: `message_delta` brings the true ones.
            let mut usage: Object = ["input_tokens", "output_tokens"].map(|name| (name, 0)).into_iter().collect();
            if let Some(tier) = reply::tier(self.service_tier.as_ref()) {
                usage.insert("service_tier", tier);
            }
            message.insert("usage", usage);
            event(out, "message_start", [("message", message.into())]);
        }
    }

    fn delta(&mut self, delta: &Object, out: &mut BytesMut) {
        self.carried.take(delta);
        for (name, value) in delta.iter() {
            match (name, value) {
                ("tool_calls", Json::Array(fragments)) => {
                    fragments.iter().for_each(|fragment| self.call(fragment, out));
                }
                ("thinking_blocks", Json::Array(blocks)) => {
                    blocks.iter().for_each(|block| self.signed(&unnumbered(block), out));
                }
                (name, value) if cited::MEMBERS.contains(&name) => self.cite(cited::citations(name, value), out),
                // The same words under an older name.
                ("reasoning", _) if delta.get_some("reasoning_content").is_some() => {}
                _ => said::words(name, value).into_iter().for_each(|(kind, text)| self.say(kind, text, out)),
            }
        }
    }

    fn say(&mut self, kind: Kind, text: &str, out: &mut BytesMut) {
        let (name, empty) = match kind {
            Kind::Reasoning => ("thinking", reply::thinking("")),
            Kind::Text | Kind::Refusal => ("text", reply::text_block("")),
        };
        if self.open != Some(Open::Words(kind)) {
            self.start(Open::Words(kind), empty, out);
        }
        add(self.blocks - 1, &format!("{name}_delta"), name, text, out);
    }

    /// Sources belong to the text that is being said; where there is none, to one without a word.
    fn cite(&mut self, citations: Vec<Json>, out: &mut BytesMut) {
        if citations.is_empty() {
            return;
        }
        if !matches!(self.open, Some(Open::Words(Kind::Text))) {
            self.start(Open::Words(Kind::Text), reply::text_block(""), out);
        }
        for citation in citations {
            let delta: Object = [("type", Json::from("citations_delta")), ("citation", citation)].into_iter().collect();
            event(out, "content_block_delta", [("index", (self.blocks - 1).into()), ("delta", delta.into())]);
        }
    }

    fn start(&mut self, kind: Open, block: Object, out: &mut BytesMut) {
        self.close(out);
        event(out, "content_block_start", [("index", self.blocks.into()), ("content_block", block.into())]);
        self.blocks += 1;
        self.open = Some(kind);
    }

    fn close(&mut self, out: &mut BytesMut) {
        if self.open.take().is_some() {
            event(out, "content_block_stop", [("index", Json::from(self.blocks - 1))]);
        }
    }

    /// A call begins with its id and name; its arguments follow, whatever else has begun meanwhile.
    fn call(&mut self, fragment: &Json, out: &mut BytesMut) {
        let number = fragment.get("index").and_then(Json::as_u64).unwrap_or_default();
        let function = fragment.get("function");
        let of_function = |name: &str| function.and_then(|function| function.get(name));
        let known = self.calls.iter().find(|(known, _)| *known == number).map(|(_, block)| *block);
        let block = known.unwrap_or_else(|| {
            self.start(Open::Call, reply::tool_use(fragment.get("id"), of_function("name")), out);
            self.calls.push((number, self.blocks - 1));
            self.blocks - 1
        });
        let arguments = of_function("arguments").and_then(Json::as_str).unwrap_or_default();
        if !arguments.is_empty() {
            add(block, "input_json_delta", "partial_json", arguments, out);
        }
    }

    /// Thinking whose signature has come. Its text was told before; where it was not, the block is told whole.
    fn signed(&mut self, block: &Json, out: &mut BytesMut) {
        let signature = block.get("signature").and_then(Json::as_str);
        match (self.open, signature) {
            (Some(Open::Words(Kind::Reasoning)), Some(signature)) => {
                add(self.blocks - 1, "signature_delta", "signature", signature, out);
                self.close(out);
            }
            _ => {
                self.close(out);
                self.blocks += 1;
                whole_block(self.blocks - 1, block, out);
            }
        }
    }
}

impl EventWriter for Writer {
    fn chunk(&mut self, stored: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(stored.len() + 64);
        let Ok(chunk) = Json::parse(stored) else { return Bytes::new() };
        let Some(choices) = chunk.get("choices").and_then(Json::as_array) else {
            self.native = true;
            let name = chunk.get("type").and_then(Json::as_str).unwrap_or("message");
            frames::named(&mut out, name, stored);
            return out.freeze();
        };
        // One answer per request: this dialect cannot ask for more. Azure's first chunk has none yet, and no model.
        if let Some(tier) = chunk.get_some("service_tier") {
            self.service_tier = Some(tier.clone());
        }
        if let Some(choice) = choices.first() {
            self.begin(&chunk, &mut out);
            if let Some(delta) = choice.get("delta").and_then(Json::as_object) {
                self.delta(delta, &mut out);
            }
            for (name, value) in choice.as_object().into_iter().flat_map(Object::iter) {
                if cited::MEMBERS.contains(&name) {
                    self.cite(cited::citations(name, value), &mut out);
                }
            }
            if choice.get_some("finish_reason").is_some() {
                self.ending = Some(reply::ending(choice));
            }
        }
        out.freeze()
    }

    fn end(&mut self, usage: Option<&[u8]>) -> Bytes {
        let mut out = BytesMut::new();
        if self.native {
            return out.freeze();
        }
        self.close(&mut out);
        for data in self.carried.sealed(OF_MESSAGES) {
            self.blocks += 1;
            whole_block(self.blocks - 1, &reply::redacted(&data).into(), &mut out);
        }
        let usage = usage.and_then(|usage| Json::parse(usage).ok());
        let usage = usage.as_ref().and_then(|chunk| chunk.get_some("usage"));
        let usage = reply::usage(usage, self.service_tier.as_ref());
        let ending = self.ending.take().unwrap_or_default();
        close_message(ending.into(), usage.into(), &mut out);
        out.freeze()
    }

    fn error(&mut self, error: &str) -> Bytes {
        let mut out = BytesMut::with_capacity(error.len() + 32);
        frames::named(&mut out, "error", error.as_bytes());
        out.freeze()
    }
}

/// A whole stored answer as the events of its message.
pub(crate) fn of_whole(rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
    let json = Json::parse(stored).ok()?;
    let message = match reply::is_message(&json) {
        true => json.into_object()?,
        false => reply::of_completion(rendering, &json)?,
    };
    let mut out = BytesMut::with_capacity(stored.len() * 2);
    let mut opening = message.clone();
    let content = opening.insert("content", Json::Array(Vec::new()))?;
    let mut ending = Object::new();
    for name in ["stop_reason", "stop_sequence", "stop_details"] {
        if let Some(value) = message.get(name) {
            ending.insert(name, value.clone());
            opening.insert(name, Json::Null);
        }
    }
    event(&mut out, "message_start", [("message", opening.into())]);
    for (index, block) in content.as_array()?.iter().enumerate() {
        whole_block(index as u64, block, &mut out);
    }
    close_message(ending.into(), message.get("usage").cloned().unwrap_or(Json::Null), &mut out);
    Some(out.freeze())
}

fn close_message(ending: Json, usage: Json, out: &mut BytesMut) {
    event(out, "message_delta", [("delta", ending), ("usage", usage)]);
    event(out, "message_stop", []);
}

/// A block that is there already, from its start to its stop. Text, thinking and inputs come as deltas, as clients
/// expect them; what else a block holds comes with its start.
fn whole_block(index: u64, block: &Json, out: &mut BytesMut) {
    let mut opened = block.as_object().cloned().unwrap_or_default();
    let mut deltas: Vec<(&str, &str, String)> = Vec::new();
    for (name, delta) in [("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")] {
        if let Some(Json::String(text)) = opened.get_mut(name) {
            deltas.push((delta, name, std::mem::take(text)));
        }
    }
    if let Some(input) = opened.get_mut("input") {
        let input = std::mem::replace(input, Json::Object(Object::new()));
        let text = String::from_utf8_lossy(&input.to_bytes()).into_owned();
        deltas.push(("input_json_delta", "partial_json", text));
    }
    event(out, "content_block_start", [("index", index.into()), ("content_block", opened.into())]);
    for (delta, name, text) in deltas.iter().filter(|(_, _, text)| !text.is_empty()) {
        add(index, delta, name, text, out);
    }
    event(out, "content_block_stop", [("index", Json::from(index))]);
}

fn add(index: u64, delta: &str, name: &str, text: &str, out: &mut BytesMut) {
    let delta = Object::from_iter([("type", delta), (name, text)]);
    event(out, "content_block_delta", [("index", index.into()), ("delta", delta.into())]);
}

fn event<const N: usize>(out: &mut BytesMut, kind: &str, members: [(&str, Json); N]) {
    let mut written: Object = [("type", kind)].into_iter().collect();
    for (name, value) in members {
        written.insert(name, value);
    }
    frames::typed(out, &Json::Object(written));
}
