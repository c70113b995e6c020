//! Gemini's generateContent, as the API reference described it on 2026-11-30, for the mini-model.
//!
//! Strict: what the real API refuses or this model cannot honour is a 400 in Google's shape, never dropped. Only the
//! wire stands here and in `read`; what is answered, billed and done wrong is common to all protocols.

mod read;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::asked::Asked;
use super::model::{End, Reply};
use super::wire::{self, Fault};
use super::zoo::{Act, Bill};
use super::{Settings, Wire};
use read::{check, prompt_tokens, read};

/// What is asked of Google's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called<'p> {
    /// All models, or one.
    Models(Option<&'p str>),
    Count(&'p str),
    Generate(&'p str, Form),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Events,
    /// A stream without `alt=sse`: its chunks as one array.
    Chunks,
}

/// `models[/MODEL[:METHOD]]`, under either version of the API.
pub(super) fn called<'p>(method: &Method, path: &'p str, query: Option<&str>) -> Option<Called<'p>> {
    let rest = path.strip_prefix("/v1beta/models").or(path.strip_prefix("/v1/models"))?;
    let rest = if rest.is_empty() { None } else { Some(rest.strip_prefix('/')?) };
    if method == Method::GET {
        return Some(Called::Models(rest));
    }
    let (model, called) = rest.filter(|_| method == Method::POST)?.split_once(':')?;
    let events = query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
    match called {
        "countTokens" => Some(Called::Count(model)),
        "generateContent" => Some(Called::Generate(model, Form::Whole)),
        "streamGenerateContent" if events => Some(Called::Generate(model, Form::Events)),
        "streamGenerateContent" => Some(Called::Generate(model, Form::Chunks)),
        _ => None,
    }
}

/// The body, with the model of the path in it, where the other protocols have theirs.
pub(super) fn parse(body: &[u8], model: &str) -> Result<Value, Fault> {
    let mut body = read::in_camel_case(wire::parse(body)?);
    body["model"] = Value::from(model);
    Ok(body)
}

