//! What each wire format answers, in its provider's own words: everything that it can say in one answer, ending in
//! calls; and short answers with each reason to end. All of them say the same things, so that one list of places holds
//! for every format.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::fixtures;

/// An answer as it comes: its head, and its body.
pub(crate) struct Sample {
    pub head: crate::adapter::Head,
    pub body: Bytes,
}

fn sample(kind: &str, body: Value) -> Sample {
    let headers = json!({"content-type": kind, "date": "Mon, 30 Nov 2026 20:00:00 GMT", "x-amzn-requestid": "req-one"});
    let response = json!({"status": 200, "headers": headers, "body": body});
    Sample { head: fixtures::head(&response), body: fixtures::body(&response) }
}

fn whole(body: &str) -> Sample {
    sample("application/json", Value::String(body.to_owned()))
}

/// Events, one on each line.
fn events(lines: &str) -> Sample {
    let events: String = lines.lines().map(|line| format!("data: {line}\n\n")).collect();
    sample("text/event-stream", Value::String(events))
}

/// Events under their names.
fn named(lines: &str) -> Sample {
    let kind = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?["type"].as_str()?.to_owned());
    let name = |line: &str| kind(line).unwrap_or_else(|| "broken".to_owned());
    let events: String = lines.lines().map(|line| format!("event: {}\ndata: {line}\n\n", name(line))).collect();
    sample("text/event-stream", Value::String(events))
}

/// Amazon's frames: the name, a space, and the data, one on each line.
fn framed(lines: &str) -> Sample {
    let event = |line: &str| {
        let (name, data) = line.split_once(' ').unwrap();
        json!({"event": name, "data": serde_json::from_str::<Value>(data).unwrap()})
    };
    sample("application/vnd.amazon.eventstream", lines.lines().map(event).collect())
}

/// The protocol of a row.
fn protocol(format: &str) -> &str {
    match format {
        "azure-openai" | "mistral" | "vllm" | "llama-cpp" | "tgi" => "openai",
        "vertex" => "gemini",
        own => own,
    }
}

/// The full stream, its lines changed before they become events.
pub(super) fn full_with(format: &str, change: &dyn Fn(&str) -> String) -> Sample {
    match protocol(format) {
        "openai" => events(&change(include_str!("samples/openai.stream"))),
        "openai-responses" => named(&change(include_str!("samples/responses.stream"))),
        "anthropic" => named(&change(include_str!("samples/anthropic.stream"))),
        "gemini" => events(&change(include_str!("samples/gemini.stream"))),
        "ollama" => sample("application/x-ndjson", change(include_str!("samples/ollama.stream")).into()),
        "cohere" => named(&change(include_str!("samples/cohere.stream"))),
        _ => framed(&change(include_str!("samples/bedrock.stream"))),
    }
}

/// Everything at once.
pub(crate) fn full(format: &str, streamed: bool) -> Sample {
    match (protocol(format), streamed) {
        ("openai", false) => whole(include_str!("samples/openai.json")),
        ("openai-responses", false) => whole(include_str!("samples/responses.json")),
        ("anthropic", false) => whole(include_str!("samples/anthropic.json")),
        ("gemini", false) => whole(include_str!("samples/gemini.json")),
        ("ollama", false) => whole(include_str!("samples/ollama.json")),
        ("cohere", false) => whole(include_str!("samples/cohere.json")),
        ("bedrock", false) => whole(include_str!("samples/bedrock.json")),
        (_, true) => full_with(format, &str::to_owned),
        (other, _) => panic!("no sample of {other}"),
    }
}

/// The words by which each protocol ends: for a stop, a limit, a filter, a stop string.
pub(super) fn word(format: &str, end: &str) -> Option<&'static str> {
    let words = match protocol(format) {
        "openai" => ["stop", "length", "content_filter", ""],
        "openai-responses" => ["", "max_output_tokens", "content_filter", ""],
        "anthropic" => ["end_turn", "max_tokens", "refusal", "stop_sequence"],
        "gemini" => ["STOP", "MAX_TOKENS", "SAFETY", ""],
        "ollama" => ["stop", "length", "", ""],
        "cohere" => ["COMPLETE", "MAX_TOKENS", "", ""],
        _ => ["end_turn", "max_tokens", "content_filtered", ""],
    };
    let at = ["stop", "length", "filter", "stop string"].iter().position(|known| *known == end).unwrap();
    Some(words[at]).filter(|word| !word.is_empty() || (protocol(format), end) == ("openai-responses", "stop"))
}

