//! Converse's stream: frames of Amazon's event stream, for the client as chunks and into one whole answer.
//!
//! Blocks come in pieces under their number. `messageStop` ends the answer; `metadata` with the count follows it, and
//! is the last word. An exception in the stream is the provider's own end without a result.

#[cfg(test)]
mod tests;

use super::reply::{self, Reading};
use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::{Answer, Request};
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::refusal;
use crate::sse::Event;
use crate::stream::{Protocol, ReadWhole, brings_content, error_event, frame_decoder, garbled};

pub(super) fn decoder(request: &Request, head: &Head) -> Result<Box<dyn StreamDecoder>, Failure> {
    let reading = Reading::new(&request.model, head);
    let converse = Converse { head: head.clone(), reading, blocks: Vec::new(), complete: false };
    let (asked, whole_head) = (request.model.clone(), head.clone());
    frame_decoder(head, converse, ReadWhole::new(move |body| reply::read(&asked, &whole_head, body)))
}

/// A block as it grows.
#[derive(Debug)]
enum Block {
    /// A call under its number.
    Call(usize),
    Thought {
        text: String,
        signature: Option<String>,
    },
    /// A block that the client gets whole: its kind, what began it, and the text of its input.
    Other {
        kind: String,
        content: Object,
        input: String,
    },
}

#[derive(Debug)]
struct Converse {
    head: Head,
    reading: Reading,
    /// The open blocks by their place.
    blocks: Vec<(u64, Block)>,
    complete: bool,
}

impl Protocol for Converse {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let json = Json::parse(event.data.as_bytes());
        let name = event.name.as_deref().unwrap_or_default();
        if name == "error" {
            let error = error_event(json.as_ref().ok(), &event.data);
            return Err(self.reading.draft.billed(refusal::error_in_answer(self.head.status, error)));
        }
        let json = json.map_err(|error| self.garbled(format!("an event is not JSON: {error}")))?;
        self.take(name, &json, out).map_err(|failure| match failure.reason {
            "invalid_answer" | "unexpected_status" => self.garbled(failure.message),
            _ => failure,
        })
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn has_ended(&self) -> bool {
        self.complete || self.reading.draft.ended().is_some()
    }

    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        self.reading.draft.settle(out)
    }
}

