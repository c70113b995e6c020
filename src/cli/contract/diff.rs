//! `contract diff`: what changed between two filed runs.

use contracts::report::{Diff, RunFacts, RunRow, diff};
use serde_json::json;

use crate::cli::open::Opened;
use crate::cli::{Answer, Context, Failure, output};
use crate::domain::ids::RunId;

pub async fn run(context: &Context, opened: &Opened, before: RunId, after: RunId) -> Result<Answer, Failure> {
    let mut facts = Vec::new();
    let mut suites = Vec::new();
    for id in [before, after] {
        let Some(run) = opened.store.run(id).await? else {
            return output::refuse(context, "not_found", &format!("there is no contract run {id}"));
        };
        if run.ended_at.is_none() {
            return output::refuse(context, "not_ended", &format!("run {id} has not ended"));
        }
        suites.push(run.suite.clone());
        let checks = opened.store.checks(id).await?.into_iter().map(|check| RunRow {
            kind: check.kind,
            name: check.name,
            case: check.case,
            verdict: check.verdict,
            detail: check.detail,
        });
        let rows = [
            ("verdict", run.verdict),
            ("mode", run.mode),
            ("provider", run.target.provider),
            ("model", run.target.model),
            ("suite_digest", run.suite_digest),
            ("adapter_version", run.adapter_version),
            ("settings_digest", run.settings_digest),
        ];
        facts.push(RunFacts { facts: rows.to_vec(), checks: checks.collect() });
    }
    if suites[0] != suites[1] {
        let why =
            format!("run {before} is of suite {}, run {after} of {}: compare runs of one suite", suites[0], suites[1]);
        return output::refuse(context, "not_comparable", &why);
    }
    let found = diff(&facts[0], &facts[1]);
    if context.json {
        let facts: Vec<_> =
            found.facts.iter().map(|(name, a, b)| json!({ "name": name, "before": a, "after": b })).collect();
        let value = json!({ "before": before, "after": after, "worse": found.is_worse(), "facts": facts, "checks": found.checks });
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        tell(&found);
    }
    Ok(if found.is_worse() { Answer::No } else { Answer::Yes })
}

fn tell(found: &Diff) {
    if found.facts.is_empty() && found.checks.is_empty() {
        println!("nothing changed");
    }
    for (name, before, after) in &found.facts {
        let short = |value: &str| -> String { value.chars().take(32).collect() };
        println!("{name}: {} -> {}", short(before), short(after));
    }
    let mut last = None;
    for difference in &found.checks {
        if last != Some(difference.change) {
            println!("\n{}", difference.change.as_str());
            last = Some(difference.change);
        }
        println!("  {}/{} {}", difference.kind, difference.name, difference.case);
        for (sign, words) in [("-", &difference.before), ("+", &difference.after)] {
            if let Some(words) = words {
                println!("    {sign} {words}");
            }
        }
    }
}
