//! The schema kind: does every answer to the consumer's own calls parse, validate and mean the right thing.
//!
//! Each answer climbs the same ladder, and the first step that it misses is the one that failed: the steps above are
//! not judged for it. The finish reason is looked at before the text. Nothing is unwrapped, repaired or coerced.

mod example;
mod keywords;

use providers::canonical::{Choice, Finish};
use providers::json::Json;

use crate::check::{self, CheckInfo, CheckResult, WHOLE_SUITE, excerpt};
use crate::observation::Observation;
use crate::probe;
use crate::program;
use crate::runner::Transcript;
use crate::sampling::Sample;
use crate::suite::{Case, Output, Program, Suite};

pub(crate) use example::example;
pub(crate) use keywords::asked_for;

/// The ladder, lowest step first.
const LADDER: [&CheckInfo; 9] = [
    &check::ANSWERED,
    &check::NOT_REFUSED,
    &check::NOT_TRUNCATED,
    &check::NOT_WRAPPED,
    &check::PARSES,
    &check::NO_UNKNOWN_KEYS,
    &check::VALID,
    &check::MEANING,
    &check::PROGRAM,
];

/// The detail of a step that no answer reached.
pub(crate) const NOT_REACHED: &str = "not judged: an earlier check of this case failed";

/// Where one answer's climb ended: at which step, and why. `None`: it reached the top.
type Climb = Option<(&'static str, String)>;

pub(crate) async fn judge(suite: &Suite, transcript: &Transcript) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for case in &suite.cases {
        let mut climbs = Vec::new();
        for repeat in 1..=suite.repeats {
            climbs.push(match transcript.get(&case.name, probe::OUTPUT, repeat) {
                Some(exchange) => climb(suite, case, &exchange.observation).await,
                None => Some((check::ANSWERED.name, "the call was not made".to_owned())),
            });
        }
        for step in LADDER.into_iter().filter(|step| applies(suite, case, step)) {
            results.push(summed(suite, case, step, &climbs));
        }
    }
    results.extend(not_used(suite, &results));
    if !suite.skip.contains_key(check::KEYWORDS.name) {
        results.extend(keywords::judge(suite, transcript));
    }
    results
}

fn applies(suite: &Suite, case: &Case, step: &CheckInfo) -> bool {
    !suite.skip.contains_key(step.name)
        && (step.name != check::MEANING.name || !case.assertions.is_empty())
        && (step.name != check::PROGRAM.name || program_of(suite, case).is_some())
        && (step.name != check::NO_UNKNOWN_KEYS.name || suite.known_keys.is_some())
}

/// One skipped result for each step that no case of this suite has a use for.
fn not_used(suite: &Suite, made: &[CheckResult]) -> Vec<CheckResult> {
    let reasons = [
        (&check::MEANING, "no case states what its answer means"),
        (&check::PROGRAM, "the suite names no program"),
        (&check::NO_UNKNOWN_KEYS, "the schema names no top-level properties"),
    ];
    reasons
        .into_iter()
        .filter(|(step, _)| !suite.skip.contains_key(step.name) && made.iter().all(|r| r.name != step.name))
        .map(|(step, why)| step.skipped(WHOLE_SUITE, why))
        .collect()
}

/// The verdict of one step over all repeats: enough of them must have got past it.
fn summed(suite: &Suite, case: &Case, step: &CheckInfo, climbs: &[Climb]) -> CheckResult {
    let rung = |name: &str| LADDER.iter().position(|s| s.name == name);
    let here = rung(step.name);
    let past = climbs.iter().filter(|c| c.as_ref().is_none_or(|(at, _)| rung(at) > here)).count();
    let missed: Vec<&String> = climbs.iter().flatten().filter(|(at, _)| *at == step.name).map(|(_, why)| why).collect();
    let total = climbs.len();
    let sample = Sample::new(past, total);
    if past as f64 >= suite.pass_rate * total as f64 - 1e-9 {
        return step.passed(&case.name, "").sampled(sample, suite.pass_rate);
    }
    match missed.first() {
        Some(why) => step.failed(&case.name, why).sampled(sample, suite.pass_rate),
        None => step.skipped(&case.name, NOT_REACHED),
    }
}

async fn climb(suite: &Suite, case: &Case, observation: &Observation) -> Climb {
    let choice = match observation.choice() {
        Ok(choice) => choice,
        Err(why) => return Some((check::ANSWERED.name, why)),
    };
    let missed = |step: &CheckInfo, why: String| (!suite.skip.contains_key(step.name)).then_some((step.name, why));
    if let Err(why) = complete(suite, choice) {
        return Some(why);
    }
    let text = match output_text(suite, choice) {
        Ok(text) => text,
        Err(why) => return Some((check::PARSES.name, why)),
    };
    let json = match read(text) {
        Ok(json) => json,
        Err(why) => return Some(why),
    };
    if let Some(key) = unknown_key(suite, &json)
        && let Some(climb) = missed(&check::NO_UNKNOWN_KEYS, format!("the key {} is not in the contract", excerpt(key)))
    {
        return Some(climb);
    }
    if let Err(why) = valid(suite, &json) {
        return Some((check::VALID.name, why));
    }
    if let Some(why) = case.assertions.iter().find_map(|a| a.judge(&json).err())
        && let Some(climb) = missed(&check::MEANING, why)
    {
        return Some(climb);
    }
    let program = program_of(suite, case)?;
    let understood = program::understands(&program.argv, suite.source.folder(), text, program.limit).await;
    understood.err().and_then(|why| missed(&check::PROGRAM, why))
}

