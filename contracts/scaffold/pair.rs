//! A request and its answer, as files hold them: two documents, or one that an SDK or a recording wrote with both.

use std::path::Path;

use http::{HeaderMap, StatusCode};
use providers::adapter::Head;
use providers::canonical::{Reply, Request};
use providers::json::{Json, Object};

use super::text::Shape;
use super::{ScaffoldError, input};

/// A chat-completions request, and what came back.
#[derive(Debug)]
pub struct Pair {
    pub(super) request: Request,
    pub(super) reply: Reply,
    pub(super) request_file: String,
    pub(super) answer_file: String,
}

const REQUEST_CURE: &str = "The body of a POST to /v1/chat/completions, or {\"request\": …, \"response\": …}";
const ANSWER_CURE: &str = "The body of its answer (object \"chat.completion\"), or {\"request\": …, \"response\": …}";

impl Pair {
    /// Both may be the same file, where one holds both.
    pub fn read(request: &Path, answer: &Path) -> Result<Pair, ScaffoldError> {
        let (request_file, answer_file) = (request.display().to_string(), answer.display().to_string());
        let body = inside(document(request, REQUEST_CURE)?, &["request", "req", "body", "kwargs"], "messages");
        let mut body = body.into_object().unwrap_or_default();
        if body.get("messages").is_none() {
            return Err(input(&request_file, "it has no `messages`", REQUEST_CURE));
        }
        // How the answer is delivered is no part of what is asked.
        for delivery in ["stream", "stream_options"] {
            body.remove(delivery);
        }
        let request = providers::openai::request::parse(body)
            .map_err(|e| input(&request_file, format!("it is no chat-completions request: {e}"), REQUEST_CURE))?;
        let answer = inside(document(answer, ANSWER_CURE)?, &["response", "answer", "res", "body"], "choices");
        let head = Head { status: StatusCode::OK, headers: HeaderMap::new() };
        let adapter = providers::compatible::adapter_named("openai").expect("the openai adapter is always there");
        let read = adapter.from_upstream(&request, &head, &answer.to_bytes());
        let reply =
            read.map_err(|failure| input(&answer_file, format!("no answer: {}", failure.message), ANSWER_CURE))?;
        Ok(Pair { request, reply: reply.reply, request_file, answer_file })
    }

    /// What the consumer reads of the answer, as JSON.
    pub(super) fn output(&self, shape: &Shape) -> Result<Json, ScaffoldError> {
        let choice = self.reply.choices.first();
        let text = match (choice, shape.reads_tool) {
            (Some(choice), true) => choice.tool_calls.first().map(|call| call.arguments.as_str()),
            (Some(choice), false) => choice.text.as_deref(),
            (None, _) => None,
        };
        let wanted = if shape.reads_tool { "tool call, as the first one holds" } else { "text" };
        let Some(text) = text else {
            return Err(input(&self.answer_file, format!("the answer holds no {wanted}"), ANSWER_CURE));
        };
        Json::parse(text.as_bytes()).map_err(|e| {
            let cure =
                "A suite judges JSON. Ask for it with response_format, and take an answer without fences or prose";
            input(&self.answer_file, format!("what the answer says is not one JSON value: {e}"), cure)
        })
    }
}

fn document(path: &Path, cure: &str) -> Result<Json, ScaffoldError> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| input(&shown, format!("it cannot be read: {e}"), cure))?;
    Json::parse(&bytes).map_err(|e| input(&shown, format!("it is not JSON: {e}"), cure))
}

/// The document that has the member `wanted`: this one, or one inside it under one of these names.
fn inside(json: Json, names: &[&str], wanted: &str) -> Json {
    fn find<'a>(json: &'a Json, names: &[&str], wanted: &str, depth: u32) -> Option<&'a Json> {
        let object: &Object = json.as_object()?;
        if object.contains_key(wanted) {
            return Some(json);
        }
        let deeper = depth.checked_sub(1)?;
        names.iter().filter_map(|name| object.get(name)).find_map(|inner| find(inner, names, wanted, deeper))
    }
    find(&json, names, wanted, 3).cloned().unwrap_or(json)
}
