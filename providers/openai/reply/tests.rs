//! What an answer is read as, and which answers are none.

use http::{HeaderMap, StatusCode};

use super::*;
use crate::compatible::row_named;

fn outcome(row: &str, body: &str) -> Result<Answer, Failure> {
    let head = Head { status: StatusCode::OK, headers: HeaderMap::new() };
    read(row_named(row).unwrap(), &head, &Bytes::copy_from_slice(body.as_bytes()))
}

fn answer(body: &str) -> Answer {
    outcome("openai", body).unwrap_or_else(|e| panic!("{body}: {e:?}"))
}

fn choice(message: &str, finish: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}]}}"#)
}

#[test]
fn a_sound_answer_passes_byte_for_byte() {
    let body = "{ \"x\" : 1e2,\n \"choices\":[{\"index\":0,\"message\":{\"content\":\"\\u00e9\"},\"finish_reason\":\"stop\"}] }";
    assert_eq!(answer(body).body, body);
}

#[test]
fn stop_beside_tool_calls_is_tool_calls() {
    let call = r#"{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"id\":7300000000000000001}"}}]}"#;
    let answer = answer(&choice(call, "\"stop\""));
    assert_eq!(answer.reply.choices[0].finish, Finish::ToolCalls);
    assert_eq!(answer.reply.choices[0].native_finish, "stop");
    assert_eq!(answer.body, choice(call, "\"tool_calls\""));
}

#[test]
fn arguments_left_out_become_an_empty_object() {
    let answer = answer(&choice(r#"{"tool_calls":[{"id":"c","function":{"name":"f"}}]}"#, "\"tool_calls\""));
    assert_eq!(answer.reply.choices[0].tool_calls[0].arguments, "{}");
    assert!(std::str::from_utf8(&answer.body).unwrap().contains(r#""arguments":"{}""#));
}

#[test]
fn an_error_within_a_200_is_a_failure_whatever_its_type() {
    for error in [
        r#"{"message":"no capacity","code":null}"#,
        r#"{"code":"429","message":"x"}"#,
        r#"{"code":429.0}"#,
        r#""plain string""#,
        "7",
    ] {
        let sound = choice(r#"{"content":"x"}"#, "\"stop\"");
        let body = sound.replacen('{', &format!(r#"{{"error":{error},"#), 1);
        let failure = outcome("openai", &body).unwrap_err();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"), "{error}");
        let body = sound.replacen(r#""index""#, &format!(r#""error":{error},"index""#), 1);
        assert_eq!(outcome("openrouter", &body).unwrap_err().reason, "error_in_answer", "{error}");
    }
    answer(&choice(r#"{"content":"x"}"#, "\"stop\"").replacen('{', r#"{"error":null,"#, 1));
}

#[test]
fn what_did_not_end_or_holds_nothing_is_no_answer() {
    for body in [
        String::new(),
        "<html>".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        r#"{"choices":[]}"#.to_owned(),
        r#"{"choices":[{"finish_reason":"stop"}]}"#.to_owned(),
        choice(r#"{"content":"x"}"#, "null"),
        choice(r#"{"content":"x"}"#, "\"\""),
        choice(r#"{"content":"x"}"#, "\"invented\""),
        choice(r#"{"content":"x"}"#, "\"function_call\""),
        choice(r#"{"content":null}"#, "\"stop\""),
        choice(r#"{"content":7}"#, "\"stop\""),
        choice(r#"{"content":"x"}"#, "\"tool_calls\""),
        choice(r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}"#, "\"tool_calls\""),
        choice(r#"{"tool_calls":[{"function":{"name":"f","arguments":""}}]}"#, "\"tool_calls\""),
        choice(r#"{"content":"x"}"#, "\"stop\"") + "x",
    ] {
        let failure = outcome("openai", &body).expect_err(&body);
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "invalid_answer"), "{body}");
        assert_eq!(failure.status, Some(200));
    }
}

#[test]
fn an_invalid_answer_keeps_what_it_cost() {
    let body = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    assert_eq!(outcome("openai", body).unwrap_err().usage.unwrap().input_tokens, 3);
    let aborted = choice(r#"{"content":"x"}"#, "\"abort\"").replacen(
        '{',
        r#"{"usage":{"prompt_tokens":3,"completion_tokens":1},"#,
        1,
    );
    let failure = outcome("vllm", &aborted).unwrap_err();
    assert_eq!((failure.reason, failure.usage.unwrap().output_tokens), ("error_in_answer", 1));
}

#[test]
fn empty_text_a_refusal_and_a_spent_budget_are_answers() {
    answer(&choice(r#"{"content":""}"#, "\"stop\""));
    answer(&choice(r#"{"content":null,"refusal":"no"}"#, "\"stop\""));
    answer(&choice(r#"{"content":null}"#, "\"length\""));
    answer(&choice(r#"{"content":null}"#, "\"content_filter\""));
}

#[test]
fn a_providers_own_finish_word_becomes_openais() {
    let body =
        choice(r#"{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[]}]}"#, "\"model_length\"");
    let answer = outcome("mistral", &body).unwrap();
    let choice = &answer.reply.choices[0];
    assert_eq!((choice.finish, choice.text.as_deref()), (Finish::Length, Some("a")));
    assert!(answer.body.windows(24).any(|window| window == br#""finish_reason":"length""#));
}

#[test]
fn usage_that_cannot_be_read_is_not_zero() {
    let with =
        |usage: &str| choice(r#"{"content":"x"}"#, "\"stop\"").replacen('{', &format!(r#"{{"usage":{usage},"#), 1);
    let read =
        answer(&with(r#"{"prompt_tokens":3.0,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}"#))
            .reply
            .usage;
    assert_eq!(read, Some(Usage { input_tokens: 3, output_tokens: 1, cached_input_tokens: 2, ..Usage::default() }));
    for usage in [
        r#"{"prompt_tokens":"3","completion_tokens":1}"#,
        r#"{"prompt_tokens":3}"#,
        "7",
        r#"{"prompt_tokens":3,"completion_tokens":-1}"#,
    ] {
        let reply = answer(&with(usage)).reply;
        assert!(reply.usage_unreadable && reply.usage.is_none(), "{usage}");
    }
    assert!(!answer(&with("null")).reply.usage_unreadable);
}

#[test]
fn bare_infinities_are_taken_in_logprobs_only() {
    let body = r#"{"choices":[{"index":0,"message":{"content":"Up"},"finish_reason":"stop","logprobs":{"content":[{"token":"Up","logprob":0.0,"top_logprobs":[{"token":"~","logprob":-Infinity},{"token":"!","logprob":NaN}]}]}}]}"#;
    let answer = answer(body);
    assert_eq!(answer.body, body.replace("-Infinity", "null").replace("NaN", "null"));
    assert_eq!(outcome("openai", &body.replace("\"index\":0", "\"index\":NaN")).unwrap_err().reason, "invalid_answer");
}

#[test]
fn accepted_is_not_ended() {
    let head = Head { status: StatusCode::ACCEPTED, headers: HeaderMap::new() };
    let failure = read(row_named("xai").unwrap(), &head, &Bytes::from_static(br#"{"request_id":"x"}"#)).unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::Unknown, "unexpected_status"));
}
