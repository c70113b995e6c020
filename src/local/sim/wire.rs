//! What all protocols share: reading a body strictly, what can be wrong with a call, and an event stream as a body.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use hyper::body::Frame;
use serde_json::{Map, Value};

use super::model::{Ask, ToolChoice};
use super::schema::Unwritable;
use super::zoo::{Raw, Skip};
use super::{Settings, Wire, schema};

/// Why a call gets no answer. Each protocol has its own words for these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Invalid { param: Option<String>, message: String },
    BadSchema { param: String, message: String },
    TooLong { tokens: usize, window: usize },
    WrongKey,
    UnknownModel { model: String },
    NoRoute { asked: String },
    Overloaded,
}

impl Fault {
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault::Invalid { param: Some(param.into()), message: message.into() }
    }
}

impl From<Unwritable> for Fault {
    fn from(why: Unwritable) -> Fault {
        Fault::BadSchema { param: "schema".to_owned(), message: why.to_string() }
    }
}

pub(super) fn parse(body: &[u8]) -> Result<Value, Fault> {
    let problem = |message: String| Fault::Invalid { param: None, message };
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        Ok(_) => Err(problem("the body must be a JSON object".to_owned())),
        Err(error) => Err(problem(format!("could not parse the JSON body of your request: {error}"))),
    }
}

/// OpenAI takes the key as a bearer token, Anthropic that way or as `x-api-key`, Google as `x-goog-api-key`.
pub(super) fn check_key(headers: &HeaderMap, key: Option<&str>, wire: Wire) -> Result<(), Fault> {
    let Some(key) = key else { return Ok(()) };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let own = match wire {
        Wire::OpenAiChat => None,
        Wire::AnthropicMessages => text("x-api-key"),
        Wire::Gemini => text("x-goog-api-key"),
    };
    if bearer.or(own) == Some(key) { Ok(()) } else { Err(Fault::WrongKey) }
}

/// A parameter outside `known` is refused, and so is one that the mini-model cannot honour.
pub(super) fn check_names(body: &Value, known: &[&str], unsupported: &[&str]) -> Result<(), Fault> {
    for (name, value) in body.as_object().into_iter().flatten() {
        if !known.contains(&name.as_str()) {
            return Err(Fault::invalid(name, format!("{name}: unrecognized request argument")));
        }
        if unsupported.contains(&name.as_str()) && !value.is_null() {
            return Err(Fault::invalid(name, format!("{name} is not supported with this model")));
        }
    }
    Ok(())
}

pub(super) fn model(body: &Value, settings: &Settings) -> Result<String, Fault> {
    let model = body.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Fault::invalid("model", "model: field required"))?;
    match &settings.models {
        Some(models) if !models.iter().any(|known| known == model) && !settings.skips(Skip::Model) => {
            Err(Fault::UnknownModel { model: model.to_owned() })
        }
        _ => Ok(model.to_owned()),
    }
}

/// A number within bounds, if it is there.
pub(super) fn check_range(body: &Value, name: &str, low: f64, high: f64) -> Result<(), Fault> {
    match body.get(name).filter(|value| !value.is_null()) {
        Some(value) if !value.as_f64().is_some_and(|number| (low..=high).contains(&number)) => {
            Err(Fault::invalid(name, format!("{name}: must be a number from {low} to {high}")))
        }
        _ => Ok(()),
    }
}

pub(super) fn flag(body: &Value, name: &str) -> Result<bool, Fault> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Fault::invalid(name, format!("{name}: must be a boolean"))),
    }
}

/// A limit in tokens, at least one.
pub(super) fn limit(body: &Value, name: &str) -> Result<Option<usize>, Fault> {
    match body.get(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_u64().and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0) {
            Some(limit) => Ok(Some(limit)),
            None => Err(Fault::invalid(name, format!("{name}: must be an integer of at least 1"))),
        },
    }
}

