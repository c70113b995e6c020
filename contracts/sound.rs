//! Test only: a provider that keeps every promise, and counters that do and do not.
//!
//! It follows the generic rules (obeys `Reply with exactly: X`, honours every parameter, counts honestly) and answers a
//! suite's cases as their assertions want it. The refused cases change one answer of it at a time.

use providers::canonical::{
    Choice, Finish, Message, Part, Reply, Request, ResponseFormat, Tool, ToolCall, ToolChoice, Usage,
};
use providers::failure::{Failure, Proof, Rejection};
use providers::json::{Json, Number, Object};
use providers::tokens::Counter;

use crate::assertion::Op;
use crate::observation::{Count, Observation};
use crate::suite::Suite;
use crate::upstream::{Call, Mode, Shown, Upstream};

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
    fn name(&self) -> &'static str {
        "honest"
    }
    fn count_text(&self, text: &str) -> u64 {
        text.chars().count().div_ceil(4) as u64
    }
    fn count_request(&self, request: &Request) -> Option<u64> {
        Some(count(request))
    }
    fn round_trips(&self, _text: &str) -> bool {
        true
    }
    fn splits_control_literals(&self, _text: &str) -> bool {
        true
    }
}

impl Counter for Lossy {
    fn name(&self) -> &'static str {
        "lossy"
    }
    fn count_text(&self, text: &str) -> u64 {
        Honest.count_text(text)
    }
    fn count_request(&self, request: &Request) -> Option<u64> {
        Some(count(request))
    }
    fn round_trips(&self, text: &str) -> bool {
        text.is_ascii()
    }
    fn splits_control_literals(&self, _text: &str) -> bool {
        true
    }
}

impl Counter for Gullible {
    fn name(&self) -> &'static str {
        "gullible"
    }
    fn count_text(&self, text: &str) -> u64 {
        Honest.count_text(text)
    }
    fn count_request(&self, request: &Request) -> Option<u64> {
        Some(count(request))
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
        if let Some(param) = impossible(&request) {
            let mut refused = Failure::new(Proof::Rejected(Rejection::BadRequest), "invalid_value", "out of range");
            refused.param = Some(param.to_owned());
            return Observation::Failed(refused);
        }
        Observation::Answered(self.answer(&request))
    }

    async fn render(&self, call: &Call) -> Shown<String> {
        match providers::openai::request::parse(call.body.clone()) {
            Ok(request) => Shown::Seen(chatml(&request)),
            Err(e) => Shown::Failed(e.to_string()),
        }
    }

    async fn code(&self, _name: &str, text: &str) -> Shown<String> {
        Shown::Seen(text.to_owned())
    }

    async fn count(&self, call: &Call) -> Count {
        match providers::openai::request::parse(call.body.clone()) {
            Ok(request) => Count::Tokens(count(&request)),
            Err(e) => Count::Failed(e.to_string()),
        }
    }
}

/// What no provider can do, by the name of the parameter.
fn impossible(request: &Request) -> Option<&'static str> {
    let above = |n: &Option<Number>, most: f64| n.as_ref().is_some_and(|n| n.as_f64() > most);
    let no_schema =
        |tool: &Tool| tool.parameters.as_ref().is_some_and(|p| jsonschema::validator_for(&p.to_serde()).is_err());
    if above(&request.temperature, 2.0) {
        Some("temperature")
    } else if above(&request.top_p, 1.0) {
        Some("top_p")
    } else if request.tools.iter().any(no_schema) {
        Some("tools")
    } else {
        None
    }
}

fn chatml(request: &Request) -> String {
    let turns = request.messages.iter().map(|m| format!("<|im_start|>{}\n{}<|im_end|>\n", role_of(m), text_of(m)));
    turns.chain(["<|im_start|>assistant\n".to_owned()]).collect()
}

