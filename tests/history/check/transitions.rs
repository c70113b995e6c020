//! Every transition of every job and attempt, in the order of their commits.

use std::collections::{HashMap, HashSet};

use crate::dump::Step;

use super::{Record, Violations};

const LEGAL: [(&str, &[&str]); 8] = [
    ("-", &["started"]),
    ("started", &["succeeded", "failed", "unknown", "released", "cancelled"]),
    ("unknown", &["succeeded", "failed", "released", "cancelled"]),
    ("released", &["succeeded", "failed", "superseded"]),
    ("succeeded", &[]),
    ("failed", &[]),
    ("cancelled", &[]),
    ("superseded", &[]),
];

/// Reasons of an attempt of which nobody knows what became; none of them proves a failure (R5).
const NO_PROOF: [&str; 8] = [
    "attempt_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "instance_lost",
    "deadline_passed",
    "shutdown",
    "not_stored",
    "settle_timeout",
];

/// How long a statement of a killed process may still run in the database.
const LAST_STATEMENT: i64 = 6_000_000;

pub fn check(record: &Record<'_>, found: &mut Violations) {
    let mut by_job: HashMap<&str, Vec<&Step>> = HashMap::new();
    for step in &record.dump.audit {
        by_job.entry(&step.job).or_default().push(step);
    }
    let worked = record.noted("provider.receive").filter(|e| e.is("works")).map(|e| e.text("attempt")).collect();
    for (job, steps) in &by_job {
        one_job(job, steps, found);
        starts_follow_proof(&worked, job, steps, found);
    }
    no_failure_without_proof(record, found);
    killed_processes_fail_nothing(record, found);
}

fn one_job(job: &str, steps: &[&Step], found: &mut Violations) {
    let mut state = "-";
    let mut version = -1;
    let mut attempts: HashMap<&str, &str> = HashMap::new();
    for (n, step) in steps.iter().enumerate() {
        match &step.attempt {
            None => {
                let terminal = ["succeeded", "failed", "cancelled"].contains(&state);
                let changed = state != step.became || version != step.version.unwrap_or_default();
                found.unless(!terminal || !changed, "INV-10", || {
                    format!("job {job} was {state} and became {}", step.became)
                });
                let step_version = step.version.unwrap_or_default();
                found.unless(step_version >= version, "INV-10", || {
                    format!("job {job}'s version fell from {version} to {step_version}")
                });
                (state, version) = (&step.became, step_version);
            }
            Some(attempt) => {
                let was = attempts.insert(attempt, &step.became).unwrap_or("-");
                let legal = LEGAL
                    .iter()
                    .find(|(from, _)| *from == was)
                    .is_some_and(|(_, to)| to.contains(&step.became.as_str()));
                let invariant =
                    if ["succeeded", "failed", "cancelled", "superseded"].contains(&was) { "INV-10" } else { "INV-09" };
                found.unless(legal, invariant, || {
                    format!("attempt {attempt} of job {job} was {was} and became {} ({:?})", step.became, step.reason)
                });
                let closed = ["succeeded", "failed", "cancelled"].contains(&state);
                found.unless(was != "-" || !closed, "INV-11", || {
                    format!("attempt {attempt} started on job {job}, which is {state}")
                });
            }
        }
        // What one statement does, it does at once.
        let committed = steps.get(n + 1).is_none_or(|next| next.tx != step.tx);
        let open = attempts.values().filter(|s| ["started", "unknown"].contains(*s)).count();
        found
            .unless(!committed || open <= 1, "INV-03", || format!("job {job} had {open} open attempts at {}", step.at));
    }
}

/// INV-15: a further attempt starts only when each before it has failed by a proof, or was cleared by name.
fn starts_follow_proof(worked: &HashSet<&str>, job: &str, steps: &[&Step], found: &mut Violations) {
    let mut last: HashMap<&str, &Step> = HashMap::new();
    for step in steps {
        let Some(attempt) = step.attempt.as_deref() else { continue };
        if step.was.is_none() {
            for (before, then) in &last {
                let by_name = then.cleared_by.is_some();
                let proven = then.became == "failed"
                    && (!worked.contains(before) || then.proof.as_deref() == Some("ended_without_result"));
                found.unless(by_name || proven, "INV-15", || {
                    format!(
                        "attempt {attempt} of job {job} started after {before}, which was {} ({:?}, {:?}){}",
                        then.became,
                        then.reason,
                        then.proof,
                        if worked.contains(before) { " and had worked" } else { "" }
                    )
                });
            }
        }
        last.insert(attempt, step);
    }
}

fn no_failure_without_proof(record: &Record<'_>, found: &mut Violations) {
    for step in record.dump.audit.iter().filter(|s| s.attempt.is_some() && s.became == "failed") {
        let reason = step.reason.as_deref().unwrap_or_default();
        let attempt = step.attempt.as_deref().unwrap_or_default();
        found.unless(!NO_PROOF.contains(&reason), "INV-16", || {
            format!("attempt {attempt} failed for {reason}, which proves nothing")
        });
        found.unless(step.proof.is_some(), "INV-16", || format!("attempt {attempt} failed without a proof ({reason})"));
    }
}

/// INV-18: nobody fails an attempt of a process that was killed, except an operator.
fn killed_processes_fail_nothing(record: &Record<'_>, found: &mut Violations) {
    for killed in record.noted("gateway.kill") {
        let pid = killed.data["pid"].as_i64().unwrap_or_default();
        let of_it = |id: &str| record.attempts.get(id).is_some_and(|a| a.pid == pid && a.host != "adversary");
        let late = |s: &&Step| s.at > killed.wall + LAST_STATEMENT && s.attempt.as_deref().is_some_and(of_it);
        for step in record.dump.audit.iter().filter(late) {
            let by_operator = step.reason.as_deref() == Some("operator");
            let wrong = step.became == "failed" && !by_operator || step.became == "succeeded" || step.was.is_none();
            found.unless(!wrong, "INV-18", || {
                format!(
                    "attempt {:?} of killed process {pid} became {} ({:?}) after its death",
                    step.attempt, step.became, step.reason
                )
            });
        }
    }
}
