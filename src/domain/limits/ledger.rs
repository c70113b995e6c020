//! One owner's books in one process: what is used, what may begin, what the other processes are told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, Gauge, Held, LOOK_AGAIN, Limit, MINUTE, Measure, Refusal, Spent, Standing, Window};
use super::{expires_in, oldest_slot, slot_of};
use crate::domain::Timestamp;

/// What part of the room that is left one process claims ahead of its use; and how many jobs that must at least serve.
/// Less is left to whoever needs it, so that near the limit no room lies idle in one process while another refuses.
const SHARE: u64 = 16;
const WORTH_IT: u64 = 4;

/// One owner's books.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Spent through this process.
    pub here: Window,
    /// Spent through the others, as last heard.
    pub elsewhere: Window,
    /// Jobs of this process, and requests that are being admitted: they are not spent yet.
    pub running: Held,
    /// Claimed ahead, and used by nobody.
    pub credit: Held,
    /// Jobs whose outcome is unknown, whoever ran them, and what the others hold: both as last heard.
    pub unknown: Held,
    pub held_elsewhere: Held,
}

impl Ledger {
    /// Whether a job that may use this many tokens may begin now. Where several limits stand in its way, the one that
    /// does so longest.
    pub fn judge(&self, limit: &Limit, tokens: u64, now: Timestamp) -> Result<(), Refusal> {
        let refusals = [
            limit.concurrent_jobs.and_then(|limit| self.judge_jobs(limit)),
            limit.requests_per_minute.and_then(|limit| self.judge_minute(Measure::Requests, limit, 1, now)),
            limit.tokens_per_minute.and_then(|limit| self.judge_minute(Measure::Tokens, limit, tokens, now)),
        ];
        let longest = |refusal: &Refusal| refusal.retry_after.unwrap_or(Duration::MAX);
        refusals.into_iter().flatten().max_by_key(longest).map_or(Ok(()), Err)
    }

    fn judge_jobs(&self, limit: u64) -> Option<Refusal> {
        let used = self.held().jobs;
        let retry_after = Some(LOOK_AGAIN);
        (used >= limit).then_some(Refusal { measure: Measure::Jobs, limit, used, asked: 1, retry_after })
    }

    fn judge_minute(&self, measure: Measure, limit: u64, asked: u64, now: Timestamp) -> Option<Refusal> {
        let spent = self.spent(measure, now);
        let used = self.used(measure, now);
        if used.saturating_add(asked) <= limit {
            return None;
        }
        let mut left = used;
        let makes_room = spent.iter().find_map(|(slot, n)| {
            left = left.saturating_sub(*n);
            (left.saturating_add(asked) <= limit).then(|| expires_in(*slot, now))
        });
        let retry_after = (asked <= limit).then(|| makes_room.unwrap_or(LOOK_AGAIN));
        Some(Refusal { measure, limit, used, asked, retry_after })
    }

