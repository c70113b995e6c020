//! Test only: a provider that keeps every promise, and counters that do and do not.
//!
//! It follows the generic rules (obeys `Reply with exactly: X`, honours every parameter, counts honestly) and answers a
//! suite's cases as their assertions want it. The refused cases change one answer of it at a time.

use providers::canonical::{Choice, Finish, Message, Part, Reply, Request, Tool, ToolCall, Usage};
use providers::failure::{Failure, Proof, Rejection};
use providers::json::{Json, Number, Object};
use providers::tokens::Counter;

use crate::assertion::Op;
use crate::observation::{Count, Observation};
use crate::suite::Suite;
use crate::upstream::{Call, Mode, Upstream};

/// Counts four characters a token and three tokens a message, and loses nothing.
#[derive(Debug)]
pub(crate) struct Honest;

/// Loses what is not ASCII.
#[derive(Debug)]
pub(crate) struct Lossy;

/// Takes control-token literals for control tokens.
#[derive(Debug)]
pub(crate) struct Gullible;

fn count(request: &Request) -> u64 {
    request.messages.iter().map(|m| 3 + text_of(m).chars().count().div_ceil(4) as u64).sum()
}

impl Counter for Honest {
    fn count_text(&self, text: &str) -> u64 {
        text.chars().count().div_ceil(4) as u64
    }
    fn count_request(&self, request: &Request) -> u64 {
        count(request)
    }
    fn round_trips(&self, _text: &str) -> bool {
        true
    }
    fn splits_control_literals(&self, _text: &str) -> bool {
        true
    }
}

impl Counter for Lossy {
    fn count_text(&self, text: &str) -> u64 {
        Honest.count_text(text)
    }
    fn count_request(&self, request: &Request) -> u64 {
        count(request)
    }
    fn round_trips(&self, text: &str) -> bool {
        text.is_ascii()
    }
    fn splits_control_literals(&self, _text: &str) -> bool {
        true
    }
}

impl Counter for Gullible {
    fn count_text(&self, text: &str) -> u64 {
        Honest.count_text(text)
    }
    fn count_request(&self, request: &Request) -> u64 {
        count(request)
    }
    fn round_trips(&self, _text: &str) -> bool {
        true
    }
    fn splits_control_literals(&self, _text: &str) -> bool {
        false
    }
}

/// The provider.
#[derive(Debug)]
pub(crate) struct Sound<'a> {
    pub suite: &'a Suite,
    pub window: u64,
}

impl Upstream for Sound<'_> {
    fn mode(&self) -> Mode {
        Mode::Replay
    }

    async fn call(&self, call: &Call) -> Observation {
        if call.model.is_some() {
            let setup = Proof::Rejected(Rejection::Setup);
            return Observation::Failed(Failure::new(setup, "model_not_found", "no such model"));
        }
        let request = match providers::openai::request::parse(call.body.clone()) {
            Ok(request) => request,
            Err(e) => return Observation::Invalid(e.to_string()),
        };
        if count(&request) > self.window {
            let long = Proof::Rejected(Rejection::ContextLength);
            return Observation::Failed(Failure::new(long, "context_length_exceeded", "too long"));
        }
        Observation::Answered(self.answer(&request))
    }

    async fn count(&self, call: &Call) -> Count {
        match providers::openai::request::parse(call.body.clone()) {
            Ok(request) => Count::Tokens(count(&request)),
            Err(e) => Count::Failed(e.to_string()),
        }
    }
}

