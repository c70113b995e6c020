//! The field cases of streams, and what every sample has in common.

use http::StatusCode;

use super::*;
use crate::canonical::Finish;
use crate::failure::Proof;
use crate::stream::sampling::*;

/// A stream of chunks, each written as its `choices` (or whole).
fn stream(chunks: &[&str]) -> String {
    let payload = |chunk: &&str| match chunk.contains("\"choices\"") {
        true => format!("data: {chunk}\n\n"),
        false => format!("data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{chunk}]}}\n\n"),
    };
    chunks.iter().map(payload).collect()
}

fn delta(delta: &str) -> String {
    format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#)
}

fn end(word: &str) -> String {
    format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{word}"}}"#)
}

fn event_stream() -> Head {
    head("text/event-stream")
}

fn outcome_of(members: &str, body: &str) -> Outcome {
    decode_every_way("openai", &request(members), &event_stream(), body.as_bytes())
}

fn outcome(body: &str) -> Outcome {
    outcome_of("", body)
}

/// A sound sample: everything that must hold for each of them.
fn sound(members: &str, body: &str) -> Outcome {
    let outcome = outcome_of(members, body);
    assert_the_client_saw_the_answer(&outcome);
    assert_round_trip(&outcome.answer().1);
    assert!(assert_cuts_prove_nothing("openai", &request(members), &event_stream(), body) > 0);
    outcome
}

const USAGE: &str = r#"{"id":"c1","object":"chat.completion.chunk","created":7,"model":"m-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#;

#[test]
fn chunks_pass_byte_for_byte_and_make_one_answer() {
    let chunks = [
        r#"{"id":"c1","object":"chat.completion.chunk","created":7,"model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        r#"{ "id":"c1", "x":1e2,"choices":[{"index":0,"delta":{"content":"水\u00e9"},"logprobs":{"content":[{"token":"a"}],"refusal":null},"finish_reason":null}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"😀"},"logprobs":{"content":[{"token":"b"}]},"finish_reason":null}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        USAGE,
    ];
    let body = format!("\u{feff}: hi\n\n{}data: [DONE]\n\ndata: junk\n\n", stream(&chunks));
    let outcome = sound("", &body);
    assert_eq!(outcome.payloads(), chunks);
    let contents: Vec<bool> =
        outcome.pieces.iter().map(|piece| matches!(piece, StreamPiece::Chunk { content: true, .. })).collect();
    assert_eq!(contents, [false, true, true, false, false]);
    let expected = r#"{"id":"c1","object":"chat.completion","created":7,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"水é😀","refusal":null},"logprobs":{"content":[{"token":"a"},{"token":"b"}],"refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5},"system_fingerprint":"fp","x":1e2}"#;
    assert_eq!(outcome.answer.unwrap().1, expected);
}