    /// What counts, by slot, through all processes.
    fn spent(&self, measure: Measure, now: Timestamp) -> BTreeMap<i64, u64> {
        let mut sums = BTreeMap::new();
        for (slot, spent) in self.here.slots().chain(self.elsewhere.slots()).filter(|(s, _)| *s >= oldest_slot(now)) {
            let n = match measure {
                Measure::Requests => spent.requests,
                Measure::Tokens => spent.tokens,
                Measure::Jobs => 0,
            };
            if n > 0 {
                let sum: &mut u64 = sums.entry(slot).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        sums
    }

    /// What counts without having been spent, through all processes; not what is only claimed here.
    fn held(&self) -> Held {
        self.running.plus(self.unknown).plus(self.held_elsewhere)
    }

    fn held_of(&self, measure: Measure) -> u64 {
        let held = self.held();
        match measure {
            Measure::Requests => held.requests,
            Measure::Tokens => held.tokens,
            Measure::Jobs => held.jobs,
        }
    }

    fn used(&self, measure: Measure, now: Timestamp) -> u64 {
        self.spent(measure, now).values().fold(self.held_of(measure), |sum, n| sum.saturating_add(*n))
    }

    pub fn standing(&self, limit: &Limit, now: Timestamp) -> Standing {
        let gauge = |measure, limit: u64| {
            // What is held counts from its end for a minute, which is not before a minute from now.
            let of_held = if self.held_of(measure) > 0 { MINUTE } else { Duration::ZERO };
            let last = self.spent(measure, now).keys().next_back().copied();
            let reset = last.map_or(of_held, |slot| expires_in(slot, now).max(of_held));
            Gauge { limit, remaining: limit.saturating_sub(self.used(measure, now)), reset }
        };
        Standing {
            requests: limit.requests_per_minute.map(|limit| gauge(Measure::Requests, limit)),
            tokens: limit.tokens_per_minute.map(|limit| gauge(Measure::Tokens, limit)),
        }
    }

    /// Begins a job out of what is claimed already. False: there is too little, ask the others.
    pub fn take(&mut self, limit: &Limit, tokens: u64) -> bool {
        let enough = limit.requests_per_minute.is_none_or(|_| self.credit.requests >= 1)
            && limit.tokens_per_minute.is_none_or(|_| self.credit.tokens >= tokens)
            && limit.concurrent_jobs.is_none_or(|_| self.credit.jobs >= 1);
        if enough {
            self.credit.requests = self.credit.requests.saturating_sub(1);
            self.credit.remove(tokens);
            self.begin(tokens);
        }
        enough
    }

    /// A job that was judged begins; its request is not spent before the job is admitted.
    pub fn begin(&mut self, tokens: u64) {
        self.running.requests += 1;
        self.running.add(tokens);
    }

    /// The job is new: its request is spent.
    pub fn admitted(&mut self, now: Timestamp) {
        self.running.requests = self.running.requests.saturating_sub(1);
        self.here.spend(slot_of(now), Spent { requests: 1, tokens: 0 });
    }

    /// There was such a job, or none can be admitted: its request costs nothing.
    pub fn not_admitted(&mut self) {
        self.running.requests = self.running.requests.saturating_sub(1);
        self.credit.requests += 1;
    }

    /// A job goes on here that was admitted before, whatever the limit.
    pub fn resume(&mut self, tokens: u64) {
        self.running.add(tokens);
    }

    /// A job runs no more; it used this much of what was set aside for it. What is left may be used by the next.
    pub fn end(&mut self, tokens: u64, used: u64, now: Timestamp) {
        self.running.remove(tokens);
        self.credit.add(tokens.saturating_sub(used));
        self.spend_tokens(used, now);
    }

    /// A job's outcome is unknown: what was set aside stays so, wherever its outcome may come from.
    pub fn park(&mut self, tokens: u64) {
        self.running.remove(tokens);
        self.unknown.add(tokens);
    }

    /// What an unknown attempt turns out to have used.
    pub fn spend_tokens(&mut self, used: u64, now: Timestamp) {
        if used > 0 {
            self.here.spend(slot_of(now), Spent { requests: 0, tokens: used });
        }
    }

    /// What the other processes claim, and which jobs are unknown, as the database has it now.
    pub fn hear(&mut self, others: &[Claim], unknown: Held, now: Timestamp) {
        self.elsewhere = Window::default();
        self.held_elsewhere = Held::default();
        for claim in others {
            claim.spent.slots().for_each(|(slot, spent)| self.elsewhere.spend(slot, spent));
            self.held_elsewhere = self.held_elsewhere.plus(claim.held);
        }
        self.unknown = unknown;
        self.here.expire(now);
        self.elsewhere.expire(now);
    }

    /// Claims a share of the room that is left, for jobs of this many tokens, in place of what was claimed ahead before.
    pub fn claim_ahead(&mut self, limit: &Limit, tokens: u64, now: Timestamp) {
        let share = |measure, limit: Option<u64>, each: u64| {
            let share = limit.map_or(0, |limit| limit.saturating_sub(self.used(measure, now)) / SHARE);
            if share >= each.saturating_mul(WORTH_IT) { share } else { 0 }
        };
        self.credit = Held {
            requests: share(Measure::Requests, limit.requests_per_minute, 1),
            jobs: share(Measure::Jobs, limit.concurrent_jobs, 1),
            tokens: share(Measure::Tokens, limit.tokens_per_minute, tokens),
        };
    }

    /// What the others are told.
    pub fn claim(&self) -> Claim {
        Claim { spent: self.here.clone(), held: self.running.plus(self.credit) }
    }

    /// Whether this process uses nothing, and has used nothing that counts.
    pub fn is_blank(&self) -> bool {
        self.here.is_empty() && self.running == Held::default()
    }
}
