//! OpenAI's chat completions, as the API reference described them on 2026-11-29, for the mini-model.
//!
//! Strict: what the real API refuses or this model cannot honour is a 400 in OpenAI's shape, never dropped.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::Wire;
use super::asked::Asked;
use super::model::{self, Ask, Called, End, Format, Reply, Role, Tool, ToolChoice, Turn};
use super::wire::{self, Fault};
use super::zoo::Bill;

const KNOWN: [&str; 37] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

/// Would change the answer, and this model could only drop them.
const UNSUPPORTED: [&str; 9] = [
    "audio",
    "function_call",
    "functions",
    "logit_bias",
    "moderation",
    "prediction",
    "reasoning_effort",
    "top_logprobs",
    "web_search_options",
];

pub(super) fn models(models: &Option<Vec<String>>) -> Response {
    let any = ["sim-model".to_owned()];
    let known = models.as_deref().unwrap_or(&any).iter();
    let data: Vec<Value> = known
        .map(|id| json!({"id": id, "object": "model", "created": wire::now(), "owned_by": "interlock-sim"}))
        .collect();
    wire::json(StatusCode::OK, &json!({"object": "list", "data": data}))
}

pub(super) fn complete(body: &Value, asked: &Asked<'_>) -> Result<Response, Fault> {
    let body = &*asked.body(body);
    let settings = asked.settings;
    check(body)?;
    let model = wire::model(body, settings)?;
    let ask = read(body)?;
    wire::check_tools(&ask, 64, settings)?;
    let prompt = prompt_tokens(body);
    wire::check_window(prompt, ask.limit.unwrap_or(0), settings)?;
    let replies = asked.replies(ask, body)?;
    let usage = usage(&asked.bill(prompt, &replies));
    let base = json!({
        "id": format!("chatcmpl-{}", asked.id), "created": wire::now(), "model": model,
        "service_tier": "default", "system_fingerprint": "fp_interlock_sim",
    });
    if wire::flag(body, "stream")? {
        let wants_usage = body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        let stream = Stream { base: &base, with_usage: wants_usage, asked };
        return Ok(asked.streamed(stream.chunks(body, &replies, &usage), Wire::OpenAiChat));
    }
    let choices = replies.iter().enumerate().map(|(index, reply)| {
        let mut message = json!({"role": "assistant", "content": reply.text, "refusal": null, "annotations": []});
        if !reply.calls.is_empty() {
            let calls: Vec<Value> =
                reply.calls.iter().enumerate().map(|(at, call)| whole_call(asked, at, call)).collect();
            wire::extend(&mut message, json!({"content": null, "tool_calls": calls}));
        }
        json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish_reason(reply)})
    });
    let choices: Vec<Value> = choices.collect();
    let mut answer = base;
    wire::extend(&mut answer, json!({"object": "chat.completion", "choices": choices, "usage": usage}));
    Ok(asked.whole(answer, Wire::OpenAiChat))
}

fn call_id(asked: &Asked<'_>, at: usize) -> String {
    format!("call_{}_{at}", asked.id)
}

fn whole_call(asked: &Asked<'_>, at: usize, call: &Called) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call_id(asked, at), "type": "function", "function": function})
}

fn check(body: &Value) -> Result<(), Fault> {
    wire::check_names(body, &KNOWN, &UNSUPPORTED)?;
    wire::check_range(body, "temperature", 0.0, 2.0)?;
    wire::check_range(body, "top_p", 0.0, 1.0)?;
    wire::check_range(body, "frequency_penalty", -2.0, 2.0)?;
    wire::check_range(body, "presence_penalty", -2.0, 2.0)?;
    if wire::flag(body, "logprobs")? {
        return Err(Fault::invalid("logprobs", "logprobs are not supported with this model"));
    }
    if body.get("n").is_some_and(|n| !n.is_null() && !n.as_u64().is_some_and(|n| (1..=8).contains(&n))) {
        return Err(Fault::invalid("n", "n: must be an integer from 1 to 8"));
    }
    if body.get("seed").is_some_and(|seed| !seed.is_null() && seed.as_i64().is_none()) {
        return Err(Fault::invalid("seed", "seed: must be an integer"));
    }
    let plain = json!(["text"]);
    if body.get("modalities").is_some_and(|kinds| !kinds.is_null() && *kinds != plain) {
        return Err(Fault::invalid("modalities", "this model only writes text"));
    }
    Ok(())
}

