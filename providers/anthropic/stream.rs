//! Anthropic's event stream, for the client as chunks of a chat completion and into one whole answer.
//!
//! Events are collected into the message that they describe, and that is read as a whole answer is
//! ([`super::reply`]), so that both forms mean the same. `message_stop` is the terminal event; the finish reason goes to
//! the client with it, and not before. Events of unknown types are ignored, as Anthropic asks; but one that brings a piece
//! of the answer is kept among `other_blocks`, as an unknown block of a whole answer is. A broken one is not ignored.
//! A client of this protocol (`native`) gets the events themselves, unknown ones too, read and checked in the same way.

mod block;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::anthropic::reply::render::Beside;
use crate::anthropic::reply::{self, Streamed, render};
use crate::canonical::{Answer, Choice, Finish};
use crate::dialects::messages::input;
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::numbered::Lists;
use crate::refusal;
use crate::sse::Event;
use crate::stream::{Protocol, ReadWhole, brings_content, error_event, garbled};

use block::Block;

pub(super) fn decoder(head: &Head, native: bool) -> Result<Box<dyn StreamDecoder>, Failure> {
    let messages = Messages {
        head: head.clone(),
        message: None,
        blocks: Vec::new(),
        calls: 0,
        lists: Lists::default(),
        complete: false,
        answer: None,
        native,
        held: Vec::new(),
    };
    let whole_head = head.clone();
    crate::stream::decoder(head, messages, ReadWhole::new(move |body| reply::read(&whole_head, body, native)))
}

#[derive(Debug)]
struct Messages {
    head: Head,
    /// The message of `message_start` with what `message_delta` said of it; its content is in `blocks`.
    message: Option<Object>,
    /// With the provider's index of each.
    blocks: Vec<(u64, Block)>,
    /// How many tool calls the client has been told of.
    calls: u64,
    lists: Lists,
    complete: bool,
    answer: Option<Answer>,
    /// The client gets the events themselves.
    native: bool,
    /// Of those, the ones that tell how the answer ended: they wait for its end.
    held: Vec<StreamPiece>,
}

impl Protocol for Messages {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        if !self.native {
            return self.read(&event, out);
        }
        let mut told = Vec::new();
        self.read(&event, &mut told)?;
        let content = told.iter().any(|piece| matches!(piece, StreamPiece::Chunk { content: true, .. }));
        self.pass_on(&event, content, out);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn has_ended(&self) -> bool {
        self.complete
    }

    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        if let Some(answer) = &self.answer {
            return Ok(answer.clone());
        }
        for at in 0..self.blocks.len() {
            self.close(at, out);
        }
        let message = self.whole()?;
        let arguments = self.blocks.iter().map(|(_, block)| block.arguments()).collect();
        let streamed = Streamed { arguments };
        let answer = match self.native {
            true => reply::read_native(&self.head, message.clone(), Some(&streamed), |message| self.own(message))?,
            false => reply::read_message(&self.head, &message, Some(&streamed))?,
        };
        if let Some(choice) = answer.reply.choices.first() {
            self.end(choice, out);
        }
        if let Some(usage) = reply::rendered_usage(&message) {
            let mut chunk = self.chunk(Vec::new());
            chunk.insert("usage", usage);
            out.push(StreamPiece::Usage { data: Json::Object(chunk).to_bytes() });
        }
        self.answer = Some(answer.clone());
        Ok(answer)
    }
}

impl Messages {
    /// The event as it came, on one line. What tells how the answer ended waits for its last word.
    fn pass_on(&mut self, event: &Event, content: bool, out: &mut Vec<StreamPiece>) {
        let Ok(Json::Object(mut read)) = Json::parse(event.data.as_bytes()) else { return };
        if let (false, Some(name)) = (read.contains_key("type"), &event.name) {
            read.insert("type", name.as_str());
        }
        let kind = read.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
        let piece = StreamPiece::Chunk { data: Json::Object(read).to_bytes(), content };
        match kind.as_str() {
            "ping" => {}
            "message_delta" => self.held.push(piece),
            "message_stop" => {
                out.append(&mut self.held);
                out.push(piece);
            }
            _ => out.push(piece),
        }
    }

