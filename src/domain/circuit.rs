//! The circuit of one target: when it is to be left alone, and what lets traffic back. Pure; the engine keeps one per
//! target and process.
//!
//! Only a success of the same kind of call, or a passed contract run, closes it. A green model list proves nothing.

use std::time::Duration;

use providers::failure::{Proof, Rejection};

use super::Timestamp;

/// Failures in a row after which the target is left alone.
const THRESHOLD: u32 = 5;
/// The first pause; it doubles with each probe that fails.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(25);
/// How long a fault of our account or set-up keeps a target out: it does not heal by itself.
const SETUP_PAUSE: Duration = Duration::from_secs(25);
/// The longest that a provider's own Retry-After is believed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circuit {
    failures: u32,
    /// The time of the first failure of this row; a probe that fails does not reset it.
    pub failing_since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// One call is out to learn whether the target is back.
    probe_until: Option<Timestamp>,
}

impl Circuit {
    /// Until when the target is to be left alone; `None`: it may be tried.
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.until, self.probe_until) {
            (Some(until), _) if until > now => Some(until),
            (Some(_), Some(probe)) if probe > now => Some(probe),
            _ => None,
        }
    }

    /// Whether calls go out freely: no pause, and none just over.
    pub fn is_free(&self) -> bool {
        self.until.is_none()
    }

    /// Whether a call may begin now. After a pause the first to ask is the one probe; others wait until it has ended,
    /// or `timeout` at most. Asking and taking are one step, or many would be first.
    pub fn begin(&mut self, now: Timestamp, timeout: Duration) -> bool {
        let may = self.closed_until(now).is_none();
        if may && self.until.is_some() {
            self.probe_until = Some(now + timeout);
        }
        may
    }

    /// The call that was to begin did not: the probe is somebody else's.
    pub fn give_up(&mut self) {
        self.probe_until = None;
    }

    /// A real call, or a contract run, has succeeded.
    pub fn succeeded(&mut self) {
        *self = Circuit::default();
    }

    /// A call has failed with this proof. The pause only ever grows: a later failure never lets traffic back earlier.
    pub fn failed(&mut self, proof: Proof, retry_after: Option<Duration>, now: Timestamp) {
        let probing = self.probe_until.take().is_some();
        let pause = match proof {
            // The request's own fault, and an outcome nobody knows, say nothing about the target.
            Proof::Rejected(Rejection::BadRequest | Rejection::ContextLength | Rejection::ContentPolicy) => return,
            Proof::Unknown => return,
            Proof::Rejected(Rejection::Setup | Rejection::Billing | Rejection::QuotaExhausted) => {
                self.failures = self.failures.max(THRESHOLD);
                Some(SETUP_PAUSE)
            }
            Proof::NotSent
            | Proof::Refused
            | Proof::EndedWithoutResult
            | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded) => {
                self.failures = self.failures.saturating_add(1);
                (probing || self.failures >= THRESHOLD).then(|| self.pause())
            }
        };
        self.failing_since.get_or_insert(now);
        let asked = retry_after.map(|d| d.min(LONGEST_RETRY_AFTER));
        if let Some(pause) = pause.into_iter().chain(asked).max() {
            self.until = self.until.max(Some(now + pause));
        }
    }

    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(THRESHOLD).min(8);
        FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::UNIX_EPOCH;
    const OVERLOADED: Proof = Proof::Rejected(Rejection::Overloaded);

    fn at(seconds: u64) -> Timestamp {
        T0 + Duration::from_secs(seconds)
    }

    #[test]
    fn a_target_that_fails_repeatedly_is_left_alone_and_one_probe_goes_out() {
        let mut circuit = Circuit::default();
        for _ in 0..4 {
            circuit.failed(OVERLOADED, None, T0);
        }
        assert_eq!(circuit.closed_until(T0), None);
        circuit.failed(OVERLOADED, None, T0);
        assert_eq!(circuit.closed_until(T0), Some(at(5)));
        assert_eq!(circuit.closed_until(at(5)), None);
        assert!(circuit.begin(at(5), Duration::from_secs(30)));
        assert!(!circuit.begin(at(5), Duration::from_secs(30)), "only one probe at a time");
        assert_eq!(circuit.closed_until(at(6)), Some(at(35)));
        circuit.give_up();
        assert!(circuit.begin(at(6), Duration::from_secs(30)), "a probe that never went out holds up nobody");
        circuit.succeeded();
        assert_eq!(circuit, Circuit::default());
    }

    #[test]
    fn the_pause_never_shrinks_and_the_first_failure_is_remembered() {
        let mut circuit = Circuit::default();
        circuit.failed(Proof::Rejected(Rejection::RateLimited), Some(Duration::from_secs(9)), T0);
        circuit.failed(Proof::Rejected(Rejection::RateLimited), Some(Duration::from_secs(1)), at(1));
        assert_eq!(circuit.closed_until(at(2)), Some(at(9)));
        circuit.failed(Proof::Rejected(Rejection::Setup), None, at(10));
        assert_eq!(circuit.failing_since, Some(T0));
    }

    #[test]
    fn a_bad_request_and_an_unknown_outcome_do_not_cool_the_target() {
        let mut circuit = Circuit::default();
        for _ in 0..20 {
            circuit.failed(Proof::Rejected(Rejection::BadRequest), None, T0);
            circuit.failed(Proof::Unknown, None, T0);
        }
        assert_eq!(circuit, Circuit::default());
    }
}
