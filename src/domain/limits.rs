//! What one owner may use: requests and tokens in any minute, jobs at once. Pure; the engine keeps one [`Ledger`] per
//! owner and process.
//!
//! The minute slides in slots of five seconds, named by absolute time. So what several processes spent is simply added,
//! slot by slot, and a process that starts anew reads what was spent before it: nothing has to be carried over. Tokens
//! are *held* while a job runs or its outcome is unknown, and *spent* when it is known what was used.
//!
//! Processes share a limit by *claims*: each publishes one, at least as large as what it uses, and only enlarges it
//! under a lock, having seen the others'. So together they never let in more than the limit. Far from the limit a claim
//! runs ahead of the use by a small share, the *credit*, from which jobs begin without asking anybody.

mod estimate;
mod ledger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use super::Timestamp;

pub use estimate::estimate;
pub use ledger::Ledger;

/// What is spent counts for a minute after the end of its slot.
const SLOT_SECONDS: i64 = 5;
const SLOTS_PER_MINUTE: i64 = 60 / SLOT_SECONDS;
/// When to come back where only the end of running jobs can make room, and nobody knows when that is.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The settings of one owner; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub concurrent_jobs: Option<u64>,
}

impl Limit {
    pub fn is_unlimited(&self) -> bool {
        *self == Limit::default()
    }
}

/// Requests and tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub requests: u64,
    pub tokens: u64,
}

/// What counts without having been spent: requests that may turn out to be no new job, jobs that run or are unknown, and
/// the tokens set aside for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub requests: u64,
    pub jobs: u64,
    pub tokens: u64,
}

impl Held {
    /// A job, with the tokens set aside for it.
    pub fn add(&mut self, tokens: u64) {
        self.jobs += 1;
        self.tokens = self.tokens.saturating_add(tokens);
    }

    pub fn remove(&mut self, tokens: u64) {
        self.jobs = self.jobs.saturating_sub(1);
        self.tokens = self.tokens.saturating_sub(tokens);
    }

    fn plus(self, other: Held) -> Held {
        Held {
            requests: self.requests.saturating_add(other.requests),
            jobs: self.jobs.saturating_add(other.jobs),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

/// What one process says of one owner: at least what it uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    pub spent: Window,
    pub held: Held,
}

/// The slot of this moment.
pub fn slot_of(now: Timestamp) -> i64 {
    now.unix_timestamp().div_euclid(SLOT_SECONDS)
}

/// The oldest slot that still counts.
pub fn oldest_slot(now: Timestamp) -> i64 {
    slot_of(now) - SLOTS_PER_MINUTE
}

/// How long until this slot counts no more.
fn expires_in(slot: i64, now: Timestamp) -> Duration {
    let at = Duration::from_secs(u64::try_from((slot + 1 + SLOTS_PER_MINUTE) * SLOT_SECONDS).unwrap_or_default());
    let now = Duration::try_from(now - Timestamp::UNIX_EPOCH).unwrap_or_default();
    at.saturating_sub(now)
}

/// What was spent, by slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    slots: BTreeMap<i64, Spent>,
}

impl Window {
    pub fn spend(&mut self, slot: i64, spent: Spent) {
        let there = self.slots.entry(slot).or_default();
        there.requests = there.requests.saturating_add(spent.requests);
        there.tokens = there.tokens.saturating_add(spent.tokens);
    }

    /// Forgets what counts no more.
    pub fn expire(&mut self, now: Timestamp) {
        self.slots = self.slots.split_off(&oldest_slot(now));
    }

    pub fn slots(&self) -> impl Iterator<Item = (i64, Spent)> {
        self.slots.iter().map(|(slot, spent)| (*slot, *spent))
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Requests,
    Tokens,
    Jobs,
}

impl Measure {
    pub fn as_str(self) -> &'static str {
        match self {
            Measure::Requests => "requests",
            Measure::Tokens => "tokens",
            Measure::Jobs => "jobs",
        }
    }
}

/// Why a job may not begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub measure: Measure,
    pub limit: u64,
    pub used: u64,
    pub asked: u64,
    /// `None`: it never may, it asks for more than the whole limit.
    pub retry_after: Option<Duration>,
}

/// How far one limit is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    pub limit: u64,
    pub remaining: u64,
    /// Until nothing counts any more, if nothing is added.
    pub reset: Duration,
}

/// Both limits that answers tell of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    pub requests: Option<Gauge>,
    pub tokens: Option<Gauge>,
}