    /// The whole message for a client of this protocol: with the inputs of its calls.
    fn own(&self, message: &Json) -> Bytes {
        let mut message = message.clone();
        let content = message.as_object_mut().and_then(|message| message.get_mut("content"));
        if let Some(Json::Array(content)) = content {
            for (item, (_, block)) in content.iter_mut().zip(&self.blocks) {
                if let (Json::Object(item), Some(text)) = (item, block.arguments()) {
                    item.insert("input", input(text));
                }
            }
        }
        message.to_bytes()
    }

    fn read(&mut self, event: &Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        let json = Json::parse(data.as_bytes());
        let kind = match &json {
            Ok(json) => json.get("type").and_then(Json::as_str).or(event.name.as_deref()),
            Err(_) => event.name.as_deref(),
        };
        let says_error = json.as_ref().is_ok_and(|json| json.get_some("error").is_some());
        if kind == Some("error") || says_error {
            return Err(refusal::error_in_answer(self.head.status, error_event(json.as_ref().ok(), data)));
        }
        match (kind, &json) {
            (Some("ping"), _) => Ok(()),
            (_, Err(error)) => Err(self.garbled(format!("an event is not JSON: {error}"))),
            (Some("message_start"), Ok(event)) => self.start(event, out),
            (Some("content_block_start"), Ok(event)) => self.open_block(event, out),
            (Some("content_block_delta"), Ok(event)) => self.add_to_block(event, out),
            (Some("content_block_stop"), Ok(event)) => self.close_block(event, out),
            (Some("message_delta"), Ok(event)) => self.change(event),
            (Some("message_stop"), Ok(_)) => {
                self.settle(out)?;
                self.complete = true;
                Ok(())
            }
            (Some(_), Ok(event)) if !self.native && self.message.is_some() && brings_content(event) => {
                let (block, delta) = Block::unknown(event.as_object().cloned().unwrap_or_default());
                self.blocks.push((u64::MAX, block));
                self.push_some(Some(delta), out);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let message = event.get("message").and_then(Json::as_object);
        let message = message.ok_or_else(|| self.garbled("a message_start holds no message"))?;
        if self.message.is_some() {
            return Err(self.garbled("a second message began"));
        }
        self.message = Some(message.clone());
        let mut opening = object("role", "assistant");
        opening.insert("refusal", Json::Null);
        self.push(opening, false, out);
        Ok(())
    }

    fn open_block(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let index = self.index(event)?;
        let content = event.get("content_block").and_then(Json::as_object).cloned();
        let content = content.ok_or_else(|| self.garbled("a content block without its content"))?;
        if self.blocks.iter().any(|(known, block)| *known == index && !block.is_closed()) {
            return Err(self.garbled("a content block began twice"));
        }
        let (block, delta) = Block::open(content, &mut self.calls);
        self.blocks.push((index, block));
        self.push_some(delta, out);
        Ok(())
    }

    fn add_to_block(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let index = self.index(event)?;
        let delta = event.get("delta").and_then(Json::as_object);
        let delta = delta.ok_or_else(|| self.garbled("a content delta without its delta"))?;
        let open = self.blocks.iter_mut().rev().find(|(known, block)| *known == index && !block.is_closed());
        let added = open.ok_or("a delta of no open content block").and_then(|(_, block)| block.add(delta));
        let chunk = added.map_err(|why| self.garbled(why))?;
        self.push_some(chunk, out);
        Ok(())
    }

    fn close_block(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let index = self.index(event)?;
        let open = self.blocks.iter().rposition(|(known, block)| *known == index && !block.is_closed());
        let at = open.ok_or_else(|| self.garbled("the end of no open content block"))?;
        self.close(at, out);
        Ok(())
    }

    fn close(&mut self, at: usize, out: &mut Vec<StreamPiece>) {
        let delta = self.blocks[at].1.close();
        self.push_some(delta, out);
    }

    /// `message_delta`: the stop reason, and usage as it stands now.
    fn change(&mut self, event: &Json) -> Result<(), Failure> {
        let status = self.head.status;
        let message = self.message.as_mut().ok_or_else(|| garbled(status, "a message_delta before its message"))?;
        for (name, value) in event.get("delta").and_then(Json::as_object).into_iter().flat_map(Object::iter) {
            if !value.is_null() {
                message.insert(name, value.clone());
            }
        }
        if let (true, Json::Object(event)) = (self.native, event) {
            let others = event.iter().filter(|(name, _)| !matches!(*name, "type" | "delta" | "usage"));
            for (name, value) in others {
                message.insert(name, value.clone());
            }
        }
        if let Some(usage) = event.get_some("usage") {
            match (message.get_mut("usage"), usage) {
                (Some(Json::Object(old)), Json::Object(new)) => count(old, new),
                _ => drop(message.insert("usage", usage.clone())),
            }
        }
        Ok(())
    }

    fn index(&self, event: &Json) -> Result<u64, Failure> {
        let index = event.get("index").and_then(Json::as_u64);
        index.filter(|_| self.message.is_some()).ok_or_else(|| self.garbled("a content block of no message"))
    }

    /// The message as a whole answer has it. Arguments that a limit cut off in the middle stay as they are.
    fn whole(&self) -> Result<Json, Failure> {
        let mut message = self.message.clone().ok_or_else(|| self.garbled("a message ended that had not begun"))?;
        let content = self.blocks.iter().map(|(_, block)| Json::Object(block.content().clone())).collect::<Vec<_>>();
        message.insert("content", content);
        let limited = message.get("stop_reason").and_then(Json::as_str).and_then(reply::finish) == Some(Finish::Length);
        let message = Json::Object(message);
        let broken = self.blocks.iter().filter_map(|(_, block)| block.arguments()).any(|text| !is_object(text));
        if broken && !limited {
            return Err(reply::invalid(&self.head, &message, "the arguments of a tool call are no JSON object"));
        }
        Ok(message)
    }

    /// The last chunk, and before it what no event has told the client.
    fn end(&self, choice: &Choice, out: &mut Vec<StreamPiece>) {
        if let Some(refusal) = &choice.refusal {
            self.push(object("refusal", refusal.as_str()), true, out);
        }
        // An answer without a word is an empty text, as it is in the whole one.
        let delta = match choice.text.as_deref() {
            Some("") => object("content", ""),
            _ => Object::new(),
        };
        let mut last = Object::new();
        last.insert("index", 0);
        last.insert("delta", delta);
        last.insert("logprobs", Json::Null);
        last.insert("finish_reason", choice.finish.as_openai());
        last.insert("native_finish_reason", choice.native_finish.as_str());
        if let Some(stop) = self.beside().stop {
            last.insert("stop_reason", stop);
        }
        out.push(StreamPiece::Chunk { data: Json::Object(self.chunk(vec![last.into()])).to_bytes(), content: false });
    }

    fn push_some(&mut self, delta: Option<Object>, out: &mut Vec<StreamPiece>) {
        if let Some(delta) = delta {
            let delta = self.lists.number_all(delta);
            self.push(delta, true, out);
        }
    }

    fn push(&self, delta: Object, content: bool, out: &mut Vec<StreamPiece>) {
        let mut choice = Object::new();
        choice.insert("index", 0);
        choice.insert("delta", delta);
        choice.insert("finish_reason", Json::Null);
        out.push(StreamPiece::Chunk { data: Json::Object(self.chunk(vec![choice.into()])).to_bytes(), content });
    }

    fn chunk(&self, choices: Vec<Json>) -> Object {
        let of_message = |name: &str| self.message.as_ref().and_then(|message| message.get(name)).cloned();
        let mut chunk = Object::new();
        chunk.insert("id", of_message("id").unwrap_or(Json::Null));
        chunk.insert("object", "chat.completion.chunk");
        chunk.insert("created", render::created(&self.head));
        chunk.insert("model", of_message("model").unwrap_or(Json::Null));
        chunk.insert("choices", choices);
        if let Some(tier) = self.beside().service_tier {
            chunk.insert("service_tier", tier);
        }
        chunk
    }

    fn beside(&self) -> Beside {
        self.message.as_ref().map(Beside::of).unwrap_or_default()
    }

    fn garbled(&self, why: impl AsRef<str>) -> Failure {
        garbled(self.head.status, why)
    }
}

/// Takes newer counts over. They add up as the answer grows, so a smaller one is a count that is not given there.
fn count(old: &mut Object, new: &Object) {
    for (name, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let counted = old.get(name).and_then(Json::as_u64);
        if counted.is_none() || value.as_u64().is_none() || value.as_u64() > counted {
            old.insert(name, value.clone());
        }
    }
}

fn is_object(text: &str) -> bool {
    Json::parse(text.as_bytes()).is_ok_and(|json| json.as_object().is_some())
}

fn object(name: &str, value: impl Into<Json>) -> Object {
    let mut object = Object::new();
    object.insert(name, value);
    object
}
