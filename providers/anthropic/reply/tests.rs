//! What an answer is read as, and rendered as for an OpenAI client.

use http::{HeaderMap, StatusCode};

use super::*;
use crate::failure::Proof;

fn head() -> Head {
    Head { status: StatusCode::OK, headers: HeaderMap::new() }
}

fn answer(members: &str) -> Answer {
    read(&head(), format!(r#"{{"id":"m","model":"claude",{members}}}"#).as_bytes(), false)
        .unwrap_or_else(|e| panic!("{members}: {e:?}"))
}

fn failure(body: &str) -> Failure {
    read(&head(), body.as_bytes(), false).expect_err(body)
}

#[test]
fn every_call_comes_back_in_order_with_its_digits() {
    let answer = answer(
        r#""content":[{"type":"text","text":"both"},{"type":"tool_use","id":"t1","name":"rd","input":{"id":7300000000000000001,"x":1.0,"y":1e2}},{"type":"tool_use","id":"t2","name":"rd","input":{}}],"stop_reason":"end_turn""#,
    );
    let choice = &answer.reply.choices[0];
    assert_eq!(choice.tool_calls.len(), 2);
    assert_eq!(choice.tool_calls[0].arguments, r#"{"id":7300000000000000001,"x":1.0,"y":1e2}"#);
    assert_eq!((choice.finish, choice.native_finish.as_str()), (Finish::ToolCalls, "end_turn"));
    assert_eq!(choice.text.as_deref(), Some("both"));
    let rendered = Json::parse(&answer.body).unwrap();
    assert_eq!(rendered.get("created"), Some(&Json::from(0)));
    assert!(answer.reply.usage.is_none() && !answer.reply.usage_unreadable);
}

#[test]
fn each_reason_to_stop_has_its_word() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::ContentFilter),
    ] {
        let answer = answer(&format!(r#""content":[{{"type":"text","text":"x"}}],"stop_reason":"{reason}""#));
        assert_eq!(answer.reply.choices[0].finish, finish, "{reason}");
    }
}

#[test]
fn a_refusal_is_never_a_plain_stop() {
    let said = answer(r#""content":[{"type":"text","text":"I will not."}],"stop_reason":"refusal""#);
    let choice = &said.reply.choices[0];
    assert_eq!((choice.text.as_deref(), choice.refusal.as_deref()), (None, Some("I will not.")));
    let explained = answer(
        r#""content":[{"type":"text","text":"Well, "}],"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"why"}"#,
    );
    let choice = &explained.reply.choices[0];
    assert_eq!((choice.text.as_deref(), choice.refusal.as_deref()), (Some("Well, "), Some("why")));
    assert!(explained.body.windows(14).any(|window| window == b"content_filter"));
}

#[test]
fn what_did_not_end_is_no_answer() {
    for body in [
        "",
        "[]",
        "<html>",
        "{}",
        r#"{"content":"text","stop_reason":"end_turn"}"#,
        r#"{"content":[],"stop_reason":null}"#,
        r#"{"content":[]}"#,
        r#"{"content":[],"stop_reason":"pause_turn"}"#,
        r#"{"content":[],"stop_reason":"tool_use"}"#,
        r#"{"content":[{"text":"x"}],"stop_reason":"end_turn"}"#,
        r#"{"content":[{"type":"tool_use","id":"a","name":"b","input":"{}"}],"stop_reason":"tool_use"}"#,
    ] {
        let failure = failure(body);
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "invalid_answer"), "{body}");
    }
    let error = failure(
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"},"usage":{"input_tokens":3,"output_tokens":1}}"#,
    );
    assert_eq!((error.reason, error.kind.as_deref()), ("error_in_answer", Some("overloaded_error")));
    assert_eq!(error.usage.unwrap().output_tokens, 1);
}

#[test]
fn cached_tokens_are_input_and_unreadable_ones_are_not_zero() {
    let usage = r#""usage":{"input_tokens":10,"cache_creation_input_tokens":100,"cache_read_input_tokens":900,"output_tokens":5}"#;
    let read = answer(&format!(r#""content":[],"stop_reason":"end_turn",{usage}"#)).reply.usage.unwrap();
    assert_eq!((read.input_tokens, read.cached_input_tokens, read.output_tokens), (1010, 900, 5));
    for usage in [r#"{}"#, r#"{"input_tokens":"3","output_tokens":1}"#, r#"{"input_tokens":3}"#, "7"] {
        let reply = answer(&format!(r#""content":[],"stop_reason":"end_turn","usage":{usage}"#)).reply;
        assert!(reply.usage_unreadable && reply.usage.is_none(), "{usage}");
    }
}

#[test]
fn blocks_without_a_word_in_openais_dialect_are_kept_whole() {
    let answer = answer(
        r#""content":[{"type":"redacted_thinking","data":"xx"},{"type":"server_tool_use","id":"s","name":"n","input":{}},{"type":"text","text":"t","citations":[{"a":1}]}],"stop_reason":"end_turn""#,
    );
    let body = Json::parse(&answer.body).unwrap();
    let message = body.get("choices").unwrap().as_array().unwrap()[0].get("message").unwrap();
    assert_eq!(message.get("thinking_blocks").unwrap().as_array().unwrap().len(), 1);
    assert_eq!(message.get("other_blocks").unwrap().as_array().unwrap().len(), 2);
    assert_eq!(message.get("content").unwrap().as_str(), Some("t"));
}
