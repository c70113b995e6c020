//! What the client has been told of a response so far, and what is still to be told when the response is there whole.
//!
//! Text, refusal, reasoning and the arguments of calls go on as they come. Items that stay whole go on at the end.

use crate::canonical::ToolCall;
use crate::json::{Json, Object};
use crate::numbered::Lists;
use crate::responses::reply::{BETWEEN_THOUGHTS, Whole, render};

/// A delta for the client, and the logprobs that go with it (null: none).
pub(super) type Told = (Object, Json);

#[derive(Debug, Default)]
pub(super) struct Seen {
    text: String,
    refusal: String,
    reasoning: String,
    /// The part of reasoning that was added to last.
    thought: Option<(u64, String, u64)>,
    logprobs: Vec<Json>,
    /// With the place of each among the items.
    calls: Vec<(u64, ToolCall)>,
}

impl Seen {
    /// What an event of the output adds. Nothing where it only repeats what others have brought, or is of a kind that
    /// came after this was written: the response that ends the stream holds it.
    pub fn take(&mut self, kind: &str, event: &Json) -> Result<Vec<Told>, String> {
        let delta = || event.get("delta").and_then(Json::as_str).ok_or_else(|| format!("{kind} without its delta"));
        match kind {
            "response.output_text.delta" => {
                let logprobs = event.get("logprobs").and_then(Json::as_array).unwrap_or_default();
                Ok(self.say(delta()?, logprobs))
            }
            "response.refusal.delta" => Ok(say(&mut self.refusal, "refusal", delta()?)),
            "response.reasoning_summary_text.delta" => self.think("summary", event, delta()?),
            "response.reasoning_text.delta" => self.think("content", event, delta()?),
            "response.output_item.added" => {
                let item = event.get("item").filter(|item| is_call(item));
                item.map_or_else(|| Ok(Vec::new()), |item| self.open(place(event)?, item))
            }
            "response.function_call_arguments.delta" => {
                let at = place(event)?;
                let call = self.calls.iter().position(|(known, _)| *known == at);
                let call = call.ok_or_else(|| "arguments of no open call".to_owned())?;
                Ok(self.argue(call, delta()?))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn say(&mut self, more: &str, logprobs: &[Json]) -> Vec<Told> {
        self.logprobs.extend_from_slice(logprobs);
        let mut told = say(&mut self.text, "content", more);
        if !logprobs.is_empty() {
            let delta = told.pop().map_or_else(Object::new, |(delta, _)| delta);
            told.push((delta, render::logprobs(logprobs)));
        }
        told
    }

    /// Between two parts of reasoning stands what stands there in the whole one.
    fn think(&mut self, list: &str, event: &Json, more: &str) -> Result<Vec<Told>, String> {
        let index = event.get("summary_index").or_else(|| event.get("content_index")).and_then(Json::as_u64);
        let part = (place(event)?, list.to_owned(), index.unwrap_or_default());
        if more.is_empty() {
            return Ok(Vec::new());
        }
        let mut text = String::new();
        if self.thought.replace(part.clone()).is_some_and(|last| last != part) {
            text.push_str(BETWEEN_THOUGHTS);
        }
        text.push_str(more);
        Ok(say(&mut self.reasoning, "reasoning_content", &text))
    }

    fn open(&mut self, at: u64, item: &Json) -> Result<Vec<Told>, String> {
        let text = |name: &str| item.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        let (Some(id), Some(name)) = (text("call_id"), text("name")) else {
            return Err("a call began without its call_id or its name".to_owned());
        };
        if self.calls.iter().any(|(known, _)| *known == at) {
            return Err("a call began twice".to_owned());
        }
        let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
        let index = self.calls.len();
        let mut told = vec![(opened(index, &call), Json::Null)];
        self.calls.push((at, call));
        told.extend(self.argue(index, text("arguments").unwrap_or_default()));
        Ok(told)
    }

    fn argue(&mut self, index: usize, more: &str) -> Vec<Told> {
        if more.is_empty() {
            return Vec::new();
        }
        self.calls[index].1.arguments.push_str(more);
        vec![(fragment(index, more), Json::Null)]
    }

    /// What the response holds beyond what was told; that must be its beginning.
    pub fn rest(&mut self, whole: &Whole) -> Result<Vec<Told>, &'static str> {
        let (choice, items) = (whole.choice(), &whole.items);
        let reasoning = items.reasoning.strip_prefix(&self.reasoning).ok_or("its reasoning differs")?;
        let mut told = say(&mut self.reasoning, "reasoning_content", reasoning);
        let text = choice.text.as_deref().unwrap_or_default();
        let text = text.strip_prefix(&self.text).ok_or("its text differs")?;
        // Logprobs that came with no delta come with the text, if that comes now.
        let logprobs = if self.text.is_empty() && self.logprobs.is_empty() && !text.is_empty() {
            &items.logprobs[..]
        } else {
            &[]
        };
        told.extend(self.say(text, logprobs));
        let refusal = choice.refusal.as_deref().unwrap_or_default();
        let refusal = refusal.strip_prefix(&self.refusal).ok_or("its refusal differs")?;
        told.extend(say(&mut self.refusal, "refusal", refusal));
        told.extend(self.rest_of_calls(&choice.tool_calls)?);
        for (name, kept) in render::kept(whole) {
            told.push((object(name, Lists::default().number(name, kept.to_vec().into())), Json::Null));
        }
        Ok(told)
    }

    fn rest_of_calls(&mut self, calls: &[ToolCall]) -> Result<Vec<Told>, &'static str> {
        if calls.len() < self.calls.len() {
            return Err("it has fewer calls");
        }
        let mut told = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            match self.calls.get(index) {
                None => {
                    let opening = ToolCall { arguments: String::new(), ..call.clone() };
                    told.push((opened(index, &opening), Json::Null));
                    self.calls.push((u64::MAX, opening));
                }
                Some((_, seen)) if (&seen.id, &seen.name) != (&call.id, &call.name) => return Err("a call differs"),
                Some(_) => {}
            }
            let rest = call.arguments.strip_prefix(&self.calls[index].1.arguments);
            told.extend(self.argue(index, rest.ok_or("the arguments of a call differ")?));
        }
        Ok(told)
    }

    /// As they were told: the whole response rounds them otherwise.
    pub fn take_logprobs(&mut self) -> Vec<Json> {
        std::mem::take(&mut self.logprobs)
    }
}

fn is_call(item: &Json) -> bool {
    item.get("type").and_then(Json::as_str) == Some("function_call")
}

fn place(event: &Json) -> Result<u64, String> {
    event
        .get("output_index")
        .and_then(Json::as_u64)
        .ok_or_else(|| "an event of the output without its place".to_owned())
}

fn say(whole: &mut String, name: &str, more: &str) -> Vec<Told> {
    if more.is_empty() {
        return Vec::new();
    }
    whole.push_str(more);
    vec![(object(name, more), Json::Null)]
}

fn opened(index: usize, call: &ToolCall) -> Object {
    let function: Object = [("name", call.name.as_str()), ("arguments", "")].into_iter().collect();
    let mut written = object("index", index as u64);
    written.insert("id", call.id.as_str());
    written.insert("type", "function");
    written.insert("function", function);
    object("tool_calls", vec![Json::Object(written)])
}

fn fragment(index: usize, more: &str) -> Object {
    let mut written = object("index", index as u64);
    written.insert("function", object("arguments", more));
    object("tool_calls", vec![Json::Object(written)])
}

fn object(name: &str, value: impl Into<Json>) -> Object {
    let mut object = Object::new();
    object.insert(name, value);
    object
}
