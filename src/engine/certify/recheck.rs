//! Runs the suite of each permitted fallback again when its evidence has grown too old (`recheck`): passed renews the
//! permit, failed revokes it at once. What could not be run says nothing about the contract: it is tried again, and the
//! permit goes on until its own end.
//!
//! Any instance may do it; a guarded claim in the database lets one. One at a time in a process, live, beside the calls
//! of clients and never on their way.

use std::time::Duration;

use contracts::check::{REACHABLE, Verdict};
use contracts::report::Report;

use super::{Planned, RunMode, not_run};
use crate::domain::backoff;
use crate::domain::ids::{PermitId, RunId};
use crate::domain::permit::EndCause;
use crate::domain::route::{Route, RouteTarget};
use crate::engine::Engine;
use crate::store::StoreError;
use crate::store::permits::ListedPermit;
use crate::store::rechecks::Claim;

/// Longer than any run takes that will still end.
const LONGEST_RUN: Duration = Duration::from_secs(3600);

/// What a scheduled run came to.
enum Outcome {
    Passed,
    /// The suite's own word, in one line.
    Failed(String),
    /// Nobody could be asked, or nothing could be judged.
    NotRun(String),
}

impl Engine {
    /// Looks for evidence that has grown too old, and runs what this instance can claim.
    pub(super) async fn recheck(&self) -> Result<(), StoreError> {
        let scheduled = || self.config().routes.values().filter_map(|route| Some((route, route.recheck?)));
        if !self.may_start() || scheduled().next().is_none() {
            return Ok(());
        }
        let live = self.store().live_permits().await?;
        for (route, age) in scheduled() {
            let is_old = |l: &ListedPermit| l.permit.facts().route == route.name && is_due(l, age);
            if !live.iter().any(is_old) {
                continue;
            }
            let digest = self.quiet_digest(route).await;
            for target in route.targets.iter().skip(1) {
                let Some(due) = due(route, target, &live, digest.as_deref(), age) else { continue };
                let claim = self.store().claim_recheck(due.permit.id(), self.instance(), age).await?;
                if let Some(claim) = claim {
                    self.run_again(route, target, due, claim).await?;
                }
            }
        }
        Ok(())
    }

    /// What the run came to is written however long the database is away: the claim is this process's, and nobody else
    /// would revoke on it.
    async fn run_again(
        &self,
        route: &Route,
        target: &RouteTarget,
        due: &ListedPermit,
        claim: Claim,
    ) -> Result<(), StoreError> {
        let (permit, name) = (claim.permit, route.name.as_str());
        tracing::info!(%permit, route = name, target = %target.target, tries = claim.tries, "recheck begins");
        let (run, outcome) = self.make_run(route, target).await;
        let count = |word| self.metrics().evidence.rechecks.with_label_values(&[name, word]).inc();
        match (run, outcome) {
            (Some(run), Outcome::Passed) => {
                count("passed");
                self.renew(route, due, claim, run).await
            }
            (Some(run), Outcome::Failed(why)) => {
                count("failed");
                let reason = format!("the scheduled run {run} failed: {why}");
                let fail = || self.store().fail_recheck(permit, run, &reason);
                let Some(ended) = self.persist("revoke by recheck", fail).await else { return Ok(()) };
                let ended = ended?;
                self.count_ended(name, EndCause::Recheck, ended);
                tracing::error!(%permit, route = name, target = %target.target, %run, ended, reason, "permit revoked by recheck");
                Ok(())
            }
            (run, Outcome::NotRun(why) | Outcome::Failed(why)) => self.miss(route, claim, run, &why).await,
            (None, Outcome::Passed) => Ok(()),
        }
    }

    async fn miss(&self, route: &Route, claim: Claim, run: Option<RunId>, why: &str) -> Result<(), StoreError> {
        self.metrics().evidence.rechecks.with_label_values(&[&route.name, "not_run"]).inc();
        let tries = u32::try_from(claim.tries).unwrap_or(u32::MAX);
        let again_in = backoff::before_recheck(tries, rand::random::<f64>());
        tracing::warn!(permit = %claim.permit, route = route.name, why, ?again_in, "recheck could not be made; the permit goes on");
        let miss = || self.store().miss_recheck(claim, run, why, again_in);
        self.persist("put off the recheck", miss).await.unwrap_or(Ok(()))
    }

