//! The output of a response, item by item, gathered into what a chat completion holds of it. Texts of several messages
//! are one text, as OpenAI's own libraries join them.

use crate::canonical::ToolCall;
use crate::json::Json;
use crate::responses::request::is_encrypted_reasoning;

#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::responses) struct Items {
    /// `None`: no message held a text, not even an empty one.
    pub text: Option<String>,
    pub refusal: Option<String>,
    pub logprobs: Vec<Json>,
    pub calls: Vec<ToolCall>,
    pub reasoning: String,
    /// Reasoning that only the provider can read.
    pub encrypted: Vec<Json>,
    pub other: Vec<Json>,
}

impl Items {
    /// Reads `output`. Says what of it is no output.
    pub fn read(response: &Json) -> Result<Items, String> {
        let output = response.get("output").and_then(Json::as_array).ok_or("the response has no output")?;
        let mut items = Items::default();
        for (i, item) in output.iter().enumerate() {
            match item.get("type").and_then(Json::as_str) {
                Some("message") => items.message(i, item)?,
                Some("function_call") => {
                    let read = call(item).ok_or_else(|| format!("output[{i}] lacks a call_id, a name or arguments"))?;
                    items.calls.push(read);
                }
                Some("reasoning") => items.reason(item),
                Some(_) => items.other.push(item.clone()),
                None => return Err(format!("output[{i}] has no type")),
            }
        }
        Ok(items)
    }

    fn message(&mut self, i: usize, item: &Json) -> Result<(), String> {
        let content = item.get("content").and_then(Json::as_array);
        let content = content.ok_or_else(|| format!("output[{i}] is a message without content"))?;
        let mut unspoken = false;
        for (j, part) in content.iter().enumerate() {
            let text = |name: &str| part.get(name).and_then(Json::as_str);
            let nothing = || format!("output[{i}].content[{j}] is a part without its text");
            match part.get("type").and_then(Json::as_str) {
                Some("output_text") => {
                    self.text.get_or_insert_default().push_str(text("text").ok_or_else(nothing)?);
                    self.logprobs.extend_from_slice(part.get("logprobs").and_then(Json::as_array).unwrap_or_default());
                    unspoken |= part.get("annotations").and_then(Json::as_array).is_some_and(|all| !all.is_empty());
                }
                Some("refusal") => {
                    self.refusal.get_or_insert_default().push_str(text("refusal").ok_or_else(nothing)?);
                }
                _ => unspoken = true,
            }
        }
        if unspoken {
            self.other.push(item.clone());
        }
        Ok(())
    }

    fn reason(&mut self, item: &Json) {
        let parts = ["summary", "content"].into_iter().filter_map(|name| item.get(name)?.as_array());
        for text in parts.flatten().filter_map(|part| part.get("text").and_then(Json::as_str)) {
            join_thought(&mut self.reasoning, text);
        }
        if is_encrypted_reasoning(item) {
            self.encrypted.push(item.clone());
        }
    }
}

/// The text between two parts of reasoning.
pub(in crate::responses) const BETWEEN_THOUGHTS: &str = "\n\n";

fn join_thought(whole: &mut String, part: &str) {
    if !whole.is_empty() && !part.is_empty() {
        whole.push_str(BETWEEN_THOUGHTS);
    }
    whole.push_str(part);
}

/// `call_id` is what ties a result to it; the item's own `id` is not. The arguments are the model's text, digit for
/// digit; none at all are `{}`.
pub(in crate::responses) fn call(item: &Json) -> Option<ToolCall> {
    let text = |name: &str| item.get(name).and_then(Json::as_str);
    let arguments = text("arguments")?;
    Some(ToolCall {
        id: text("call_id").filter(|id| !id.is_empty())?.to_owned(),
        name: text("name").filter(|name| !name.is_empty())?.to_owned(),
        arguments: if arguments.is_empty() { "{}" } else { arguments }.to_owned(),
    })
}
