//! Each parameter that the suite uses: honoured, refused or dropped, with the evidence.
//!
//! Where obedience cannot be seen from outside, an impossible value is sent: who refuses it reads the parameter. Who
//! takes it may still read it, so that proves nothing and is skipped.

use providers::canonical::Finish;
use providers::json::Json;

use super::{Judge, text_of};
use crate::check::{self, CheckInfo, CheckResult, WHOLE_SUITE, excerpt};
use crate::observation::Observation;
use crate::probe;
use crate::schema;
use crate::suite::ResponseFormat;

impl Judge<'_> {
    pub(super) fn max_tokens(&self) -> CheckResult {
        let row = &check::MAX_TOKENS;
        let choice = match self.answered(row, probe::MAX_TOKENS) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let limit = probe::SMALL_LIMIT;
        let output = self.probe(probe::MAX_TOKENS).and_then(|e| e.observation.usage()).map(|u| u.output_tokens);
        let words = text_of(choice).split_whitespace().count() as u64;
        let problem = if output.is_some_and(|n| n > limit) || words > limit {
            format!("dropped: {} tokens billed, {words} words, limit {limit}", output.unwrap_or_default())
        } else if let Some(n) = output.filter(|n| choice.finish == Finish::Length && n + 2 < limit) {
            format!("cut after {n} of {limit} tokens")
        } else if choice.finish != Finish::Length {
            format!("cut or not, the finish reason is {:?}, not length", choice.native_finish)
        } else {
            return row.passed(WHOLE_SUITE, format!("honoured: cut at {limit} tokens, finish reason length"));
        };
        row.failed(WHOLE_SUITE, problem)
    }

    pub(super) fn stop(&self) -> CheckResult {
        let row = &check::STOP;
        let Some(stop) = self.suite.parameters.stop.first() else {
            return row.skipped(WHOLE_SUITE, "the suite uses no stop string");
        };
        let choice = match self.answered(row, probe::STOP) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let text = text_of(choice);
        if text.contains(stop.as_str()) || text.contains("gamma") {
            return row
                .failed(WHOLE_SUITE, format!("dropped: the answer goes on past the stop string: {}", excerpt(text)));
        }
        if !text.contains("beta") {
            return row.failed(WHOLE_SUITE, format!("the text before the stop string is missing: {}", excerpt(text)));
        }
        if choice.finish != Finish::Stop {
            return row.failed(WHOLE_SUITE, format!("stopped, but the finish reason is {:?}", choice.native_finish));
        }
        row.passed(WHOLE_SUITE, "honoured: the answer ends before the stop string")
    }

    pub(super) fn response_format(&self) -> CheckResult {
        let row = &check::RESPONSE_FORMAT;
        let format = self.suite.parameters.response_format;
        if format == ResponseFormat::None {
            return row.skipped(WHOLE_SUITE, "the suite uses no response_format");
        }
        let choice = match self.answered(row, probe::RESPONSE_FORMAT) {
            Ok(choice) => choice,
            Err(result) => return result,
        };
        let text = text_of(choice);
        let held = match format {
            ResponseFormat::JsonSchema => schema::fits(self.suite, text),
            ResponseFormat::JsonObject | ResponseFormat::None => match Json::parse(text.as_bytes()) {
                Ok(Json::Object(_)) => Ok(()),
                _ => Err("it is not a JSON object".to_owned()),
            },
        };
        match held {
            Ok(()) => row.passed(WHOLE_SUITE, "honoured: JSON came back though no words asked for it"),
            Err(why) => row.failed(WHOLE_SUITE, format!("dropped: {why}")),
        }
    }

    pub(super) fn temperature(&self) -> CheckResult {
        self.read(&check::TEMPERATURE, "temperature", probe::BAD_TEMPERATURE)
    }

    pub(super) fn top_p(&self) -> CheckResult {
        match self.suite.parameters.top_p {
            None => check::TOP_P.skipped(WHOLE_SUITE, "the suite uses no top_p"),
            Some(_) => self.read(&check::TOP_P, "top_p", probe::BAD_TOP_P),
        }
    }

    /// Whether a parameter is taken, and whether an impossible value of it is refused.
    fn read(&self, row: &CheckInfo, param: &str, impossible: &str) -> CheckResult {
        let possible = self.transcript.iter().filter(|e| e.call.key.probe != impossible);
        let refused = possible.map(|e| &e.observation).find_map(|observation| match observation {
            Observation::Unsupported(u) if u.param == param => Some(u.to_string()),
            Observation::Failed(f) if f.param.as_deref() == Some(param) => Some(f.message.clone()),
            _ => None,
        });
        if let Some(why) = refused {
            return row.failed(WHOLE_SUITE, format!("refused: {why}"));
        }
        match self.probe(impossible).map(|e| &e.observation) {
            Some(Observation::Failed(_)) if self.probe(impossible).is_some_and(|e| e.observation.is_refused()) => {
                row.passed(WHOLE_SUITE, format!("honoured: an impossible {param} is refused, so it is read"))
            }
            Some(Observation::Answered(_)) => row.skipped(
                WHOLE_SUITE,
                "taken, as an impossible value is: whether it is obeyed cannot be seen from outside",
            ),
            _ => row.skipped(WHOLE_SUITE, "it is taken; whether it is obeyed cannot be seen from outside"),
        }
    }

    pub(super) fn seed(&self) -> CheckResult {
        let row = &check::SEED;
        if self.suite.parameters.seed.is_none() {
            return row.skipped(WHOLE_SUITE, "the suite uses no seed");
        }
        let mut texts = Vec::new();
        for name in probe::SEEDS {
            match self.answered(row, name) {
                Ok(choice) => texts.push(text_of(choice)),
                Err(result) => return result,
            }
        }
        match texts.as_slice() {
            [a, b, _] if a != b => {
                row.failed(WHOLE_SUITE, format!("dropped: the same seed twice gives {} and {}", excerpt(a), excerpt(b)))
            }
            [a, _, other] if a == other => {
                row.skipped(WHOLE_SUITE, "another seed gives the same answer: no effect can be seen")
            }
            _ => row.passed(WHOLE_SUITE, "honoured: the same seed gives the same answer, another one another"),
        }
    }

    pub(super) fn choices(&self) -> CheckResult {
        let row = &check::CHOICES;
        if let Some(why) = self.too_many_choices() {
            return row.failed(WHOLE_SUITE, why);
        }
        let Some(n) = self.suite.parameters.n else { return row.skipped(WHOLE_SUITE, "the suite uses no n") };
        if let Err(result) = self.answered(row, probe::CHOICES) {
            return result;
        }
        let got = self.probe(probe::CHOICES).and_then(|e| e.observation.reply().ok()).map_or(0, |r| r.choices.len());
        match got as u64 == n {
            true => row.passed(WHOLE_SUITE, format!("honoured: {n} choices")),
            false => row.failed(WHOLE_SUITE, format!("dropped: {n} choices were asked for, {got} came")),
        }
    }

    /// Each choice is paid for, so none may come that was not asked for.
    fn too_many_choices(&self) -> Option<String> {
        self.transcript.iter().find_map(|exchange| {
            let asked = exchange.call.body.get("n").and_then(Json::as_u64).unwrap_or(1);
            let got = exchange.observation.reply().ok()?.choices.len() as u64;
            (got > asked).then(|| format!("{}: {asked} asked for, {got} choices came", exchange.call.key))
        })
    }

    /// By the name in the answers, as far as names can tell: dates and vendors are no part of it.
    pub(super) fn model_named(&self) -> CheckResult {
        let row = &check::MODEL_NAMED;
        let asked_for = self.transcript.iter().filter(|e| e.call.model.is_none());
        let named: Vec<(&str, &str)> = asked_for
            .filter_map(|exchange| {
                let answered = exchange.observation.reply().ok()?.model.as_deref()?;
                Some((exchange.call.body.get("model")?.as_str()?, answered))
            })
            .collect();
        match (named.iter().find(|(asked, answered)| !same_model(asked, answered)), named.first()) {
            (Some((asked, answered)), _) => {
                row.failed(WHOLE_SUITE, format!("{} answered where {asked} was asked for", excerpt(answered)))
            }
            (None, Some((_, answered))) => row.passed(WHOLE_SUITE, format!("{} answered", excerpt(answered))),
            (None, None) => row.skipped(WHOLE_SUITE, "no answer names its model"),
        }
    }
}

