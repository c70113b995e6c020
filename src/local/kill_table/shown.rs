//! The kill table for people and for programs.

use std::collections::BTreeMap;

use contracts::Kind;
use serde_json::{Value, json};

use super::{KillTable, Line, NOT_MEASURED, NotMeasured, Outcome};
use crate::local::sim::{Expect, Wire};

/// How many lines came to what, by the kind that ought to catch them.
pub type Totals = BTreeMap<(&'static str, Outcome), usize>;

impl KillTable {
    /// Lines by kind and outcome; what is harmless counts as `none`.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::new();
        for line in &self.lines {
            *totals.entry((ought(line.row.expect), line.outcome())).or_default() += 1;
        }
        totals
    }

    /// Whether every line is as the catalogue says.
    pub fn is_as_expected(&self) -> bool {
        self.lines.iter().all(|line| line.outcome().as_expected())
    }

    /// One line each: name, protocol, the kind that ought to catch it, what became of it, by which checks of which suite.
    pub fn rows(&self) -> Vec<[String; 5]> {
        self.lines
            .iter()
            .map(|line| {
                let why = match line.row.expect {
                    Expect::Unseen(_, why) if line.kinds().is_empty() => why.to_owned(),
                    _ => by(line),
                };
                [
                    line.row.name.to_owned(),
                    line.wire.as_str().to_owned(),
                    ought(line.row.expect).to_owned(),
                    line.outcome().as_str().to_owned(),
                    why,
                ]
            })
            .collect()
    }

    /// The totals in words, a line for each kind.
    pub fn summary(&self) -> String {
        let totals = self.totals();
        let mut kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        kinds.push("none");
        let mut out = String::new();
        for kind in kinds {
            let of_kind = totals.iter().filter(|((ought, _), _)| *ought == kind);
            let words: Vec<String> =
                of_kind.map(|((_, outcome), count)| format!("{count} {}", outcome.as_str())).collect();
            out.push_str(&format!("{kind:<11} {}\n", words.join(", ")));
        }
        for NotMeasured { suite, wires, why } in &NOT_MEASURED {
            let wires: Vec<&str> = wires.iter().map(|wire| wire.as_str()).collect();
            out.push_str(&format!("not measured: {suite} ({}): {why}\n", wires.join(", ")));
        }
        out
    }

    pub fn to_json(&self) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(line_json).collect();
        let totals: Vec<Value> = self
            .totals()
            .into_iter()
            .map(|((kind, outcome), lines)| json!({"ought": kind, "outcome": outcome.as_str(), "lines": lines}))
            .collect();
        let not_measured: Vec<Value> =
            NOT_MEASURED.iter().map(|not| json!({"suite": not.suite, "reason": not.why})).collect();
        json!({
            "suites": self.suites, "as_expected": self.is_as_expected(), "totals": totals, "lines": lines,
            "not_measured": not_measured,
        })
    }
}

/// The kind that ought to catch it.
fn ought(expect: Expect) -> &'static str {
    match expect {
        Expect::Caught(kind) | Expect::Unseen(kind, _) => kind.as_str(),
        Expect::Harmless => "none",
    }
}

/// `suite: kind/check, kind/check; …`.
fn by(line: &Line) -> String {
    let suites = line.suites.iter().filter(|(_, failed)| !failed.is_empty()).map(|(suite, failed)| {
        let checks: Vec<String> = failed.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
        format!("{suite}: {}", checks.join(", "))
    });
    suites.collect::<Vec<_>>().join("; ")
}

fn line_json(line: &Line) -> Value {
    let suites: serde_json::Map<String, Value> = line
        .suites
        .iter()
        .map(|(suite, failed)| {
            let checks: Vec<String> = failed.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
            (suite.clone(), json!(checks))
        })
        .collect();
    let reason = if let Expect::Unseen(_, why) = line.row.expect { Some(why) } else { None };
    json!({
        "name": line.row.name, "does": line.row.does, "source": line.row.source, "wire": line.wire.as_str(),
        "ought": ought(line.row.expect), "outcome": line.outcome().as_str(), "failed": suites, "reason": reason,
    })
}

impl Wire {
    /// The protocol's name, as in an adapter's.
    pub fn as_str(self) -> &'static str {
        match self {
            Wire::OpenAiChat => "openai",
            Wire::AnthropicMessages => "anthropic",
            Wire::Gemini => "gemini",
        }
    }
}