    async fn renew(&self, route: &Route, due: &ListedPermit, claim: Claim, run: RunId) -> Result<(), StoreError> {
        let new = PermitId::fresh();
        let old = due.permit.id();
        let reason = format!("the scheduled run {run} passed; before it: permit {old}");
        let renew = || self.store().renew_permit(claim, run, new, &reason, route.permit_ttl);
        let Some(renewed) = self.persist("renew the permit", renew).await else { return Ok(()) };
        if renewed? {
            self.count_ended(&route.name, EndCause::Renewed, 1);
            tracing::info!(permit = %new, renews = %old, route = route.name, %run, "permit renewed");
        } else {
            tracing::warn!(permit = %old, route = route.name, %run, "the permit ended while its suite ran: not renewed");
        }
        Ok(())
    }

    /// Makes the run as `contract run` does. `None`: it was never filed.
    async fn make_run(&self, route: &Route, target: &RouteTarget) -> (Option<RunId>, Outcome) {
        let suite = route.contract.as_deref().unwrap_or_default();
        let planned = match Planned::new(self.config(), suite, target.target.clone(), RunMode::Live) {
            Ok(planned) => planned,
            Err(error) => return (None, Outcome::NotRun(error.to_string())),
        };
        let id = planned.id;
        if let Err(error) = planned.begin(self.store(), Some(self.instance())).await {
            return (None, Outcome::NotRun(error.to_string()));
        }
        match tokio::time::timeout(LONGEST_RUN, planned.finish(self.store(), &|_| {})).await {
            Ok(Ok(report)) => {
                if report.passed() {
                    self.note_passed_run(&target.target, &report);
                }
                (Some(id), judged(&report))
            }
            Ok(Err(error)) => (Some(id), Outcome::NotRun(error.to_string())),
            Err(_) => {
                let why = format!("the run had not ended after {LONGEST_RUN:?}");
                if let Err(error) = self.store().end_run(id, &not_run(&why)).await {
                    tracing::warn!(run = %id, %error, "the run's end could not be written");
                }
                (Some(id), Outcome::NotRun(why))
            }
        }
    }
}

/// The permit of this target whose evidence is newest, where even that is too old and it is time to try.
fn due<'a>(
    route: &Route,
    target: &RouteTarget,
    live: &'a [ListedPermit],
    digest: Option<&str>,
    age: Duration,
) -> Option<&'a ListedPermit> {
    let covers = |l: &&ListedPermit| l.permit.covers(route, target, digest, l.read_at).is_ok();
    let of_route = live.iter().filter(|l| l.permit.facts().route == route.name);
    let newest = of_route.filter(covers).max_by_key(|l| (l.recheck.evidence_at, l.permit.facts().granted_at))?;
    let waits = newest.recheck.running_since.is_some() || newest.recheck.next_at.is_some_and(|at| at > newest.read_at);
    (!waits && is_due(newest, age)).then_some(newest)
}

fn is_due(listed: &ListedPermit, age: Duration) -> bool {
    listed.recheck.evidence_at + age <= listed.read_at
}

/// A run in which nobody could be asked (unreachable, refused for the key, told "later" too often) is no verdict.
fn judged(report: &Report) -> Outcome {
    let Err(missing) = report.evidence() else { return Outcome::Passed };
    let mut failed = report.checks().iter().filter(|check| check.verdict == Verdict::Failed).peekable();
    let detail = failed.peek().map(|check| check.detail.clone());
    match detail {
        Some(detail) if failed.all(|check| check.name == REACHABLE.name) => Outcome::NotRun(detail),
        _ => Outcome::Failed(missing.missing.first().cloned().unwrap_or_else(|| missing.to_string())),
    }
}
