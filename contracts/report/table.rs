//! The report for people: what failed, in words, what so many repeats can tell, and what was not judged.

use std::fmt::{self, Write as _};

use super::Report;
use crate::check::{self, CheckResult, Kind, Verdict};
use crate::sampling::Sample;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        for kind in Kind::ALL {
            let count = |v| self.checks.iter().filter(|c| c.kind == kind && c.verdict == v).count();
            writeln!(
                f,
                "  {:<11} {:<7} {:>3} passed {:>3} failed {:>3} skipped",
                kind.as_str(),
                self.kind_verdict(kind).as_str(),
                count(Verdict::Passed),
                count(Verdict::Failed),
                count(Verdict::Skipped)
            )?;
        }
        f.write_str(&self.failures())?;
        let without: Vec<String> = self
            .shortcomings()
            .into_iter()
            .filter(|s| s.starts_with("no ") || s.contains(" is required and was "))
            .collect();
        if !without.is_empty() {
            writeln!(f, "\nWhat is missing")?;
            for line in without {
                writeln!(f, "  {line}")?;
            }
        }
        f.write_str(&self.repeats())?;
        f.write_str(&self.skipped())
    }
}

impl Report {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.target;
        let verdict = match (self.passed(), &self.incomplete) {
            (true, _) => "PASSED",
            (false, None) => "FAILED",
            (false, Some(_)) => "FAILED, INCOMPLETE",
        };
        let mode = self.mode.as_str();
        writeln!(f, "{verdict}: {} against {}/{} ({}, {mode})", self.suite, t.provider, t.model, t.adapter_version)?;
        writeln!(
            f,
            "{} calls in {:.1} s, suite digest {}",
            self.calls,
            self.duration.as_secs_f32(),
            self.suite_digest.get(..12).unwrap_or(&self.suite_digest)
        )?;
        if self.mode == crate::upstream::Mode::Live {
            let cost = match self.cost() {
                Some((cost, currency)) => format!("{cost} {currency}"),
                None => "price unknown".to_owned(),
            };
            writeln!(f, "{}; {cost}", self.spent)?;
        }
        writeln!(f)
    }

    fn shown(&self, verdict: Verdict) -> impl Iterator<Item = &CheckResult> {
        // A step that was not reached says nothing beside the one that was missed.
        self.checks.iter().filter(move |c| c.verdict == verdict && c.detail != crate::schema::NOT_REACHED)
    }

    /// Which promise was not kept, for which case, and the smallest difference that shows it.
    fn failures(&self) -> String {
        let mut out = String::new();
        let mut last = "";
        for failed in self.shown(Verdict::Failed) {
            if out.is_empty() {
                out.push_str("\nWhat failed\n");
            }
            if failed.name != last {
                let promise = check::named(failed.name).map(|row| row.promise).unwrap_or_default();
                let _ = writeln!(out, "  {}/{}: not kept: {promise}", failed.kind, failed.name);
                last = failed.name;
            }
            let _ = writeln!(out, "    {:<18} {}", failed.case, failed.detail);
        }
        out
    }

    /// Of each case the whole answers: the highest step that was judged. And all cases together.
    fn repeats(&self) -> String {
        let mut cases: Vec<(&str, Sample)> = Vec::new();
        for check in &self.checks {
            let Some(sample) = check.sample else { continue };
            match cases.iter_mut().find(|(case, _)| *case == check.case) {
                Some((_, least)) if sample.passes < least.passes => *least = sample,
                Some(_) => {}
                None => cases.push((&check.case, sample)),
            }
        }
        if cases.is_empty() {
            return String::new();
        }
        let mut out = "\nHow much the repeats tell (good answers)\n".to_owned();
        let mut line = |name: &str, sample: Sample| {
            let _ = writeln!(out, "  {name:<20} {}: {}", sample.words(), sample.against(self.pass_rate));
        };
        let all = cases.iter().fold(Sample::new(0, 0), |all, (_, sample)| {
            Sample::new(all.passes + sample.passes, all.total + sample.total)
        });
        // Cases that say the same need no line each.
        let alike = cases.iter().all(|(_, sample)| *sample == cases[0].1) && cases[0].1.passes == cases[0].1.total;
        if alike && cases.len() > 1 {
            line("each case", cases[0].1);
        } else {
            cases.iter().for_each(|(case, sample)| line(case, *sample));
        }
        if cases.len() > 1 {
            line("all cases together", all);
        }
        out
    }

    fn skipped(&self) -> String {
        let mut out = String::new();
        for check in self.shown(Verdict::Skipped) {
            if out.is_empty() {
                out.push_str("\nWhat was not judged\n");
            }
            let name = format!("{}/{}", check.kind, check.name);
            let _ = writeln!(out, "  {name:<35} {:<18} {}", check.case, check.detail);
        }
        out
    }
}