fn read(body: &Value) -> Result<Ask, Fault> {
    let messages = body.get("messages").and_then(Value::as_array).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| Fault::invalid("messages", "messages: must be a non-empty list"))?;
    let (new, old) = (wire::limit(body, "max_completion_tokens")?, wire::limit(body, "max_tokens")?);
    if new.is_some() && old.is_some() {
        return Err(Fault::invalid("max_tokens", "max_tokens and max_completion_tokens exclude each other"));
    }
    let stops = match body.get("stop") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(stop)) => vec![stop.clone()],
        Some(list) => wire::strings(list, "stop")?,
    };
    if stops.len() > 4 {
        return Err(Fault::invalid("stop", "stop: at most 4 sequences"));
    }
    Ok(Ask {
        turns: messages.iter().enumerate().map(|(at, message)| turn(at, message)).collect::<Result<_, _>>()?,
        tools: body.get("tools").and_then(Value::as_array).into_iter().flatten().map(tool).collect(),
        choice: choice(body)?,
        format: format(body)?,
        limit: new.or(old),
        stops,
        parallel: body.get("parallel_tool_calls") != Some(&Value::Bool(false)),
        choices: body.get("n").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        seed: body.get("seed").and_then(Value::as_i64),
        window: usize::MAX,
    })
}

fn turn(at: usize, message: &Value) -> Result<Turn, Fault> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") if message.get("tool_call_id").is_some_and(Value::is_string) => Role::Tool,
        Some("tool") => {
            let param = format!("messages[{at}].tool_call_id");
            return Err(Fault::invalid(&param, format!("missing required parameter: '{param}'")));
        }
        _ => {
            let param = format!("messages[{at}].role");
            return Err(Fault::invalid(&param, format!("{param}: must be system, developer, user, assistant or tool")));
        }
    };
    let wrong =
        || Fault::invalid(format!("messages[{at}].content"), format!("messages[{at}].content: this model reads text"));
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text =
                |part: &Value| part.get("text").or(part.get("refusal")).and_then(Value::as_str).map(str::to_owned);
            parts.iter().map(|part| text(part).ok_or_else(wrong)).collect::<Result<String, _>>()?
        }
        None | Some(Value::Null) if role == Role::Assistant => String::new(),
        _ => return Err(wrong()),
    };
    Ok(Turn { role, text })
}

fn tool(tool: &Value) -> Tool {
    let text = |key| tool.pointer(key).and_then(Value::as_str).unwrap_or("").to_owned();
    // A function without parameters takes none.
    let empty = || json!({"type": "object", "properties": {}});
    let schema = tool.pointer("/function/parameters").cloned().unwrap_or_else(empty);
    Tool { name: text("/function/name"), description: text("/function/description"), schema }
}

fn choice(body: &Value) -> Result<ToolChoice, Fault> {
    let choice = body.get("tool_choice").unwrap_or(&Value::Null);
    match (choice.as_str(), choice.pointer("/function/name").and_then(Value::as_str)) {
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("none"), _) => Ok(ToolChoice::Forbidden),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (None, Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
        (None, None) if choice.is_null() => Ok(ToolChoice::Auto),
        _ => Err(Fault::invalid("tool_choice", "tool_choice: must be none, auto, required or a function")),
    }
}

fn format(body: &Value) -> Result<Format, Fault> {
    let format = body.get("response_format").unwrap_or(&Value::Null);
    match (format.get("type").and_then(Value::as_str), format.pointer("/json_schema/schema")) {
        (None, _) if format.is_null() => Ok(Format::Text),
        (Some("text"), _) => Ok(Format::Text),
        (Some("json_object"), _) => Ok(Format::AnyObject),
        (Some("json_schema"), Some(schema)) => Ok(Format::Schema(schema.clone())),
        _ => Err(Fault::invalid(
            "response_format",
            "response_format: must be text, json_object or a json_schema with a schema",
        )),
    }
}