fn program_of<'a>(suite: &'a Suite, case: &'a Case) -> Option<&'a Program> {
    case.program.as_ref().or(suite.program.as_ref())
}

/// Declined and cut answers, by what the provider says and not by what the text looks like.
fn complete(suite: &Suite, choice: &Choice) -> Result<(), (&'static str, String)> {
    if choice.refusal.as_deref().is_some_and(|r| !r.is_empty()) {
        return Err((check::NOT_REFUSED.name, "the model declined, in the refusal field".to_owned()));
    }
    match choice.finish {
        Finish::ContentFilter => {
            Err((check::NOT_REFUSED.name, format!("stopped by a content filter ({})", choice.native_finish)))
        }
        Finish::Length => {
            let limit = suite.parameters.max_tokens;
            Err((
                check::NOT_TRUNCATED.name,
                format!("cut at the output limit ({}), max_tokens = {limit}", choice.native_finish),
            ))
        }
        Finish::Stop | Finish::ToolCalls => Ok(()),
    }
}

/// The text that the consumer reads.
fn output_text<'a>(suite: &Suite, choice: &'a Choice) -> Result<&'a str, String> {
    match suite.output {
        Output::Text => match choice.text.as_deref() {
            Some(text) => Ok(text),
            None if choice.tool_calls.is_empty() => Err("the answer has no text".to_owned()),
            None => Err("the answer is a tool call, not text".to_owned()),
        },
        Output::Tool => match choice.tool_calls.first() {
            Some(call) => Ok(&call.arguments),
            None => Err("the answer holds no tool call".to_owned()),
        },
    }
}

/// The whole text as one JSON value. Prose and fences are told apart from broken JSON; neither is taken off.
fn read(text: &str) -> Result<Json, (&'static str, String)> {
    let error = match Json::parse(text.as_bytes()) {
        Ok(json) => return Ok(json),
        Err(error) => error,
    };
    let trimmed = text.trim();
    if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
        return Err((check::NOT_WRAPPED.name, format!("the answer is in a markdown fence: {}", excerpt(trimmed))));
    }
    if holds_json_inside(trimmed) {
        return Err((check::NOT_WRAPPED.name, format!("there is text around the JSON: {}", excerpt(trimmed))));
    }
    let class = if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || raw_newline(trimmed) {
        " (a raw control character inside a string)"
    } else {
        ""
    };
    Err((check::PARSES.name, format!("it is not JSON{class}: {error}: {}", excerpt(text))))
}

/// Whether a whole JSON object stands somewhere in text that is not JSON. Only to name the fault, never to use it.
fn holds_json_inside(text: &str) -> bool {
    let (Some(open), Some(close)) = (text.find('{'), text.rfind('}')) else { return false };
    let outside = open > 0 || close + 1 < text.len();
    outside && open < close && text.get(open..=close).is_some_and(|inner| Json::parse(inner.as_bytes()).is_ok())
}

/// Whether escaping line breaks inside strings would be enough to make it JSON.
fn raw_newline(text: &str) -> bool {
    let mut inside = false;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' if inside => return true,
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    false
}

fn unknown_key<'a>(suite: &Suite, json: &'a Json) -> Option<&'a str> {
    let known = suite.known_keys.as_ref()?;
    json.as_object()?.iter().map(|(name, _)| name).find(|name| !known.iter().any(|k| k == name))
}

/// Valid, or the error nearest to the root in words, without the values.
fn valid(suite: &Suite, json: &Json) -> Result<(), String> {
    let value = json.to_serde();
    let worst = suite
        .validator
        .iter_errors(&value)
        .min_by_key(|e| (e.instance_path().as_str().matches('/').count(), e.instance_path().as_str().to_owned()));
    let Some(error) = worst else { return Ok(()) };
    let path = error.instance_path().as_str();
    let place = if path.is_empty() { "the output" } else { path };
    let mut why = format!("{place}: {}", error.masked());
    if error.kind().keyword() == "type" && number_as_string(error.instance()) {
        why.push_str(" (a number written as a string; it is not coerced)");
    }
    Err(why)
}

fn number_as_string(value: &serde_json::Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    matches!(Json::parse(text.as_bytes()), Ok(Json::Number(_)))
}

/// Whether a text validates against the suite's schema; for the checks of other kinds.
pub(crate) fn fits(suite: &Suite, text: &str) -> Result<(), String> {
    let json = read(text).map_err(|(_, why)| why)?;
    valid(suite, &json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> &'static str {
        read(text).err().map_or("json", |(step, _)| step)
    }

    #[test]
    fn a_fence_and_prose_are_told_apart_from_broken_json() {
        assert_eq!(step("{\"a\":1}"), "json");
        assert_eq!(step(" {\"a\":1}\n"), "json");
        assert_eq!(step("```json\n{\"a\":1}\n```"), "not_fenced_or_wrapped");
        assert_eq!(step("Here it is: {\"a\":1}"), "not_fenced_or_wrapped");
        assert_eq!(step("{\"a\":1} hope that helps"), "not_fenced_or_wrapped");
        assert_eq!(step("{\"a\":1"), "parses");
        assert_eq!(step("{\"a\":1,\"a\":2}"), "parses");
        assert_eq!(step(""), "parses");
    }

    #[test]
    fn a_bracketed_span_inside_an_unclosed_answer_is_not_the_answer() {
        assert_eq!(step("{\"a\": \"see {\\\"b\\\":1} there"), "parses");
    }

    #[test]
    fn a_raw_newline_in_a_string_is_named() {
        let (_, why) = read("{\"a\":\"x\ny\"}").unwrap_err();
        assert!(why.contains("raw control character"), "{why}");
    }
}
