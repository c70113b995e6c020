//! The dialects served: each request is a job like any other, answered in its own words, with its own events and errors.

mod embeddings;
mod job_events;
mod messages;
mod responses;

use http::Method;
use serde_json::{Value, json};

use crate::support::client::{Answer, Call, Client, OpenStream};
use crate::support::sse::Stream;
use crate::support::upstream::Reply;

const CLOCKS: &str = "attempt_timeout = \"20s\"\nretries = 0";

fn call(client: &Client, path: &str, key: &str, body: &Value) -> Call {
    client.request(Method::POST, path).key(key).json(body)
}

/// The events of a stream: each one's data, whose `type` is its name.
fn events(stream: &[String]) -> Vec<Value> {
    let read = |event: &String| {
        let (name, data) = event.split_once('\n').unwrap_or_else(|| panic!("no named event: {event}"));
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {event}"));
        let json: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        assert_eq!(name.strip_prefix("event: "), json["type"].as_str(), "{event}");
        json
    };
    stream.iter().map(read).collect()
}

async fn whole(mut stream: OpenStream) -> Vec<String> {
    assert_eq!(stream.status, 200);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    stream.rest().await
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

fn calls() -> Value {
    json!([
        { "id": "c1", "type": "function", "function": { "name": "rd", "arguments": "{\"id\":7300000000000000001}" } },
        { "id": "c2", "type": "function", "function": { "name": "rd", "arguments": "{}" } },
    ])
}

/// An answer of OpenAI's that makes two calls.
fn calling() -> Reply {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_760_000_000, "model": "m1",
        "choices": [{ "index": 0, "finish_reason": "tool_calls",
            "message": { "role": "assistant", "content": "I look.", "tool_calls": calls() } }],
        "usage": { "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
            "prompt_tokens_details": { "cached_tokens": 4 } },
    });
    Reply::whole(200, "application/json", &body.to_string())
}

/// The same as a stream.
fn calling_stream() -> Reply {
    let part = |index: usize, function: Value, id: Option<&str>| {
        let mut call = json!({ "index": index, "function": function });
        if let Some(id) = id {
            call["id"] = id.into();
            call["type"] = "function".into();
        }
        json!({ "tool_calls": [call] })
    };
    Stream::begin()
        .words(&["I ", "look."])
        .delta(&part(0, json!({ "name": "rd", "arguments": "" }), Some("c1")))
        .delta(&part(0, json!({ "arguments": "{\"id\":73000" }), None))
        .delta(&part(0, json!({ "arguments": "00000000000001}" }), None))
        .delta(&part(1, json!({ "name": "rd", "arguments": "{}" }), Some("c2")))
        .finish("tool_calls")
        .usage(9, 5)
        .data("[DONE]")
        .end()
}

/// What every answer about the same job must share, whenever it comes.
fn assert_same_job(first: &Answer, again: &Answer) {
    assert_eq!(again.body, first.body, "the same bytes");
    assert_eq!(again.job_id(), first.job_id());
    assert!(again.is_replayed());
}
