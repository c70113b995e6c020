//! Ollama's stream: one document after another, for the client as chunks and into one whole answer. `done: true` is the
//! last word; the finish reason goes to the client with it, and not before.

#[cfg(test)]
mod tests;

use super::reply::Reading;
use crate::adapter::{Head, StreamDecoder, StreamPiece};
use crate::canonical::Answer;
use crate::failure::Failure;
use crate::json::Json;
use crate::sse::Event;
use crate::stream::{Protocol, document_decoder, garbled};

pub(super) fn decoder(head: &Head) -> Result<Box<dyn StreamDecoder>, Failure> {
    document_decoder(head, Chat { head: head.clone(), reading: Reading::new(head), complete: false })
}

#[derive(Debug)]
struct Chat {
    head: Head,
    reading: Reading,
    complete: bool,
}

impl Protocol for Chat {
    fn event(&mut self, event: Event, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let garbled = |why: String| garbled(self.head.status, why);
        let json = Json::parse(event.data.as_bytes())
            .map_err(|error| self.reading.draft.billed(garbled(format!("a document is not JSON: {error}"))))?;
        self.reading.take(&json, out).map_err(|failure| match failure.reason {
            "invalid_answer" | "unexpected_status" => {
                Failure { usage: failure.usage, ..garbled(failure.message.clone()) }
            }
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
