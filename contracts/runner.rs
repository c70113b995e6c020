//! Runs a suite: makes the planned calls one after the other, keeps what was seen, and lets the three kinds judge it.
//!
//! Nonsense from a provider is evidence, never a panic. A provider that cannot be talked to ends the run at once with
//! one check that says why, instead of fifty that say the same.

use std::collections::BTreeMap;
use std::time::Duration;

use providers::failure::{Failure, Proof, Rejection};
use providers::tokens::Counter as LocalCounter;
use tokio::time::Instant;

use crate::check::{self, CheckResult, WHOLE_SUITE};
use crate::observation::{Count, Observation};
use crate::probe::{self, Probe};
use crate::report::Report;
use crate::suite::Suite;
use crate::upstream::{Call, CallKey, Mode, Upstream};
use crate::{round_trip, schema, tokenizer};

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

/// Runs `suite` against `upstream` and reports. Never fails: whatever goes wrong is a check that failed.
pub async fn run<U: Upstream>(
    suite: &Suite,
    upstream: &U,
    target: TargetInfo,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    let encoding = providers::tokens::encoding_for(&target.model);
    let local = encoding.as_ref().map(|e| e as &(dyn LocalCounter + Sync));
    run_with_counter(suite, upstream, target, local, progress).await
}

/// [`run`], with the local counter given.
pub(crate) async fn run_with_counter<U: Upstream>(
    suite: &Suite,
    upstream: &U,
    target: TargetInfo,
    local: Option<&(dyn LocalCounter + Sync)>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    let started = Instant::now();
    let plan = probe::plan(suite, &target.model);
    let mut caller = Caller { upstream, calls: 0, silent: 0 };
    let mut transcript = Transcript::default();
    let planned = plan.len();
    for (done, probe) in plan.into_iter().enumerate() {
        progress(Progress { done, planned, call: &probe.call.key });
        match caller.make(probe).await {
            Ok(exchange) => transcript.exchanges.insert(exchange.call.key.clone(), exchange),
            Err(why) => {
                let check = check::REACHABLE.failed(WHOLE_SUITE, why);
                return Report::new(suite, upstream.mode(), target, vec![check], caller.calls, started.elapsed());
            }
        };
    }
    let mut checks = schema::judge(suite, &transcript).await;
    checks.extend(tokenizer::judge(suite, &transcript, local.map(|l| l as &dyn LocalCounter)));
    checks.extend(round_trip::judge(suite, &transcript));
    checks.extend(declined(suite));
    Report::new(suite, upstream.mode(), target, checks, caller.calls, started.elapsed())
}

/// The checks that the suite itself does not make, each with its reason.
fn declined(suite: &Suite) -> Vec<CheckResult> {
    let rows = check::CHECKS.iter().filter_map(|row| suite.skip.get(row.name).map(|why| (row, why)));
    rows.map(|(row, why)| row.skipped(WHOLE_SUITE, format!("by the suite: {why}"))).collect()
}

struct Caller<'a, U> {
    upstream: &'a U,
    calls: u64,
    /// Calls in a row of which nothing is known.
    silent: u32,
}

/// A call may be made this often where the provider says "later".
const TRIES: u32 = 3;
/// The longest `Retry-After` that a run waits for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// So many silent calls in a row end the run.
const SILENT_CALLS: u32 = 3;

impl<U: Upstream> Caller<'_, U> {
    /// `Err` ends the run: it says why, with the cure.
    async fn make(&mut self, probe: Probe) -> Result<Exchange, String> {
        let observation = self.ask(&probe.call).await;
        if let Some(why) = self.hopeless(&probe, &observation) {
            return Err(why);
        }
        let count = if probe.count {
            self.calls += 1;
            self.upstream.count(&probe.call).await
        } else {
            Count::NoEndpoint
        };
        Ok(Exchange { call: probe.call, observation, count })
    }

    async fn ask(&mut self, call: &Call) -> Observation {
        let mut tries = 0;
        loop {
            self.calls += 1;
            tries += 1;
            let observation = self.upstream.call(call).await;
            match &observation {
                Observation::Failed(f)
                    if self.upstream.mode() == Mode::Live && tries < TRIES && passes_by_itself(f) =>
                {
                    let pause = f.retry_after.unwrap_or(Duration::from_secs(1)).min(LONGEST_PAUSE);
                    tracing::debug!(call = %call.key, reason = f.reason, ?pause, "contract call is repeated");
                    tokio::time::sleep(pause).await;
                }
                _ => return observation,
            }
        }
    }

    fn hopeless(&mut self, probe: &Probe, observation: &Observation) -> Option<String> {
        let first = self.calls == 1;
        let words = observation.trouble().trim_end_matches('.').to_owned();
        match observation {
            Observation::NotRecorded { .. } | Observation::Recording(_) if first => return Some(words),
            Observation::Failed(f) => match f.proof {
                Proof::NotSent => {
                    return Some(format!("{words}. Is the provider's base_url right, and is it up?"));
                }
                Proof::Rejected(Rejection::Setup | Rejection::Billing | Rejection::QuotaExhausted)
                    if probe.call.model.is_none() =>
                {
                    return Some(format!("{words}. Check the provider's api_key, base_url and model"));
                }
                // Told "later" as often as a call may be made: the rest of the run would only wait.
                Proof::Refused | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded) => {
                    return Some(format!("{words}. Run it again when the provider has room"));
                }
                Proof::Unknown => self.silent += 1,
                _ => self.silent = 0,
            },
            _ => self.silent = 0,
        }
        (self.silent >= SILENT_CALLS).then(|| format!("{SILENT_CALLS} calls in a row came to nothing: {words}"))
    }
}

fn passes_by_itself(failure: &Failure) -> bool {
    matches!(
        failure.proof,
        Proof::NotSent | Proof::Refused | Proof::Rejected(Rejection::RateLimited | Rejection::Overloaded)
    )
}

#[cfg(test)]
mod tests;
