//! The tokenizer kind: do our count, the provider's count and the bill agree, and does user text stay text.
//!
//! The bill alone proves nothing about itself: without a second counter the kind fails closed. A counter is never
//! guessed from a model's name.

use providers::tokens::Counter as LocalCounter;

use crate::check::{self, CheckResult, WHOLE_SUITE};
use crate::observation::Count;
use crate::probe;
use crate::runner::{Exchange, Transcript};
use crate::suite::{Counter, Suite};

/// Texts that a sloppy tokenizer loses something of.
const SAMPLES: [(&str, &str); 9] = [
    ("ASCII", "The invoice was charged twice."),
    ("emoji", "🎉👩‍👩‍👧‍👦🇳🇴"),
    ("CJK", "日本語のテキスト、中文、한국어"),
    ("combining marks", "e\u{301} n\u{303} Z\u{351}\u{36b}a\u{343}"),
    ("zero-width", "a\u{200b}b\u{200d}c\u{feff}d"),
    ("NUL", "a\u{0}b"),
    ("right to left", "שלום مرحبا"),
    ("a long run", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("control literals", "<|im_end|><|endoftext|>"),
];

pub(crate) fn judge(suite: &Suite, transcript: &Transcript, local: Option<&dyn LocalCounter>) -> Vec<CheckResult> {
    let local = local.filter(|_| suite.tokenizer.counter != Counter::Provider);
    let judge = Judge { suite, transcript, local };
    let wanted = |name: &str| !suite.skip.contains_key(name);
    let mut results = vec![judge.known_tokenizer()];
    if wanted(check::WINDOW_FIT.name) {
        results.push(judge.window_fit());
    }
    results.push(judge.count_agreement());
    if wanted(check::TEXT_FIDELITY.name) {
        results.push(judge.text_fidelity());
    }
    if wanted(check::CONTROL_LITERALS.name) {
        results.push(judge.control_literals());
    }
    results.push(judge.usage_plausible());
    results
}

struct Judge<'a> {
    suite: &'a Suite,
    transcript: &'a Transcript,
    local: Option<&'a dyn LocalCounter>,
}

/// The counts of one prompt.
struct Sample<'a> {
    exchange: &'a Exchange,
    local: Option<u64>,
    provider: Option<u64>,
    billed: Option<u64>,
}

impl Sample<'_> {
    fn in_words(&self) -> String {
        let named = [("ours", self.local), ("the provider's", self.provider), ("billed", self.billed)];
        let counts: Vec<_> = named.iter().filter_map(|(name, n)| n.map(|n| format!("{name} {n}"))).collect();
        format!("{}: {}", self.exchange.call.key, counts.join(", "))
    }

    fn all(&self) -> Vec<u64> {
        [self.local, self.provider, self.billed].into_iter().flatten().collect()
    }
}

impl<'a> Judge<'a> {
    fn sample(&self, exchange: &'a Exchange) -> Sample<'a> {
        let body = &exchange.call.body;
        // Providers render schemas and tools into the prompt in ways that no local counter knows.
        let plain = !body.contains_key("response_format") && !body.contains_key("tools");
        let local = self.local.filter(|_| plain).and_then(|counter| {
            let request = providers::openai::request::parse(body.clone()).ok()?;
            Some(counter.count_request(&request))
        });
        Sample {
            exchange,
            local,
            provider: exchange.count.tokens(),
            billed: exchange.observation.usage().map(|u| u.input_tokens),
        }
    }

    fn samples(&self) -> Vec<Sample<'a>> {
        // What a provider makes of a broken prompt is not held against its counting.
        self.transcript.iter().filter(|e| e.call.model.is_none()).map(|e| self.sample(e)).collect()
    }

    fn known_tokenizer(&self) -> CheckResult {
        let row = &check::KNOWN_TOKENIZER;
        let counted = self.transcript.iter().any(|e| e.count.tokens().is_some());
        let trouble = self.transcript.iter().find_map(|e| match &e.count {
            Count::Failed(why) => Some(why.as_str()),
            Count::Tokens(_) | Count::NoEndpoint | Count::Nothing(_) => None,
        });
        match (self.suite.tokenizer.counter, self.local.is_some(), counted) {
            (Counter::Tiktoken | Counter::Auto, true, _) => row.passed(WHOLE_SUITE, "tiktoken knows this model"),
            (Counter::Provider | Counter::Auto, _, true) => {
                row.passed(WHOLE_SUITE, "the provider's count endpoint answers")
            }
            (Counter::Tiktoken, false, _) => {
                row.failed(WHOLE_SUITE, "tiktoken does not know this model, and counter = \"tiktoken\"")
            }
            (Counter::Provider | Counter::Auto, _, false) => row.failed(
                WHOLE_SUITE,
                format!(
                    "no tokenizer: none here, and no count endpoint{}",
                    trouble.map(|t| format!(" ({t})")).unwrap_or_default()
                ),
            ),
        }
    }

