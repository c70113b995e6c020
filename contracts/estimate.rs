//! What a live run will come to before it is made: requests, tokens and, where prices are known, money.
//!
//! An upper bound but for the count of the input, which is exact only where the model's tokenizer is known; who counted
//! is said. A price that nobody stated is unknown, never zero.

use providers::json::Json;
use providers::prices::Price;
use providers::tokens::{Counter, Encoding, encoding_for};
use serde::Serialize;

use crate::budget::Tokens;
use crate::probe;
use crate::suite::Suite;
use crate::upstream::Call;

/// Where no counter knows the model: rather too many tokens than too few.
const BYTES_PER_TOKEN: usize = 3;

/// What a run of one suite against one model comes to at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Counts included; repetitions after a "later" are not.
    pub requests: u64,
    pub input_tokens: u64,
    /// If every answer were as long as it may be.
    pub output_tokens: u64,
    /// `tiktoken`, or the rule of thumb that was used.
    pub counted_by: &'static str,
    /// For reading: budgets are kept by the exact amount. `None`: no price is known.
    pub cost: Option<f64>,
    pub currency: Option<String>,
}

impl Estimate {
    pub fn new(suite: &Suite, model: &str, price: Option<&Price>) -> Estimate {
        let weigher = Weigher::for_model(model);
        let plan = probe::plan(suite, model);
        let requests = plan.iter().map(|p| 1 + u64::from(p.count)).sum();
        let (input, output) = plan
            .iter()
            .map(|p| weigher.most(&p.call))
            .fold((0, 0), |(input, output), tokens| (input + tokens.input, output + tokens.output));
        Estimate {
            requests,
            input_tokens: input,
            output_tokens: output,
            counted_by: if weigher.encoding.is_some() { "tiktoken" } else { "a token for 3 bytes" },
            cost: price.map(|price| price.at_most(input, output).approximate()),
            currency: price.map(|price| price.currency.to_string()),
        }
    }
}

/// Says what a call needs at most.
#[derive(Debug)]
pub(crate) struct Weigher {
    encoding: Option<Encoding>,
}

impl Weigher {
    pub(crate) fn for_model(model: &str) -> Weigher {
        Weigher { encoding: encoding_for(model) }
    }

    pub(crate) fn most(&self, call: &Call) -> Tokens {
        let output = call.body.get("max_tokens").and_then(Json::as_u64).unwrap_or(0);
        let bytes = || Json::Object(call.body.clone()).to_bytes().len();
        let exact = self.encoding.and_then(|encoding| {
            providers::openai::request::parse(call.body.clone())
                .ok()
                .and_then(|request| encoding.count_request(&request))
        });
        Tokens { input: exact.unwrap_or_else(|| bytes().div_ceil(BYTES_PER_TOKEN) as u64), output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_every_call_and_says_who_counted() {
        let suite = Suite::embedded("support-triage").unwrap();
        let known = Estimate::new(&suite, "gpt-4.1", None);
        assert_eq!((known.requests as usize, known.counted_by), (suite.planned_calls(), "tiktoken"));
        assert!(known.output_tokens >= 12 * 200, "twelve answers of 200 tokens at least: {known:?}");
        assert_eq!((known.cost, &known.currency), (None, &None), "unknown is not zero");
        let thumb = Estimate::new(&suite, "claude-sonnet-4-5", None);
        assert_eq!(thumb.counted_by, "a token for 3 bytes");
        assert!(thumb.input_tokens > known.input_tokens, "rather too many than too few");
        let price = Price::plain("1000000", "0", "EUR").unwrap();
        assert_eq!(Estimate::new(&suite, "gpt-4.1", Some(&price)).cost, Some(known.input_tokens as f64));
    }
}
