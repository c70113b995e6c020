//! Holds one answer of real traffic against a suite's schema. It has no case, so what it means is not judged; what the
//! client itself brought about (a refusal, an output limit of its own) says nothing of the provider.
//!
//! What comes out is the name of a check, never a word of the answer.

use providers::canonical::{Choice, Finish};
use providers::json::Json;

use crate::check;
use crate::suite::{Output, Suite};

/// What one answer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    Kept,
    /// The name of the check of the schema kind that it failed.
    Broken(&'static str),
    NotJudged,
}

/// Judges every choice; the first that is broken decides. `limit` is the client's own output limit, in tokens.
pub fn judge(suite: &Suite, choices: &[Choice], limit: Option<u64>) -> Live {
    let limited = limit.is_some_and(|limit| limit < suite.parameters.max_tokens);
    let mut all = Live::NotJudged;
    for choice in choices {
        match judge_choice(suite, choice, limited) {
            Live::Broken(check) => return Live::Broken(check),
            Live::Kept => all = Live::Kept,
            Live::NotJudged => {}
        }
    }
    all
}

fn judge_choice(suite: &Suite, choice: &Choice, limited: bool) -> Live {
    let declined = choice.refusal.as_deref().is_some_and(|refusal| !refusal.is_empty());
    match choice.finish {
        Finish::ContentFilter => return Live::NotJudged,
        _ if declined => return Live::NotJudged,
        Finish::Length if limited => return Live::NotJudged,
        Finish::Length => return Live::Broken(check::NOT_TRUNCATED.name),
        Finish::Stop | Finish::ToolCalls => {}
    }
    let text = match suite.output {
        Output::Text => choice.text.as_deref(),
        Output::Tool => choice.tool_calls.first().map(|call| call.arguments.as_str()),
    };
    let Some(text) = text else { return Live::Broken(check::PARSES.name) };
    let Ok(json) = Json::parse(text.as_bytes()) else {
        let bare = text.trim_start().starts_with(['{', '[', '"']);
        return Live::Broken(if bare { check::PARSES.name } else { check::NOT_WRAPPED.name });
    };
    let unknown = |known: &Vec<String>| {
        let mut names = json.as_object().into_iter().flat_map(|object| object.iter().map(|(name, _)| name));
        names.any(|name| !known.iter().any(|k| k == name))
    };
    let judges_keys = !suite.skip.contains_key(check::NO_UNKNOWN_KEYS.name);
    if judges_keys && suite.known_keys.as_ref().is_some_and(unknown) {
        return Live::Broken(check::NO_UNKNOWN_KEYS.name);
    }
    match crate::schema::fits(suite, text) {
        Ok(()) => Live::Kept,
        Err(_) => Live::Broken(check::VALID.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(text: &str, finish: Finish) -> Choice {
        Choice {
            index: 0,
            text: Some(text.to_owned()),
            refusal: None,
            tool_calls: Vec::new(),
            finish,
            native_finish: String::new(),
        }
    }

    #[test]
    fn an_answer_of_real_traffic_is_kept_broken_or_not_judged() {
        let suite = Suite::embedded("support-triage").unwrap();
        let sound = r#"{"category":"billing","urgency":"low","summary":"charged twice"}"#;
        let more = r#"{"category":"billing","urgency":"low","summary":"charged twice","mood":"bad"}"#;
        let fenced = format!("```json\n{sound}\n```");
        let cases = [
            (sound, Finish::Stop, None, Live::Kept),
            (more, Finish::Stop, None, Live::Broken("no_unknown_keys")),
            (&fenced, Finish::Stop, None, Live::Broken("not_fenced_or_wrapped")),
            (r#"{"category":"billing""#, Finish::Stop, None, Live::Broken("parses")),
            (r#"{"category":"billing"}"#, Finish::Stop, None, Live::Broken("valid")),
            (sound, Finish::Length, None, Live::Broken("not_truncated")),
            (sound, Finish::Length, Some(200), Live::Broken("not_truncated")),
            (sound, Finish::Length, Some(199), Live::NotJudged),
            ("no", Finish::ContentFilter, None, Live::NotJudged),
        ];
        for (text, finish, limit, wanted) in cases {
            assert_eq!(judge(&suite, &[choice(text, finish)], limit), wanted, "{text} {finish:?}");
        }
        let refused = Choice { refusal: Some("no".to_owned()), ..choice("", Finish::Stop) };
        assert_eq!(judge(&suite, &[refused], None), Live::NotJudged);
        let two = [choice(sound, Finish::Stop), choice("[]", Finish::Stop)];
        assert_eq!(judge(&suite, &two, None), Live::Broken("valid"), "every choice is a promise");
        assert_eq!(judge(&suite, &[], None), Live::NotJudged);
    }
}
