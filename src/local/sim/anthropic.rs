//! Anthropic's messages, as the API reference described them on 2026-11-29, for the mini-model.
//!
//! Strict: what the real API refuses or this model cannot honour is a 400 in Anthropic's shape, never dropped. The
//! count endpoint and the bill come from one function, so they agree unless the provider is told to cheat.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::asked::Asked;
use super::model::{self, Ask, End, Format, Reply, Role, Tool, ToolChoice, Turn};
use super::wire::{self, Fault};
use super::zoo::{Act, Bill};
use super::{Settings, Wire};

const KNOWN: [&str; 20] = [
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// Would change the answer, and this model could only drop them.
const UNSUPPORTED: [&str; 3] = ["container", "context_management", "mcp_servers"];

/// Tokens that a message adds to its text, and that a system prompt or a tool adds to its own.
const PER_MESSAGE: usize = 4;
const PER_PART: usize = 6;

pub(super) fn models(models: &Option<Vec<String>>) -> Response {
    let any = ["sim-model".to_owned()];
    let known = models.as_deref().unwrap_or(&any);
    let entry =
        |id: &String| json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"});
    let data: Vec<Value> = known.iter().map(entry).collect();
    let page = json!({"data": data, "has_more": false, "first_id": known.first(), "last_id": known.last()});
    wire::json(StatusCode::OK, &page)
}

pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.contains_key("anthropic-version") {
        true => Ok(()),
        false => Err(Fault::invalid("anthropic-version", "anthropic-version: header is required")),
    }
}

pub(super) fn count_tokens(body: &Value, settings: &Settings) -> Result<Response, Fault> {
    let mut body = body.clone();
    for act in settings.acts() {
        match act {
            Act::NoCount => return Err(Fault::NoRoute { asked: "POST /v1/messages/count_tokens".to_owned() }),
            Act::Body(change) | Act::CountBody(change) => change(&mut body),
            _ => {}
        }
    }
    check(&body)?;
    wire::model(&body, settings)?;
    wire::check_tools(&read(&body)?, 128, settings)?;
    let mut tokens = prompt_tokens(&body);
    for act in settings.acts() {
        if let Act::Count(change) = act {
            tokens = change(tokens);
        }
    }
    Ok(wire::json(StatusCode::OK, &json!({"input_tokens": tokens})))
}

pub(super) fn complete(body: &Value, asked: &Asked<'_>) -> Result<Response, Fault> {
    let body = &*asked.body(body);
    let settings = asked.settings;
    check(body)?;
    let model = wire::model(body, settings)?;
    let ask = read(body)?;
    let limit = ask.limit.ok_or_else(|| Fault::invalid("max_tokens", "max_tokens: Field required"))?;
    wire::check_tools(&ask, 128, settings)?;
    let prompt = prompt_tokens(body);
    wire::check_window(prompt, limit, settings)?;
    let replies = asked.replies(ask, body)?;
    let bill = asked.bill(prompt, &replies);
    let Some(reply) = replies.first() else { return Err(Fault::Overloaded) };
    let id = asked.id;
    let mut message = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(&Bill { output: 1, ..bill }),
    });
    if wire::flag(body, "stream")? {
        let all = events(message, reply, usage(&bill), |text| asked.pieces(text, body), id);
        return Ok(asked.streamed(all, Wire::AnthropicMessages));
    }
    let (reason, sequence) = stop(reply);
    let content: Vec<Value> = (0..reply.calls.len().max(1)).map(|at| block(reply, at, id, false)).collect();
    let more = json!({"content": content, "stop_reason": reason, "stop_sequence": sequence, "usage": usage(&bill)});
    wire::extend(&mut message, more);
    Ok(asked.whole(message, Wire::AnthropicMessages))
}

fn check(body: &Value) -> Result<(), Fault> {
    wire::check_names(body, &KNOWN, &UNSUPPORTED)?;
    // These and `top_k` are honoured by doing nothing: the model is deterministic already.
    wire::check_range(body, "temperature", 0.0, 1.0)?;
    wire::check_range(body, "top_p", 0.0, 1.0)?;
    if body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled") {
        return Err(Fault::invalid("thinking", "thinking: this model does not support extended thinking"));
    }
    Ok(())
}

