//! What a run may cost and what it has cost: requests, tokens and, where prices are known, money.
//!
//! A call's cost is reserved at its upper bound before it is sent and settled by its bill, so that a budget is never
//! overdrawn, however many calls are under way. What was not billed in words is unknown and counts as reserved, never as
//! nothing.

use std::fmt;

use providers::failure::{Proof, Rejection};
use providers::prices::{Amount, Price};
use serde::Serialize;

use crate::observation::Observation;

/// What one run may use up; `None` is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    pub requests: Option<u64>,
    /// Input and output together.
    pub tokens: Option<u64>,
    /// In the currency of the prices.
    pub money: Option<Amount>,
}

/// Tokens of one call, known or at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub input: u64,
    pub output: u64,
}

/// What a run has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Requests sent, counts and repetitions included.
    pub requests: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Calls whose bill is not known: their tokens are the upper bound.
    pub unbilled: u64,
    /// Calls that an earlier run had made and that were not made again.
    pub reused: u64,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    budget: Budget,
    price: Option<Price>,
    spent: Spent,
    reserved: Tokens,
}

impl Ledger {
    pub(crate) fn new(budget: Budget, price: Option<Price>) -> Self {
        Ledger { budget, price, spent: Spent::default(), reserved: Tokens::default() }
    }

    pub(crate) fn spent(&self) -> Spent {
        self.spent
    }

    pub(crate) fn reused(&mut self) {
        self.spent.reused += 1;
    }

    /// Sets aside one request and these tokens; `Err` says which bound they would break.
    pub(crate) fn reserve(&mut self, most: Tokens) -> Result<(), String> {
        let requests = self.spent.requests + 1;
        let input = self.spent.input_tokens + self.reserved.input + most.input;
        let output = self.spent.output_tokens + self.reserved.output + most.output;
        if let Some(bound) = self.budget.requests.filter(|bound| requests > *bound) {
            return Err(format!("requests: {} of {bound} are made", self.spent.requests));
        }
        if let Some(bound) = self.budget.tokens.filter(|bound| input + output > *bound) {
            let used = self.spent.input_tokens + self.spent.output_tokens;
            return Err(format!(
                "tokens: {used} of {bound} are used, and the next call may need {}",
                most.input + most.output
            ));
        }
        if let (Some(bound), Some(price)) = (self.budget.money, &self.price)
            && price.at_most(input, output) > bound
        {
            let used = price.at_most(self.spent.input_tokens, self.spent.output_tokens);
            let next = price.at_most(most.input, most.output);
            return Err(format!(
                "money: {used} of {bound} {0} are spent, and the next call may cost {next} {0}",
                price.currency
            ));
        }
        self.spent.requests = requests;
        self.reserved.input += most.input;
        self.reserved.output += most.output;
        Ok(())
    }

    /// The call has come back: its bill takes the place of what was set aside.
    pub(crate) fn settle(&mut self, reserved: Tokens, observation: &Observation) {
        self.reserved.input -= reserved.input;
        self.reserved.output -= reserved.output;
        let billed = match observation {
            Observation::Answered(reply) => reply.usage.as_ref().map(|usage| (usage.input_tokens, usage.output_tokens)),
            Observation::Failed(failure) => match failure.proof {
                Proof::NotSent | Proof::Refused | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded) => {
                    Some((0, 0))
                }
                _ => None,
            },
            // Nothing was asked of the provider.
            _ => Some((0, 0)),
        };
        let (input, output) = billed.unwrap_or_else(|| {
            self.spent.unbilled += 1;
            (reserved.input, reserved.output)
        });
        self.spent.input_tokens += input;
        self.spent.output_tokens += output;
    }
}

/// `12 requests, 3400 tokens in, 210 out`.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {} tokens in, {} out", self.requests, self.input_tokens, self.output_tokens)?;
        if self.unbilled > 0 {
            write!(f, " (at most: {} calls stated no usage)", self.unbilled)?;
        }
        if self.reused > 0 {
            write!(f, ", {} calls taken from an earlier run", self.reused)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use providers::canonical::{Reply, Usage};
    use providers::failure::Failure;

    use super::*;

    const CALL: Tokens = Tokens { input: 100, output: 50 };

    fn answered(usage: Option<Usage>) -> Observation {
        Observation::Answered(Reply { id: None, model: None, choices: Vec::new(), usage, usage_unreadable: false })
    }

    #[test]
    fn a_budget_is_not_overdrawn_by_calls_that_are_under_way() {
        let mut ledger = Ledger::new(Budget { tokens: Some(400), ..Budget::default() }, None);
        ledger.reserve(CALL).unwrap();
        ledger.reserve(CALL).unwrap();
        assert!(ledger.reserve(CALL).is_err(), "450 of 400");
        let small = Usage { input_tokens: 90, output_tokens: 3, ..Usage::default() };
        ledger.settle(CALL, &answered(Some(small)));
        ledger.reserve(CALL).unwrap();
        assert!(ledger.reserve(CALL).unwrap_err().contains("93 of 400"));
    }

    #[test]
    fn what_was_not_billed_counts_as_reserved_and_never_as_nothing() {
        let mut ledger = Ledger::new(Budget::default(), None);
        ledger.reserve(CALL).unwrap();
        ledger.settle(CALL, &answered(None));
        ledger.reserve(CALL).unwrap();
        ledger.settle(CALL, &Observation::Failed(Failure::new(Proof::Unknown, "timeout", "silence")));
        ledger.reserve(CALL).unwrap();
        ledger.settle(CALL, &Observation::Failed(Failure::new(Proof::NotSent, "connect_refused", "no")));
        let spent = ledger.spent();
        assert_eq!((spent.requests, spent.input_tokens, spent.output_tokens, spent.unbilled), (3, 200, 100, 2));
        assert!(spent.to_string().contains("at most: 2 calls stated no usage"), "{spent}");
    }

    #[test]
    fn money_and_requests_are_bounds_too() {
        let price = Price::plain("10", "20", "USD").unwrap();
        let budget = Budget { money: Amount::parse("0.003"), requests: Some(2), tokens: None };
        let mut ledger = Ledger::new(budget, Some(price));
        ledger.reserve(CALL).unwrap();
        let why = ledger.reserve(CALL).unwrap_err();
        assert!(why.contains("money") && why.contains("0.002 USD"), "{why}");
        ledger.settle(CALL, &Observation::Failed(Failure::new(Proof::NotSent, "x", "y")));
        ledger.reserve(CALL).unwrap();
        ledger.settle(CALL, &Observation::Failed(Failure::new(Proof::NotSent, "x", "y")));
        assert!(ledger.reserve(CALL).unwrap_err().contains("requests: 2 of 2"));
    }
}
