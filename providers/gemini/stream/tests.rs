//! Gemini: streams, their ends, cuts and failures.

use crate::failure::Proof;
use crate::stream::sampling::{
    assert_cuts_prove_nothing, assert_the_client_saw_the_answer, decode_every_way, head, request,
};

fn event(candidate: &str) -> String {
    format!("data: {{\"candidates\":[{candidate}],\"responseId\":\"r\"}}\n\n")
}

fn said(text: &str, rest: &str) -> String {
    event(&format!(r#"{{"content":{{"parts":[{{"text":"{text}"}}]}}{rest}}}"#))
}

#[test]
fn a_finish_reason_in_every_fragment_reaches_the_client_once_and_last() {
    let body: String = ["A", "B", "C"].map(|text| said(text, r#","finishReason":"STOP""#)).concat();
    let outcome = decode_every_way("gemini", &request(""), &head("text/event-stream"), body.as_bytes());
    assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some("ABC"));
    assert_eq!(outcome.finishes(), [(0, "stop".to_owned())]);
    assert_the_client_saw_the_answer(&outcome);
}

#[test]
fn calls_in_several_fragments_are_numbered_through_the_stream() {
    let call = |n: u64| {
        let call = format!(r#"{{"functionCall":{{"name":"rd","args":{{"path":"p{n}"}}}}}}"#);
        event(&format!(r#"{{"content":{{"parts":[{call}]}}}}"#))
    };
    let body = format!("{}{}{}", call(1), call(2), event(r#"{"finishReason":"STOP"}"#));
    let outcome = decode_every_way("gemini", &request(""), &head("text/event-stream"), body.as_bytes());
    let calls = &outcome.answer().0.choices[0].tool_calls;
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].id, calls[1].id);
    assert_eq!(outcome.finishes(), [(0, "tool_calls".to_owned())]);
    assert_the_client_saw_the_answer(&outcome);
    assert!(assert_cuts_prove_nothing("gemini", &request(""), &head("text/event-stream"), &body) > 0);
}

#[test]
fn every_candidate_that_was_asked_for_must_end() {
    let first = r#"{"index":0,"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}"#;
    let second = r#"{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}"#;
    let both = event(first) + &event(second);
    let outcome = decode_every_way("gemini", &request(r#","n":2"#), &head("text/event-stream"), both.as_bytes());
    assert_eq!(outcome.answer().0.choices.len(), 2);
    assert_the_client_saw_the_answer(&outcome);
    let one = decode_every_way("gemini", &request(r#","n":2"#), &head("text/event-stream"), event(first).as_bytes());
    assert_eq!((one.failure().proof, one.failure().reason), (Proof::Unknown, "stream_cut"));
}

#[test]
fn a_stream_that_fails_keeps_the_providers_words() {
    for (body, reason, words) in [
        ("data: {\"error\":{\"code\":503,\"message\":\"overloaded\"}}\n\n".to_owned(), "error_in_answer", "overloaded"),
        (
            said("a", r#","finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"bad call""#),
            "error_in_answer",
            "bad call",
        ),
        ("data: {\"candidates\":7}\n\n".to_owned(), "garbled_stream", "no array"),
        ("data: nonsense\n\n".to_owned(), "garbled_stream", "not JSON"),
    ] {
        let outcome = decode_every_way("gemini", &request(""), &head("text/event-stream"), body.as_bytes());
        let failure = outcome.failure();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, reason));
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn a_blocked_prompt_ends_the_stream_as_a_refusal() {
    let body = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n";
    let outcome = decode_every_way("gemini", &request(r#","n":2"#), &head("text/event-stream"), body.as_bytes());
    assert_eq!(outcome.finishes(), [(0, "content_filter".to_owned())]);
    assert_the_client_saw_the_answer(&outcome);
}

#[test]
fn an_array_instead_of_events_is_the_same_answer() {
    let one =
        |text: &str, rest: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}{rest}}}]}}"#);
    let body = format!("[{},\n{}]", one("A", ""), one("B", r#","finishReason":"STOP""#));
    let outcome = decode_every_way("gemini", &request(""), &head("application/json"), body.as_bytes());
    assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some("AB"));
}
