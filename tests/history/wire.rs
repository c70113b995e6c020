//! What a provider of OpenAI's format writes, whole, in pieces and wrongly.

use serde_json::{Value, json};

/// What a scripted provider does with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Answer,
    /// Within `attempt_timeout`.
    Slow,
    /// After `attempt_timeout`: the attempt is unknown by then.
    Late,
    /// Long after it; in long runs past the lease of its gateway.
    Hang,
    Overloaded,
    Error500,
    BadRequest,
    /// RST after the whole request.
    ResetAfterRead,
    /// FIN after the whole request.
    FinAfterRead,
    /// RST after the request's head.
    ResetMidRequest,
    ResetAfterHead,
    /// A body shorter than announced.
    CutBody,
    /// A stream without its terminal event.
    StreamCut,
    StreamReset,
    /// Contents, then nothing for a while, then the rest.
    StreamStalled,
    /// An error event in a 200 stream before any content.
    ErrorEvent,
}

use Behaviour::{
    Answer, BadRequest, CutBody, Error500, ErrorEvent, FinAfterRead, Hang, Late, Overloaded, ResetAfterHead,
    ResetAfterRead, ResetMidRequest, Slow, StreamCut, StreamReset, StreamStalled,
};

/// The cards for requests that want a whole answer, and for those that want a stream.
pub const WHOLE: [Behaviour; 11] = [
    Slow,
    Late,
    Hang,
    Overloaded,
    Error500,
    BadRequest,
    ResetAfterRead,
    FinAfterRead,
    ResetMidRequest,
    ResetAfterHead,
    CutBody,
];
pub const STREAM: [Behaviour; 8] =
    [Slow, Late, StreamCut, StreamReset, StreamStalled, Overloaded, ErrorEvent, FinAfterRead];

impl Behaviour {
    pub fn as_str(self) -> &'static str {
        match self {
            Answer => "answer",
            Slow => "slow",
            Late => "late",
            Hang => "hang",
            Overloaded => "overloaded",
            Error500 => "error_500",
            BadRequest => "bad_request",
            ResetAfterRead => "reset_after_read",
            FinAfterRead => "fin_after_read",
            ResetMidRequest => "reset_mid_request",
            ResetAfterHead => "reset_after_head",
            CutBody => "cut_body",
            StreamCut => "stream_cut",
            StreamReset => "stream_reset",
            StreamStalled => "stream_stalled",
            ErrorEvent => "error_event",
        }
    }

    /// Whether the provider does the work that was asked for, whatever the gateway gets to see of it.
    pub fn works(self) -> bool {
        !matches!(self, Overloaded | BadRequest | ResetMidRequest)
    }

    /// Whether all of it is a complete, valid answer.
    pub fn answers(self) -> bool {
        matches!(self, Answer | Slow | Late | Hang | StreamStalled)
    }
}

pub fn complete(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

pub fn error(status: u16, kind: &str) -> Vec<u8> {
    complete(status, &json!({ "error": { "message": kind, "type": kind, "code": kind, "param": null } }).to_string())
}

/// The whole answer to a request: it names the intent and the attempt, so that answers can be told apart.
pub fn answer(model: &str, content: &str) -> String {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_760_000_000, "model": model,
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4 },
    })
    .to_string()
}

pub const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// The frames of a sound stream: role, content in four pieces, finish reason, usage, `[DONE]`.
pub fn frames(model: &str, content: &str) -> Vec<Vec<u8>> {
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        frame(
            &json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": model, "choices": choices }),
        )
    };
    let mut frames = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    let characters: Vec<char> = content.chars().collect();
    for piece in characters.chunks(characters.len().div_ceil(4).max(1)) {
        frames.push(chunk(json!({ "content": piece.iter().collect::<String>() }), Value::Null));
    }
    frames.push(chunk(json!({}), json!("stop")));
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7 });
    frames.push(frame(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": model, "choices": [], "usage": usage })));
    frames.push(b"data: [DONE]\n\n".to_vec());
    frames
}

pub fn error_event() -> Vec<u8> {
    frame(
        &json!({ "error": { "message": "overloaded", "type": "server_error", "code": "server_error", "param": null } }),
    )
}

fn frame(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// The request as a client sends it.
pub fn chat(route: &str, tag: &str, form: &str) -> Value {
    let mut body = json!({ "model": route, "messages": [{ "role": "user", "content": tag }] });
    if form != "whole" {
        body["stream"] = json!(true);
    }
    if form == "usage" {
        body["stream_options"] = json!({ "include_usage": true });
    }
    body
}
