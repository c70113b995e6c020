//! Cohere: whole answers, their ends and their counts.

use super::*;
use crate::failure::Proof;
use crate::stream::sampling::head;

fn answer(members: &str) -> Result<Answer, Failure> {
    read("support", &head("application/json"), format!(r#"{{"id":"c0",{members}}}"#).as_bytes())
}

#[test]
fn every_finish_reason_has_its_word_or_is_no_answer() {
    let said = r#""message":{"role":"assistant","content":[{"type":"text","text":"a"}]}"#;
    for (word, finish) in [("COMPLETE", Finish::Stop), ("STOP_SEQUENCE", Finish::Stop), ("MAX_TOKENS", Finish::Length)]
    {
        let answer = answer(&format!(r#"{said},"finish_reason":"{word}""#)).unwrap();
        assert_eq!(answer.reply.choices[0].finish, finish);
    }
    for word in ["ERROR", "TIMEOUT", "SAID_LATER"] {
        let failure = answer(&format!(r#"{said},"finish_reason":"{word}""#)).unwrap_err();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"));
        assert!(failure.message.contains(word));
    }
    assert_eq!(answer(said).unwrap_err().reason, "invalid_answer");
    let none = answer(&format!(r#"{said},"finish_reason":"TOOL_CALL""#)).unwrap_err();
    assert_eq!(none.reason, "invalid_answer", "it stopped for a call and has none");
}

#[test]
fn the_client_is_told_the_model_that_it_asked_for_and_every_citation() {
    let answer = answer(
        r#""message":{"role":"assistant","content":[{"type":"text","text":"a"}],
        "citations":[{"start":0,"end":1,"text":"a"}]},"finish_reason":"COMPLETE""#,
    )
    .unwrap();
    let body = Json::parse(&answer.body).unwrap();
    assert_eq!((body.get("model"), answer.reply.model), (Some(&Json::from("support")), None));
    let choice = &body.get("choices").unwrap().as_array().unwrap()[0];
    assert_eq!(choice.get("message").unwrap().get("citations").unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn tokens_count_as_they_are_billed() {
    let said = r#""message":{"role":"assistant","content":[{"type":"text","text":"a"}]},"finish_reason":"COMPLETE""#;
    let usage = |usage: &str| answer(&format!(r#"{said},"usage":{usage}"#)).unwrap().reply;
    let billed = usage(
        r#"{"billed_units":{"input_tokens":8,"output_tokens":50},"tokens":{"input_tokens":1394,"output_tokens":55}}"#,
    );
    let expected = Usage { input_tokens: 8, output_tokens: 50, ..Usage::default() };
    assert_eq!(billed.usage, Some(expected));
    let unreadable = usage(r#"{"billed_units":{"input_tokens":8}}"#);
    assert!(unreadable.usage.is_none() && unreadable.usage_unreadable);
}