fn read(body: &Value) -> Result<Ask, Fault> {
    let messages = body.get("messages").and_then(Value::as_array).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| Fault::invalid("messages", "messages: at least one message is required"))?;
    let mut turns = Vec::new();
    if let Some(system) = body.get("system").filter(|system| !system.is_null()) {
        turns.push(Turn { role: Role::System, text: plain(system, "system")? });
    }
    for (at, message) in messages.iter().enumerate() {
        turns.extend(read_message(at, message)?);
    }
    let stops = body.get("stop_sequences").filter(|stops| !stops.is_null());
    Ok(Ask {
        turns,
        tools: body.get("tools").and_then(Value::as_array).into_iter().flatten().map(tool).collect(),
        choice: choice(body)?,
        format: format(body)?,
        limit: wire::limit(body, "max_tokens")?,
        stops: stops.map_or(Ok(Vec::new()), |stops| wire::strings(stops, "stop_sequences"))?,
        parallel: body.pointer("/tool_choice/disable_parallel_tool_use") != Some(&Value::Bool(true)),
        choices: 1,
        seed: None,
        window: usize::MAX,
    })
}

/// One message: its text, and the results of tools that it carries, each as a turn of its own.
fn read_message(at: usize, message: &Value) -> Result<Vec<Turn>, Fault> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => {
            return Err(Fault::invalid(
                format!("messages.{at}.role"),
                format!("messages.{at}.role: must be user or assistant"),
            ));
        }
    };
    let place = format!("messages.{at}.content");
    let wrong = || Fault::invalid(&place, format!("{place}: this model reads text"));
    let blocks = match message.get("content") {
        Some(Value::String(text)) => return Ok(vec![Turn { role, text: text.clone() }]),
        Some(Value::Array(blocks)) => blocks,
        _ => return Err(wrong()),
    };
    let (mut turns, mut text) = (Vec::new(), String::new());
    for block in blocks {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => text.push_str(block.get("text").and_then(Value::as_str).ok_or_else(wrong)?),
            Some("tool_result") => {
                let content = block.get("content").map_or(Ok(String::new()), |content| plain(content, &place))?;
                turns.push(Turn { role: Role::Tool, text: content });
            }
            Some("tool_use" | "thinking" | "redacted_thinking") if role == Role::Assistant => {}
            _ => return Err(wrong()),
        }
    }
    if !text.is_empty() || turns.is_empty() {
        turns.push(Turn { role, text });
    }
    Ok(turns)
}

/// Text as a string or as a list of text blocks.
fn plain(content: &Value, place: &str) -> Result<String, Fault> {
    let wrong = || Fault::invalid(place, format!("{place}: must be text"));
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong);
            blocks.iter().map(text).collect()
        }
        _ => Err(wrong()),
    }
}

fn tool(tool: &Value) -> Tool {
    let text = |key| tool.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    // Without a schema the tool is malformed, which `check_tools` says.
    let schema = tool.get("input_schema").cloned().unwrap_or(Value::Null);
    Tool { name: text("name"), description: text("description"), schema }
}

fn choice(body: &Value) -> Result<ToolChoice, Fault> {
    let choice = body.get("tool_choice").unwrap_or(&Value::Null);
    match (choice.get("type").and_then(Value::as_str), choice.get("name").and_then(Value::as_str)) {
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("any"), _) => Ok(ToolChoice::Required),
        (Some("none"), _) => Ok(ToolChoice::Forbidden),
        (Some("tool"), Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
        (None, _) if choice.is_null() => Ok(ToolChoice::Auto),
        _ => Err(Fault::invalid("tool_choice", "tool_choice: type must be auto, any, none or tool with a name")),
    }
}

fn format(body: &Value) -> Result<Format, Fault> {
    let format = body.pointer("/output_config/format").unwrap_or(&Value::Null);
    match (format.get("type").and_then(Value::as_str), format.get("schema")) {
        (None, _) if format.is_null() => Ok(Format::Text),
        (Some("json_schema"), Some(schema)) => Ok(Format::Schema(schema.clone())),
        _ => Err(Fault::invalid("output_config.format", "output_config.format: must be a json_schema with a schema")),
    }
}

