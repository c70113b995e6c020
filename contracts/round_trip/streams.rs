//! A streamed answer against the one that comes whole.
//!
//! Two probes: an echo, whose every character is known, and the consumer's own call. Byte for byte only where the
//! provider has shown that it answers twice the same: a model may word an answer otherwise each time.

use providers::canonical::{Choice, Finish};

use super::tools::mixed_up;
use super::{Judge, text_of};
use crate::check::{self, CheckResult, WHOLE_SUITE, excerpt};
use crate::probe;
use crate::runner::Exchange;
use crate::schema;
use crate::suite::Output;

impl Judge<'_> {
    pub(super) fn stream(&self) -> CheckResult {
        let row = &check::STREAM;
        let all = [
            |judge: &Self| judge.echo_agrees(),
            |judge: &Self| judge.output_agrees(),
            |judge: &Self| judge.tools_agree(),
        ];
        match all.into_iter().map(|agrees| agrees(self)).collect::<Result<Vec<String>, _>>() {
            Ok(words) => row.passed(WHOLE_SUITE, words.join("; ")),
            Err(result) => *result,
        }
    }

    fn failed(&self, why: String) -> Box<CheckResult> {
        Box::new(check::STREAM.failed(WHOLE_SUITE, why))
    }

    /// The marker with its emoji: each character must survive however the stream was cut.
    fn echo_agrees(&self) -> Result<String, Box<CheckResult>> {
        let streamed = self.answered(&check::STREAM, probe::STREAM).map_err(Box::new)?;
        // Without the whole answer there is nothing to agree with; that is the unicode check's failure, or its skip.
        let Some(whole) = self.probe(probe::UNICODE).and_then(|e| e.observation.choice().ok()) else {
            return Ok("the echo was asked for streamed only".to_owned());
        };
        let wanted = probe::unicode(&self.suite.name);
        let (here, there) = (text_of(whole).contains(&wanted), text_of(streamed).contains(&wanted));
        match (here, there) {
            (true, false) => {
                Err(self.failed(format!("the whole echo is right, the streamed one is {}", excerpt(text_of(streamed)))))
            }
            (true, true) => Ok("the echo is the same".to_owned()),
            (false, _) => Ok("the model does not echo".to_owned()),
        }
    }

    fn output_agrees(&self) -> Result<String, Box<CheckResult>> {
        let streamed = self.answered(&check::STREAM, probe::STREAM_OUTPUT).map_err(Box::new)?;
        let Some(case) = self.suite.cases.first() else { return Ok("there is no case".to_owned()) };
        let repeats: Vec<&Exchange> =
            (1..=self.suite.repeats).filter_map(|n| self.transcript.get(&case.name, probe::OUTPUT, n)).collect();
        let wholes: Vec<&Choice> = repeats.iter().filter_map(|e| e.observation.choice().ok()).collect();
        // What is cut or filtered whole is another check's failure.
        let wholes: Vec<&Choice> =
            wholes.into_iter().filter(|whole| matches!(whole.finish, Finish::Stop | Finish::ToolCalls)).collect();
        let Some(first) = wholes.first() else { return Ok("no whole answer to compare with".to_owned()) };
        if wholes.iter().all(|whole| whole.finish != streamed.finish) {
            return Err(self.failed(format!(
                "whole it ends with {}, streamed with {}",
                first.native_finish, streamed.native_finish
            )));
        }
        self.bill_agrees(&repeats)?;
        let said = |choice: &Choice| said(self.suite.output, choice);
        let same = wholes.iter().any(|whole| said(whole) == said(streamed));
        let steady = wholes.len() > 1 && wholes.iter().all(|whole| said(whole) == said(first));
        if same {
            return Ok("the case's answer is the same, byte for byte".to_owned());
        }
        // It may differ and be as good; what is not even readable was spoilt on the way.
        let readable = |choice: &Choice| schema::fits(self.suite, &said(choice));
        if wholes.iter().all(|whole| readable(whole).is_ok()) {
            readable(streamed)
                .map_err(|why| self.failed(format!("streamed, the case's answer does not fit: {why}")))?;
        }
        let words =
            if steady { "worded otherwise than the whole ones, which agree" } else { "answers differ each time" };
        Ok(format!("{words}; the streamed one reads as well"))
    }

    /// Two calls at once: the pieces of each must find their way to it.
    fn tools_agree(&self) -> Result<String, Box<CheckResult>> {
        let whole = self.probe(probe::PARALLEL_TOOLS).and_then(|e| e.observation.choice().ok());
        let (Some(tool), Some(whole)) = (self.suite.parameters.tools.first(), whole) else {
            return Ok("no tool calls to compare with".to_owned());
        };
        // What is wrong with the whole calls is another check's failure.
        if whole.tool_calls.len() < 2 || mixed_up(tool, &whole.tool_calls).is_some() {
            return Ok("no two tool calls to compare with".to_owned());
        }
        let streamed = &self.answered(&check::STREAM, probe::STREAM_TOOLS).map_err(Box::new)?.tool_calls;
        if streamed.len() != whole.tool_calls.len() {
            let (one, other) = (whole.tool_calls.len(), streamed.len());
            return Err(self.failed(format!("whole there are {one} tool calls, streamed {other}")));
        }
        match mixed_up(tool, streamed) {
            Some(why) => Err(self.failed(format!("streamed tool calls: {why}"))),
            None => Ok("so are tool calls".to_owned()),
        }
    }

    /// One prompt has one price, however its answer comes.
    fn bill_agrees(&self, wholes: &[&Exchange]) -> Result<(), Box<CheckResult>> {
        let billed = |e: &Exchange| e.observation.usage().map(|u| u.input_tokens);
        let streamed = self.probe(probe::STREAM_OUTPUT).and_then(billed);
        let whole = wholes.iter().find_map(|e| billed(e));
        let (Some(streamed), Some(whole)) = (streamed, whole) else { return Ok(()) };
        let t = &self.suite.tokenizer;
        let allowed = (t.tolerance * whole.max(streamed) as f64).max(t.tolerance_tokens as f64);
        match streamed.abs_diff(whole) as f64 > allowed {
            true => Err(self.failed(format!("the prompt is billed {whole} tokens whole and {streamed} streamed"))),
            false => Ok(()),
        }
    }
}

/// What the consumer reads of a choice.
fn said(output: Output, choice: &Choice) -> String {
    match output {
        Output::Text => text_of(choice).to_owned(),
        Output::Tool => choice.tool_calls.first().map(|call| call.arguments.clone()).unwrap_or_default(),
    }
}
