//! The event stream of a response, for the client as chunks of a chat completion and as one whole answer.
//!
//! `response.completed`, `incomplete` and `failed` are the terminal events; the finish reason goes to the client with
//! them, and not before. Each brings the response whole: it is read as a whole answer is ([`super::reply`]), and what
//! the client was shown must be its beginning. Events are numbered, and none may be missing. Events of unknown types
//! are passed over; a broken one is not.

mod seen;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::Answer;
use crate::failure::{Failure, Proof};
use crate::json::{Json, Object};
use crate::refusal::{self, ErrorBody};
use crate::responses::reply::{self, Whole, render};
use crate::sse::Event;
use crate::stream::{Protocol, ReadWhole, error_event, garbled};

use seen::Seen;

/// `in_background`: the response goes on without this stream, so that only its own status says that it has ended.
/// `native`: the client speaks this protocol itself, and gets its events.
pub(super) fn decoder(head: &Head, in_background: bool, native: bool) -> Result<Box<dyn StreamDecoder>, Failure> {
    let events = Events {
        head: head.clone(),
        in_background,
        next: None,
        response: None,
        seen: Seen::default(),
        done: Vec::new(),
        complete: false,
        answer: None,
        native,
    };
    let whole_head = head.clone();
    crate::stream::decoder(head, events, ReadWhole::new(move |body| reply::read(&whole_head, body, native)))
}

#[derive(Debug)]
struct Events {
    head: Head,
    in_background: bool,
    /// The number that the next event must have.
    next: Option<u64>,
    /// As it was announced: its id, model and time stand in every chunk.
    response: Option<Announced>,
    /// What the client was told.
    seen: Seen,
    /// Items that have ended, for a terminal event without output.
    done: Vec<Json>,
    complete: bool,
    answer: Option<Answer>,
    native: bool,
}

/// The event as it came, on one line, under its name; none of the closing word of chat completions.
fn passed_on(event: &Event) -> Option<Bytes> {
    let mut read = Json::parse(event.data.trim().as_bytes()).ok()?.into_object()?;
    if let (false, Some(name)) = (read.contains_key("type"), &event.name) {
        read.insert("type", name.as_str());
    }
    Some(Json::Object(read).to_bytes())
}

#[derive(Debug)]
struct Announced {
    id: Option<String>,
    model: Option<String>,
    created: u64,
}

impl Protocol for Events {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        if !self.native {
            return self.read(&event, out);
        }
        let mut told = Vec::new();
        self.read(&event, &mut told)?;
        let content = told.iter().any(|piece| matches!(piece, StreamPiece::Chunk { content: true, .. }));
        out.extend(passed_on(&event).map(|data| StreamPiece::Chunk { data, content }));
        Ok(())
    }

    /// In the background the work goes on, whatever becomes of the stream: only the response's own end proves one.
    fn judge(&self, failure: Failure) -> Failure {
        match failure.reason {
            "garbled_stream" | "error_in_answer" if self.in_background => Failure { proof: Proof::Unknown, ..failure },
            _ => failure,
        }
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn has_ended(&self) -> bool {
        self.complete
    }

    fn reference(&self) -> Option<&str> {
        if self.in_background { self.response.as_ref()?.id.as_deref() } else { None }
    }

    fn settle(&mut self, _out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        self.answer.clone().ok_or_else(|| self.garbled("the stream has no answer"))
    }
}

impl Events {
    fn read(&mut self, event: &Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let data = event.data.trim();
        // Some servers add the closing word of chat completions.
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let json = Json::parse(data.as_bytes());
        let kind = match &json {
            Ok(json) => json.get("type").and_then(Json::as_str).or(event.name.as_deref()),
            Err(_) => event.name.as_deref(),
        };
        let says_error = json.as_ref().is_ok_and(|json| json.get_some("error").is_some());
        if kind == Some("error") || says_error {
            let error = error_event(json.as_ref().ok(), data);
            // The event's own type says nothing about the error.
            let kind = error.kind.filter(|kind| kind != "error");
            return Err(refusal::error_in_answer(self.head.status, ErrorBody { kind, ..error }));
        }
        let json = json.as_ref().map_err(|error| self.garbled(format!("an event is not JSON: {error}")))?;
        self.count(json)?;
        match kind {
            Some("response.created" | "response.queued" | "response.in_progress") => self.announce(json, out),
            Some("response.output_item.done") => {
                self.done.extend(json.get("item").cloned());
                Ok(())
            }
            Some("response.completed" | "response.incomplete" | "response.failed") => self.end(json, out),
            Some(kind) => self.tell(kind, json, out),
            None => Ok(()),
        }
    }

    /// Numbers rise by one: a missing event may have been a part of the answer.
    fn count(&mut self, event: &Json) -> Result<(), Failure> {
        let Some(number) = event.get_some("sequence_number") else { return Ok(()) };
        let number = number.as_u64().ok_or_else(|| self.garbled("a sequence_number is no integer"))?;
        if let Some(expected) = self.next.filter(|expected| *expected != number) {
            return Err(self.garbled(format!("event {number} came where {expected} was due")));
        }
        self.next = number.checked_add(1);
        Ok(())
    }

