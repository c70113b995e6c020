//! OpenAI's stream of `chat.completion.chunk`s, for the client and into one whole answer.
//!
//! A chunk passes byte for byte where nothing in it must change. What is changed: tool-call fragments without an index
//! get theirs (`calls`), usage is taken out of chunks that carry more and comes once, last, and a finish reason is
//! held back until the stream has ended properly. So a client sees exactly one per choice (some servers repeat it with
//! every fragment, field case B024), never one of a stream that was cut or failed, and `tool_calls` where there are any
//! (D5).
//!
//! The answer is whole when every choice has its finish reason; `[DONE]` may be missing, and proves nothing alone (D4).
//! It is put together by `assembly` and then read by the rules for whole answers.

mod assembly;
mod calls;
mod rechunk;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::{Answer, Request};
use crate::compatible::Row;
use crate::error_shapes::error_within_success;
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::openai::reply;
use crate::refusal::{self, ErrorBody};
use crate::sse::Event;
use crate::stream::{Protocol, ReadWhole, cut, error_event, garbled};

use assembly::Assembly;
pub use rechunk::rechunk;
pub(crate) use rechunk::rechunk_pieces;

pub(super) fn decoder(row: &Row, request: &Request, head: &Head) -> Result<Box<dyn StreamDecoder>, Failure> {
    let chat = Chat {
        row: row.clone(),
        head: head.clone(),
        wanted: request.n.unwrap_or(1),
        assembly: Assembly::default(),
        usage_chunk: None,
        complete: false,
        answer: None,
    };
    let (row, whole_head) = (row.clone(), head.clone());
    crate::stream::decoder(head, chat, ReadWhole::new(move |body| reply::read(&row, &whole_head, body)))
}

#[derive(Debug)]
struct Chat {
    row: Row,
    head: Head,
    /// How many choices were asked for.
    wanted: u64,
    assembly: Assembly,
    /// The last chunk that carried usage and nothing else.
    usage_chunk: Option<Bytes>,
    complete: bool,
    answer: Option<Answer>,
}

/// One chunk on its way to the client.
struct Chunk {
    members: Object,
    choices: Vec<Object>,
    /// The chunk as it came, as long as it may go on so.
    raw: Option<Bytes>,
}

impl Chunk {
    fn into_piece(self) -> StreamPiece {
        let content = self.choices.iter().any(has_content);
        let data = self.raw.unwrap_or_else(|| with_choices(&self.members, self.choices));
        StreamPiece::Chunk { data, content }
    }
}

impl Protocol for Chat {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return self.done(out);
        }
        let json = Json::parse(data.as_bytes());
        let strict = json.is_ok();
        let json = json.or_else(|error| Json::parse_with_loose_logprobs(data.as_bytes()).map_err(|_| error));
        if event.name.as_deref() == Some("error") {
            return Err(self.failed(error_event(json.ok().as_ref(), data)));
        }
        let json = match json {
            Ok(json) => json,
            // A named event that is no object is some server's sign of life.
            Err(_) if event.name.is_some() && !data.starts_with('{') => return Ok(()),
            Err(error) => return Err(self.garbled(format!("a chunk is not JSON: {error}"))),
        };
        if let Some(error) = reply::error_within(&json) {
            return Err(self.failed(error_within_success(error)));
        }
        if json.get("object").and_then(Json::as_str) == Some("error") {
            return Err(self.failed(ErrorBody::from_members(&json)));
        }
        // Whoever writes the event again would break a line feed in it.
        let raw = (strict && !event.data.contains('\n')).then(|| Bytes::from(event.data));
        match json {
            Json::Object(members) => self.chunk(members, raw, out),
            _ if event.name.is_some() => Ok(()),
            _ => Err(self.garbled("a chunk is no JSON object")),
        }
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn has_ended(&self) -> bool {
        self.is_whole(self.wanted)
    }

    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        if let Some(answer) = &self.answer {
            return Ok(answer.clone());
        }
        let answer = reply::read(&self.row, &self.head, &self.assembly.render().to_bytes())?;
        let choices = answer.reply.choices.iter();
        out.extend(choices.flat_map(|choice| self.assembly.last_chunks(choice.index, choice.finish.as_openai())));
        let usage = self.usage_chunk.take().or_else(|| self.assembly.usage_chunk());
        out.extend(usage.map(|data| StreamPiece::Usage { data }));
        self.answer = Some(answer.clone());
        Ok(answer)
    }
}

impl Chat {
    fn is_whole(&self, wanted: u64) -> bool {
        self.complete || self.assembly.finished().is_some_and(|choices| choices as u64 >= wanted)
    }

