//! What changed between two runs of a suite, as filed: checks that newly fail or newly pass, details, digests.
//!
//! Pure. It compares what was filed and knows nothing of where.

use serde::Serialize;

/// A run as filed: what it was of, in names and values, and its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// `suite`, `suite_digest`, `provider`, …: whatever a difference may come from.
    pub facts: Vec<(&'static str, String)>,
    pub checks: Vec<RunRow>,
}

/// A check as filed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRow {
    pub kind: String,
    pub name: String,
    pub case: String,
    pub verdict: String,
    pub detail: String,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It fails, and did not.
    NewlyFailing,
    /// It passes, and did not.
    NewlyPassing,
    /// It is judged no more.
    NewlySkipped,
    /// The same verdict for another reason.
    Detail,
    /// Only the first run made it.
    Gone,
    /// Only the second run made it, and it did not fail.
    New,
}

impl Change {
    pub fn as_str(self) -> &'static str {
        match self {
            Change::NewlyFailing => "newly failing",
            Change::NewlyPassing => "newly passing",
            Change::NewlySkipped => "newly skipped",
            Change::Detail => "other detail",
            Change::Gone => "gone",
            Change::New => "new",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub change: Change,
    pub kind: String,
    pub name: String,
    pub case: String,
    /// Verdict and detail in the first run and in the second.
    pub before: Option<String>,
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Name, first value, second value.
    pub facts: Vec<(&'static str, String, String)>,
    /// The newly failing first.
    pub checks: Vec<Difference>,
}

impl Diff {
    /// Whether something fails that did not.
    pub fn is_worse(&self) -> bool {
        self.checks.iter().any(|d| d.change == Change::NewlyFailing)
    }
}

/// Compares two runs. A check is the same where kind, name and case are; one made several times is compared in order.
pub fn diff(before: &RunFacts, after: &RunFacts) -> Diff {
    let facts = before
        .facts
        .iter()
        .zip(&after.facts)
        .filter(|((_, a), (_, b))| a != b)
        .map(|((name, a), (_, b))| (*name, a.clone(), b.clone()))
        .collect();
    let mut left: Vec<&RunRow> = before.checks.iter().collect();
    let mut checks = Vec::new();
    for row in &after.checks {
        let same = |old: &&RunRow| old.kind == row.kind && old.name == row.name && old.case == row.case;
        let old = left.iter().position(same).map(|at| left.remove(at));
        if let Some(change) = change(old, row) {
            checks.push(difference(change, old, Some(row)));
        }
    }
    checks.extend(left.into_iter().map(|old| difference(Change::Gone, Some(old), None)));
    checks.sort_by_key(|d| d.change as u8);
    Diff { facts, checks }
}

fn change(old: Option<&RunRow>, new: &RunRow) -> Option<Change> {
    let was = old.map(|old| old.verdict.as_str());
    match (was, new.verdict.as_str()) {
        (Some(was), now) if was == now => (old.map(|o| &o.detail) != Some(&new.detail)).then_some(Change::Detail),
        (_, "failed") => Some(Change::NewlyFailing),
        (None, _) => Some(Change::New),
        (Some(_), "passed") => Some(Change::NewlyPassing),
        (Some(_), _) => Some(Change::NewlySkipped),
    }
}

fn difference(change: Change, before: Option<&RunRow>, after: Option<&RunRow>) -> Difference {
    let words = |row: Option<&RunRow>| row.map(|row| format!("{}: {}", row.verdict, row.detail));
    let row = after.or(before);
    let text = |pick: fn(&RunRow) -> &String| row.map(pick).cloned().unwrap_or_default();
    Difference {
        change,
        kind: text(|r| &r.kind),
        name: text(|r| &r.name),
        case: text(|r| &r.case),
        before: words(before),
        after: words(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, verdict: &str, detail: &str) -> RunRow {
        let text = str::to_owned;
        RunRow { kind: text("schema"), name: text(name), case: text("c"), verdict: text(verdict), detail: text(detail) }
    }

    fn run(digest: &str, checks: &[(&str, &str, &str)]) -> RunFacts {
        RunFacts {
            facts: vec![("suite", "s".to_owned()), ("suite_digest", digest.to_owned())],
            checks: checks.iter().map(|(name, verdict, detail)| row(name, verdict, detail)).collect(),
        }
    }

    #[test]
    fn each_kind_of_change_is_told_and_what_newly_fails_comes_first() {
        let before = run(
            "d1",
            &[
                ("a", "failed", "x"),
                ("b", "passed", "2"),
                ("c", "passed", "2"),
                ("d", "failed", "x"),
                ("e", "passed", ""),
                ("g", "passed", "same"),
            ],
        );
        let after = run(
            "d2",
            &[
                ("a", "passed", "2"),
                ("b", "failed", "y"),
                ("c", "skipped", "z"),
                ("d", "failed", "w"),
                ("f", "failed", "v"),
                ("h", "passed", ""),
                ("g", "passed", "same"),
            ],
        );
        let found = diff(&before, &after);
        let told: Vec<(&str, &str)> = found.checks.iter().map(|d| (d.name.as_str(), d.change.as_str())).collect();
        assert_eq!(
            told,
            [
                ("b", "newly failing"),
                ("f", "newly failing"),
                ("a", "newly passing"),
                ("c", "newly skipped"),
                ("d", "other detail"),
                ("e", "gone"),
                ("h", "new"),
            ]
        );
        assert_eq!(found.facts, [("suite_digest", "d1".to_owned(), "d2".to_owned())]);
        assert!(found.is_worse());
        assert_eq!(found.checks[4].before.as_deref(), Some("failed: x"));
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let same = run("d", &[("a", "failed", "x"), ("a", "passed", "y")]);
        let found = diff(&same, &same);
        assert!(found.facts.is_empty() && found.checks.is_empty() && !found.is_worse());
    }
}
