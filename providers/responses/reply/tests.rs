//! What a response is read as, and rendered as for a client of chat completions.

use http::{HeaderMap, StatusCode};

use super::*;

fn head() -> Head {
    Head { status: StatusCode::OK, headers: HeaderMap::new() }
}

fn response(status: &str, output: &str, more: &str) -> String {
    format!(
        r#"{{"id":"resp_1","object":"response","created_at":1796068800,"model":"gpt-x","status":"{status}","output":[{output}]{more}}}"#
    )
}

fn answer(body: &str) -> Answer {
    read(&head(), body.as_bytes(), false).unwrap_or_else(|e| panic!("{body}: {e:?}"))
}

fn failure(body: &str) -> Failure {
    read(&head(), body.as_bytes(), false).expect_err(body)
}

fn said(text: &str) -> String {
    format!(
        r#"{{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"{text}","annotations":[],"logprobs":[]}}]}}"#
    )
}

fn incomplete(reason: &str) -> String {
    format!(r#","incomplete_details":{{"reason":"{reason}"}}"#)
}

const USAGE: &str = r#","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":16}"#;

#[test]
fn a_response_is_rendered_the_same_way_each_time() {
    let output = [
        r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"gAAA"}"#,
        &said("Hel"),
        &said("lo"),
    ];
    let more = format!(r#","service_tier":"default"{USAGE}"#);
    let read = answer(&response("completed", &output.join(","), &more));
    let expected = r#"{"id":"resp_1","object":"chat.completion","created":1796068800,"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null,"reasoning_content":"One.\n\nTwo.","reasoning_items":[REASONING]},"logprobs":null,"finish_reason":"stop","native_finish_reason":"completed"}],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":5}},"service_tier":"default"}"#;
    assert_eq!(read.body, expected.replace("REASONING", output[0]));
    let usage = Usage {
        input_tokens: 9,
        output_tokens: 7,
        cached_input_tokens: 4,
        cache_write_tokens: 2,
        reasoning_tokens: 5,
        ..Usage::default()
    };
    assert_eq!((read.reply.usage, read.reply.id.as_deref()), (Some(usage), Some("resp_1")));
}

#[test]
fn every_call_comes_back_in_order_under_the_id_that_its_result_needs() {
    let call = |id: &str, arguments: &str| {
        let arguments = Json::from(arguments).to_bytes();
        let arguments = std::str::from_utf8(&arguments).unwrap();
        format!(
            r#"{{"type":"function_call","id":"fc_{id}","call_id":"{id}","name":"rd","arguments":{arguments},"status":"completed"}}"#
        )
    };
    let digits = r#"{"id":7300000000000000001,"x":1.0,"y":1e2}"#;
    let read = answer(&response("completed", &[said("both"), call("c1", digits), call("c2", "")].join(","), ""));
    let choice = &read.reply.choices[0];
    let calls: Vec<(&str, &str)> =
        choice.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("c1", digits), ("c2", "{}")]);
    assert_eq!((choice.finish, choice.text.as_deref()), (Finish::ToolCalls, Some("both")));
    assert!(read.reply.usage.is_none() && !read.reply.usage_unreadable);
}