/// A text that ends by this word.
pub(super) fn ended(format: &str, word: &str, streamed: bool) -> Sample {
    let stop = if word == "stop_sequence" { r#""STOP-ONE""# } else { "null" };
    match (protocol(format), streamed) {
        ("openai", false) => whole(&format!(
            r#"{{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"T-ONE"}},"finish_reason":"{word}"}}]}}"#
        )),
        ("openai", true) => events(&format!(
            r#"{{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"role":"assistant","content":"T-ONE"}},"finish_reason":"{word}"}}]}}"#
        )),
        ("openai-responses", _) => response_ended(word, streamed),
        ("anthropic", false) => whole(&format!(
            r#"{{"id":"a","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"T-ONE"}}],"stop_reason":"{word}","stop_sequence":{stop},"usage":{{"input_tokens":1,"output_tokens":1}}}}"#
        )),
        ("anthropic", true) => named(&format!(
            r#"{{"type":"message_start","message":{{"id":"a","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":1,"output_tokens":1}}}}}}
{{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":""}}}}
{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"T-ONE"}}}}
{{"type":"content_block_stop","index":0}}
{{"type":"message_delta","delta":{{"stop_reason":"{word}","stop_sequence":{stop}}},"usage":{{"output_tokens":1}}}}
{{"type":"message_stop"}}"#
        )),
        ("gemini", _) => {
            let line = format!(
                r#"{{"responseId":"a","modelVersion":"m","candidates":[{{"index":0,"content":{{"role":"model","parts":[{{"text":"T-ONE"}}]}},"finishReason":"{word}"}}]}}"#
            );
            if streamed { events(&line) } else { whole(&line) }
        }
        ("ollama", _) => whole(&format!(
            "{{\"model\":\"m\",\"created_at\":\"2026-11-30T20:00:00Z\",\"message\":{{\"role\":\"assistant\",\"content\":\"T-ONE\"}},\"done\":true,\"done_reason\":\"{word}\"}}\n"
        )),
        ("cohere", false) => whole(&format!(
            r#"{{"id":"a","finish_reason":"{word}","message":{{"role":"assistant","content":[{{"type":"text","text":"T-ONE"}}]}}}}"#
        )),
        ("cohere", true) => named(&format!(
            r#"{{"type":"message-start","id":"a","delta":{{"message":{{"role":"assistant"}}}}}}
{{"type":"content-start","index":0,"delta":{{"message":{{"content":{{"type":"text","text":""}}}}}}}}
{{"type":"content-delta","index":0,"delta":{{"message":{{"content":{{"text":"T-ONE"}}}}}}}}
{{"type":"content-end","index":0}}
{{"type":"message-end","delta":{{"finish_reason":"{word}"}}}}"#
        )),
        (_, false) => whole(&format!(
            r#"{{"output":{{"message":{{"role":"assistant","content":[{{"text":"T-ONE"}}]}}}},"stopReason":"{word}","usage":{{"inputTokens":1,"outputTokens":1,"totalTokens":2}}}}"#
        )),
        (_, true) => framed(&format!(
            r#"messageStart {{"role":"assistant"}}
contentBlockDelta {{"contentBlockIndex":0,"delta":{{"text":"T-ONE"}}}}
contentBlockStop {{"contentBlockIndex":0}}
messageStop {{"stopReason":"{word}"}}
metadata {{"usage":{{"inputTokens":1,"outputTokens":1,"totalTokens":2}}}}"#
        )),
    }
}

fn response_ended(word: &str, streamed: bool) -> Sample {
    let (status, details) = match word {
        "" => ("completed", "null".to_owned()),
        reason => ("incomplete", format!(r#"{{"reason":"{reason}"}}"#)),
    };
    let item = r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"T-ONE","annotations":[]}]}"#;
    let response = format!(
        r#"{{"id":"resp_1","object":"response","created_at":1,"status":"{status}","incomplete_details":{details},"model":"m","output":[{item}]}}"#
    );
    if !streamed {
        return whole(&response);
    }
    named(&format!(
        r#"{{"type":"response.created","sequence_number":0,"response":{{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}}}}
{{"type":"response.in_progress","sequence_number":1,"response":{{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}}}}
{{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}}}
{{"type":"response.content_part.added","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"part":{{"type":"output_text","text":"","annotations":[]}}}}
{{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"T-ONE"}}
{{"type":"response.output_item.done","sequence_number":5,"output_index":0,"item":{item}}}
{{"type":"response.{status}","sequence_number":6,"response":{response}}}"#
    ))
}

/// A short answer that ends in this way; `None`: the protocol has no word for it.
pub(crate) fn ending(format: &str, end: &str, streamed: bool) -> Option<Sample> {
    if end != "refusal" {
        return word(format, end).map(|word| ended(format, word, streamed));
    }
    let said = match protocol(format) {
        "openai" => [("stop", ""), (r#""content":"T-ONE""#, r#""content":null,"refusal":"R-NO""#), ("", "")],
        "openai-responses" => [
            ("", ""),
            (r#""type":"output_text","text":"T-ONE","annotations":[]"#, r#""type":"refusal","refusal":"R-NO""#),
            (r#"output_text.delta","#, r#"refusal.delta","#),
        ],
        "anthropic" => [
            ("refusal", ""),
            (
                r#""stop_sequence":null}"#,
                r#""stop_sequence":null,"stop_details":{"type":"refusal","explanation":"R-NO"}}"#,
            ),
            (
                r#""stop_sequence":null,"usage""#,
                r#""stop_sequence":null,"stop_details":{"type":"refusal","explanation":"R-NO"},"usage""#,
            ),
        ],
        "gemini" => [("SAFETY", ""), (r#""finishReason""#, r#""finishMessage":"R-NO","finishReason""#), ("", "")],
        _ => return None,
    };
    let Sample { head, body } = ended(format, said[0].0, streamed);
    let mut text = String::from_utf8(body.to_vec()).unwrap();
    for (from, to) in said[1..].iter().filter(|(from, _)| !from.is_empty()) {
        text = text.replace(from, to);
    }
    if protocol(format) == "openai-responses" {
        text = text.replace("\"delta\":\"T-ONE\"", "\"delta\":\"R-NO\"");
        text = text.replace(
            "\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]",
            "\"type\":\"refusal\",\"refusal\":\"\"",
        );
    }
    Some(Sample { head, body: text.into() })
}
