//! One content block as it grows, and what of it the client is told at once.
//!
//! Text, thinking and a tool's arguments go on as they come. What only makes sense whole goes on when the block ends:
//! signed thinking (`thinking_blocks`; the pieces of a signature are joined, field case B034), citations, and blocks
//! that OpenAI has no word for (`other_blocks`).

use super::object;
use crate::anthropic::reply::text_of;
use crate::json::{Json, Object};

#[derive(Debug)]
pub(super) struct Block {
    content: Object,
    /// The text of the input, where it comes in pieces.
    input: String,
    /// The number of the tool call among those of the stream.
    call: Option<u64>,
    closed: bool,
}

impl Block {
    /// A new block, and what the client is told of it. `calls` counts tool calls.
    pub fn open(content: Object, calls: &mut u64) -> (Block, Option<Object>) {
        let mut block = Block { content, input: String::new(), call: None, closed: false };
        let delta = match block.kind() {
            "text" => block.said("text", "content"),
            "thinking" => block.said("thinking", "reasoning_content"),
            "tool_use" => {
                let at = *calls;
                *calls += 1;
                block.call = Some(at);
                Some(block.opened(at))
            }
            _ => None,
        };
        (block, delta)
    }

    /// An event of an unknown kind, as a block that is whole.
    pub fn unknown(content: Object) -> (Block, Object) {
        let block = Block { content, input: String::new(), call: None, closed: true };
        let delta = block.whole("other_blocks");
        (block, delta)
    }

    pub fn content(&self) -> &Object {
        &self.content
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The arguments of a tool call, exactly as the client gets them.
    pub fn arguments(&self) -> Option<&str> {
        self.call.map(|_| self.input.as_str())
    }

    /// Takes a piece in.
    pub fn add(&mut self, delta: &Object) -> Result<Option<Object>, &'static str> {
        let text = |name: &str| delta.get(name).and_then(Json::as_str).ok_or("a content delta without its text");
        let kind = delta.get("type").and_then(Json::as_str).unwrap_or_default();
        match (self.kind(), kind) {
            ("text", "text_delta") => self.grow("text", text("text")?, "content"),
            ("thinking", "thinking_delta") => self.grow("thinking", text("thinking")?, "reasoning_content"),
            (_, "input_json_delta") => {
                let more = text("partial_json")?;
                self.input.push_str(more);
                Ok(self.call.filter(|_| !more.is_empty()).map(|at| fragment(at, more)))
            }
            (_, "signature_delta") => {
                append(&mut self.content, "signature", text("signature")?)?;
                Ok(None)
            }
            (_, "citations_delta") => {
                let citation = delta.get_some("citation").ok_or("a citation delta without its citation")?.clone();
                match self.content.get_mut("citations") {
                    Some(Json::Array(citations)) => citations.push(citation),
                    _ => drop(self.content.insert("citations", vec![citation])),
                }
                Ok(None)
            }
            ("text" | "thinking" | "tool_use", "text_delta" | "thinking_delta") => {
                Err("a delta of another kind of block")
            }
            // A kind of delta that came after this was written: its texts are joined under their own names.
            _ => {
                for (name, value) in delta.iter().filter(|(name, _)| *name != "type") {
                    match value {
                        Json::String(more) => append(&mut self.content, name, more)?,
                        Json::Null => {}
                        _ => drop(self.content.insert(name, value.clone())),
                    }
                }
                Ok(None)
            }
        }
    }

    /// The block is whole: what the client is told of it now. Nothing the second time.
    pub fn close(&mut self) -> Option<Object> {
        if std::mem::replace(&mut self.closed, true) {
            return None;
        }
        match self.kind() {
            "tool_use" => {
                let at = self.call.filter(|_| self.input.is_empty())?;
                // Some servers give the input at once, and none where the tool takes none.
                self.input = self.content.get_some("input").map_or_else(|| "{}".to_owned(), text_of);
                Some(fragment(at, &self.input))
            }
            "thinking" | "redacted_thinking" => Some(self.whole("thinking_blocks")),
            "text" => self.content.get_some("citations").map(|_| self.whole("other_blocks")),
            _ => {
                if !self.input.is_empty() {
                    let input = Json::parse(self.input.as_bytes());
                    self.content.insert("input", input.unwrap_or_else(|_| Json::from(self.input.as_str())));
                }
                Some(self.whole("other_blocks"))
            }
        }
    }

    fn kind(&self) -> &str {
        self.content.get("type").and_then(Json::as_str).unwrap_or_default()
    }

    fn grow(&mut self, name: &str, more: &str, client: &str) -> Result<Option<Object>, &'static str> {
        append(&mut self.content, name, more)?;
        Ok((!more.is_empty()).then(|| object(client, more)))
    }

    /// The text that a block begins with.
    fn said(&self, name: &str, client: &str) -> Option<Object> {
        let text = self.content.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        text.map(|text| object(client, text))
    }

    fn whole(&self, client: &str) -> Object {
        object(client, vec![Json::Object(self.content.clone())])
    }

    fn opened(&self, at: u64) -> Object {
        let member = |name: &str| self.content.get(name).cloned().unwrap_or(Json::Null);
        let mut function = object("name", member("name"));
        function.insert("arguments", "");
        let mut call = object("index", at);
        call.insert("id", member("id"));
        call.insert("type", "function");
        call.insert("function", function);
        object("tool_calls", vec![Json::Object(call)])
    }
}

fn fragment(at: u64, more: &str) -> Object {
    let mut call = object("index", at);
    call.insert("function", object("arguments", more));
    object("tool_calls", vec![Json::Object(call)])
}

fn append(content: &mut Object, name: &str, more: &str) -> Result<(), &'static str> {
    match content.get_mut(name) {
        None | Some(Json::Null) => drop(content.insert(name, more)),
        Some(Json::String(text)) => text.push_str(more),
        Some(_) => return Err("a text delta of something that is no text"),
    }
    Ok(())
}