pub(super) fn strings(value: &Value, name: &str) -> Result<Vec<String>, Fault> {
    let wrong = || Fault::invalid(name, format!("{name}: must be a list of non-empty strings"));
    let texts = value.as_array().ok_or_else(wrong)?.iter();
    texts.map(|text| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned).ok_or_else(wrong)).collect()
}

/// Tools must have names and schemas, and a forced one must exist.
pub(super) fn check_tools(ask: &Ask, longest_name: usize, settings: &Settings) -> Result<(), Fault> {
    if settings.skips(Skip::Tools) {
        return Ok(());
    }
    for (at, tool) in ask.tools.iter().enumerate() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.name.is_empty() || tool.name.len() > longest_name || !tool.name.chars().all(plain) {
            return Err(Fault::invalid(
                format!("tools[{at}]"),
                format!("tools[{at}]: invalid tool name '{}'", tool.name),
            ));
        }
        let object = tool.schema.get("type").and_then(Value::as_str) == Some("object");
        let problem = match schema::check(&tool.schema) {
            Err(error) => Some(error.to_string()),
            Ok(_) => (!object).then(|| "schema must be of type \"object\"".to_owned()),
        };
        if let Some(problem) = problem {
            let message = format!("Invalid schema for function '{}': {problem}", tool.name);
            return Err(Fault::BadSchema { param: format!("tools[{at}]"), message });
        }
    }
    match &ask.choice {
        ToolChoice::Named(name) if !ask.tools.iter().any(|tool| tool.name == *name) => {
            Err(Fault::invalid("tool_choice", format!("tool_choice: there is no tool '{name}'")))
        }
        ToolChoice::Required if ask.tools.is_empty() => {
            Err(Fault::invalid("tool_choice", "tool_choice: is only allowed when tools are given"))
        }
        _ => Ok(()),
    }
}

/// The prompt has to leave room for the answer.
pub(super) fn check_window(prompt: usize, answer: usize, settings: &Settings) -> Result<(), Fault> {
    let tokens = prompt + answer;
    let window = settings.context_window;
    if tokens > window && !settings.skips(Skip::Window) { Err(Fault::TooLong { tokens, window }) } else { Ok(()) }
}

/// What a dishonest meter shows: a tenth too little, rounded down; never nothing for something.
pub(super) fn understated(tokens: usize) -> usize {
    tokens.saturating_sub(tokens.div_ceil(10)).max(tokens.min(1))
}

/// Adds the members of `more`.
pub(super) fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(from)) = (value, more) {
        Map::extend(into, from);
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    respond(status, "application/json", Body::from(value.to_string()))
}

/// Bytes as they are. A body that is cut announces one byte more than it has.
pub(super) fn raw(raw: Raw) -> Response {
    let status = StatusCode::from_u16(raw.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let length = raw.body.len() + usize::from(raw.cut);
    let body = if raw.cut { Body::new(Events::of([Bytes::from(raw.body)])) } else { Body::from(raw.body) };
    let mut response = respond(status, raw.kind, body);
    if raw.cut {
        response.headers_mut().insert(header::CONTENT_LENGTH, header::HeaderValue::from(length));
    }
    if let Some(encoding) = raw.encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, header::HeaderValue::from_static(encoding));
    }
    response
}

/// A stream of server-sent events, each a chunk of its own on the wire.
pub(super) fn events(events: Vec<String>) -> Response {
    let events = events.into_iter().map(Bytes::from);
    respond(StatusCode::OK, "text/event-stream; charset=utf-8", Body::new(Events::of(events)))
}

fn respond(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

struct Events {
    left: VecDeque<Bytes>,
    flushed: bool,
}

impl Events {
    fn of(pieces: impl IntoIterator<Item = Bytes>) -> Events {
        Events { left: pieces.into_iter().collect(), flushed: true }
    }
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    /// Pauses between events for one turn of the scheduler: the server writes out what it has whenever a body is not
    /// ready, and a client that sees everything in one read proves nothing about streaming.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.flushed {
            self.flushed = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.flushed = false;
        Poll::Ready(self.left.pop_front().map(|event| Ok(Frame::data(event))))
    }
}