#[test]
fn each_end_has_its_word_and_a_limit_may_leave_nothing() {
    let text = said("x");
    for (status, output, more, finish, content) in [
        ("completed", text.as_str(), String::new(), Finish::Stop, Some("x")),
        ("incomplete", &text, incomplete("max_output_tokens"), Finish::Length, Some("x")),
        ("incomplete", "", incomplete("max_output_tokens"), Finish::Length, Some("")),
        ("incomplete", r#"{"type":"reasoning","summary":[]}"#, incomplete("max_tokens"), Finish::Length, Some("")),
        ("incomplete", &text, incomplete("content_filter"), Finish::ContentFilter, Some("x")),
        ("incomplete", "", incomplete("content_filter"), Finish::ContentFilter, None),
    ] {
        let read = answer(&response(status, output, &more));
        let choice = &read.reply.choices[0];
        assert_eq!((choice.finish, choice.text.as_deref()), (finish, content), "{status} {more} {output}");
    }
}

#[test]
fn a_refusal_stays_apart_from_the_text() {
    let refusal = r#"{"type":"message","content":[{"type":"refusal","refusal":"I can't."}]}"#;
    let read = answer(&response("completed", refusal, ""));
    let choice = &read.reply.choices[0];
    assert_eq!((choice.text.as_deref(), choice.refusal.as_deref()), (None, Some("I can't.")));
}

#[test]
fn what_a_chat_has_no_word_for_stays_whole() {
    let cited = r#"{"type":"message","content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","url":"https://x"}],"logprobs":[]}]}"#;
    let search = r#"{"type":"web_search_call","id":"ws_1","status":"completed"}"#;
    let read = answer(&response("completed", &[search, cited].join(","), ""));
    let body = std::str::from_utf8(&read.body).unwrap();
    assert!(body.contains(&format!(r#""other_items":[{search},{cited}]"#)), "{body}");
    let tokens = r#"[{"token":"x","logprob":-0.0,"bytes":[120],"top_logprobs":[]}]"#;
    let likely = format!(r#"{{"type":"message","content":[{{"type":"output_text","text":"x","logprobs":{tokens}}}]}}"#);
    let read = answer(&response("completed", &likely, ""));
    let body = std::str::from_utf8(&read.body).unwrap();
    assert!(body.contains(&format!(r#""logprobs":{{"content":{tokens},"refusal":null}}"#)), "{body}");
}

#[test]
fn a_response_that_failed_is_no_answer_and_its_cost_is_kept() {
    let error = r#","error":{"code":"rate_limit_exceeded","message":"slow down"}"#;
    let failed = failure(&response("failed", "", &format!("{error}{USAGE}")));
    assert_eq!((failed.proof, failed.reason), (Proof::EndedWithoutResult, "response_failed"));
    assert_eq!((failed.code.as_deref(), failed.message.as_str()), (Some("rate_limit_exceeded"), "slow down"));
    assert_eq!((failed.usage.unwrap().input_tokens, failed.status), (9, Some(200)));
    let cancelled = failure(&response("cancelled", "", r#","error":null"#));
    assert_eq!((cancelled.proof, cancelled.reason), (Proof::EndedWithoutResult, "response_cancelled"));
    assert!(!cancelled.message.is_empty());
    // An error wins over a status that contradicts it (field case B019).
    let contradiction = failure(&response("completed", &said("x"), r#","error":"no""#));
    assert_eq!((contradiction.proof, contradiction.reason), (Proof::EndedWithoutResult, "error_in_answer"));
}

#[test]
fn a_response_that_goes_on_proves_nothing() {
    for status in ["queued", "in_progress", "paused", "complete"] {
        let failure = failure(&response(status, &said("x"), ""));
        assert_eq!((failure.proof, failure.reason), (Proof::Unknown, "response_unfinished"), "{status}");
    }
}

#[test]
fn an_answer_that_is_none_ended_without_a_result() {
    let text = said("x");
    let unknown = incomplete("steered");
    for body in [
        "",
        "[]",
        "{}",
        r#"{"status":"completed"}"#,
        &response("completed", "", ""),
        &response("completed", r#"{"type":"reasoning","summary":[]}"#, ""),
        &response("completed", "7", ""),
        &response("completed", r#"{"type":"message"}"#, ""),
        &response("completed", r#"{"type":"message","content":[{"type":"output_text"}]}"#, ""),
        &response("completed", r#"{"type":"function_call","id":"fc_1","name":"f","arguments":"{}"}"#, ""),
        &response("completed", r#"{"type":"function_call","call_id":"c","name":"f","arguments":{}}"#, ""),
        &response("incomplete", &text, ""),
        &response("incomplete", &text, &unknown),
    ] {
        let failure = failure(body);
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "invalid_answer"), "{body}");
    }
    // A status other than 200 says that there is more to it.
    let head = Head { status: StatusCode::ACCEPTED, headers: HeaderMap::new() };
    assert_eq!(read(&head, b"{}", false).unwrap_err().proof, Proof::Unknown);
}

#[test]
fn usage_that_cannot_be_read_is_unknown_and_never_zero() {
    for usage in [
        r#"{"input_tokens":"9","output_tokens":1}"#,
        r#"{"output_tokens":1}"#,
        r#"{"input_tokens":9,"output_tokens":1,"input_tokens_details":{"cached_tokens":-1}}"#,
        "7",
    ] {
        let read = answer(&response("completed", &said("x"), &format!(r#","usage":{usage}"#)));
        assert!(read.reply.usage.is_none() && read.reply.usage_unreadable, "{usage}");
        assert!(Json::parse(&read.body).unwrap().get("usage").is_none());
    }
    let small = r#","usage":{"input_tokens":9,"output_tokens":1}"#;
    assert_eq!(answer(&response("completed", &said("x"), small)).reply.usage.unwrap().cached_input_tokens, 0);
}
