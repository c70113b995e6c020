//! Runs a suite: has the planned calls made, keeps what was seen, and lets the three kinds judge it.
//!
//! Nonsense from a provider is evidence, never a panic. A provider that cannot be talked to ends the run at once with
//! one check that says why, instead of fifty that say the same.

use std::collections::BTreeMap;

use providers::tokens::Counter as LocalCounter;
use tokio::time::Instant;

use providers::prices::Price;

use crate::budget::Budget;
use crate::check::{self, CheckResult, WHOLE_SUITE};
use crate::observation::{Count, Observation};
use crate::probe;
use crate::report::Report;
use crate::suite::Suite;
use crate::upstream::{Call, CallKey, Upstream};
use crate::{round_trip, schema, tokenizer};

mod caller;
mod pace;

use caller::{Caller, Stop};

/// Whom a run is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetInfo {
    pub provider: String,
    pub model: String,
    /// As [`providers::adapter::Adapter::version`] says it.
    pub adapter_version: String,
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Calls that have come back.
    pub done: usize,
    pub planned: usize,
    /// The call that is about to be made.
    pub call: &'a CallKey,
}

/// One call and what it came to.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub call: Call,
    pub observation: Observation,
    pub count: Count,
}

/// Everything that a run saw.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    exchanges: BTreeMap<CallKey, Exchange>,
}

impl Transcript {
    pub(crate) fn keep(&mut self, exchange: Exchange) {
        self.exchanges.insert(exchange.call.key.clone(), exchange);
    }

    pub(crate) fn get(&self, case: &str, probe: &str, repeat: u32) -> Option<&Exchange> {
        self.exchanges.values().find(|e| {
            let key = &e.call.key;
            key.case == case && key.probe == probe && key.repeat == repeat
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.values()
    }
}

/// How a run is made.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Calls under way at once; 0 and 1 are the same. Fewer while the provider says "later".
    pub parallel: usize,
    pub budget: Budget,
    /// Needed where the budget is in money.
    pub price: Option<Price>,
}

/// Runs `suite` against `upstream` and reports. Never fails: whatever goes wrong is a check that failed.
pub async fn run<U: Upstream>(
    suite: &Suite,
    upstream: &U,
    target: TargetInfo,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    run_with(suite, upstream, target, &Options::default(), progress).await
}

/// [`run`], with a budget and in parallel.
pub async fn run_with<U: Upstream>(
    suite: &Suite,
    upstream: &U,
    target: TargetInfo,
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    let local = tokenizer::counter(suite, &target.model);
    run_whole(suite, upstream, target, local.as_deref(), options, progress).await
}

/// [`run`], with the local counter given.
#[cfg(test)]
pub(crate) async fn run_with_counter<U: Upstream>(
    suite: &Suite,
    upstream: &U,
    target: TargetInfo,
    local: Option<&dyn LocalCounter>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    run_whole(suite, upstream, target, local, &Options::default(), progress).await
}

async fn run_whole<U: Upstream>(
    suite: &Suite,
    upstream: &U,
    target: TargetInfo,
    local: Option<&dyn LocalCounter>,
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    let started = Instant::now();
    let caller = Caller::new(upstream, &target.model, options);
    let seen = caller.make_all(probe::plan(suite, &target.model), progress).await;
    let spent = caller.spent();
    let report = |target, checks, calls| {
        Report::new(suite, upstream.mode(), target, checks, calls, started.elapsed())
            .with_spent(spent, options.price.clone())
    };
    match seen {
        Err(Stop::Hopeless(why)) => {
            let check = check::REACHABLE.failed(WHOLE_SUITE, &why);
            report(target, vec![check], spent.requests).ended_early(why)
        }
        Err(Stop::Budget(why)) => {
            let check = check::REACHABLE.failed(WHOLE_SUITE, format!("incomplete: the budget ended the run: {why}"));
            report(target, vec![check], spent.requests).ended_early(format!("budget: {why}"))
        }
        Ok(transcript) => {
            let inspected = tokenizer::inspect(suite, &target.model, upstream).await;
            let mut checks = schema::judge(suite, &transcript).await;
            checks.extend(tokenizer::judge(suite, &target.model, &transcript, &inspected, local));
            checks.extend(round_trip::judge(suite, &transcript));
            checks.extend(declined(suite));
            report(target, checks, spent.requests + inspected.calls)
        }
    }
}

/// The checks that the suite itself does not make, each with its reason.
fn declined(suite: &Suite) -> Vec<CheckResult> {
    let rows = check::CHECKS.iter().filter_map(|row| suite.skip.get(row.name).map(|why| (row, why)));
    rows.map(|(row, why)| row.skipped(WHOLE_SUITE, format!("by the suite: {why}"))).collect()
}

#[cfg(test)]
mod tests;
