//! Bedrock: whole answers, their ends and their counts.

use super::*;
use crate::failure::Proof;
use crate::stream::sampling::head;

fn answer(content: &str, members: &str) -> Result<Answer, Failure> {
    let text = format!(r#"{{"output":{{"message":{{"role":"assistant","content":[{content}]}}}},{members}}}"#);
    read("support", &head("application/json"), text.as_bytes())
}

#[test]
fn every_stop_reason_has_its_word_or_is_no_answer() {
    let said = r#"{"text":"a"}"#;
    for (word, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("guardrail_intervened", Finish::ContentFilter),
        ("content_filtered", Finish::ContentFilter),
    ] {
        let answer = answer(said, &format!(r#""stopReason":"{word}""#)).unwrap();
        assert_eq!((answer.reply.choices[0].finish, answer.reply.choices[0].native_finish.as_str()), (finish, word));
    }
    for word in ["malformed_model_output", "malformed_tool_use", "said_later"] {
        let usage = r#""usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}"#;
        let failure = answer(said, &format!(r#""stopReason":"{word}",{usage}"#)).unwrap_err();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"));
        assert!(failure.message.contains(word) && failure.usage.is_some(), "what it cost is kept");
    }
    assert_eq!(answer(said, r#""x":1"#).unwrap_err().reason, "invalid_answer");
    assert_eq!(answer(said, r#""stopReason":"tool_use""#).unwrap_err().reason, "invalid_answer");
}

#[test]
fn input_counts_with_what_the_cache_read_and_wrote() {
    let usage =
        |usage: &str| answer(r#"{"text":"a"}"#, &format!(r#""stopReason":"end_turn","usage":{usage}"#)).unwrap().reply;
    let cached = r#"{"inputTokens":10,"outputTokens":5,"totalTokens":1015,"cacheReadInputTokens":900,"cacheWriteInputTokens":100}"#;
    let expected = Usage {
        input_tokens: 1010,
        output_tokens: 5,
        cached_input_tokens: 900,
        cache_write_tokens: 100,
        ..Usage::default()
    };
    assert_eq!(usage(cached).usage, Some(expected));
    let unreadable = usage(r#"{"inputTokens":10}"#);
    assert!(unreadable.usage.is_none() && unreadable.usage_unreadable);
}

#[test]
fn nothing_of_the_message_is_lost() {
    let content = r#"{"reasoningContent":{"reasoningText":{"text":"t","signature":"Uw=="}}},
        {"reasoningContent":{"redactedContent":"UmVk"}},
        {"citationsContent":{"content":[{"text":"cited"}],"citations":[{"title":"T"}]}},
        {"toolUse":{"type":"server_tool_use","toolUseId":"s","name":"code","input":{}}},
        {"toolResult":{"toolUseId":"s","content":[]}},{"toolUse":{"toolUseId":"c","name":"f","input":{"n":7300000000000000001}}}"#;
    let body =
        answer(content, r#""stopReason":"tool_use","serviceTier":{"type":"flex"},"trace":{"x":1}"#).unwrap().body;
    let body = String::from_utf8(body.to_vec()).unwrap();
    for kept in [
        r#""content":"cited""#,
        r#""reasoning_content":"t""#,
        r#""thinking_blocks":[{"type":"thinking","thinking":"t","signature":"Uw=="},{"type":"redacted_thinking","data":"UmVk"}]"#,
        r#""citations":[{"title":"T"}]"#,
        r#""other_blocks":[{"toolUse":{"type":"server_tool_use""#,
        r#"{"toolResult":{"toolUseId":"s","content":[]}}]"#,
        r#""arguments":"{\"n\":7300000000000000001}""#,
        r#""service_tier":"flex""#,
        r#""trace":{"x":1}"#,
        r#""model":"support""#,
    ] {
        assert!(body.contains(kept), "{kept}\n{body}");
    }
}