fn role_of(message: &Message) -> &'static str {
    match message {
        Message::System { .. } => "system",
        Message::User { .. } => "user",
        Message::Assistant { .. } => "assistant",
        Message::Tool { .. } => "tool",
    }
}

impl Sound<'_> {
    fn answer(&self, request: &Request) -> Reply {
        let tool_calls = calls(request);
        let text = if tool_calls.is_empty() { Some(self.text(request)) } else { None };
        let (text, stopped) = stop(text, &request.stop);
        let (text, cut) = limit(text, request.max_tokens);
        let finish = match (tool_calls.is_empty(), cut && !stopped) {
            (false, _) => Finish::ToolCalls,
            (true, true) => Finish::Length,
            (true, false) => Finish::Stop,
        };
        let said = text.as_deref().unwrap_or("call");
        let tokens = Honest.count_text(said).max(1) * request.n.unwrap_or(1);
        let usage = Usage { input_tokens: count(request), output_tokens: tokens, ..Usage::default() };
        let choice =
            Choice { index: 0, text, refusal: None, tool_calls, finish, native_finish: finish.as_openai().to_owned() };
        let choices = vec![choice; request.n.unwrap_or(1) as usize];
        let model = request.body.get("model").and_then(Json::as_str).map(str::to_owned);
        Reply { id: None, model, choices, usage: Some(usage), usage_unreadable: false }
    }

    fn text(&self, request: &Request) -> String {
        let prompt: Vec<String> = request.messages.iter().map(text_of).collect();
        let bound = matches!(request.response_format, Some(ResponseFormat::JsonSchema { .. }));
        match request.messages.last() {
            Some(Message::Tool { .. }) => {
                return format!("The tool says: {}", prompt.last().cloned().unwrap_or_default());
            }
            Some(last) if text_of(last).starts_with("Repeat your last answer") => {
                return prompt.iter().rev().nth(1).cloned().unwrap_or_default();
            }
            Some(last) if text_of(last).contains("random words") => {
                return format!(
                    "some words of {}",
                    request.body.get("seed").and_then(Json::as_u64).unwrap_or_default()
                );
            }
            _ => {}
        }
        let told = prompt.iter().find_map(|t| t.split_once("Reply with exactly: "));
        let told = told.map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned());
        if let Some(told) = told.filter(|told| !bound || crate::schema::fits(self.suite, told).is_ok()) {
            return told;
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
                    // No suite that is judged against the sound provider says these.
                    Op::Count(_) | Op::Holds(_) => continue,
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

/// The calls that were forced. A text that says `once with {…}` says the arguments.
fn calls(request: &Request) -> Vec<ToolCall> {
    let tool = match &request.tool_choice {
        Some(ToolChoice::Required) => request.tools.first(),
        Some(ToolChoice::Function(name)) => request.tools.iter().find(|tool| tool.name == *name),
        Some(ToolChoice::Auto | ToolChoice::None) | None => None,
    };
    let Some(tool) = tool else { return Vec::new() };
    let user = request.messages.last().map(text_of).unwrap_or_default();
    let said = user.split("once with ").skip(1).filter_map(|rest| rest.split_inclusive('}').next());
    let mut arguments: Vec<String> = said.map(str::to_owned).collect();
    if arguments.is_empty() {
        let value = tool.parameters.as_ref().map(fill).unwrap_or(Json::Object(Object::new()));
        arguments.push(String::from_utf8(value.to_bytes().to_vec()).unwrap());
    }
    let named = arguments.into_iter().enumerate();
    named.map(|(n, arguments)| ToolCall { id: format!("call_{n}"), name: tool.name.clone(), arguments }).collect()
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

/// Four characters are a token.
fn limit(text: Option<String>, limit: Option<u64>) -> (Option<String>, bool) {
    let most = limit.map_or(usize::MAX, |n| 4 * n as usize);
    match text {
        Some(text) if text.chars().count() > most => (Some(text.chars().take(most).collect()), true),
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
