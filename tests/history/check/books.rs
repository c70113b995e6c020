//! What the tables must look like at the end, whatever has happened.

use std::collections::{HashMap, HashSet};

use super::{Record, Violations};

pub fn check(record: &Record<'_>, found: &mut Violations) {
    one_job_per_key(record, found);
    attempts_fit_their_jobs(record, found);
    results_and_races(record, found);
    clearances_have_a_name(record, found);
    acknowledged_starts_exist(record, found);
}

fn one_job_per_key(record: &Record<'_>, found: &mut Violations) {
    let mut by_key: HashMap<(&str, &str), Vec<&str>> = HashMap::new();
    for job in &record.dump.jobs {
        by_key.entry((&job.owner, &job.key)).or_default().push(&job.id);
    }
    for ((owner, key), jobs) in by_key {
        found.unless(jobs.len() == 1, "INV-01", || format!("key {key} of {owner} has {} jobs: {jobs:?}", jobs.len()));
    }
}

fn attempts_fit_their_jobs(record: &Record<'_>, found: &mut Violations) {
    let by_job = record.attempts_of();
    for job in &record.dump.jobs {
        let attempts = by_job.get(job.id.as_str()).map_or(&[][..], Vec::as_slice);
        let among = |states: &[&str]| attempts.iter().filter(|a| states.contains(&a.state.as_str())).count();
        let open = among(&["started", "unknown"]);
        found.unless(open <= 1, "INV-03", || format!("job {} has {open} open attempts", job.id));
        let fits = match job.state.as_str() {
            "running" => open == 1 && among(&["started"]) == 1,
            "unknown" => open == 1 && among(&["unknown"]) == 1,
            "queued" => open == 0,
            // At most until the next clean-up, which runs once a minute.
            _ => true,
        };
        found.unless(fits, "INV-04", || format!("job {} is {} with {open} open attempt(s)", job.id, job.state));
        let winners: Vec<&str> = attempts.iter().filter(|a| a.state == "succeeded").map(|a| a.id.as_str()).collect();
        found.unless(winners.len() <= 1, "INV-05", || format!("job {} has winners {winners:?}", job.id));
        found.unless(winners.first().copied() == job.completed_by.as_deref(), "INV-06", || {
            format!(
                "job {} ({}) is completed by {:?}, its winners are {winners:?}",
                job.id, job.state, job.completed_by
            )
        });
        let gapless = attempts.iter().zip(1..).all(|(a, n)| a.ordinal == n);
        found.unless(gapless, "INV-07", || format!("job {} has gaps or doubles in its ordinals", job.id));
    }
}

fn results_and_races(record: &Record<'_>, found: &mut Violations) {
    let mut results: HashMap<&str, Vec<&str>> = HashMap::new();
    for result in &record.dump.results {
        results.entry(&result.job).or_default().push(&result.attempt);
    }
    for job in &record.dump.jobs {
        let stored = results.get(job.id.as_str()).map_or(&[][..], Vec::as_slice);
        let fits = match &job.completed_by {
            Some(winner) => stored == [winner.as_str()],
            None => stored.is_empty(),
        };
        found.unless(fits, "INV-20", || {
            format!("job {} is completed by {:?}, its results are of {stored:?}", job.id, job.completed_by)
        });
    }
    for race in &record.dump.races {
        let winner = record.jobs.get(race.job.as_str()).and_then(|job| job.completed_by.as_deref());
        found.unless(winner != Some(&race.attempt), "INV-22", || {
            format!("race of job {} names the winner {} a loser", race.job, race.attempt)
        });
        found.unless(race.winner.is_none() || race.winner.as_deref() == winner, "INV-22", || {
            format!("race of job {} names {:?} the winner, which is {winner:?}", race.job, race.winner)
        });
    }
}

fn clearances_have_a_name(record: &Record<'_>, found: &mut Violations) {
    let acted: HashSet<&str> = record.dump.actions.iter().map(|action| action.subject.as_str()).collect();
    for attempt in &record.dump.attempts {
        let cleared = ["released", "superseded", "cancelled"].contains(&attempt.state.as_str());
        let by = attempt.cleared_by.as_deref();
        found.unless(!cleared || by.is_some(), "INV-17", || {
            format!("attempt {} is {} by nobody", attempt.id, attempt.state)
        });
        let operator = by.is_some_and(|by| by.starts_with("operator:"));
        found.unless(!operator || acted.contains(attempt.id.as_str()), "INV-17", || {
            format!("attempt {} is cleared by {by:?}, which no action records", attempt.id)
        });
    }
}

/// INV-19: what was answered stands; here of those who talk to the store.
fn acknowledged_starts_exist(record: &Record<'_>, found: &mut Violations) {
    for what in ["adversary.start", "adversary.admit"] {
        for (call, end) in record.ended(what) {
            let (attempt, done) = (call.text("attempt"), end.text("outcome") == "done");
            // An admission that found another's job is done as well, and has no attempt.
            let there = record.attempts.contains_key(attempt)
                || what == "adversary.admit" && !record.jobs.contains_key(call.text("job"));
            found.unless(!done || there, "INV-19", || {
                format!("acknowledged start {attempt} of job {} is gone", call.text("job"))
            });
        }
    }
    for (call, end) in record.ended("adversary.complete") {
        let won = end.text("outcome") == "won";
        let winner = record.jobs.get(call.text("job")).and_then(|job| job.completed_by.as_deref());
        found.unless(!won || winner == Some(call.text("attempt")), "INV-20", || {
            format!(
                "{} was told that it has won job {}, which is completed by {winner:?}",
                call.text("attempt"),
                call.text("job")
            )
        });
    }
    for (call, end) in record.ended("adversary.fail") {
        let state = record.attempts.get(call.text("attempt")).map(|a| a.state.as_str());
        found.unless(end.text("outcome") != "done" || state == Some("failed"), "INV-10", || {
            format!("attempt {} was acknowledged as failed and is {state:?}", call.text("attempt"))
        });
    }
}