    /// The provider has said its last word. Fewer choices than were asked for are its own affair then.
    fn done(&mut self, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        if !self.is_whole(1) {
            return Err(cut(self.head.status, "[DONE] came before every choice had its finish_reason"));
        }
        self.settle(out)?;
        self.complete = true;
        Ok(())
    }

    fn chunk(
        &mut self,
        mut members: Object,
        mut raw: Option<Bytes>,
        out: &mut Vec<StreamPiece>,
    ) -> Result<(), Failure> {
        let choices = match members.remove("choices") {
            Some(Json::Array(choices)) => choices,
            None | Some(Json::Null) => {
                raw = None;
                Vec::new()
            }
            Some(_) => return Err(self.garbled("the choices of a chunk are no array")),
        };
        if choices.is_empty() {
            return self.without_choices(members, raw, out);
        }
        self.assembly.take_members(&members);
        if members.get_some("usage").is_some() {
            (self.usage_chunk, raw) = (None, None);
            members.remove("usage");
        }
        let mut chunk = Chunk { members, choices: Vec::new(), raw };
        let mut ended = Vec::new();
        for (i, choice) in choices.into_iter().enumerate() {
            let Json::Object(mut choice) = choice else { return Err(self.garbled("a choice is no object")) };
            let taken = self.assembly.take(i, &mut choice).map_err(|why| self.garbled(why))?;
            if taken.changed {
                chunk.raw = None;
            }
            match taken.finish {
                Some(word) => {
                    if let Some(failure) = reply::failed_finish(&self.row, &self.head, taken.index, &word) {
                        return Err(reply::with_usage(failure, &self.assembly.render()));
                    }
                    ended.push((taken.index, choice));
                }
                None => chunk.choices.push(choice),
            }
        }
        self.hold_back(&mut chunk, ended);
        if !chunk.choices.is_empty() {
            out.push(chunk.into_piece());
        }
        Ok(())
    }

    /// Usage, or something about the whole answer; anything else is no chunk and says nothing to us.
    fn without_choices(
        &mut self,
        members: Object,
        raw: Option<Bytes>,
        out: &mut Vec<StreamPiece>,
    ) -> Result<(), Failure> {
        let usage = members.get_some("usage").is_some();
        let is_chunk = members.get("object").and_then(Json::as_str) == Some("chat.completion.chunk");
        if !usage && !is_chunk && !members.contains_key("id") {
            return Ok(());
        }
        self.assembly.take_members(&members);
        let data = raw.unwrap_or_else(|| with_choices(&members, Vec::new()));
        if !usage {
            out.push(StreamPiece::Chunk { data, content: false });
            return Ok(());
        }
        self.usage_chunk = Some(data);
        if self.has_ended() {
            self.settle(out)?;
            self.complete = true;
        }
        Ok(())
    }

    /// Keeps the finish reasons back. A choice that carries nothing else waits as it is; what another carries goes on.
    fn hold_back(&mut self, chunk: &mut Chunk, ended: Vec<(u64, Object)>) {
        let alone = ended.len() == 1 && chunk.choices.is_empty();
        for (index, mut choice) in ended {
            if !has_content(&choice) {
                let raw = chunk.raw.take().filter(|_| alone);
                self.assembly.hold(index, chunk.members.clone(), choice, raw);
                continue;
            }
            let mut last = Object::new();
            last.insert("index", index);
            last.insert("delta", Object::new());
            last.insert("finish_reason", Json::Null);
            self.assembly.hold(index, chunk.members.clone(), last, None);
            choice.insert("finish_reason", Json::Null);
            chunk.raw = None;
            chunk.choices.push(choice);
        }
    }

    fn failed(&self, error: ErrorBody) -> Failure {
        reply::with_usage(refusal::error_in_answer(self.head.status, error), &self.assembly.render())
    }

    fn garbled(&self, why: impl AsRef<str>) -> Failure {
        reply::with_usage(garbled(self.head.status, why), &self.assembly.render())
    }
}

/// Whether the delta holds anything but a role and empty members.
fn has_content(choice: &Object) -> bool {
    let Some(Json::Object(delta)) = choice.get("delta") else { return false };
    delta.iter().any(|(name, value)| match value {
        _ if name == "role" => false,
        Json::Null | Json::Bool(_) => false,
        Json::Number(_) => true,
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    })
}

/// The chunk's members with these choices, in OpenAI's place: behind the model, before usage.
fn with_choices(members: &Object, choices: Vec<Object>) -> Bytes {
    let mut chunk = Object::new();
    for (name, value) in members.iter().filter(|(name, _)| *name != "usage") {
        chunk.insert(name, value.clone());
    }
    chunk.insert("choices", choices.into_iter().map(Json::Object).collect::<Vec<_>>());
    if let Some(usage) = members.get("usage") {
        chunk.insert("usage", usage.clone());
    }
    Json::Object(chunk).to_bytes()
}