    /// The first says what this is; the others say it again, and that it is worked on.
    fn announce(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let response = event.get("response").filter(|response| response.as_object().is_some());
        let response = response.ok_or_else(|| self.garbled("a response was announced without itself"))?;
        if let Some(known) = &self.response {
            return match known.id.as_deref() == response.get("id").and_then(Json::as_str) {
                true => Ok(()),
                false => Err(self.garbled("another response began")),
            };
        }
        let text = |name: &str| response.get(name).and_then(Json::as_str).map(str::to_owned);
        self.response = Some(Announced { id: text("id"), model: text("model"), created: reply::created(response) });
        let mut opening: Object = [("role", "assistant")].into_iter().collect();
        opening.insert("refusal", Json::Null);
        self.push(opening, Json::Null, false, out);
        Ok(())
    }

    /// An event of the output: what it adds goes to the client.
    fn tell(&mut self, kind: &str, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let told = self.seen.take(kind, event).map_err(|why| self.garbled(why))?;
        if !told.is_empty() && self.response.is_none() {
            return Err(self.garbled("output of no response"));
        }
        for (delta, logprobs) in told {
            self.push(delta, logprobs, true, out);
        }
        Ok(())
    }

    /// The terminal event: the whole response, and what of it the client has not been told yet.
    fn end(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        self.announce(event, out)?;
        let mut response = event.get("response").cloned().unwrap_or(Json::Null);
        if let (Json::Object(response), Some(announced)) = (&mut response, &self.response) {
            let unsaid = response.get("output").and_then(Json::as_array).is_none_or(<[Json]>::is_empty);
            if unsaid && !self.done.is_empty() {
                response.insert("output", std::mem::take(&mut self.done));
            }
            // One answer has one head, and the client has seen it.
            response.insert("created_at", announced.created);
            response.insert("model", announced.model.as_deref().map_or(Json::Null, Json::from));
        }
        let mut whole = reply::read_response(&self.head, &response)?;
        let rest = self.seen.rest(&whole).map_err(|why| {
            let failure = self.garbled(format!("the stream is not the beginning of its own response: {why}"));
            Failure { usage: reply::billed(&response), ..failure }
        })?;
        for (delta, logprobs) in rest {
            self.push(delta, logprobs, true, out);
        }
        whole.items.logprobs = self.seen.take_logprobs();
        self.close(&whole, out);
        self.answer = Some(match self.native {
            true => whole.into_native_answer(response.to_bytes()),
            false => whole.into_answer(),
        });
        self.complete = true;
        Ok(())
    }

    fn close(&self, whole: &Whole, out: &mut Vec<StreamPiece>) {
        let choice = whole.choice();
        // An answer without a word is an empty text, as it is in the whole one.
        let mut delta = Object::new();
        if choice.text.as_deref() == Some("") {
            delta.insert("content", "");
        }
        let mut last = Object::new();
        last.insert("index", 0);
        last.insert("delta", delta);
        last.insert("logprobs", Json::Null);
        last.insert("finish_reason", choice.finish.as_openai());
        last.insert("native_finish_reason", choice.native_finish.as_str());
        let chunk = |choices| {
            let mut chunk = self.chunk(choices);
            if let Some(tier) = &whole.service_tier {
                chunk.insert("service_tier", tier.clone());
            }
            chunk
        };
        out.push(StreamPiece::Chunk { data: Json::Object(chunk(vec![last.into()])).to_bytes(), content: false });
        if let Some(counted) = whole.counted {
            let mut chunk = chunk(Vec::new());
            chunk.insert("usage", render::usage(counted));
            out.push(StreamPiece::Usage { data: Json::Object(chunk).to_bytes() });
        }
    }

    fn push(&self, delta: Object, logprobs: Json, content: bool, out: &mut Vec<StreamPiece>) {
        let mut choice = Object::new();
        choice.insert("index", 0);
        choice.insert("delta", delta);
        if !logprobs.is_null() {
            choice.insert("logprobs", logprobs);
        }
        choice.insert("finish_reason", Json::Null);
        out.push(StreamPiece::Chunk { data: Json::Object(self.chunk(vec![choice.into()])).to_bytes(), content });
    }

    fn chunk(&self, choices: Vec<Json>) -> Object {
        let announced = self.response.as_ref();
        let text = |value: Option<&String>| value.map_or(Json::Null, |text| Json::from(text.as_str()));
        let mut chunk = Object::new();
        chunk.insert("id", text(announced.and_then(|known| known.id.as_ref())));
        chunk.insert("object", "chat.completion.chunk");
        chunk.insert("created", announced.map_or(0, |known| known.created));
        chunk.insert("model", text(announced.and_then(|known| known.model.as_ref())));
        chunk.insert("choices", choices);
        chunk
    }

    fn garbled(&self, why: impl AsRef<str>) -> Failure {
        garbled(self.head.status, why)
    }
}