/// All models, or the one of this name.
pub(super) fn models(id: Option<&str>, settings: &Settings) -> Result<Response, Fault> {
    let any = ["sim-model".to_owned()];
    let known = settings.models.as_deref().unwrap_or(&any);
    let entry = |id: &str| {
        json!({
            "name": format!("models/{id}"), "version": "001", "displayName": id, "description": "The simulated model.",
            "inputTokenLimit": settings.context_window, "outputTokenLimit": settings.context_window,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    };
    match id {
        None => {
            let all: Vec<Value> = known.iter().map(|id| entry(id)).collect();
            Ok(wire::json(StatusCode::OK, &json!({ "models": all })))
        }
        Some(id) if settings.models.is_none() || known.iter().any(|known| known == id) => {
            Ok(wire::json(StatusCode::OK, &entry(id)))
        }
        Some(id) => Err(Fault::UnknownModel { model: id.to_owned() }),
    }
}

pub(super) fn count_tokens(body: &Value, settings: &Settings) -> Result<Response, Fault> {
    let mut body = body.clone();
    // A whole request may be counted, or contents alone.
    let model = body["model"].take();
    if let Some(whole) = body.get_mut("generateContentRequest") {
        body = whole.take();
    }
    body["model"] = model;
    for act in settings.acts() {
        match act {
            Act::NoCount => return Err(Fault::NoRoute { asked: "POST models:countTokens".to_owned() }),
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
    let details = json!([{"modality": "TEXT", "tokenCount": tokens}]);
    Ok(wire::json(StatusCode::OK, &json!({"totalTokens": tokens, "promptTokensDetails": details})))
}

/// `body` names its model in `model`, as it stood in the path.
pub(super) fn complete(body: &Value, form: Form, asked: &Asked<'_>) -> Result<Response, Fault> {
    let body = &*asked.body(body);
    let settings = asked.settings;
    check(body)?;
    let model = wire::model(body, settings)?;
    let ask = read(body)?;
    wire::check_tools(&ask, 128, settings)?;
    let prompt = prompt_tokens(body);
    wire::check_window(prompt, ask.limit.unwrap_or(0), settings)?;
    let replies = asked.replies(ask, body)?;
    let bill = asked.bill(prompt, &replies);
    let base = json!({"modelVersion": model, "responseId": asked.id});
    if form == Form::Whole {
        let candidates: Vec<Value> = replies
            .iter()
            .enumerate()
            .map(|(index, reply)| candidate(index, whole(reply, asked.id), Some(finish_reason(reply))))
            .collect();
        return Ok(asked.whole(answer(&base, candidates, usage(&bill)), Wire::Gemini));
    }
    let chunks = chunks(&base, &replies, &bill, asked, body);
    if form == Form::Events {
        let events = chunks.into_iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
        return Ok(asked.streamed(events, Wire::Gemini));
    }
    Ok(asked.whole(Value::Array(chunks), Wire::Gemini))
}

fn answer(base: &Value, candidates: Vec<Value>, usage: Value) -> Value {
    let mut answer = json!({"candidates": candidates, "usageMetadata": usage});
    wire::extend(&mut answer, base.clone());
    answer
}

fn candidate(index: usize, parts: Vec<Value>, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": index});
    if let Some(reason) = finish {
        candidate["finishReason"] = json!(reason);
    }
    candidate
}

fn whole(reply: &Reply, id: &str) -> Vec<Value> {
    if reply.calls.is_empty() { vec![json!({"text": reply.text})] } else { calls(reply, id) }
}

/// Calls come whole. Arguments that the limit cut are no JSON, and stay empty.
fn calls(reply: &Reply, id: &str) -> Vec<Value> {
    let calls = reply.calls.iter().enumerate();
    let part = calls.map(|(at, call)| {
        let args: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        json!({"functionCall": {"id": format!("fc_{id}_{at}"), "name": call.name, "args": args}})
    });
    part.collect()
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.end {
        End::Natural | End::Stop(_) | End::Tool => "STOP",
        End::Length => "MAX_TOKENS",
    }
}

/// The prompt's count stands in every chunk, the answer's in the last.
fn chunks(base: &Value, replies: &[Reply], bill: &Bill, asked: &Asked<'_>, body: &Value) -> Vec<Value> {
    let begun = json!({"promptTokenCount": bill.prompt, "totalTokenCount": bill.prompt});
    let mut all = Vec::new();
    for (index, reply) in replies.iter().enumerate() {
        let texts = asked.pieces(&reply.text, body).into_iter().map(|piece| json!({"text": piece}));
        for part in texts.chain(calls(reply, asked.id)) {
            all.push(answer(base, vec![candidate(index, vec![part], None)], begun.clone()));
        }
        let usage = if index + 1 == replies.len() { usage(bill) } else { begun.clone() };
        let last = candidate(index, vec![json!({"text": ""})], Some(finish_reason(reply)));
        all.push(answer(base, vec![last], usage));
    }
    all
}

fn usage(bill: &Bill) -> Value {
    let Bill { prompt, output, cached } = *bill;
    let mut usage = json!({
        "promptTokenCount": prompt, "candidatesTokenCount": output, "totalTokenCount": prompt + output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
    });
    if cached > 0 {
        usage["cachedContentTokenCount"] = json!(cached);
    }
    usage
}

/// `{"error":{"code","message","status","details"}}`; `details` where Google has any.
pub(super) fn fault(fault: &Fault) -> Response {
    const INVALID: &str = "INVALID_ARGUMENT";
    let violation = |param: &str, message: &str| {
        let at = json!([{"field": param, "description": message}]);
        Some(json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": at}))
    };
    let (status, message, word, detail) = match fault {
        Fault::Invalid { param, message } => {
            (400, message.clone(), INVALID, param.as_deref().and_then(|param| violation(param, message)))
        }
        Fault::BadSchema { param, message } => (400, message.clone(), INVALID, violation(param, message)),
        Fault::TooLong { tokens, window } => {
            let message =
                format!("The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).");
            (400, message, INVALID, None)
        }
        Fault::WrongKey => {
            let info = json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
                "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"},
            });
            (400, "API key not valid. Please pass a valid API key.".to_owned(), INVALID, Some(info))
        }
        Fault::UnknownModel { model } => {
            let message = format!(
                "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."
            );
            (404, message, "NOT_FOUND", None)
        }
        Fault::NoRoute { asked } => (404, format!("Method not found: {asked}"), "NOT_FOUND", None),
        Fault::Overloaded => {
            let message = "The model is overloaded. Please try again later.".to_owned();
            (503, message, "UNAVAILABLE", None)
        }
    };
    let mut error = json!({"code": status, "message": message, "status": word});
    if let Some(detail) = detail {
        error["details"] = json!([detail]);
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    wire::json(status, &json!({ "error": error }))
}
