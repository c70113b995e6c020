//! What a run came to: for programs, for people, and as evidence.
//!
//! A [`Report`] is made by the runner only. [`Evidence`], the one thing that a permit may rest on, is made from a report
//! only, and only if all three kinds passed with nothing required left out.

use std::time::Duration;

use serde::Serialize;

mod diff;
mod junit;
mod table;

use providers::prices::{Amount, Price};

use crate::budget::Spent;
use crate::check::{CheckResult, Kind, Verdict};
use crate::runner::TargetInfo;
use crate::suite::Suite;
use crate::upstream::Mode;

pub use diff::{Change, Diff, Difference, RunFacts, RunRow, diff};

/// The result of one run of one suite against one target.
#[derive(Debug, Clone)]
pub struct Report {
    suite: String,
    suite_digest: String,
    mode: Mode,
    target: TargetInfo,
    checks: Vec<CheckResult>,
    required: Vec<&'static str>,
    pass_rate: f64,
    calls: u64,
    duration: Duration,
    spent: Spent,
    price: Option<Price>,
    /// Why the plan was not made to its end.
    incomplete: Option<String>,
}

/// The verdict of a whole run or of one kind: there is no third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    Passed,
    Failed,
}

impl RunVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            RunVerdict::Passed => "passed",
            RunVerdict::Failed => "failed",
        }
    }
}

/// The JSON of DESIGN 7, with what else a program may want to know.
#[derive(Debug, Serialize)]
pub struct ReportJson<'a> {
    pub run_id: &'a str,
    pub verdict: RunVerdict,
    pub mode: Mode,
    pub suite: &'a str,
    pub suite_digest: &'a str,
    pub provider: &'a str,
    pub model: &'a str,
    pub adapter_version: &'a str,
    pub calls: u64,
    pub duration_ms: u64,
    pub pass_rate: f64,
    pub spent: Spent,
    /// What the tokens cost; absent where no price was stated, which is not zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<&'a str>,
    /// Why the run ended before its plan did. Such a run has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<&'a str>,
    pub checks: &'a [CheckResult],
}

/// Proof that a target kept a suite. It cannot be made but by [`Report::evidence`].
#[derive(Debug, Clone)]
pub struct Evidence {
    suite: String,
    suite_digest: String,
    mode: Mode,
    target: TargetInfo,
    skipped: Vec<CheckResult>,
}

