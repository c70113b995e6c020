//! The tokenizer kind: do our count, the provider's count and the bill agree, and does user text stay text.
//!
//! The bill alone proves nothing about itself: without a second counter the kind fails closed. A counter is never
//! guessed from a model's name.

mod counts;
mod literals;
mod shown;

use providers::tokens::Counter as LocalCounter;

use crate::check::{self, CheckInfo, CheckResult, WHOLE_SUITE};
use crate::observation::Count;
use crate::runner::{Exchange, Transcript};
use crate::suite::{Counter, Suite};
pub(crate) use shown::{Inspected, inspect};

/// Our own counter for this suite and model: the suite's `tokenizer.json`, else what tiktoken knows.
pub(crate) fn counter(suite: &Suite, model: &str) -> Option<Box<dyn LocalCounter>> {
    if let Some(file) = &suite.tokenizer.file {
        return Some(Box::new(file.clone()));
    }
    providers::tokens::encoding_for(model).map(|encoding| Box::new(encoding) as Box<dyn LocalCounter>)
}

pub(crate) fn judge(
    suite: &Suite,
    model: &str,
    transcript: &Transcript,
    inspected: &Inspected,
    local: Option<&dyn LocalCounter>,
) -> Vec<CheckResult> {
    let local = local.filter(|_| suite.tokenizer.counter != Counter::Provider);
    let judge = Judge { suite, transcript, inspected, local };
    let all: [(&CheckInfo, CheckResult); 8] = [
        (&check::KNOWN_TOKENIZER, judge.known_tokenizer()),
        (&check::WINDOW_FIT, judge.window_fit()),
        (&check::COUNT_AGREEMENT, judge.count_agreement()),
        (&check::TEXT_FIDELITY, judge.text_fidelity()),
        (&check::SILENT_CUT, judge.silent_cut()),
        (&check::TEMPLATE, judge.template(model)),
        (&check::CONTROL_LITERALS, judge.control_literals()),
        (&check::USAGE_PLAUSIBLE, judge.usage_plausible()),
    ];
    all.into_iter().filter(|(row, _)| !suite.skip.contains_key(row.name)).map(|(_, result)| result).collect()
}

struct Judge<'a> {
    suite: &'a Suite,
    transcript: &'a Transcript,
    inspected: &'a Inspected,
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
            counter.count_request(&request)
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
        match (self.suite.tokenizer.counter, self.local, counted) {
            (Counter::File, Some(_), _) => row.passed(WHOLE_SUITE, "the suite brings the model's tokenizer"),
            (Counter::Tiktoken | Counter::Auto, Some(local), _) => {
                row.passed(WHOLE_SUITE, format!("{} knows this model", local.name()))
            }
            (Counter::Provider | Counter::Auto, _, true) => {
                row.passed(WHOLE_SUITE, "the provider's count endpoint answers")
            }
            (Counter::Tiktoken, None, _) => {
                row.failed(WHOLE_SUITE, "tiktoken does not know this model, and counter = \"tiktoken\"")
            }
            (Counter::Provider | Counter::Auto | Counter::File, _, _) => row.failed(
                WHOLE_SUITE,
                format!(
                    "no tokenizer: none here, and no count endpoint{}",
                    trouble.map(|t| format!(" ({t})")).unwrap_or_default()
                ),
            ),
        }
    }
}