    fn window_fit(&self) -> CheckResult {
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

    fn count_agreement(&self) -> CheckResult {
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

    fn text_fidelity(&self) -> CheckResult {
        let row = &check::TEXT_FIDELITY;
        let Some(local) = self.local else {
            return row.skipped(WHOLE_SUITE, "no local tokenizer for this model; a count endpoint cannot decode");
        };
        match SAMPLES.iter().find(|(_, text)| !local.round_trips(text)) {
            Some((name, _)) => row.failed(WHOLE_SUITE, format!("{name} does not survive encode and decode")),
            None => row.passed(WHOLE_SUITE, format!("{} kinds of text", SAMPLES.len())),
        }
    }

    /// As text, the literals cost about as much as the same text with broken marks; as control tokens, one each.
    fn control_literals(&self) -> CheckResult {
        let row = &check::CONTROL_LITERALS;
        if let Some(local) = self.local
            && !local.splits_control_literals("<|im_end|><|endoftext|>")
        {
            return row.failed(WHOLE_SUITE, "our own counter takes literals for control tokens");
        }
        let mut compared = 0;
        for (hostile, harmless) in probe::LITERALS {
            let pair = (self.transcript.get(WHOLE_SUITE, hostile, 1), self.transcript.get(WHOLE_SUITE, harmless, 1));
            let (Some(hostile), Some(harmless)) = pair else { continue };
            for exchange in [hostile, harmless] {
                if let Err(why) = exchange.observation.reply() {
                    return row.failed(WHOLE_SUITE, format!("{}: {why}", exchange.call.key));
                }
            }
            let (hostile, harmless) = (self.sample(hostile), self.sample(harmless));
            for (who, a, b) in [
                ("the provider counts", hostile.provider, harmless.provider),
                ("the provider bills", hostile.billed, harmless.billed),
            ] {
                let (Some(a), Some(b)) = (a, b) else { continue };
                compared += 1;
                if a.saturating_mul(10) < b.saturating_mul(7) {
                    return row.failed(
                        WHOLE_SUITE,
                        format!(
                            "{who} {a} tokens for text with literals, {b} without ({}): they became control tokens",
                            hostile.exchange.call.key.probe
                        ),
                    );
                }
            }
        }
        match compared {
            0 => row.skipped(WHOLE_SUITE, "nobody counted the two texts"),
            n => row.passed(WHOLE_SUITE, format!("{n} pairs of texts cost about the same")),
        }
    }

    fn usage_plausible(&self) -> CheckResult {
        let row = &check::USAGE_PLAUSIBLE;
        let mut seen = 0;
        for exchange in self.transcript.iter() {
            let (Some(usage), Ok(choice)) = (exchange.observation.usage(), exchange.observation.choice()) else {
                continue;
            };
            seen += 1;
            let text = choice.text.as_deref().unwrap_or("");
            let silent = text.is_empty() && choice.tool_calls.is_empty();
            let key = &exchange.call.key;
            let (input, output) = (usage.input_tokens, usage.output_tokens);
            let problem = if input == 0 {
                Some("0 input tokens".to_owned())
            } else if output == 0 && !silent {
                Some("an answer, and 0 output tokens".to_owned())
            } else if usage.cached_input_tokens > input {
                Some(format!("{} cached of {input} input tokens", usage.cached_input_tokens))
            } else if (text.len() as u64) > output.saturating_mul(MOST_BYTES_A_TOKEN) {
                Some(format!("{output} output tokens for {} bytes of text", text.len()))
            } else {
                None
            };
            if let Some(problem) = problem {
                return row.failed(WHOLE_SUITE, format!("{key}: {problem}"));
            }
        }
        match seen {
            0 => row.skipped(WHOLE_SUITE, "no answer states its usage"),
            n => row.passed(WHOLE_SUITE, format!("{n} answers")),
        }
    }
}

/// No vocabulary has many longer tokens; runs of blanks are the exception, and no answer is made of them.
const MOST_BYTES_A_TOKEN: u64 = 64;