impl Sound<'_> {
    fn answer(&self, request: &Request) -> Reply {
        let forced = request.tool_choice == Some(providers::canonical::ToolChoice::Required);
        let tool_calls: Vec<ToolCall> = request.tools.iter().take(usize::from(forced)).map(called).collect();
        let text = if tool_calls.is_empty() { Some(self.text(request)) } else { None };
        let (text, stopped) = stop(text, &request.stop);
        let (text, cut) = limit(text, request.max_tokens);
        let finish = match (tool_calls.is_empty(), cut && !stopped) {
            (false, _) => Finish::ToolCalls,
            (true, true) => Finish::Length,
            (true, false) => Finish::Stop,
        };
        let said = text.as_deref().unwrap_or("call");
        let tokens = said.split_whitespace().count().max(said.len().div_ceil(16)).max(1) as u64;
        let usage = Usage { input_tokens: count(request), output_tokens: tokens, cached_input_tokens: 0 };
        let choice =
            Choice { index: 0, text, refusal: None, tool_calls, finish, native_finish: finish.as_openai().to_owned() };
        Reply { id: None, model: None, choices: vec![choice], usage: Some(usage), usage_unreadable: false }
    }

    fn text(&self, request: &Request) -> String {
        let prompt: Vec<String> = request.messages.iter().map(text_of).collect();
        if let Some((_, rest)) = prompt.iter().find_map(|t| t.split_once("Reply with exactly: ")) {
            return rest.lines().next().unwrap_or_default().to_owned();
        }
        let user = prompt.last().cloned().unwrap_or_default();
        let mut out = fill(&self.suite.schema);
        let case = self.suite.cases.iter().find(|c| c.user == user);
        if let (Some(case), Json::Object(members)) = (case, &mut out) {
            for assertion in &case.assertions {
                let value = match &assertion.op {
                    Op::Equals(json) => json.clone(),
                    Op::OneOf(all) => all[0].clone(),
                    Op::Contains(text) => Json::String(text.clone()),
                    Op::Between { min, max } => Json::Number(Number::from_u64(min.or(*max).unwrap_or_default() as u64)),
                };
                members.insert(assertion.at.trim_start_matches('/'), value);
            }
        }
        String::from_utf8(out.to_bytes().to_vec()).unwrap()
    }
}

/// A value that fits a simple schema.
fn fill(schema: &Json) -> Json {
    if let Some(first) = schema.get("enum").and_then(Json::as_array).and_then(|a| a.first()) {
        return first.clone();
    }
    match schema.get("type").and_then(Json::as_str) {
        Some("object") => {
            let mut out = Object::new();
            if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
                for (name, property) in properties.iter() {
                    out.insert(name, fill(property));
                }
            }
            Json::Object(out)
        }
        Some("integer" | "number") => Json::Number(Number::from_u64(1)),
        _ => Json::String("hello".to_owned()),
    }
}

fn called(tool: &Tool) -> ToolCall {
    let arguments = tool.parameters.as_ref().map(fill).unwrap_or(Json::Object(Object::new()));
    ToolCall {
        id: "call_1".to_owned(),
        name: tool.name.clone(),
        arguments: String::from_utf8(arguments.to_bytes().to_vec()).unwrap(),
    }
}

fn stop(text: Option<String>, stops: &[String]) -> (Option<String>, bool) {
    match text {
        Some(text) => match stops.iter().filter_map(|s| text.find(s.as_str())).min() {
            Some(at) => (Some(text[..at].to_owned()), true),
            None => (Some(text), false),
        },
        None => (None, false),
    }
}

fn limit(text: Option<String>, limit: Option<u64>) -> (Option<String>, bool) {
    let limit = limit.map_or(usize::MAX, |n| n as usize);
    match text {
        Some(text) if text.split_whitespace().count() > limit => {
            (Some(text.split_whitespace().take(limit).collect::<Vec<_>>().join(" ")), true)
        }
        other => (other, false),
    }
}

pub(crate) fn text_of(message: &Message) -> String {
    let parts = match message {
        Message::System { parts, .. }
        | Message::User { parts, .. }
        | Message::Assistant { parts, .. }
        | Message::Tool { parts, .. } => parts,
    };
    parts.iter().filter_map(|p| if let Part::Text(text) = p { Some(text.as_str()) } else { None }).collect()
}