/// Why a report is no evidence: each line names a kind or a check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run of {suite} has not passed: {}", .missing.join("; "))]
pub struct NotPassed {
    pub suite: String,
    pub missing: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        suite: &Suite,
        mode: Mode,
        target: TargetInfo,
        checks: Vec<CheckResult>,
        calls: u64,
        duration: Duration,
    ) -> Self {
        Report {
            suite: suite.name().to_owned(),
            suite_digest: suite.digest().to_owned(),
            mode,
            target,
            checks,
            required: suite.required().to_vec(),
            pass_rate: suite.pass_rate(),
            calls,
            duration,
            spent: Spent { requests: calls, ..Spent::default() },
            price: None,
            incomplete: None,
        }
    }

    pub(crate) fn with_spent(mut self, spent: Spent, price: Option<Price>) -> Self {
        self.spent = spent;
        self.price = price;
        self
    }

    /// The plan was not made to its end. Whatever else it says, such a report has not passed.
    pub(crate) fn ended_early(mut self, why: String) -> Self {
        self.incomplete = Some(why);
        self
    }

    pub fn suite(&self) -> &str {
        &self.suite
    }

    pub fn suite_digest(&self) -> &str {
        &self.suite_digest
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn target(&self) -> &TargetInfo {
        &self.target
    }

    pub fn checks(&self) -> &[CheckResult] {
        &self.checks
    }

    /// Requests made of the provider, counts included.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    pub fn duration(&self) -> Duration {
        self.duration
    }

    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Why the run ended before its plan did.
    pub fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// What the tokens cost, and in which currency; `None`: no price was stated.
    fn cost(&self) -> Option<(Amount, &str)> {
        let price = self.price.as_ref()?;
        Some((price.at_most(self.spent.input_tokens, self.spent.output_tokens), &price.currency))
    }

    pub fn verdict(&self) -> RunVerdict {
        if self.passed() { RunVerdict::Passed } else { RunVerdict::Failed }
    }

    pub fn passed(&self) -> bool {
        self.shortcomings().is_empty()
    }

    /// Passed: something of this kind passed, nothing failed, nothing required was left out.
    pub fn kind_verdict(&self, kind: Kind) -> RunVerdict {
        if self.shortcomings_of(kind).is_empty() { RunVerdict::Passed } else { RunVerdict::Failed }
    }

    /// What a permit may rest on, or what is missing for it.
    pub fn evidence(&self) -> Result<Evidence, NotPassed> {
        let missing = self.shortcomings();
        if !missing.is_empty() {
            return Err(NotPassed { suite: self.suite.clone(), missing });
        }
        Ok(Evidence {
            suite: self.suite.clone(),
            suite_digest: self.suite_digest.clone(),
            mode: self.mode,
            target: self.target.clone(),
            skipped: self.with(Verdict::Skipped).cloned().collect(),
        })
    }

    pub fn to_json<'a>(&'a self, run_id: &'a str) -> ReportJson<'a> {
        ReportJson {
            run_id,
            verdict: self.verdict(),
            mode: self.mode,
            suite: &self.suite,
            suite_digest: &self.suite_digest,
            provider: &self.target.provider,
            model: &self.target.model,
            adapter_version: &self.target.adapter_version,
            calls: self.calls,
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            pass_rate: self.pass_rate,
            spent: self.spent,
            cost: self.cost().map(|(cost, _)| cost.approximate()),
            currency: self.cost().map(|(_, currency)| currency),
            incomplete: self.incomplete(),
            checks: &self.checks,
        }
    }

    /// The report for people.
    pub fn to_table(&self) -> String {
        self.to_string()
    }

    /// The report for a CI server: JUnit's XML.
    pub fn to_junit(&self) -> String {
        junit::write(self)
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(move |c| c.verdict == verdict)
    }

    fn shortcomings(&self) -> Vec<String> {
        let mut out: Vec<String> = Kind::ALL.into_iter().flat_map(|kind| self.shortcomings_of(kind)).collect();
        // Most often the check that ended it has said so.
        if let Some(why) = self.incomplete.as_ref().filter(|_| out.is_empty()) {
            out.push(format!("the run is incomplete: {why}"));
        }
        out
    }

    fn shortcomings_of(&self, kind: Kind) -> Vec<String> {
        let of_kind: Vec<&CheckResult> = self.checks.iter().filter(|c| c.kind == kind).collect();
        let mut out: Vec<String> = of_kind
            .iter()
            .filter(|c| c.verdict == Verdict::Failed)
            .map(|c| format!("{kind}/{} failed for {}: {}", c.name, c.case, c.detail))
            .collect();
        if of_kind.iter().all(|c| c.verdict != Verdict::Passed) {
            out.push(format!("no {kind} check passed"));
        }
        // Where something failed, what was skipped or left out is its consequence and not worth a line.
        if !out.is_empty() {
            return out;
        }
        for name in self.required.iter().filter(|n| crate::check::named(n).is_some_and(|c| c.kind == kind)) {
            let of_name: Vec<&&CheckResult> = of_kind.iter().filter(|c| c.name == *name).collect();
            if let Some(skipped) = of_name.iter().find(|c| c.verdict == Verdict::Skipped) {
                out.push(format!("{kind}/{name} is required and was skipped: {}", skipped.detail));
            } else if of_name.is_empty() {
                out.push(format!("{kind}/{name} is required and was not made"));
            }
        }
        out
    }
}

impl Evidence {
    pub fn suite(&self) -> &str {
        &self.suite
    }

    pub fn suite_digest(&self) -> &str {
        &self.suite_digest
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn target(&self) -> &TargetInfo {
        &self.target
    }

    /// What the evidence does not cover.
    pub fn skipped(&self) -> &[CheckResult] {
        &self.skipped
    }
}

#[cfg(test)]
mod tests;
