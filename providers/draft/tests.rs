//! What a draft makes of what it is told, whole and in pieces.

use super::*;
use crate::failure::Proof;
use crate::stream::sampling::head;

fn draft() -> Draft {
    let mut draft = Draft::new(&head("application/json"));
    draft.identify(Some("id"), Some("m"));
    draft
}

#[test]
fn an_end_without_a_word_is_no_answer_and_an_empty_text_is_one() {
    let mut out = Vec::new();
    let mut nothing = draft();
    nothing.end(0, Finish::Stop, "STOP", &mut out);
    let failure = nothing.settle(&mut out).unwrap_err();
    assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, "invalid_answer"));
    let mut empty = draft();
    empty.text(0, "", Vec::new(), &mut out);
    empty.end(0, Finish::Stop, "STOP", &mut out);
    assert_eq!(empty.settle(&mut out).unwrap().reply.choices[0].text.as_deref(), Some(""));
}

#[test]
fn a_call_that_an_end_left_broken_is_no_answer_and_one_that_a_limit_cut_is() {
    for (finish, sound) in [(Finish::Stop, false), (Finish::Length, true)] {
        let mut out = Vec::new();
        let mut draft = draft();
        let number = draft.call(0, "call_1", "f", None, &mut out).unwrap();
        draft.arguments(0, number, "{\"a\":", &mut out);
        draft.end(0, finish, "x", &mut out);
        assert_eq!(draft.settle(&mut out).is_ok(), sound);
    }
}

#[test]
fn a_choice_that_has_not_ended_is_told_of_no_end() {
    let mut out = Vec::new();
    let mut draft = draft();
    draft.text(0, "a", Vec::new(), &mut out);
    draft.text(1, "b", Vec::new(), &mut out);
    draft.end(0, Finish::Stop, "STOP", &mut out);
    assert_eq!(draft.ended(), None);
    let said = out.len();
    assert!(draft.settle(&mut out).is_err());
    assert_eq!(out.len(), said, "no finish reason went out");
}
