//! Anthropic's events as a client sees them, and as one answer.

use super::*;
use crate::failure::Proof;
use crate::stream::sampling::*;

/// Events, each written as its data; the name is the data's type.
fn stream(events: &[&str]) -> String {
    let event = |data: &&str| {
        let kind = Json::parse(data.as_bytes()).unwrap().get("type").and_then(Json::as_str).unwrap().to_owned();
        format!("event: {kind}\ndata: {data}\n\n")
    };
    events.iter().map(event).collect()
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":4,"cache_read_input_tokens":2,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn open(index: u64, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u64, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn text(index: u64, text: &str) -> String {
    delta(index, &format!(r#"{{"type":"text_delta","text":"{text}"}}"#))
}

fn json(index: u64, text: &str) -> String {
    delta(index, &Json::Object([("type", "input_json_delta"), ("partial_json", text)].into_iter().collect()).to_text())
}

fn close(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn end(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":7}}}}"#
    )
}

trait ToText {
    fn to_text(&self) -> String;
}

impl ToText for Json {
    fn to_text(&self) -> String {
        String::from_utf8(self.to_bytes().to_vec()).unwrap()
    }
}

const TEXT: &str = r#"{"type":"text","text":""}"#;
const PING: &str = r#"{"type":"ping"}"#;

/// A message with these events between its start and its end.
fn message(events: &[String], reason: &str) -> String {
    let end = end(reason);
    let mut all = vec![START, PING];
    all.extend(events.iter().map(String::as_str));
    all.extend([end.as_str(), STOP]);
    stream(&all)
}

fn outcome(body: &str) -> Outcome {
    decode_every_way("anthropic", &request(""), &head("text/event-stream; charset=utf-8"), body.as_bytes())
}

fn sound(body: &str) -> Outcome {
    let outcome = outcome(body);
    assert_the_client_saw_the_answer(&outcome);
    assert_round_trip(&outcome.answer().1);
    let unknown = assert_cuts_prove_nothing("anthropic", &request(""), &head("text/event-stream"), body);
    assert_eq!(unknown, frames(body).len(), "only message_stop ends it");
    outcome
}

#[test]
fn text_goes_out_as_it_comes_and_ends_with_message_stop() {
    let body = message(&[open(0, TEXT), text(0, "Hel"), text(0, "lo水😀"), close(0)], "end_turn");
    let outcome = sound(&body);
    let chunk = |choice: &str| {
        format!(
            r#"{{"id":"msg_1","object":"chat.completion.chunk","created":1796068800,"model":"claude-x","choices":[{choice}]"#
        )
    };
    let said = |delta: &str| chunk(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#)) + "}";
    let last = r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","native_finish_reason":"end_turn"}"#;
    let usage = r#","usage":{"prompt_tokens":15,"completion_tokens":7,"total_tokens":22,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":4},"native_usage":{"input_tokens":9,"cache_creation_input_tokens":4,"cache_read_input_tokens":2,"output_tokens":7}}}"#;
    let expected = [
        said(r#"{"role":"assistant","refusal":null}"#),
        said(r#"{"content":"Hel"}"#),
        said(r#"{"content":"lo水😀"}"#),
        chunk(last) + "}",
        chunk("") + usage,
    ];
    assert_eq!(outcome.payloads(), expected);
    assert_eq!(outcome.answer().0.usage.unwrap().output_tokens, 7);
}

/// The same message whole and streamed: one rendering.
#[test]
fn a_streamed_message_means_what_the_whole_one_means() {
    let blocks = [
        r#"{"type":"thinking","thinking":"Ask twice.","signature":"AAABBB"}"#,
        r#"{"type":"redacted_thinking","data":"xx"}"#,
        r#"{"type":"text","text":"both","citations":[{"type":"char_location","cited_text":"b"}]}"#,
        r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":"x"}}"#,
        r#"{"type":"tool_use","id":"t1","name":"rd","input":{"path":"a","id":7300000000000000001}}"#,
        r#"{"type":"tool_use","id":"t2","name":"rd","input":{}}"#,
    ];
    let events = [
        open(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"Ask "}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"twice."}"#),
        delta(0, r#"{"type":"signature_delta","signature":"AAA"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"BBB"}"#),
        close(0),
        open(1, blocks[1]),
        close(1),
        open(2, r#"{"type":"text","text":"bo"}"#),
        text(2, "th"),
        delta(2, r#"{"type":"citations_delta","citation":{"type":"char_location","cited_text":"b"}}"#),
        close(2),
        open(3, r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#),
        json(3, r#"{"q":"x"}"#),
        close(3),
        open(4, r#"{"type":"tool_use","id":"t1","name":"rd","input":{}}"#),
        json(4, ""),
        json(4, r#"{"path":"a","#),
        json(4, r#""id":7300000000000000001}"#),
        close(4),
        open(5, r#"{"type":"tool_use","id":"t2","name":"rd","input":{}}"#),
        close(5),
    ];
    let outcome = sound(&message(&events, "tool_use"));
    let whole = format!(
        r#"{{"id":"msg_1","model":"claude-x","content":[{}],"stop_reason":"tool_use","usage":{{"input_tokens":9,"cache_creation_input_tokens":4,"cache_read_input_tokens":2,"output_tokens":7}}}}"#,
        blocks.join(",")
    );
    let whole = reply::read(&head("application/json"), whole.as_bytes(), false).unwrap();
    assert_eq!(outcome.answer.as_ref().unwrap().1.as_bytes(), &whole.body[..]);
    assert_eq!(outcome.answer().0, &whole.reply);
    let plain = String::from_utf8(whole.body.to_vec()).unwrap();
    assert!(plain.contains(r#""signature":"AAABBB""#) && plain.contains("7300000000000000001"));
}

#[test]
fn arguments_reach_both_forms_with_every_blank_and_may_be_cut_by_a_limit_only() {
    let call =
        |text: &str| vec![open(0, r#"{"type":"tool_use","id":"t","name":"rd","input":{}}"#), json(0, text), close(0)];
    let spaced = sound(&message(&call("{ \"a\" : 1e2 }"), "tool_use"));
    assert_eq!(spaced.answer().0.choices[0].tool_calls[0].arguments, "{ \"a\" : 1e2 }");
    let limited = sound(&message(&call("{\"a\":\"x"), "max_tokens"));
    assert_eq!(limited.answer().0.choices[0].tool_calls[0].arguments, "{\"a\":\"x");
    let broken = outcome(&message(&call("{\"a\":\"x"), "tool_use"));
    let failure = broken.failure();
    assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "invalid_answer"));
    assert_eq!(failure.usage.unwrap().output_tokens, 7, "what it cost is kept");
    let at_once = [open(0, r#"{"type":"tool_use","id":"t","name":"rd","input":{"a":[1]}}"#)];
    assert_eq!(sound(&message(&at_once, "tool_use")).answer().0.choices[0].tool_calls[0].arguments, r#"{"a":[1]}"#);
}

#[test]
fn every_stop_reason_reads_as_in_a_whole_answer() {
    let said = [open(0, TEXT), text(0, "A"), close(0)];
    for (reason, word) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
    ] {
        let outcome = sound(&message(&said, reason));
        assert_eq!(outcome.finishes(), [(0, word.to_owned())]);
        assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some("A"), "what was streamed stays content");
    }
    for reason in ["pause_turn", "tool_use", "invented"] {
        let outcome = outcome(&message(&said, reason));
        assert_eq!((outcome.failure().reason, outcome.finishes()), ("invalid_answer", Vec::new()), "{reason}");
    }
    assert_eq!(sound(&message(&[], "end_turn")).answer().0.choices[0].text.as_deref(), Some(""));
    let explained = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"explanation":"No."}},"usage":{"output_tokens":7}}"#;
    let outcome = sound(&stream(&[START, explained, STOP]));
    assert_eq!(outcome.answer().0.choices[0].refusal.as_deref(), Some("No."));
}

#[test]
fn errors_and_broken_events_end_the_stream_and_unknown_ones_do_not() {
    let begun = stream(&[START, &open(0, TEXT), &text(0, "A")]);
    for before in ["", &begun] {
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
        let failed = outcome(&format!("{before}{}{}", stream(&[error]), stream(&[STOP])));
        let failure = failed.failure();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"));
        assert_eq!((failure.kind.as_deref(), failure.message.as_str()), (Some("overloaded_error"), "busy"));
        let plain = outcome(&format!("{before}event: error\ndata: gone\n\n"));
        assert_eq!(plain.failure().message, "gone");
    }
    for broken in [
        "event: content_block_delta\ndata: {\"type\":\n\n".to_owned(),
        stream(&[START]),
        stream(&[&open(0, TEXT)]),
        stream(&[&text(1, "A")]),
        stream(&[&delta(0, r#"{"type":"thinking_delta","thinking":"x"}"#)]),
        stream(&[&delta(0, r#"{"type":"text_delta"}"#)]),
        stream(&[&close(1)]),
        stream(&[r#"{"type":"content_block_start","index":1}"#]),
    ] {
        let outcome = outcome(&format!("{begun}{broken}"));
        let failure = outcome.failure();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "garbled_stream"), "{broken}");
    }
    for early in [STOP, &text(0, "A"), &end("end_turn")] {
        assert_eq!(outcome(&stream(&[early])).failure().reason, "garbled_stream", "{early}");
    }
    let unknown = [
        open(0, TEXT),
        r#"{"type":"invented","index":[]}"#.to_owned(),
        text(0, "A"),
        delta(0, r#"{"type":"invented_delta","note":"x"}"#),
    ];
    assert_eq!(sound(&message(&unknown, "end_turn")).answer().0.choices[0].text.as_deref(), Some("A"));
}

#[test]
fn counts_only_grow_and_unreadable_ones_are_not_zero() {
    let end = |usage: &str| {
        let end = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{usage}}}"#);
        outcome(&stream(&[START, &end, STOP]))
    };
    let usage = end(r#"{"input_tokens":0,"cache_read_input_tokens":null,"output_tokens":7}"#).answer().0.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (15, 2, 7));
    let usage = end(r#"{"input_tokens":20,"output_tokens":7}"#).answer().0.usage.unwrap();
    assert_eq!(usage.input_tokens, 26);
    for unreadable in [r#"{"output_tokens":"7"}"#, "7"] {
        let outcome = end(unreadable);
        assert!(outcome.answer().0.usage_unreadable && outcome.answer().0.usage.is_none(), "{unreadable}");
        assert!(outcome.pieces.iter().all(|piece| matches!(piece, StreamPiece::Chunk { .. })));
    }
}

#[test]
fn a_plain_json_message_is_given_out_in_chunks() {
    let body = br#"{"id":"msg_1","model":"m","content":[{"type":"text","text":"A"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let outcome = decode_every_way("anthropic", &request(""), &head("application/json"), body);
    assert_the_client_saw_the_answer(&outcome);
    let whole = reply::read(&head("application/json"), body, false).unwrap();
    assert_eq!(outcome.answer.unwrap().1.as_bytes(), &whole.body[..]);
}
