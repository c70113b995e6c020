//! What a job has cost: its attempts' costs together, losers' too. What nobody knows is counted, never taken for zero.

use std::sync::Arc;

use providers::failure::Proof;
use providers::prices::{Amount, Cost};

use super::attempt::{Attempt, AttemptState};
use super::ids::AttemptId;

/// What one attempt has cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spent {
    /// The provider did not act on it.
    Nothing,
    Known(Cost),
    /// It goes on, its outcome or its usage is not known, or no price is.
    Unknown,
}

impl Spent {
    pub fn of(attempt: &Attempt) -> Spent {
        match (&attempt.cost, &attempt.state) {
            (Some(cost), _) => Spent::Known(cost.clone()),
            (None, AttemptState::Failed(failed)) if matches!(failed.proof, Proof::NotSent | Proof::Refused) => {
                Spent::Nothing
            }
            (None, _) => Spent::Unknown,
        }
    }
}

/// The sum so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobCost {
    /// By currency; none where nothing is known.
    pub known: Vec<(Arc<str>, Amount)>,
    /// Attempts that may have cost something on top.
    pub unknown: usize,
}

impl JobCost {
    pub fn of(attempts: &[Attempt]) -> JobCost {
        let mut cost = JobCost::default();
        attempts.iter().for_each(|attempt| cost.add(&Spent::of(attempt)));
        cost
    }

    /// Of a job that `winner` has just completed: `before` is what was last read of its attempts, which are `attempts`
    /// in all by now.
    pub fn won(before: &[(AttemptId, Spent)], attempts: usize, winner: AttemptId, cost: Option<&Cost>) -> JobCost {
        let mut sum = JobCost::default();
        let others = before.iter().filter(|(id, _)| *id != winner);
        sum.unknown = attempts.saturating_sub(1 + others.clone().count());
        others.for_each(|(_, spent)| sum.add(spent));
        sum.add(&cost.map_or(Spent::Unknown, |cost| Spent::Known(cost.clone())));
        sum
    }

    fn add(&mut self, spent: &Spent) {
        match spent {
            Spent::Nothing => {}
            Spent::Unknown => self.unknown += 1,
            Spent::Known(cost) => match self.known.iter_mut().find(|(currency, _)| *currency == cost.currency) {
                Some((_, sum)) => *sum = sum.plus(cost.amount),
                None => self.known.push((Arc::clone(&cost.currency), cost.amount)),
            },
        }
    }

    /// `0.000123 USD`, with `; unknown=2` behind it where so many attempts may have cost more. `None`: nothing is known.
    pub fn to_text(&self) -> Option<String> {
        let sums: Vec<String> = self.known.iter().map(|(currency, sum)| format!("{sum} {currency}")).collect();
        match (sums.is_empty(), self.unknown) {
            (true, _) => None,
            (false, 0) => Some(sums.join(", ")),
            (false, unknown) => Some(format!("{}; unknown={unknown}", sums.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(amount: &str, currency: &str) -> Cost {
        Cost { amount: Amount::parse(amount).unwrap(), currency: currency.into(), price: "settings".into() }
    }

    #[test]
    fn what_is_not_known_is_counted_beside_the_sum_and_never_zero() {
        let ids: Vec<AttemptId> = (0..4).map(|_| AttemptId::fresh()).collect();
        let before = [(ids[0], Spent::Known(cost("0.1", "USD"))), (ids[1], Spent::Nothing)];
        let won = |attempts, cost: Option<&Cost>| JobCost::won(&before, attempts, ids[2], cost).to_text();
        let own = cost("0.000000000001", "USD");
        assert_eq!(won(3, Some(&own)).as_deref(), Some("0.100000000001 USD"));
        assert_eq!(
            won(4, Some(&own)).as_deref(),
            Some("0.100000000001 USD; unknown=1"),
            "one more has begun meanwhile"
        );
        assert_eq!(won(3, None).as_deref(), Some("0.1 USD; unknown=1"));
        assert_eq!(won(3, Some(&cost("2", "EUR"))).as_deref(), Some("0.1 USD, 2 EUR"), "currencies are not added up");
        assert_eq!(JobCost::won(&[], 1, ids[3], None).to_text(), None);
        let again = JobCost::won(&before, 2, ids[0], Some(&cost("0.3", "USD")));
        assert_eq!(again.to_text().as_deref(), Some("0.3 USD"), "the winner's own earlier state does not count");
    }
}
