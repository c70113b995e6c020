//! Ollama: whole answers, their ends and their counts.

use super::*;
use crate::failure::Proof;
use crate::stream::sampling::head;

fn answer(members: &str) -> Result<Answer, Failure> {
    let body = format!(r#"{{"model":"qwen3","created_at":"2026-11-30T20:00:00Z",{members}}}"#);
    read(&head("application/json"), body.as_bytes())
}

#[test]
fn every_done_reason_has_its_word_or_is_no_answer() {
    let said = r#""message":{"role":"assistant","content":"a"},"done":true"#;
    for (reason, finish) in [("stop", Finish::Stop), ("length", Finish::Length)] {
        let answer = answer(&format!(r#"{said},"done_reason":"{reason}""#)).unwrap();
        let choice = &answer.reply.choices[0];
        assert_eq!((choice.finish, choice.native_finish.as_str()), (finish, reason));
    }
    assert_eq!(answer(said).unwrap().reply.choices[0].finish, Finish::Stop);
    for reason in ["load", "unload", "said_later"] {
        let failure = answer(&format!(r#"{said},"done_reason":"{reason}""#)).unwrap_err();
        assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "error_in_answer"));
        assert!(failure.message.ends_with(reason));
    }
    let unended = r#""message":{"role":"assistant","content":"a"},"done":false"#;
    assert_eq!(answer(unended).unwrap_err().reason, "invalid_answer");
}

#[test]
fn calls_get_ids_of_their_own_and_end_as_calls() {
    let call = r#"{"function":{"name":"rd","arguments":{"n":7300000000000000001}}}"#;
    let members = format!(
        r#""message":{{"role":"assistant","content":"","thinking":"hm","tool_calls":[{call},{call}]}},
        "done":true,"done_reason":"stop""#
    );
    let (one, again) = (answer(&members).unwrap(), answer(&members).unwrap());
    let choice = &one.reply.choices[0];
    assert_eq!(choice.finish, Finish::ToolCalls);
    assert_ne!(choice.tool_calls[0].id, choice.tool_calls[1].id);
    assert_eq!(choice.tool_calls[0].arguments, r#"{"n":7300000000000000001}"#);
    assert_eq!(one.body, again.body);
    let message = Json::parse(&one.body).unwrap().get("choices").unwrap().as_array().unwrap()[0].clone();
    assert_eq!(message.get("message").unwrap().get("reasoning_content"), Some(&Json::from("hm")));
}

#[test]
fn a_count_that_is_absent_is_not_zero() {
    let said = r#""message":{"role":"assistant","content":"a"},"done":true,"done_reason":"stop""#;
    let counted = answer(&format!(r#"{said},"prompt_eval_count":26,"eval_count":3,"eval_duration":9"#)).unwrap();
    let usage = Usage { input_tokens: 26, output_tokens: 3, ..Usage::default() };
    assert_eq!(counted.reply.usage, Some(usage));
    let half = answer(&format!(r#"{said},"eval_count":3"#)).unwrap().reply;
    assert!(half.usage.is_none() && half.usage_unreadable);
    let none = answer(said).unwrap().reply;
    assert!(none.usage.is_none() && !none.usage_unreadable);
}
