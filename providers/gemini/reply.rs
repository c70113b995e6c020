//! Google's answer, read as the chat completion that it means. A whole answer is one `GenerateContentResponse`, a
//! streamed one several: both go through `Reading`, so that they mean the same.
//!
//! Thoughts go into `reasoning_content`, signatures into `extra_content.google.thought_signature` (Google's own place
//! in the client's dialect), other kinds of parts into `other_blocks`, and what a candidate says beside its content
//! stays with the choice under Google's own names. `STOP` beside calls is `tool_calls` (field case B023).

mod candidate;
#[cfg(test)]
mod tests;

use crate::adapter::{Head, StreamPiece};
use crate::canonical::{Answer, Finish, Usage};
use crate::draft::{Counted, Draft};
use crate::error_shapes::error_within_success;
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::refusal;

pub(crate) fn read(head: &Head, body: &[u8]) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    let mut reading = Reading::new(head);
    let responses = match &json {
        // `streamGenerateContent` without `alt=sse` answers with all of them in one array.
        Json::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    for response in responses {
        reading.take(response, &mut Vec::new())?;
    }
    reading.draft.settle(&mut Vec::new())
}

/// An answer so far.
#[derive(Debug)]
pub(super) struct Reading {
    head: Head,
    pub draft: Draft,
    /// The prompt was blocked: there are no candidates to wait for.
    pub blocked: bool,
    counted: Object,
}

impl Reading {
    pub fn new(head: &Head) -> Self {
        Reading { head: head.clone(), draft: Draft::new(head), blocked: false, counted: Object::new() }
    }

    /// Takes one response in, whole or a fragment.
    pub fn take(&mut self, response: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
        self.count(response);
        if let Some(error) = response.get_some("error") {
            let failure = refusal::error_in_answer(self.head.status, error_within_success(error));
            return Err(self.draft.billed(failure));
        }
        let text = |name: &str| response.get(name).and_then(Json::as_str);
        self.draft.identify(text("responseId"), text("modelVersion"));
        match response.get_some("candidates") {
            None => {}
            Some(Json::Array(candidates)) => {
                for candidate in candidates {
                    candidate::take(&mut self.draft, self.head.status, candidate, out)?;
                }
            }
            Some(_) => return Err(self.draft.invalid("the candidates of the answer are no array")),
        }
        if let Some(feedback) = response.get_some("promptFeedback") {
            self.blocked(feedback, out);
        }
        Ok(())
    }

    /// A prompt that was blocked has no candidates: the refusal is the answer.
    fn blocked(&mut self, feedback: &Json, out: &mut Vec<StreamPiece>) {
        let Some(reason) = feedback.get("blockReason").and_then(Json::as_str) else { return };
        if let Some(message) = feedback.get("blockReasonMessage").and_then(Json::as_str) {
            self.draft.refuse(0, message, out);
        }
        self.draft.choice_member(0, "promptFeedback", feedback.clone(), out);
        self.draft.end(0, Finish::ContentFilter, reason, out);
        self.blocked = true;
    }

    /// Each fragment counts what there was so far; a later count replaces an earlier one, member by member.
    fn count(&mut self, response: &Json) {
        let Some(usage) = response.get_some("usageMetadata") else { return };
        for (name, value) in usage.as_object().into_iter().flat_map(Object::iter) {
            self.counted.insert(name, value.clone());
        }
        if let Some(tier) = self.counted.get("serviceTier") {
            // The one tier that has another name there.
            let tier = if tier.as_str() == Some("standard") { Json::from("default") } else { tier.clone() };
            self.draft.answer_member("service_tier", tier);
        }
        self.draft.count(counted(&self.counted));
    }
}

/// The prompt's count has what was read from the cache in it; thoughts are counted beside the answer. A count that is
/// zero is left out there.
fn counted(usage: &Object) -> Option<Counted> {
    let count = |name: &str| match usage.get_some(name) {
        None => Some(0),
        Some(value) => value.as_u64(),
    };
    usage.get_some("promptTokenCount").or_else(|| usage.get_some("totalTokenCount"))?;
    let input_tokens = count("promptTokenCount")?.checked_add(count("toolUsePromptTokenCount")?)?;
    let thoughts = count("thoughtsTokenCount")?;
    let output_tokens = count("candidatesTokenCount")?.checked_add(thoughts)?;
    let cached_input_tokens = count("cachedContentTokenCount")?;
    Some(Counted {
        usage: Usage {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            reasoning_tokens: thoughts,
            billed_apart: holds_audio(usage) || !Usage::is_standard_tier(usage.get("serviceTier")),
            ..Usage::default()
        },
        reasoning: usage.contains_key("thoughtsTokenCount").then_some(thoughts),
        cache_writes: 0,
        native: Json::Object(usage.clone()),
    })
}

/// Sound has prices of its own, in and out.
fn holds_audio(usage: &Object) -> bool {
    let details = ["promptTokensDetails", "cacheTokensDetails", "candidatesTokensDetails"];
    let counts = details.iter().filter_map(|name| usage.get(name)?.as_array()).flatten();
    counts.into_iter().any(|count| {
        let tokens = count.get("tokenCount").and_then(Json::as_u64).unwrap_or_default();
        count.get("modality").and_then(Json::as_str) == Some("AUDIO") && tokens > 0
    })
}
