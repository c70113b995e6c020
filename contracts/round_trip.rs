//! The round-trip kind: does what the suite sends take effect, and does what happened come back told as it was.
//!
//! Each parameter that the suite uses is honoured, refused or dropped, with the evidence: dropped fails, and so does
//! refused, since the suite needs it. What cannot be seen from outside is skipped and says so.

mod errors;
mod markers;
mod parameters;
mod streams;
mod tools;

use providers::canonical::{Choice, Finish};

use crate::check::{self, CheckInfo, CheckResult, WHOLE_SUITE};
use crate::observation::Count;
use crate::probe;
use crate::runner::{Exchange, Transcript};
use crate::suite::Suite;

pub(crate) fn judge(suite: &Suite, transcript: &Transcript) -> Vec<CheckResult> {
    let judge = Judge { suite, transcript };
    let all: [(&CheckInfo, CheckResult); 26] = [
        (&check::REACHABLE, judge.reachable()),
        (&check::SYSTEM_MARKER, judge.marker(&check::SYSTEM_MARKER, probe::SYSTEM_MARKER)),
        (&check::LATE_SYSTEM, judge.marker(&check::LATE_SYSTEM, probe::LATE_SYSTEM)),
        (&check::ASSISTANT_ECHO, judge.marker(&check::ASSISTANT_ECHO, probe::ASSISTANT_ECHO)),
        (&check::UNICODE, judge.unicode()),
        (&check::EXACT_TEXT, judge.exact_text()),
        (&check::STREAM, judge.stream()),
        (&check::MAX_TOKENS, judge.max_tokens()),
        (&check::STOP, judge.stop()),
        (&check::RESPONSE_FORMAT, judge.response_format()),
        (&check::TOOLS, judge.tools()),
        (&check::PARALLEL_TOOLS, judge.parallel_tools()),
        (&check::TOOLS_EMPTY, judge.tools_empty()),
        (&check::TOOLS_EXACT, judge.tools_exact()),
        (&check::TOOL_HISTORY, judge.tool_history()),
        (&check::TEMPERATURE, judge.temperature()),
        (&check::TOP_P, judge.top_p()),
        (&check::SEED, judge.seed()),
        (&check::CHOICES, judge.choices()),
        (&check::MODEL_NAMED, judge.model_named()),
        (&check::USAGE_PRESENT, judge.usage_present()),
        (&check::FINISH_REASON, judge.finish_reason()),
        (&check::BAD_MODEL, judge.bad_model()),
        (&check::TOO_LONG, judge.too_long()),
        (&check::BAD_TOOL, judge.bad_tool()),
        (&check::LONG_INPUT, judge.long_input()),
    ];
    all.into_iter().filter(|(row, _)| !suite.skip.contains_key(row.name)).map(|(_, result)| result).collect()
}

struct Judge<'a> {
    suite: &'a Suite,
    transcript: &'a Transcript,
}

impl<'a> Judge<'a> {
    fn probe(&self, name: &str) -> Option<&'a Exchange> {
        self.transcript.get(WHOLE_SUITE, name, 1)
    }

    /// The probe's answer; else a result that says why there is none.
    fn answered(&self, row: &CheckInfo, name: &str) -> Result<&'a Choice, CheckResult> {
        let Some(exchange) = self.probe(name) else {
            return Err(row.skipped(WHOLE_SUITE, "the call was not made"));
        };
        exchange.observation.choice().map_err(|why| {
            let class = if exchange.observation.is_refused_parameter() { "refused: " } else { "" };
            row.failed(WHOLE_SUITE, format!("{class}{why}"))
        })
    }

    fn reachable(&self) -> CheckResult {
        let row = &check::REACHABLE;
        for exchange in self.transcript.iter() {
            let counted = if let Count::Nothing(observation) = &exchange.count { Some(observation) } else { None };
            if let Some(nothing) = [Some(&exchange.observation), counted].into_iter().flatten().find(|o| o.is_nothing())
            {
                return row.failed(WHOLE_SUITE, format!("{}: {}", exchange.call.key, nothing.trouble()));
            }
        }
        row.passed(WHOLE_SUITE, format!("{} calls, each came to an end", self.transcript.iter().count()))
    }

    fn usage_present(&self) -> CheckResult {
        let row = &check::USAGE_PRESENT;
        let mut seen = 0;
        for exchange in self.transcript.iter() {
            let Ok(reply) = exchange.observation.reply() else { continue };
            seen += 1;
            let key = &exchange.call.key;
            if reply.usage_unreadable {
                return row.failed(WHOLE_SUITE, format!("{key}: the usage cannot be read"));
            }
            if reply.usage.is_none() {
                return row.failed(WHOLE_SUITE, format!("{key}: no usage"));
            }
        }
        match seen {
            0 => row.skipped(WHOLE_SUITE, "no answer came back"),
            n => row.passed(WHOLE_SUITE, format!("{n} answers")),
        }
    }

    /// What the finish reason says must be possible for what came back. The cut-off probe has its own check.
    fn finish_reason(&self) -> CheckResult {
        let row = &check::FINISH_REASON;
        let mut seen = 0;
        for exchange in self.transcript.iter().filter(|e| e.call.key.probe != probe::MAX_TOKENS) {
            let Ok(choice) = exchange.observation.choice() else { continue };
            seen += 1;
            if let Some(why) = untrue_finish(exchange, choice) {
                return row.failed(WHOLE_SUITE, format!("{}: {why}", exchange.call.key));
            }
        }
        match seen {
            0 => row.skipped(WHOLE_SUITE, "no answer came back"),
            n => row.passed(WHOLE_SUITE, format!("{n} answers")),
        }
    }
}

fn text_of(choice: &Choice) -> &str {
    choice.text.as_deref().unwrap_or("")
}

fn untrue_finish(exchange: &Exchange, choice: &Choice) -> Option<String> {
    // Each choice has the limit to itself, and the usage is of all of them.
    let choices = exchange.observation.reply().map_or(1, |reply| reply.choices.len().max(1) as u64);
    let limit = probe::limit_of(&exchange.call.body)?;
    let output = exchange.observation.usage().map(|u| u.output_tokens);
    match choice.finish {
        Finish::Length if output.is_some_and(|n| n > 0 && n + 1 < limit) => {
            Some(format!("it says length after {} of {limit} tokens", output.unwrap_or_default()))
        }
        Finish::Stop if output.is_some_and(|n| n > limit.saturating_mul(choices)) => {
            Some(format!("it says {} after {} tokens, limit {limit}", choice.native_finish, output.unwrap_or_default()))
        }
        Finish::Stop if !choice.tool_calls.is_empty() && exchange.call.key.probe != probe::TOOLS => {
            Some(format!("it calls a tool and says {}", choice.native_finish))
        }
        Finish::ToolCalls if choice.tool_calls.is_empty() => Some("it says tool_calls and calls none".to_owned()),
        _ => None,
    }
}