/// This model's own count of everything that makes up the prompt.
fn prompt_tokens(body: &Value) -> usize {
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let messages: usize = messages.map(|message| PER_MESSAGE + texts(message.get("content"))).sum();
    let system =
        body.get("system").filter(|system| !system.is_null()).map_or(0, |system| PER_PART + texts(Some(system)));
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools: usize = tools.map(|tool| PER_PART + model::count(&tool.to_string())).sum();
    messages + system + tools
}

fn texts(content: Option<&Value>) -> usize {
    match content {
        Some(Value::String(text)) => model::count(text),
        Some(Value::Array(blocks)) => blocks
            .iter()
            .map(|block| match block.get("text").and_then(Value::as_str) {
                Some(text) => model::count(text),
                None => model::count(&block.to_string()),
            })
            .sum(),
        _ => 0,
    }
}

fn usage(bill: &Bill) -> Value {
    json!({
        "input_tokens": bill.prompt, "cache_creation_input_tokens": 0, "cache_read_input_tokens": bill.cached,
        "output_tokens": bill.output, "service_tier": "standard",
    })
}

fn stop(reply: &Reply) -> (&'static str, Option<&str>) {
    match &reply.end {
        End::Natural => ("end_turn", None),
        End::Length => ("max_tokens", None),
        End::Stop(sequence) => ("stop_sequence", Some(sequence)),
        End::Tool => ("tool_use", None),
    }
}

/// A block of content; `open`: as a stream begins it. Arguments that the limit cut are no JSON, and stay empty.
fn block(reply: &Reply, at: usize, id: &str, open: bool) -> Value {
    match reply.calls.get(at) {
        None => json!({"type": "text", "text": if open { "" } else { &reply.text }}),
        Some(call) => {
            let input = serde_json::from_str(&call.arguments).ok().filter(|_| !open).unwrap_or_else(|| json!({}));
            json!({"type": "tool_use", "id": format!("toolu_{id}_{at}"), "name": call.name, "input": input})
        }
    }
}

fn events(message: Value, reply: &Reply, usage: Value, pieces: impl Fn(&str) -> Vec<String>, id: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut event = |kind: &str, more: Value| {
        let mut data = json!({"type": kind});
        wire::extend(&mut data, more);
        all.push(format!("event: {kind}\ndata: {data}\n\n"));
    };
    event("message_start", json!({"message": message}));
    for at in 0..reply.calls.len().max(1) {
        event("content_block_start", json!({"index": at, "content_block": block(reply, at, id, true)}));
        if at == 0 {
            event("ping", json!({}));
        }
        let call = reply.calls.get(at);
        for piece in pieces(call.map_or(&reply.text, |call| &call.arguments)) {
            let delta = match call {
                None => json!({"type": "text_delta", "text": piece}),
                Some(_) => json!({"type": "input_json_delta", "partial_json": piece}),
            };
            event("content_block_delta", json!({"index": at, "delta": delta}));
        }
        event("content_block_stop", json!({ "index": at }));
    }
    let (reason, sequence) = stop(reply);
    event("message_delta", json!({"delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": usage}));
    event("message_stop", json!({}));
    all
}

/// `{"type":"error","error":{…},"request_id"}`.
pub(super) fn fault(fault: &Fault, request_id: &str) -> Response {
    const INVALID: &str = "invalid_request_error";
    let (status, kind, message, details) = match fault {
        Fault::Invalid { message, .. } | Fault::BadSchema { message, .. } => (400, INVALID, message.clone(), None),
        Fault::TooLong { tokens, window } => {
            let message = format!("prompt is too long: {tokens} tokens > {window} maximum");
            (400, INVALID, message, Some(json!({"error_code": "context_length_exceeded"})))
        }
        Fault::WrongKey => (401, "authentication_error", "invalid x-api-key".to_owned(), None),
        Fault::UnknownModel { model } => (404, "not_found_error", format!("model: {model}"), None),
        Fault::NoRoute { .. } => (404, "not_found_error", "Not Found".to_owned(), None),
        Fault::Overloaded => (529, "overloaded_error", "Overloaded".to_owned(), None),
    };
    let mut error = json!({"type": kind, "message": message});
    if let Some(details) = details {
        wire::extend(&mut error, json!({"details": details}));
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = wire::json(status, &json!({"type": "error", "error": error, "request_id": request_id}));
    if status == StatusCode::BAD_REQUEST || status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert("x-should-retry", axum::http::HeaderValue::from_static("false"));
    }
    response
}