/// `gpt-4.1` and `gpt-4.1-2025-04-14`, `openai/gpt-4.1` or `GPT-4.1`; never `gpt-4.1-mini`'s elder `gpt-3.5-turbo`.
fn same_model(asked: &str, answered: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        let bare = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        bare.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    let (asked, answered) = (words(asked), words(answered));
    let version = |words: &[String]| words.iter().find(|w| w.starts_with(|c: char| c.is_ascii_digit())).cloned();
    // An alias such as `gemini-flash-latest` names no version, and then any will do.
    let versions_agree = match (version(&asked), version(&answered)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    asked.first() == answered.first() && versions_agree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_or_prefixed_name_is_the_same_model_and_another_version_is_not() {
        for (asked, answered) in [
            ("gpt-4.1", "gpt-4.1-2025-04-14"),
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
            ("gpt-4-turbo-preview", "gpt-4-0125-preview"),
            ("openai/gpt-4.1", "GPT-4.1"),
            ("gemini-flash-latest", "gemini-2.5-flash"),
            ("smollm2-135m", "smollm2-135m"),
        ] {
            assert!(same_model(asked, answered), "{asked} {answered}");
        }
        for (asked, answered) in
            [("gpt-4.1", "gpt-3.5-turbo"), ("gpt-4.1", "mini-model-lite"), ("claude-sonnet-4-5", "claude-3-haiku")]
        {
            assert!(!same_model(asked, answered), "{asked} {answered}");
        }
    }
}
