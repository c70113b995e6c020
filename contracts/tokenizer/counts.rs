//! Counts of one prompt by different people: ours, the provider's and the bill. They must agree, fit the window, and be
//! possible for what was sent and got.

use super::Judge;
use crate::check::{self, CheckResult, WHOLE_SUITE};
use crate::observation::Observation;
use crate::probe;
use crate::runner::Exchange;

/// No vocabulary has many longer tokens; runs of blanks are the exception, and no answer is made of them.
const MOST_BYTES_A_TOKEN: u64 = 64;

impl Judge<'_> {
    pub(super) fn window_fit(&self) -> CheckResult {
        let row = &check::WINDOW_FIT;
        let Some(window) = self.suite.tokenizer.window else {
            return row.skipped(WHOLE_SUITE, "the suite states no window");
        };
        let room = self.suite.tokenizer.answer_room;
        let largest = self
            .transcript
            .iter()
            .filter(|e| matches!(e.call.key.probe, probe::OUTPUT | probe::PLAIN))
            .filter_map(|e| self.sample(e).all().into_iter().max().map(|n| (n, &e.call.key.case)))
            .max();
        match largest {
            None => row.skipped(WHOLE_SUITE, "nobody counted a prompt"),
            Some((n, case)) if n.saturating_add(room) > window => row.failed(
                WHOLE_SUITE,
                format!("case {case}: {n} tokens and {room} for the answer do not fit a window of {window}"),
            ),
            Some((n, case)) => {
                row.passed(WHOLE_SUITE, format!("largest prompt {n} ({case}), {room} for the answer, window {window}"))
            }
        }
    }

    pub(super) fn count_agreement(&self) -> CheckResult {
        let row = &check::COUNT_AGREEMENT;
        let mut compared = 0;
        for sample in self.samples() {
            let counts = sample.all();
            let (Some(low), Some(high)) = (counts.iter().min(), counts.iter().max()) else { continue };
            if counts.len() < 2 {
                continue;
            }
            compared += 1;
            let allowed =
                (self.suite.tokenizer.tolerance * *high as f64).max(self.suite.tokenizer.tolerance_tokens as f64);
            if (high - low) as f64 > allowed {
                return row.failed(WHOLE_SUITE, format!("{}; allowed difference {allowed:.0}", sample.in_words()));
            }
        }
        match compared {
            0 => row.skipped(WHOLE_SUITE, "fewer than two counters: the bill cannot be checked against itself"),
            n => row.passed(WHOLE_SUITE, format!("{n} prompts counted in at least two ways")),
        }
    }

    /// The prompt that is just too long: read whole, or refused.
    pub(super) fn silent_cut(&self) -> CheckResult {
        let row = &check::SILENT_CUT;
        let Some(exchange) = self.transcript.get(WHOLE_SUITE, probe::TOO_LONG, 1) else {
            let why = match self.suite.tokenizer.window {
                None => "the suite states no window".to_owned(),
                Some(w) => format!("a window of {w} is too dear to overflow (limit {})", probe::CHEAP_WINDOW),
            };
            return row.skipped(WHOLE_SUITE, why);
        };
        let places = [(probe::TOO_LONG, "head"), (probe::TOO_LONG_MIDDLE, "middle"), (probe::TOO_LONG_END, "end")];
        for (probe, place) in places {
            let Some(exchange) = self.transcript.get(WHOLE_SUITE, probe, 1) else { continue };
            if exchange.observation.reply().is_ok() && !self.obeyed(exchange) {
                let words = self.sample(exchange).in_words();
                let why = format!("answered without the prompt's {place}: cut silently ({words})");
                return row.failed(WHOLE_SUITE, why);
            }
        }
        match &exchange.observation {
            Observation::Answered(_) => row.passed(WHOLE_SUITE, "answered, head to end intact: the window is larger"),
            other => row.passed(WHOLE_SUITE, format!("not answered: {}", other.trouble())),
        }
    }

    /// Whether the marker that this probe asks for came back.
    fn obeyed(&self, exchange: &Exchange) -> bool {
        let marker = probe::marker(&self.suite.name, exchange.call.key.probe);
        exchange.observation.text().is_ok_and(|text| text.contains(&marker))
    }

    pub(super) fn usage_plausible(&self) -> CheckResult {
        let row = &check::USAGE_PLAUSIBLE;
        let mut seen = 0;
        for exchange in self.transcript.iter() {
            if exchange.observation.usage().is_none() || exchange.observation.choice().is_err() {
                continue;
            }
            seen += 1;
            if let Some(problem) = self.impossible(exchange) {
                return row.failed(WHOLE_SUITE, format!("{}: {problem}", exchange.call.key));
            }
        }
        match seen {
            0 => row.skipped(WHOLE_SUITE, "no answer states its usage"),
            n => row.passed(WHOLE_SUITE, format!("{n} answers")),
        }
    }

    /// What of an answer's usage cannot be. Hidden reasoning may raise the output's count, nothing lowers it.
    fn impossible(&self, exchange: &Exchange) -> Option<String> {
        let (usage, reply) = (exchange.observation.usage()?, exchange.observation.reply().ok()?);
        let texts = || reply.choices.iter().filter_map(|choice| choice.text.as_deref());
        let bytes: u64 = texts().map(|text| text.len() as u64).sum();
        let silent = bytes == 0 && reply.choices.iter().all(|choice| choice.tool_calls.is_empty());
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let choices = reply.choices.len().max(1) as u64;
        // A few tokens that end a turn may come on top. Where the text itself is too long, the limit was dropped, and
        // that is another check's failure.
        let most = probe::limit_of(&exchange.call.body).map(|limit| limit.saturating_mul(choices).saturating_add(8));
        let words: u64 = texts().map(|text| text.split_whitespace().count() as u64).sum();
        let counted: u64 = self.local.map_or(0, |local| texts().map(|text| local.count_text(text)).sum());
        if input == 0 {
            Some("0 input tokens".to_owned())
        } else if output == 0 && !silent {
            Some("an answer, and 0 output tokens".to_owned())
        } else if let Some(most) = most.filter(|most| output > *most && words <= *most) {
            Some(format!("{output} output tokens, and the limit allows {most}"))
        } else if usage.cached_input_tokens > input {
            Some(format!("{} cached of {input} input tokens", usage.cached_input_tokens))
        } else if bytes > output.saturating_mul(MOST_BYTES_A_TOKEN) {
            Some(format!("{output} output tokens for {bytes} bytes of text"))
        } else if counted * 7 > output * 10 + 80 {
            Some(format!("{output} output tokens, and the text alone has {counted}"))
        } else {
            None
        }
    }
}
