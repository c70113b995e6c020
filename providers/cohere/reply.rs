//! Cohere's answer, read as the chat completion that it means; whole and streamed through the same `Reading`.
//!
//! Thinking and the plan for its calls go into `reasoning_content`, citations into the message's `citations`. Tokens
//! are counted as billed: `usage.tokens` also holds Cohere's own prompt, which nobody pays for. Answers do not name
//! their model; the client is told the name that it asked for.

#[cfg(test)]
mod tests;

use crate::adapter::{Head, StreamPiece};
use crate::canonical::{Answer, Finish, Usage};
use crate::draft::{Counted, Draft};
use crate::failure::Failure;
use crate::json::Json;
use crate::refusal::{self, ErrorBody};

pub(crate) fn read(asked: &str, head: &Head, body: &[u8]) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    let (mut reading, out) = (Reading::new(asked, head), &mut Vec::new());
    reading.count(json.get_some("usage"));
    reading.draft.identify(json.get("id").and_then(Json::as_str), None);
    let message = json.get("message").filter(|message| message.as_object().is_some());
    let message = message.ok_or_else(|| reading.draft.invalid("the answer has no message"))?;
    reading.reason(message.get_some("tool_plan"), out)?;
    for block in reading.list(message, "content")? {
        reading.block(block, out)?;
    }
    for call in reading.list(message, "tool_calls")? {
        let number = reading.call(call, out)?;
        reading.arguments(number, call, out);
    }
    for citation in reading.list(message, "citations")? {
        reading.cite(citation.clone(), out);
    }
    reading.keep(message, out);
    reading.end(&json, out)?;
    reading.draft.settle(out)
}

/// An answer so far.
#[derive(Debug)]
pub(super) struct Reading {
    head: Head,
    pub draft: Draft,
}

impl Reading {
    pub fn new(asked: &str, head: &Head) -> Self {
        Reading { head: head.clone(), draft: Draft::asked_of(asked, head) }
    }

    fn list<'a>(&self, message: &'a Json, name: &str) -> Result<&'a [Json], Failure> {
        match message.get_some(name) {
            None => Ok(&[]),
            Some(Json::Array(items)) => Ok(items),
            Some(_) => Err(self.draft.invalid(format!("the {name} of the message are no array"))),
        }
    }

    /// The plan for the calls, or a thought.
    pub fn reason(&mut self, text: Option<&Json>, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        match text {
            None => Ok(()),
            Some(Json::String(text)) => {
                self.draft.reasoning(0, text, out);
                Ok(())
            }
            Some(_) => Err(self.draft.invalid("a plan or a thought is no text")),
        }
    }

    /// A content block, or a piece of one: `text` or `thinking`.
    pub fn block(&mut self, block: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        match (block.get_some("text"), block.get_some("thinking")) {
            (Some(Json::String(text)), _) => {
                self.draft.text(0, text, Vec::new(), out);
                Ok(())
            }
            (Some(_), _) => Err(self.draft.invalid("the text of a content block is no text")),
            (None, Some(thought)) => self.reason(Some(thought), out),
            (None, None) if block.as_object().is_some_and(|block| !block.is_empty()) => {
                self.draft.message_member(0, "other_blocks", Json::Array(vec![block.clone()]), out);
                Ok(())
            }
            (None, None) => Err(self.draft.invalid("a content block is empty")),
        }
    }

    /// A call begins; its arguments are a text, and may come in pieces.
    pub fn call(&mut self, call: &Json, out: &mut Vec<StreamPiece>) -> Result<usize, Failure> {
        let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_owned();
        let name = text(call.get("function").and_then(|function| function.get("name")));
        self.draft.call(0, &text(call.get("id")), &name, None, out)
    }

    pub fn arguments(&mut self, number: usize, call: &Json, out: &mut Vec<StreamPiece>) {
        let text = call.get("function").and_then(|function| function.get("arguments")?.as_str());
        self.draft.arguments(0, number, text.unwrap_or_default(), out);
    }

    /// What a message, or the piece of one, says beyond all that.
    pub fn keep(&mut self, message: &Json, out: &mut Vec<StreamPiece>) {
        let known = ["role", "content", "tool_calls", "tool_plan", "citations"];
        if let Some(members) = message.as_object() {
            self.draft.keep_others(0, members, &known, out);
        }
    }

    pub fn cite(&mut self, citation: Json, out: &mut Vec<StreamPiece>) {
        self.draft.message_member(0, "citations", Json::Array(vec![citation]), out);
    }

    /// The finish reason, which also says where the provider failed.
    pub fn end(&mut self, said: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let Some(word) = said.get("finish_reason").and_then(Json::as_str) else {
            return Err(self.draft.invalid("the answer has no finish_reason: it did not end"));
        };
        let finish = match word {
            "COMPLETE" | "STOP_SEQUENCE" => Finish::Stop,
            "MAX_TOKENS" => Finish::Length,
            "TOOL_CALL" => Finish::ToolCalls,
            // ERROR, TIMEOUT, and what comes to be said later.
            _ => {
                let words = said.get("error").and_then(Json::as_str).unwrap_or_default();
                let message = format!("the provider stopped with finish_reason {word}: {words}");
                let error = ErrorBody { message, code: Some(word.to_owned()), ..ErrorBody::default() };
                return Err(self.draft.billed(refusal::error_in_answer(self.head.status, error)));
            }
        };
        self.draft.end(0, finish, word, out);
        Ok(())
    }

    pub fn count(&mut self, usage: Option<&Json>) {
        if let Some(usage) = usage {
            self.draft.count(counted(usage));
        }
    }
}

fn counted(usage: &Json) -> Option<Counted> {
    let tokens = usage.get_some("tokens");
    let billed = usage.get_some("billed_units").or(tokens)?;
    let input_tokens = billed.get("input_tokens")?.as_u64()?;
    let output_tokens = billed.get("output_tokens")?.as_u64()?;
    let reasoning = tokens.and_then(|tokens| tokens.get("reasoning_tokens")?.as_u64());
    let reasoning_tokens = reasoning.unwrap_or_default();
    Some(Counted {
        usage: Usage { input_tokens, output_tokens, reasoning_tokens, ..Usage::default() },
        reasoning,
        cache_writes: 0,
        native: usage.clone(),
    })
}