#[test]
fn fragments_without_an_index_make_distinct_calls() {
    let body = stream(&[
        &delta(
            r#"{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"rd","arguments":"{\"path\":"}}]}"#,
        ),
        &delta(r#"{"tool_calls":[{"function":{"arguments":"\"a\"}"}}]}"#),
        &delta(
            r#"{"tool_calls":[{"id":"c2","type":"function","function":{"name":"rd","arguments":"{\"path\":\"b\""}}]}"#,
        ),
        &delta(r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}"#),
        &end("tool_calls"),
    ]);
    let outcome = sound("", &body);
    let calls = &outcome.answer().0.choices[0].tool_calls;
    let calls: Vec<_> = calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("c1", r#"{"path":"a"}"#), ("c2", r#"{"path":"b"}"#)]);
    assert!(outcome.payloads()[2].contains(r#""index":1}"#), "{}", outcome.payloads()[2]);
    let untouched = stream(&[&delta(r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}"#)]);
    assert_eq!(outcome.payloads()[3], untouched[6..].trim_end());
}

#[test]
fn interleaved_fragments_find_their_call_and_one_index_for_all_does_not_merge_them() {
    let open = |index: u64, id: &str| {
        format!(r#"{{"index":{index},"id":"{id}","type":"function","function":{{"name":"rd","arguments":""}}}}"#)
    };
    let more = |index: u64, text: &str| format!(r#"{{"index":{index},"function":{{"arguments":"{text}"}}}}"#);
    let calls = |list: &[String]| delta(&format!(r#"{{"tool_calls":[{}]}}"#, list.join(",")));
    let interleaved = stream(&[
        &calls(&[open(0, "c1"), open(1, "c2")]),
        &calls(&[more(0, "[0]")]),
        &calls(&[more(1, "[1")]),
        &calls(&[more(0, "0"), more(1, "1]")]),
        &end("tool_calls"),
    ]);
    let outcome = sound("", &interleaved);
    let read = |outcome: &Outcome| -> Vec<String> {
        outcome.answer().0.choices[0].tool_calls.iter().map(|call| call.arguments.clone()).collect()
    };
    assert_eq!(read(&outcome), ["[0]0", "[11]"]);
    let same_index = stream(&[
        &calls(&[open(0, "c1")]),
        &calls(&[more(0, "1")]),
        &calls(&[open(0, "c2")]),
        &calls(&[more(0, "2")]),
        &end("stop"),
    ]);
    let outcome = sound("", &same_index);
    assert_eq!(read(&outcome), ["1", "2"]);
    assert_eq!(outcome.finishes(), [(0, "tool_calls".to_owned())], "stop beside tool calls is tool_calls");
    assert_eq!(outcome.answer().0.choices[0].native_finish, "stop");
}

#[test]
fn a_call_without_arguments_gets_an_empty_object_in_both_forms() {
    let body =
        stream(&[&delta(r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}"#), &end("tool_calls")]);
    let outcome = sound("", &body);
    assert_eq!(outcome.answer().0.choices[0].tool_calls[0].arguments, "{}");
    assert_eq!(outcome.pieces.len(), 3);
}

#[test]
fn a_repeated_finish_reason_reaches_the_client_once_and_last() {
    let both = |text: &str| format!(r#"{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":"stop"}}"#);
    let body = stream(&[&both("A"), &both("B"), &both("C"), &end("stop")]);
    let outcome = outcome(&body);
    assert_the_client_saw_the_answer(&outcome);
    assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some("ABC"));
    assert_eq!(outcome.finishes(), [(0, "stop".to_owned())]);
    assert!(outcome.payloads().last().unwrap().contains("\"stop\""));
    let empty = r#"{"index":0,"delta":{"content":"x"},"finish_reason":""}"#;
    assert_eq!(sound("", &stream(&[empty, &end("stop")])).finishes().len(), 1, "an empty word is none");
}

#[test]
fn every_choice_has_its_own_text_and_all_must_end() {
    let text =
        |index: u64, text: &str| format!(r#"{{"index":{index},"delta":{{"content":"{text}"}},"finish_reason":null}}"#);
    let end = |index: u64| format!(r#"{{"index":{index},"delta":{{}},"finish_reason":"stop"}}"#);
    let chunks = [text(0, "red"), text(1, "sky"), text(0, " wine"), text(1, " blue"), end(0), end(1)];
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let outcome = sound(r#","n":2"#, &stream(&chunks));
    let texts: Vec<_> = outcome.answer().0.choices.iter().map(|choice| choice.text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["red wine", "sky blue"]);

    let one = stream(&[&text(0, "red"), &end(0)]);
    assert_eq!(outcome_of(r#","n":2"#, &one).failure().proof, Proof::Unknown, "the second may have been cut off");
    let done = one + "data: [DONE]\n\n";
    assert_eq!(outcome_of(r#","n":2"#, &done).answer().0.choices.len(), 1, "the provider says that this was all");
    let together = format!("{},{}", text(0, "a"), text(1, "b"));
    sound(r#","n":2"#, &stream(&[&together, &format!("{},{}", end(0), end(1))]));
}

#[test]
fn done_is_optional_and_alone_proves_nothing() {
    let sound_one = stream(&[&delta(r#"{"content":"A"}"#), &end("stop")]);
    assert_eq!(sound("", &sound_one).finishes().len(), 1);
    for cut in [
        stream(&[&delta(r#"{"content":"A"}"#)]),
        stream(&[&delta(r#"{"role":"assistant","content":"The dose is 1"}"#)]) + "data: [DONE]\n\n",
        "data: [DONE]\n\n".to_owned(),
        stream(&[USAGE]) + "data: [DONE]\n\n",
        sound_one.trim_end().to_owned(),
        String::new(),
        ": hi\n\n".to_owned(),
        "upstream went away".to_owned(),
    ] {
        let outcome = outcome(&cut);
        assert_eq!((outcome.failure().proof, outcome.failure().reason), (Proof::Unknown, "stream_cut"), "{cut}");
        assert_eq!(outcome.finishes(), []);
    }
}

#[test]
fn an_error_in_a_stream_is_a_failure_whatever_its_type() {
    let content = stream(&[&delta(r#"{"content":"A"}"#)]);
    for error in [
        r#"data: {"error":{"message":"no capacity","code":null}}"#,
        r#"data: {"error":{"code":"429","message":"x"}}"#,
        r#"data: {"error":{"code":429.0}}"#,
        r#"data: {"error":"plain string"}"#,
        r#"data: {"object":"error","message":"gone","code":500}"#,
        r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"x"}}]}"#,
        r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}"#,
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}",
        "event: error\ndata: out of order",
    ] {
        for before in ["", &content] {
            let outcome = outcome(&format!("{before}{error}\n\n{}", stream(&[&end("stop")])));
            let failure = outcome.failure();
            assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"), "{error}");
            assert_eq!((failure.status, failure.message.is_empty()), (Some(200), false), "{error}");
        }
    }
    let null = outcome(&stream(&[r#"{"error":null,"choices":[]}"#, &delta(r#"{"content":"A"}"#), &end("stop")]));
    assert!(null.answer.is_ok(), "null is no error");
    let busy = outcome("event: error\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n");
    assert_eq!((busy.failure().kind.as_deref(), busy.failure().message.as_str()), (Some("overloaded_error"), "busy"));
}

#[test]
fn a_chunk_that_cannot_be_read_ends_the_stream_and_its_cost_is_kept() {
    let usage = r#"{"index":0,"delta":{"content":"A"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1},"x":["#;
    for broken in [
        "data: {\"id\":",
        "data: nonsense",
        "data: 7",
        "data: {\"choices\":{}}",
        "data: {\"choices\":[7]}",
        "data: {\"choices\":[{\"index\":-1}]}",
        "data: {\"choices\":[{\"delta\":[]}]}",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":{}}}]}}]}",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":7}]}",
    ] {
        let outcome = outcome(&format!("{}{broken}\n\n{}", stream(&[usage]), stream(&[&end("stop")])));
        let failure = outcome.failure();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "garbled_stream"), "{broken}");
        assert_eq!(failure.usage.unwrap().input_tokens, 3, "{broken}");
    }
    let mut body = stream(&[&delta(r#"{"content":"A"}"#)]).into_bytes();
    body.extend_from_slice(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n");
    let outcome = decode_every_way("openai", &request(""), &event_stream(), &body);
    assert_eq!(outcome.failure().reason, "garbled_stream", "no answer has a character that nobody sent");
}

#[test]
fn signs_of_life_and_unknown_events_say_nothing() {
    let body = format!(
        ": OPENROUTER PROCESSING\n\nevent: ping\ndata: now\n\ndata:\n\ndata: {{\"queue\":3}}\n\n{}",
        stream(&[&delta(r#"{"content":"A"}"#), &end("stop")])
    );
    assert_eq!(sound("", &body).pieces.len(), 2);
}

#[test]
fn a_stream_that_holds_nothing_is_no_success() {
    let outcome = outcome(&(stream(&[&delta(r#"{"role":"assistant"}"#), &end("stop")]) + "data: [DONE]\n\n"));
    assert_eq!((outcome.failure().proof, outcome.failure().reason), (Proof::EndedWithoutResult, "invalid_answer"));
    let calls = super::tests::outcome(&stream(&[&delta(r#"{"content":"A"}"#), &end("tool_calls")]));
    assert_eq!((calls.failure().reason, calls.finishes()), ("invalid_answer", Vec::new()));
    sound("", &stream(&[&delta(r#"{"refusal":"I can't"}"#), &delta(r#"{"refusal":" help"}"#), &end("stop")]));
}

#[test]
fn usage_comes_once_and_last_wherever_the_provider_puts_it() {
    let counted = |text: &str, tokens: u64| {
        format!(
            r#"{{"id":"c1","created":7,"model":"m","choices":[{}],"usage":{{"prompt_tokens":3,"completion_tokens":{tokens}}}}}"#,
            delta(&format!(r#"{{"content":"{text}"}}"#))
        )
    };
    let in_every_chunk = stream(&[&counted("A", 1), &counted("B", 2), &end("stop")]);
    let outcome = sound("", &in_every_chunk);
    assert_eq!(outcome.answer().0.usage.unwrap().output_tokens, 2);
    assert_eq!(
        outcome.payloads().last(),
        Some(
            &r#"{"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#
        )
    );
    let groq = r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":4,"completion_tokens":1}}}"#;
    let outcome = outcome_of("", &stream(&[&delta(r#"{"content":"A"}"#), groq]));
    assert_eq!(outcome.answer().0.usage.unwrap().input_tokens, 4);

    let unreadable = r#"{"id":"c1","choices":[],"usage":{"prompt_tokens":"3","completion_tokens":1.0}}"#;
    let outcome = super::tests::outcome(&stream(&[&delta(r#"{"refusal":"no"}"#), &end("stop"), unreadable]));
    let reply = outcome.answer().0;
    assert_eq!((reply.usage, reply.usage_unreadable), (None, true));
    assert_eq!(outcome.payloads().last(), Some(&unreadable));
}

#[test]
fn a_plain_json_answer_is_given_out_in_chunks() {
    let body = r#"{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"{\"a}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    for kind in ["application/json", "text/event-stream"] {
        let outcome = decode_every_way("openai", &request(""), &head(kind), format!("\n {body}\n").as_bytes());
        assert_eq!(outcome.answer.as_ref().unwrap().1, body);
        assert_the_client_saw_the_answer(&outcome);
    }
    let error = decode_every_way("openai", &request(""), &event_stream(), br#"{"error":{"message":"busy"}}"#);
    assert_eq!((error.failure().proof, error.failure().message.as_str()), (Proof::EndedWithoutResult, "busy"));
    let cut = decode_every_way("openai", &request(""), &event_stream(), &body.as_bytes()[..100]);
    assert_eq!((cut.failure().proof, cut.failure().reason), (Proof::Unknown, "stream_cut"));
    let page = decode_every_way("openai", &request(""), &head("text/html; charset=utf-8"), b"<html>");
    assert_eq!((page.failure().proof, page.failure().reason), (Proof::EndedWithoutResult, "invalid_answer"));
    let accepted = Head { status: StatusCode::ACCEPTED, ..head("text/html") };
    assert_eq!(decode_every_way("openai", &request(""), &accepted, b"").failure().proof, Proof::Unknown);
}

#[test]
fn odd_chunks_are_put_right_for_the_client() {
    let body = stream(&[
        r#"{"choices":[],"prompt_filter_results":[{"x":1}],"id":"","object":"","model":"","created":0}"#,
        r#"{"id":"c1","created":7,"model":"m","choices":[{"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[]}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"message":{"content":"b","reasoning_content":"r","annotations":[1]}}]}"#,
        r#"{"id":"c1","choices":[{"index":0,"delta":{"content":null,"annotations":[2]},"finish_reason":"model_length","native":"x"}]}"#,
    ]);
    let outcome = decode_every_way("mistral", &request(""), &event_stream(), body.as_bytes());
    assert_the_client_saw_the_answer(&outcome);
    let (reply, whole) = outcome.answer();
    assert_eq!((reply.choices[0].finish, reply.choices[0].text.as_deref()), (Finish::Length, Some("ab")));
    let expected = r#"{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[]},{"type":"text","text":"ab"}],"reasoning_content":"r","annotations":[1,2]},"logprobs":{"content":[{"logprob":null}]},"native":"x","finish_reason":"length"}],"prompt_filter_results":[{"x":1}]}"#;
    assert_eq!(whole.to_bytes(), expected);
    let lines = "data: {\"id\":\"c1\",\ndata: \"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n";
    assert!(super::tests::outcome(lines).payloads().iter().all(|data| !data.contains('\n')));
}

#[test]
fn a_long_answer_is_cut_into_pieces_that_make_it_again() {
    let long = "ä水😀".repeat(10_000);
    let call = r#"{"id":"c","type":"function","extra":{"x":1},"function":{"name":"f","arguments":"{\"id\":7300000000000000001}"}}"#;
    let text = format!(
        r#"{{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{long}","refusal":null,"reasoning_content":"why","annotations":[],"audio":{{"id":"a","data":"xx"}},"other":7,"tool_calls":[{call},{call}]}},"logprobs":{{"content":[{{"token":"a"}}],"refusal":null}},"finish_reason":"tool_calls","native":"x"}},{{"index":1,"message":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":3,"completion_tokens":2}},"system_fingerprint":"fp","citations":["u"]}}"#
    );
    let answer = Json::parse(text.as_bytes()).unwrap();
    assert_round_trip(&answer.clone());
    let chunks = rechunk(text.as_bytes(), false).unwrap();
    assert!(chunks.len() > 8 && chunks.iter().all(|chunk| chunk.len() < 20_000));
    assert!(chunks.iter().all(|chunk| Json::parse(chunk).unwrap().get("usage").is_none()));
    assert_eq!(rechunk(text.as_bytes(), true).unwrap().len(), chunks.len() + 1);
    for none in ["", "[]", "{}", r#"{"choices":[]}"#, r#"{"choices":[{"message":{},"finish_reason":null}]}"#] {
        assert_eq!(rechunk(none.as_bytes(), true), None, "{none}");
    }
}