impl Converse {
    /// Events of unknown kinds are ignored; but what brings a piece of the answer is kept.
    fn take(&mut self, name: &str, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        match name {
            "messageStart" => {
                self.reading.draft.open(0, out);
                Ok(())
            }
            "contentBlockStart" => self.start(event, out),
            "contentBlockDelta" => self.delta(event, out),
            "contentBlockStop" => {
                let place = self.place(event)?;
                if let Some(at) = self.blocks.iter().position(|(known, _)| *known == place) {
                    let (_, block) = self.blocks.remove(at);
                    self.close(block, out);
                }
                Ok(())
            }
            "messageStop" => {
                for (_, block) in std::mem::take(&mut self.blocks) {
                    self.close(block, out);
                }
                self.reading.beside(event);
                self.reading.end(event, out)
            }
            "metadata" => {
                self.reading.beside(event);
                if self.reading.draft.ended().is_some() {
                    self.reading.draft.settle(out)?;
                    self.complete = true;
                }
                Ok(())
            }
            _ if brings_content(event) => {
                self.reading.list("other_blocks", Object::from_iter([(name, event.clone())]).into(), out);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let place = self.place(event)?;
        let started = event.get("start").and_then(Json::as_object).and_then(|start| start.iter().next());
        let Some((kind, content)) = started else { return Ok(()) };
        let of_provider = content.get("type").and_then(Json::as_str) == Some("server_tool_use");
        let block = if kind == "toolUse" && !of_provider {
            Block::Call(self.reading.call(content, out)?)
        } else {
            let content = content.as_object().cloned().unwrap_or_default();
            Block::Other { kind: kind.to_owned(), content, input: String::new() }
        };
        self.blocks.push((place, block));
        Ok(())
    }

    fn delta(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let place = self.place(event)?;
        let piece = event.get("delta").and_then(Json::as_object).and_then(|delta| delta.iter().next());
        let (kind, piece) = piece.ok_or_else(|| self.garbled("a piece of a block without its content"))?;
        let at = self.blocks.iter().position(|(known, _)| *known == place);
        match kind {
            "text" => self.reading.text(piece, out),
            "citation" => {
                self.reading.list("citations", piece.clone(), out);
                Ok(())
            }
            "reasoningContent" => self.think(at, place, piece, out),
            "toolUse" if at.is_none() => Err(self.garbled("a piece of no block: toolUse")),
            // Not every kind of block is announced: text never is.
            _ => {
                let at = at.unwrap_or_else(|| {
                    let block = Block::Other { kind: kind.to_owned(), content: Object::new(), input: String::new() };
                    self.blocks.push((place, block));
                    self.blocks.len() - 1
                });
                self.grow(at, kind, piece, out)
            }
        }
    }

    fn grow(&mut self, at: usize, kind: &str, piece: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let written = piece.get("input").and_then(Json::as_str);
        match &mut self.blocks[at].1 {
            Block::Call(number) => {
                let Some(written) = written else { return Err(self.garbled("a piece of a call without its input")) };
                self.reading.draft.arguments(0, *number, written, out);
            }
            Block::Other { input, .. } if kind == "toolUse" => input.push_str(written.unwrap_or_default()),
            Block::Other { content, .. } => match piece {
                Json::Array(items) => match content.get_mut("content") {
                    Some(Json::Array(known)) => known.extend(items.iter().cloned()),
                    _ => drop(content.insert("content", items.clone())),
                },
                Json::Object(members) => {
                    members.iter().for_each(|(name, value)| drop(content.insert(name, value.clone())));
                }
                Json::String(more) => match content.get_mut(kind) {
                    Some(Json::String(text)) => text.push_str(more),
                    _ => drop(content.insert(kind, more.as_str())),
                },
                _ => {}
            },
            Block::Thought { .. } => return Err(self.garbled(format!("a piece of another kind of block: {kind}"))),
        }
        Ok(())
    }

    /// A thought goes on as it comes; what must go back waits for its block's end (field case B034).
    fn think(
        &mut self,
        at: Option<usize>,
        place: u64,
        piece: &Json,
        out: &mut Vec<StreamPiece>,
    ) -> Result<(), Failure> {
        if let Some(hidden) = piece.get_some("redactedContent") {
            self.reading.thought(None, None, Some(hidden), out);
            return Ok(());
        }
        let at = at.unwrap_or_else(|| {
            self.blocks.push((place, Block::Thought { text: String::new(), signature: None }));
            self.blocks.len() - 1
        });
        let (more, signed) = (piece.get("text").and_then(Json::as_str), piece.get("signature").and_then(Json::as_str));
        let Block::Thought { text, signature } = &mut self.blocks[at].1 else {
            return Err(self.garbled("a thought in another kind of block"));
        };
        if let Some(signed) = signed {
            signature.get_or_insert_default().push_str(signed);
        }
        if let Some(more) = more {
            text.push_str(more);
            self.reading.draft.reasoning(0, more, out);
        }
        Ok(())
    }

    fn close(&mut self, block: Block, out: &mut Vec<StreamPiece>) {
        match block {
            // Its arguments have gone out; where there were none, the draft says so.
            Block::Call(_) => {}
            Block::Thought { text, signature } => {
                self.reading.thought(Some(&text), signature.as_deref(), None, out);
            }
            Block::Other { kind, mut content, input } => {
                if !input.is_empty() {
                    let input = Json::parse(input.as_bytes()).unwrap_or_else(|_| Json::from(input.as_str()));
                    content.insert("input", input);
                }
                let mut block = Object::new();
                block.insert(kind, content);
                self.reading.list("other_blocks", Json::Object(block), out);
            }
        }
    }

    fn place(&self, event: &Json) -> Result<u64, Failure> {
        let place = event.get("contentBlockIndex").and_then(Json::as_u64);
        place.ok_or_else(|| self.garbled("a piece of a block without its contentBlockIndex"))
    }

    fn garbled(&self, why: impl AsRef<str>) -> Failure {
        self.reading.draft.billed(garbled(self.head.status, why))
    }
}
