//! Ollama: streams, their ends, cuts and failures.

use crate::failure::Proof;
use crate::stream::sampling::{
    assert_cuts_prove_nothing, assert_the_client_saw_the_answer, decode_every_way, head, request,
};

const AT: &str = r#""model":"qwen3","created_at":"2026-11-30T20:00:00Z""#;

fn said(text: &str) -> String {
    format!("{{{AT},\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"done\":false}}\n")
}

fn done() -> String {
    format!("{{{AT},\"message\":{{\"role\":\"assistant\",\"content\":\"\"}},\"done\":true,\"done_reason\":\"stop\"}}\n")
}

#[test]
fn the_last_document_ends_the_answer_and_none_before_it() {
    let body = said("A") + &said("水") + &done();
    let outcome = decode_every_way("ollama", &request(""), &head("application/x-ndjson"), body.as_bytes());
    assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some("A水"));
    assert_eq!(outcome.finishes(), [(0, "stop".to_owned())]);
    assert_the_client_saw_the_answer(&outcome);
    assert_eq!(assert_cuts_prove_nothing("ollama", &request(""), &head("application/x-ndjson"), &body), 3);
    let bare = body.trim_end();
    let whole = decode_every_way("ollama", &request(""), &head("application/x-ndjson"), bare.as_bytes());
    assert_eq!(whole, outcome, "a last line feed may be missing");
}

#[test]
fn an_error_within_the_stream_keeps_its_words() {
    let body = said("A") + "{\"error\":\"an error was encountered while running the model\"}\n";
    let outcome = decode_every_way("ollama", &request(""), &head("application/x-ndjson"), body.as_bytes());
    let failure = outcome.failure();
    assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"));
    assert_eq!(failure.message, "an error was encountered while running the model");
}

#[test]
fn what_is_no_document_is_a_garbled_stream() {
    for bad in ["data: {}\n", "{\"message\":7,}\n", "{\"message\":{\"content\":7}}\n", "[1]\n"] {
        let body = said("A") + bad;
        let outcome = decode_every_way("ollama", &request(""), &head("application/x-ndjson"), body.as_bytes());
        assert_eq!(outcome.failure().reason, "garbled_stream", "{bad}");
    }
}
