//! Cohere's event stream, for the client as chunks and into one whole answer. `message-end` is the last word (`[DONE]`
//! follows it and says nothing more); the finish reason goes to the client with it, and not before.

#[cfg(test)]
mod tests;

use super::reply::{self, Reading};
use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::{Answer, Request};
use crate::failure::Failure;
use crate::json::Json;
use crate::refusal;
use crate::sse::Event;
use crate::stream::{Protocol, ReadWhole, brings_content, cut, error_event, garbled};

pub(super) fn decoder(request: &Request, head: &Head) -> Result<Box<dyn StreamDecoder>, Failure> {
    let chat =
        Chat { head: head.clone(), reading: Reading::new(&request.model, head), calls: Vec::new(), complete: false };
    let (asked, whole_head) = (request.model.clone(), head.clone());
    crate::stream::decoder(head, chat, ReadWhole::new(move |body| reply::read(&asked, &whole_head, body)))
}

#[derive(Debug)]
struct Chat {
    head: Head,
    reading: Reading,
    /// The provider's index of each call, and the number that the client knows it by.
    calls: Vec<(u64, usize)>,
    complete: bool,
}

impl Protocol for Chat {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return Err(self.reading.draft.billed(cut(self.head.status, "[DONE] came before message-end")));
        }
        let json = Json::parse(data.as_bytes());
        if event.name.as_deref() == Some("error") {
            let failure = refusal::error_in_answer(self.head.status, error_event(json.as_ref().ok(), data));
            return Err(self.reading.draft.billed(failure));
        }
        let json = json.map_err(|error| self.garbled(format!("an event is not JSON: {error}")))?;
        self.take(&json, out).map_err(|failure| match failure.reason {
            "invalid_answer" | "unexpected_status" => self.garbled(failure.message),
            _ => failure,
        })?;
        if self.reading.draft.ended().is_some() {
            self.reading.draft.settle(out)?;
            self.complete = true;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn has_ended(&self) -> bool {
        self.complete
    }

    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        self.reading.draft.settle(out)
    }
}

impl Chat {
    /// Events of unknown kinds are ignored, and so are the ends of blocks; but what brings a piece of the answer is kept.
    fn take(&mut self, event: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let delta = event.get("delta");
        let message = delta.and_then(|delta| delta.get("message"));
        let member = |name: &str| message.and_then(|message| message.get_some(name));
        match event.get("type").and_then(Json::as_str).unwrap_or_default() {
            "message-start" => {
                self.reading.draft.identify(event.get("id").and_then(Json::as_str), None);
                self.reading.draft.open(0, out);
                Ok(())
            }
            "content-start" | "content-delta" => match member("content") {
                Some(content) => self.reading.block(content, out),
                None => Err(self.garbled("a piece of content without its content")),
            },
            "tool-plan-delta" => self.reading.reason(member("tool_plan"), out),
            "tool-call-start" => {
                let call = member("tool_calls").ok_or_else(|| self.garbled("a call begins without itself"))?;
                let number = self.reading.call(call, out)?;
                self.reading.arguments(number, call, out);
                self.calls.push((self.index(event)?, number));
                Ok(())
            }
            "tool-call-delta" => {
                let index = self.index(event)?;
                let known = self.calls.iter().rev().find(|(known, _)| *known == index);
                let Some((_, number)) = known.copied() else { return Err(self.garbled("a piece of no call")) };
                let call = member("tool_calls").ok_or_else(|| self.garbled("a piece of a call without itself"))?;
                self.reading.arguments(number, call, out);
                Ok(())
            }
            "citation-start" => {
                match member("citations") {
                    Some(Json::Array(citations)) => {
                        citations.iter().for_each(|citation| self.reading.cite(citation.clone(), out));
                    }
                    Some(citation) => self.reading.cite(citation.clone(), out),
                    None => {}
                }
                Ok(())
            }
            "message-end" => {
                let delta = delta.ok_or_else(|| self.garbled("a message-end without its delta"))?;
                self.reading.count(delta.get_some("usage"));
                self.reading.end(delta, out)
            }
            _ if brings_content(event) => {
                self.reading.keep(message.or(delta).unwrap_or(event), out);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn index(&self, event: &Json) -> Result<u64, Failure> {
        event.get("index").and_then(Json::as_u64).ok_or_else(|| self.garbled("a piece of a call without its index"))
    }

    fn garbled(&self, why: impl AsRef<str>) -> Failure {
        self.reading.draft.billed(garbled(self.head.status, why))
    }
}
