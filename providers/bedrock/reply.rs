//! Converse's answer, read as the chat completion that it means; whole and streamed through the same `Reading`.
//!
//! Reasoning goes into `reasoning_content`; signed or hidden, also into `thinking_blocks`, under Anthropic's names, from
//! where it can go back. Citations go into the message's `citations`, and blocks that OpenAI has no word for (what the
//! provider's own tools did, images, …) into `other_blocks`. Answers name neither themselves nor their model: the id is
//! the request's, and the client is told the name that it asked for.

#[cfg(test)]
mod tests;

use crate::adapter::{Head, StreamPiece};
use crate::canonical::{Answer, Finish, Usage};
use crate::draft::{Counted, Draft, fingerprint};
use crate::failure::Failure;
use crate::json::Json;
use crate::leftover::object;
use crate::refusal::{self, ErrorBody};

pub(crate) fn read(asked: &str, head: &Head, body: &[u8]) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    let (mut reading, out) = (Reading::new(asked, head), &mut Vec::new());
    reading.beside(&json);
    let message = json.get("output").and_then(|output| output.get("message"));
    let content = message.and_then(|message| message.get("content")).and_then(Json::as_array);
    for block in content.ok_or_else(|| reading.draft.invalid("the answer has no output.message.content"))? {
        reading.block(block, out)?;
    }
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
        let mut draft = Draft::asked_of(asked, head);
        draft.identify(head.headers.get("x-amzn-requestid").and_then(|id| id.to_str().ok()), None);
        // A proxy may keep the header back, and clients want an id.
        let date = head.headers.get(http::header::DATE).and_then(|date| date.to_str().ok()).unwrap_or_default();
        draft.identify(Some(&format!("chatcmpl-{}", fingerprint(date))), None);
        Reading { head: head.clone(), draft }
    }

    /// What stands beside the message: the count, and members that keep their own names.
    pub fn beside(&mut self, said: &Json) {
        if let Some(usage) = said.get_some("usage") {
            self.draft.count(counted(usage));
        }
        if let Some(tier) = said.get_some("serviceTier").and_then(|tier| tier.get_some("type")) {
            self.draft.answer_member("service_tier", tier.clone());
        }
        for name in ["additionalModelResponseFields", "trace", "performanceConfig"] {
            if let Some(value) = said.get_some(name) {
                self.draft.answer_member(name, value.clone());
            }
        }
    }

    /// A whole block.
    pub fn block(&mut self, block: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let Some((kind, content)) = block.as_object().and_then(|block| block.iter().next()) else {
            return Err(self.draft.invalid("a content block is empty"));
        };
        match kind {
            "text" => self.text(content, out),
            "reasoningContent" => self.reasoning(content, out),
            "citationsContent" => {
                for piece in content.get("content").and_then(Json::as_array).unwrap_or_default() {
                    self.text(piece.get("text").unwrap_or(&Json::Null), out)?;
                }
                for citation in content.get("citations").and_then(Json::as_array).unwrap_or_default() {
                    self.list("citations", citation.clone(), out);
                }
                Ok(())
            }
            // A call of the provider's own tool has been answered there.
            "toolUse" if content.get("type").and_then(Json::as_str) != Some("server_tool_use") => {
                let number = self.call(content, out)?;
                let input = content.get("input").filter(|input| input.as_object().is_some());
                let input = input.ok_or_else(|| self.draft.invalid("the input of a call is no object"))?;
                let arguments = String::from_utf8_lossy(&input.to_bytes()).into_owned();
                self.draft.arguments(0, number, &arguments, out);
                Ok(())
            }
            _ => {
                self.list("other_blocks", block.clone(), out);
                Ok(())
            }
        }
    }

    pub fn text(&mut self, text: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let text = text.as_str().ok_or_else(|| self.draft.invalid("a text block without its text"))?;
        self.draft.text(0, text, Vec::new(), out);
        Ok(())
    }

    fn reasoning(&mut self, content: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        if let Some(data) = content.get_some("redactedContent") {
            self.thought(None, None, Some(data), out);
            return Ok(());
        }
        let said = content.get("reasoningText");
        let Some(text) = said.and_then(|said| said.get("text")?.as_str()) else {
            return Err(self.draft.invalid("a reasoning block without its text"));
        };
        self.draft.reasoning(0, text, out);
        let signature = said.and_then(|said| said.get_some("signature"));
        self.thought(Some(text), signature.and_then(Json::as_str), None, out);
        Ok(())
    }

    /// Keeps what must go back: signed, or hidden.
    pub fn thought(
        &mut self,
        text: Option<&str>,
        signature: Option<&str>,
        hidden: Option<&Json>,
        out: &mut Vec<StreamPiece>,
    ) {
        if let Some(hidden) = hidden {
            let block = object([("type", "redacted_thinking".into()), ("data", hidden.clone())]);
            self.list("thinking_blocks", block, out);
        }
        if let Some(signature) = signature {
            let text = ("thinking", text.unwrap_or_default().into());
            let block = object([("type", "thinking".into()), text, ("signature", signature.into())]);
            self.list("thinking_blocks", block, out);
        }
    }

    pub fn list(&mut self, name: &str, item: Json, out: &mut Vec<StreamPiece>) {
        self.draft.message_member(0, name, Json::Array(vec![item]), out);
    }

    /// A call begins.
    pub fn call(&mut self, call: &Json, out: &mut Vec<StreamPiece>) -> Result<usize, Failure> {
        let text = |name: &str| call.get(name).and_then(Json::as_str).unwrap_or_default();
        self.draft.call(0, text("toolUseId"), text("name"), None, out)
    }

    /// The stop reason, which also says where the model failed.
    pub fn end(&mut self, said: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        let Some(word) = said.get("stopReason").and_then(Json::as_str) else {
            return Err(self.draft.invalid("the answer has no stopReason: it did not end"));
        };
        let finish = match word {
            "end_turn" | "stop_sequence" => Finish::Stop,
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "tool_use" => Finish::ToolCalls,
            "guardrail_intervened" | "content_filtered" => Finish::ContentFilter,
            // malformed_model_output, malformed_tool_use, and what comes to be said later.
            _ => {
                let message = format!("the provider stopped with stopReason {word}");
                let error = ErrorBody { message, code: Some(word.to_owned()), ..ErrorBody::default() };
                return Err(self.draft.billed(refusal::error_in_answer(self.head.status, error)));
            }
        };
        // An ended turn without a block is an empty text, not nothing.
        if matches!(finish, Finish::Stop | Finish::Length) {
            self.draft.text(0, "", Vec::new(), out);
        }
        self.draft.end(0, finish, word, out);
        Ok(())
    }
}

/// Input tokens as OpenAI counts them: uncached, written to and read from the cache together (field case B068).
fn counted(usage: &Json) -> Option<Counted> {
    let required = |name: &str| usage.get(name).and_then(Json::as_u64);
    let optional = |name: &str| match usage.get_some(name) {
        None => Some(0),
        Some(value) => value.as_u64(),
    };
    let (cached, cache_writes) = (optional("cacheReadInputTokens")?, optional("cacheWriteInputTokens")?);
    let input_tokens = required("inputTokens")?.checked_add(cached)?.checked_add(cache_writes)?;
    let usage_read = Usage {
        input_tokens,
        output_tokens: required("outputTokens")?,
        cached_input_tokens: cached,
        cache_write_tokens: cache_writes,
        ..Usage::default()
    };
    Some(Counted { usage: usage_read, reasoning: None, cache_writes, native: usage.clone() })
}
