//! Cohere: streams, their ends, cuts and failures.

use crate::failure::Proof;
use crate::stream::sampling::{
    assert_cuts_prove_nothing, assert_the_client_saw_the_answer, decode_every_way, head, request,
};

const START: &str = "data: {\"type\":\"message-start\",\"id\":\"c0\",\"delta\":{\"message\":{}}}\n\n";
const SAID: &str =
    "data: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"A\"}}}}\n\n";

fn end(word: &str) -> String {
    format!("data: {{\"type\":\"message-end\",\"delta\":{{\"finish_reason\":\"{word}\",\"error\":\"why\"}}}}\n\n")
}

#[test]
fn message_end_ends_the_answer_and_a_bare_done_does_not() {
    let body = format!("{START}{SAID}{}data: [DONE]\n\n", end("COMPLETE"));
    let outcome = decode_every_way("cohere", &request(""), &head("text/event-stream"), body.as_bytes());
    assert_eq!(outcome.finishes(), [(0, "stop".to_owned())]);
    assert_the_client_saw_the_answer(&outcome);
    assert_eq!(assert_cuts_prove_nothing("cohere", &request(""), &head("text/event-stream"), &body), 3);
    let bare = format!("{START}{SAID}data: [DONE]\n\n");
    let outcome = decode_every_way("cohere", &request(""), &head("text/event-stream"), bare.as_bytes());
    assert_eq!((outcome.failure().proof, outcome.failure().reason), (Proof::Unknown, "stream_cut"));
}

#[test]
fn a_stream_that_fails_keeps_the_providers_words() {
    for (body, reason, words) in [
        (format!("{START}{SAID}{}", end("ERROR")), "error_in_answer", "ERROR: why"),
        (format!("{START}event: error\ndata: {{\"message\":\"gone\"}}\n\n"), "error_in_answer", "gone"),
        (format!("{START}data: nonsense\n\n"), "garbled_stream", "not JSON"),
        (format!("{START}data: {{\"type\":\"content-delta\"}}\n\n"), "garbled_stream", "without its content"),
        (format!("{START}data: {{\"type\":\"tool-call-delta\",\"index\":4}}\n\n"), "garbled_stream", "no call"),
    ] {
        let outcome = decode_every_way("cohere", &request(""), &head("text/event-stream"), body.as_bytes());
        let failure = outcome.failure();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, reason));
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}
