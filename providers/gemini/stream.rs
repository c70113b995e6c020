//! Google's event stream: fragments of one `GenerateContentResponse`, for the client as chunks and into one whole answer.
//!
//! There is no last word. The answer is whole when every candidate that was asked for has its finishReason; fragments
//! that still come are read, since some repeat it with every fragment (field case B024) and the count may come last.

#[cfg(test)]
mod tests;

use super::reply::{self, Reading};
use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::{Answer, Request};
use crate::failure::Failure;
use crate::json::Json;
use crate::refusal;
use crate::sse::Event;
use crate::stream::{Protocol, ReadWhole, error_event, garbled};

pub(super) fn decoder(request: &Request, head: &Head) -> Result<Box<dyn StreamDecoder>, Failure> {
    let generate = Generate { head: head.clone(), wanted: request.n.unwrap_or(1), reading: Reading::new(head) };
    let whole_head = head.clone();
    crate::stream::decoder(head, generate, ReadWhole::new(move |body| reply::read(&whole_head, body)))
}

#[derive(Debug)]
struct Generate {
    head: Head,
    /// How many candidates were asked for. A blocked prompt has one answer all the same.
    wanted: u64,
    reading: Reading,
}

impl Protocol for Generate {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        let json = Json::parse(data.as_bytes());
        if event.name.as_deref() == Some("error") {
            let failure = refusal::error_in_answer(self.head.status, error_event(json.as_ref().ok(), data));
            return Err(self.reading.draft.billed(failure));
        }
        let read = match json {
            Ok(json @ Json::Object(_)) => return self.reading.take(&json, out).map_err(|failure| self.broken(failure)),
            Ok(other) => format!("a fragment is {}, not an object", other.kind()),
            Err(error) => format!("a fragment is not JSON: {error}"),
        };
        Err(self.reading.draft.billed(garbled(self.head.status, read)))
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        let blocked = self.reading.blocked;
        self.reading.draft.ended().is_some_and(|ended| blocked || ended >= self.wanted)
    }

    fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        self.reading.draft.settle(out)
    }
}

impl Generate {
    /// A fragment that cannot be read is a garbled stream.
    fn broken(&self, failure: Failure) -> Failure {
        match failure.reason {
            "invalid_answer" | "unexpected_status" => {
                self.reading.draft.billed(garbled(self.head.status, failure.message))
            }
            _ => failure,
        }
    }
}