/// OpenAI's published formula: three tokens a message, its role and its content, and three that begin the answer.
fn prompt_tokens(body: &Value) -> usize {
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let of = |value: Option<&Value>| value.and_then(Value::as_str).map_or(0, model::count);
    messages.fold(3, |sum, message| {
        let content = match message.get("content") {
            Some(Value::Array(parts)) => parts.iter().map(|part| of(part.get("text").or(part.get("refusal")))).sum(),
            text => of(text),
        };
        let name = message.get("name").map_or(0, |name| 1 + of(Some(name)));
        let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        let calls: usize =
            calls.map(|call| of(call.pointer("/function/name")) + of(call.pointer("/function/arguments"))).sum();
        sum + 3 + of(message.get("role")) + content + name + calls
    })
}

fn usage(bill: &Bill) -> Value {
    let Bill { prompt, output, cached } = *bill;
    json!({
        "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
    })
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.end {
        End::Natural | End::Stop(_) => "stop",
        End::Length => "length",
        End::Tool => "tool_calls",
    }
}

/// A streamed answer; `base` is what every chunk carries.
struct Stream<'a> {
    base: &'a Value,
    with_usage: bool,
    asked: &'a Asked<'a>,
}

impl Stream<'_> {
    fn chunk(&self, choices: Value, usage: Option<&Value>) -> String {
        let mut chunk = self.base.clone();
        wire::extend(&mut chunk, json!({"object": "chat.completion.chunk", "choices": choices}));
        if self.with_usage {
            wire::extend(&mut chunk, json!({"usage": usage}));
        }
        format!("data: {chunk}\n\n")
    }

    fn delta(&self, index: usize, delta: Value, finish: Option<&str>) -> String {
        self.chunk(json!([{"index": index, "delta": delta, "logprobs": null, "finish_reason": finish}]), None)
    }

    fn chunks(&self, body: &Value, replies: &[Reply], usage: &Value) -> Vec<String> {
        let mut all = Vec::new();
        for (index, reply) in replies.iter().enumerate() {
            all.push(self.delta(index, json!({"role": "assistant", "content": "", "refusal": null}), None));
            let pieces = |text| self.asked.pieces(text, body).into_iter();
            all.extend(pieces(&reply.text).map(|piece| self.delta(index, json!({"content": piece}), None)));
            for (at, call) in reply.calls.iter().enumerate() {
                let function = json!({"name": call.name, "arguments": ""});
                let id = call_id(self.asked, at);
                let head = json!({"index": at, "id": id, "type": "function", "function": function});
                all.push(self.delta(index, json!({"tool_calls": [head]}), None));
                all.extend(pieces(&call.arguments).map(|piece| {
                    let more = json!({"index": at, "function": {"arguments": piece}});
                    self.delta(index, json!({"tool_calls": [more]}), None)
                }));
            }
            all.push(self.delta(index, json!({}), Some(finish_reason(reply))));
        }
        all.extend(self.with_usage.then(|| self.chunk(json!([]), Some(usage))));
        all.push("data: [DONE]\n\n".to_owned());
        all
    }
}

/// `{"error":{"message","type","param","code"}}`, all four always there.
pub(super) fn fault(fault: &Fault) -> Response {
    const INVALID: &str = "invalid_request_error";
    let (status, message, kind, param, code) = match fault {
        Fault::Invalid { param, message } => (400, message.clone(), INVALID, param.clone(), None),
        Fault::BadSchema { param, message } => {
            (400, message.clone(), INVALID, Some(param.clone()), Some("invalid_function_parameters"))
        }
        Fault::TooLong { tokens, window } => {
            let message = format!(
                "This model's maximum context length is {window} tokens. However, you requested {tokens} tokens (messages and completion). Please reduce their length."
            );
            (400, message, INVALID, Some("messages".to_owned()), Some("context_length_exceeded"))
        }
        Fault::WrongKey => (401, "Incorrect API key provided.".to_owned(), INVALID, None, Some("invalid_api_key")),
        Fault::UnknownModel { model } => {
            let message = format!("The model `{model}` does not exist or you do not have access to it.");
            (404, message, INVALID, None, Some("model_not_found"))
        }
        Fault::NoRoute { asked } => (404, format!("Invalid URL ({asked})"), INVALID, None, None),
        Fault::Overloaded => {
            let message = "The server is currently overloaded. Please try again later.".to_owned();
            (503, message, "server_error", None, Some("server_overloaded"))
        }
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    wire::json(status, &json!({"error": {"message": message, "type": kind, "param": param, "code": code}}))
}
