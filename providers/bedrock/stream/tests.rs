//! Bedrock: streams of frames, their ends, cuts and failures.

use crate::eventstream::tests::{exception, frame};
use crate::failure::Proof;
use crate::stream::sampling::{
    assert_cuts_prove_nothing, assert_the_client_saw_the_answer, decode_every_way, head, request,
};

const KIND: &str = "application/vnd.amazon.eventstream";

fn said() -> Vec<u8> {
    let delta = r#"{"contentBlockIndex":0,"delta":{"text":"A"},"p":"abc"}"#;
    [frame("messageStart", r#"{"role":"assistant"}"#), frame("contentBlockDelta", delta)].concat()
}

fn stop(word: &str) -> Vec<u8> {
    frame("messageStop", &format!(r#"{{"stopReason":"{word}"}}"#))
}

const COUNT: &str = r#"{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"metrics":{"latencyMs":1}}"#;

#[test]
fn message_stop_ends_the_answer_and_a_count_alone_does_not() {
    let body = [said(), stop("end_turn"), frame("metadata", COUNT), frame("later", "{}")].concat();
    let outcome = decode_every_way("bedrock", &request(""), &head(KIND), &body);
    assert_eq!(outcome.finishes(), [(0, "stop".to_owned())]);
    assert_eq!(outcome.answer().0.usage.unwrap().output_tokens, 2);
    assert_the_client_saw_the_answer(&outcome);
    assert_eq!(assert_cuts_prove_nothing("bedrock", &request(""), &head(KIND), &body), 3);
    let bare = [said(), frame("metadata", COUNT)].concat();
    let outcome = decode_every_way("bedrock", &request(""), &head(KIND), &bare);
    assert_eq!((outcome.failure().proof, outcome.failure().reason), (Proof::Unknown, "stream_cut"));
}

#[test]
fn a_stream_that_fails_keeps_the_providers_words() {
    let delta = |content: &str| frame("contentBlockDelta", &format!(r#"{{"contentBlockIndex":4,"delta":{content}}}"#));
    let damaged = {
        let mut bytes = frame("messageStop", "{}");
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    for (more, reason, words) in [
        (stop("malformed_tool_use"), "error_in_answer", "malformed_tool_use"),
        (exception("modelStreamErrorException", r#"{"message":"gone"}"#), "error_in_answer", "gone"),
        (frame("messageStop", "nonsense"), "garbled_stream", "not JSON"),
        (damaged, "garbled_stream", "damaged"),
        (delta(r#"{"toolUse":{"input":"{}"}}"#), "garbled_stream", "no block"),
        (frame("contentBlockDelta", r#"{"delta":{"text":"x"}}"#), "garbled_stream", "contentBlockIndex"),
    ] {
        let outcome = decode_every_way("bedrock", &request(""), &head(KIND), &[said(), more].concat());
        let failure = outcome.failure();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, reason), "{words}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn what_the_providers_own_tools_did_comes_whole() {
    let start =
        |at: u8, start: &str| frame("contentBlockStart", &format!(r#"{{"contentBlockIndex":{at},"start":{start}}}"#));
    let delta =
        |at: u8, piece: &str| frame("contentBlockDelta", &format!(r#"{{"contentBlockIndex":{at},"delta":{piece}}}"#));
    let end = |at: u8| frame("contentBlockStop", &format!(r#"{{"contentBlockIndex":{at}}}"#));
    let body = [
        said(),
        start(1, r#"{"toolUse":{"toolUseId":"s","name":"code","type":"server_tool_use"}}"#),
        delta(1, r#"{"toolUse":{"input":"{\"x\":"}}"#),
        delta(1, r#"{"toolUse":{"input":"7300000000000000001}"}}"#),
        end(1),
        start(2, r#"{"toolResult":{"toolUseId":"s"}}"#),
        delta(2, r#"{"toolResult":[{"text":"a"}]}"#),
        delta(2, r#"{"toolResult":[{"text":"b"}]}"#),
        end(2),
        stop("end_turn"),
        frame("metadata", COUNT),
    ];
    let outcome = decode_every_way("bedrock", &request(""), &head(KIND), &body.concat());
    assert_the_client_saw_the_answer(&outcome);
    let (_, answer) = outcome.answer();
    let text = String::from_utf8(answer.to_bytes().to_vec()).unwrap();
    let blocks = concat!(
        r#""other_blocks":[{"toolUse":{"toolUseId":"s","name":"code","type":"server_tool_use","input":{"x":7300000000000000001}}},"#,
        r#"{"toolResult":{"toolUseId":"s","content":[{"text":"a"},{"text":"b"}]}}]"#
    );
    assert!(text.contains(blocks), "{text}");
}
