//! Ollama's answer, read as the chat completion that it means. A whole answer is one document, a streamed one several:
//! both go through `Reading`, so that they mean the same. `stop` beside calls is `tool_calls`.
//!
//! It gives no id to an answer, and often none to a call: they are made from `created_at` and the call's number, the
//! same each time.

#[cfg(test)]
mod tests;

use crate::adapter::{Head, StreamPiece};
use crate::canonical::{Answer, Finish, Usage};
use crate::draft::{Counted, Draft, fingerprint};
use crate::error_shapes::error_within_success;
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::refusal::{self, ErrorBody};

pub(crate) fn read(head: &Head, body: &[u8]) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    let mut reading = Reading::new(head);
    reading.take(&json, &mut Vec::new())?;
    reading.draft.settle(&mut Vec::new())
}

/// An answer so far.
#[derive(Debug)]
pub(super) struct Reading {
    head: Head,
    pub draft: Draft,
    created_at: Option<String>,
}

impl Reading {
    pub fn new(head: &Head) -> Self {
        Reading { head: head.clone(), draft: Draft::new(head), created_at: None }
    }

    /// Takes one document in.
    pub fn take(&mut self, document: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let Some(members) = document.as_object() else { return Err(self.draft.invalid("a document is no object")) };
        self.count(members);
        if let Some(error) = document.get_some("error") {
            let failure = refusal::error_in_answer(self.head.status, error_within_success(error));
            return Err(self.draft.billed(failure));
        }
        if self.created_at.is_none() {
            self.created_at = document.get("created_at").and_then(Json::as_str).map(str::to_owned);
        }
        let id = self.created_at.as_deref().map(|at| format!("chatcmpl-{}", fingerprint(at)));
        self.draft.identify(id.as_deref(), document.get("model").and_then(Json::as_str));
        if let Some(message) = document.get_some("message") {
            self.message(message, document.get_some("logprobs"), out)?;
        }
        match document.get("done").and_then(Json::as_bool) {
            Some(true) => self.end(members, out),
            _ => Ok(()),
        }
    }

    fn message(&mut self, message: &Json, logprobs: Option<&Json>, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let text = |name: &str| match message.get_some(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("the {name} of a message is no text")),
        };
        let draft = &mut self.draft;
        if let Some(more) = text("thinking").map_err(|why| draft.invalid(why))? {
            draft.reasoning(0, more, out);
        }
        if let Some(more) = text("content").map_err(|why| draft.invalid(why))? {
            let logprobs = logprobs.and_then(Json::as_array).unwrap_or_default();
            draft.text(0, more, logprobs.to_vec(), out);
        }
        let known = ["role", "content", "thinking", "tool_calls", "tool_name"];
        if let Some(members) = message.as_object() {
            draft.keep_others(0, members, &known, out);
        }
        match message.get_some("tool_calls") {
            None => Ok(()),
            Some(Json::Array(calls)) => calls.iter().try_for_each(|call| self.call(call, out)),
            Some(_) => Err(draft.invalid("the tool_calls of a message are no array")),
        }
    }

    fn call(&mut self, call: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let function = call.get("function");
        let name = function.and_then(|function| function.get("name")?.as_str()).unwrap_or_default();
        let arguments = match function.and_then(|function| function.get_some("arguments")) {
            None => "{}".to_owned(),
            Some(arguments @ Json::Object(_)) => String::from_utf8_lossy(&arguments.to_bytes()).into_owned(),
            Some(_) => return Err(self.draft.invalid(format!("the arguments of the call to {name} are no object"))),
        };
        let known = self.draft.calls(0);
        let theirs = call.get("id").and_then(Json::as_str).filter(|id| !id.is_empty());
        let id = match theirs.filter(|id| !known.iter().any(|call| call.id == *id)) {
            Some(id) => id.to_owned(),
            None => {
                let seed = self.created_at.clone().unwrap_or_else(|| format!("{name}{arguments}"));
                format!("call_{}_{}", fingerprint(&seed), known.len())
            }
        };
        let number = self.draft.call(0, &id, name, None, out)?;
        self.draft.arguments(0, number, &arguments, out);
        Ok(())
    }

    fn end(&mut self, document: &Object, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let word = document.get("done_reason").and_then(Json::as_str).unwrap_or_default();
        let finish = match word {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            // Servers from before there was such a word.
            "" => Finish::Stop,
            // `load` and `unload` answer a request without messages; anything else was not known when this was written.
            _ => {
                let message = format!("the provider ended with done_reason {word}");
                let error = ErrorBody { message, code: Some(word.to_owned()), ..ErrorBody::default() };
                return Err(self.draft.billed(refusal::error_in_answer(self.head.status, error)));
            }
        };
        self.draft.end(0, finish, word, out);
        Ok(())
    }

    /// Counts come with the end. One that is absent is not known, never zero.
    fn count(&mut self, document: &Object) {
        let (input, output) = (document.get_some("prompt_eval_count"), document.get_some("eval_count"));
        if input.is_none() && output.is_none() {
            return;
        }
        let native = document.iter().filter(|(name, _)| name.ends_with("_count") || name.ends_with("_duration"));
        let native: Object = native.map(|(name, value)| (name, value.clone())).collect();
        let usage = input.and_then(Json::as_u64).zip(output.and_then(Json::as_u64));
        self.draft.count(usage.map(|(input_tokens, output_tokens)| Counted {
            usage: Usage { input_tokens, output_tokens, ..Usage::default() },
            reasoning: None,
            cache_writes: 0,
            native: Json::Object(native),
        }));
    }
}
