//! Gemini: whole answers, their ends and their counts.

use super::*;
use crate::canonical::Answer;
use crate::failure::Proof;
use crate::stream::sampling::head;

fn answer(candidates: &str) -> Result<Answer, Failure> {
    let body = format!(
        r#"{{"candidates":[{candidates}],"usageMetadata":{{"promptTokenCount":5,"candidatesTokenCount":2,
        "totalTokenCount":7}},"responseId":"r","modelVersion":"gemini-2.5-flash"}}"#
    );
    read(&head("application/json"), body.as_bytes())
}

fn choice(answer: &Answer) -> Json {
    Json::parse(&answer.body).unwrap().get("choices").unwrap().as_array().unwrap()[0].clone()
}

#[test]
fn every_finish_reason_has_its_word_or_is_no_answer() {
    for (word, finish) in [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
    ] {
        let read = answer(&format!(r#"{{"content":{{"parts":[{{"text":"a"}}]}},"finishReason":"{word}"}}"#)).unwrap();
        let choice = choice(&read);
        assert_eq!(choice.get("finish_reason").unwrap().as_str(), Some(finish));
        assert_eq!(choice.get("native_finish_reason").unwrap().as_str(), Some(word));
    }
    for word in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "LANGUAGE", "SAID_LATER"] {
        let failure =
            answer(&format!(r#"{{"content":{{}},"finishReason":"{word}","finishMessage":"why"}}"#)).unwrap_err();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"));
        assert!(failure.message.contains(word) && failure.message.ends_with("why"), "{}", failure.message);
        assert_eq!(failure.usage.unwrap().input_tokens, 5, "the work was done");
    }
    for unended in ["", r#""finishReason":"FINISH_REASON_UNSPECIFIED""#] {
        let failure = answer(&format!("{{{unended}}}")).unwrap_err();
        assert_eq!(failure.reason, "invalid_answer");
    }
}

#[test]
fn a_blocked_prompt_is_a_refusal_with_its_words() {
    let body = br#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"no"},
        "usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}"#;
    let answer = read(&head("application/json"), body).unwrap();
    let reply = &answer.reply.choices[0];
    assert_eq!((reply.finish, reply.refusal.as_deref()), (Finish::ContentFilter, Some("no")));
    assert!(choice(&answer).get("promptFeedback").is_some());
}

#[test]
fn the_same_tool_twice_gives_two_calls_with_ids_of_their_own() {
    let call = r#"{"functionCall":{"name":"rd","args":{"n":1.50}}}"#;
    let twice = format!(r#"{{"content":{{"parts":[{call},{call}]}},"finishReason":"STOP"}}"#);
    let (one, again) = (answer(&twice).unwrap(), answer(&twice).unwrap());
    let calls = &one.reply.choices[0].tool_calls;
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].id, calls[1].id);
    assert_eq!(calls[0].arguments, r#"{"n":1.50}"#);
    assert_eq!(one.body, again.body, "a replay gives the same ids");
    assert_eq!(one.reply.choices[0].finish, Finish::ToolCalls);
    let same = r#"{"functionCall":{"id":"x","name":"rd"}}"#;
    let read = answer(&format!(r#"{{"content":{{"parts":[{same},{same}]}},"finishReason":"STOP"}}"#)).unwrap();
    let calls = &read.reply.choices[0].tool_calls;
    assert_ne!(calls[0].id, calls[1].id, "also where the provider gives one id twice");
    assert_eq!(calls[0].arguments, "{}");
}

#[test]
fn what_a_candidate_says_beside_its_text_is_kept() {
    let read = answer(
        r#"{"content":{"parts":[{"text":"A","thoughtSignature":"Uw=="},{"inlineData":{"mimeType":"image/png","data":"QQ=="}}]},
        "finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"]},"citationMetadata":{"citations":[]},
        "logprobsResult":{"chosenCandidates":[{"token":"A","tokenId":1,"logProbability":-1.0489701e-05}],
        "topCandidates":[{"candidates":[{"token":"B","logProbability":-2}]}]}}"#,
    )
    .unwrap();
    let choice = choice(&read);
    assert!(choice.get("groundingMetadata").is_some() && choice.get("citationMetadata").is_some());
    let message = choice.get("message").unwrap();
    assert!(message.get("other_blocks").unwrap().as_array().unwrap()[0].get("inlineData").is_some());
    let signature = message.get("extra_content").unwrap().get("google").unwrap().get("thought_signature").unwrap();
    assert_eq!(signature.as_str(), Some("Uw=="));
    assert_eq!(
        choice.get("logprobs").unwrap().to_bytes(),
        concat!(
            r#"{"content":[{"token":"A","logprob":-1.0489701e-05,"bytes":null,"#,
            r#""top_logprobs":[{"token":"B","logprob":-2,"bytes":null}]}]}"#
        )
    );
}

#[test]
fn thoughts_cost_as_output_and_an_unreadable_count_is_not_zero() {
    let usage = |usage: &str| {
        let body =
            format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a"}}]}},"finishReason":"STOP"}}]{usage}}}"#);
        read(&head("application/json"), body.as_bytes()).unwrap().reply
    };
    let counted = usage(
        r#","usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":80,"toolUsePromptTokenCount":7,
        "candidatesTokenCount":3,"thoughtsTokenCount":20}"#,
    );
    let expected = Usage {
        input_tokens: 107,
        output_tokens: 23,
        cached_input_tokens: 80,
        reasoning_tokens: 20,
        ..Usage::default()
    };
    assert_eq!(counted.usage, Some(expected));
    for broken in [r#","usageMetadata":{}"#, r#","usageMetadata":{"promptTokenCount":"many"}"#] {
        let reply = usage(broken);
        assert!(reply.usage.is_none() && reply.usage_unreadable);
    }
    assert!(!usage("").usage_unreadable);
}

#[test]
fn an_error_inside_a_200_is_a_failure() {
    let body = br#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#;
    let failure = read(&head("application/json"), body).unwrap_err();
    assert_eq!((failure.proof, failure.message.as_str()), (Proof::EndedWithoutResult, "overloaded"));
}
