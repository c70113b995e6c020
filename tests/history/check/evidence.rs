//! What the providers saw, against what the database says of it.

use std::collections::{HashMap, HashSet};

use crate::history::Event;

use super::{Record, Violations};

pub fn check(record: &Record<'_>, found: &mut Violations) {
    let mut received: HashMap<&str, Vec<&Event>> = HashMap::new();
    for event in record.noted("provider.receive") {
        received.entry(event.text("attempt")).or_default().push(event);
    }
    for (attempt, events) in &received {
        found.unless(events.len() == 1, "INV-14", || format!("providers saw attempt {attempt} {} times", events.len()));
        let event = events[0];
        found.unless(event.text("row") != "absent", "INV-13", || {
            format!("{} got attempt {attempt} before its start was committed", event.process)
        });
        let row = record.attempts.get(attempt);
        found.unless(row.is_some(), "INV-13", || format!("{} got attempt {attempt}, which has no row", event.process));
        let Some(row) = row else { continue };
        found.unless(row.started <= event.wall, "INV-13", || {
            format!("attempt {attempt} was received {} µs before it started", row.started - event.wall)
        });
        found.unless(event.process == "adversary" || row.provider == event.process, "INV-13", || {
            format!("attempt {attempt} is of {} and went to {}", row.provider, event.process)
        });
    }
    failures_fit_what_providers_did(record, &received, found);
    discarded_answers_are_logged(record, found);
    winners_gave_the_answer(record, &received, found);
}

/// INV-16: the proof of a failure is what the provider really did.
fn failures_fit_what_providers_did(record: &Record<'_>, received: &HashMap<&str, Vec<&Event>>, found: &mut Violations) {
    for attempt in record.dump.attempts.iter().filter(|a| a.state == "failed" && a.cleared_by.is_none()) {
        let seen = received.get(attempt.id.as_str()).map(|events| events[0].text("behaviour"));
        let fits = match attempt.proof.as_deref().unwrap_or_default() {
            "not_sent" | "refused" => seen.is_none(),
            "ended_without_result" => matches!(seen, Some("error_500" | "error_event" | "adversary")),
            proof if proof.starts_with("rejected:") => matches!(seen, Some("overloaded" | "bad_request")),
            _ => false,
        };
        found.unless(fits, "INV-16", || {
            format!(
                "attempt {} failed as {:?} ({:?}), but the provider did {seen:?}",
                attempt.id, attempt.proof, attempt.reason
            )
        });
    }
}

/// INV-22: a complete answer that has not won stands in `races`, if its process lived to read it.
fn discarded_answers_are_logged(record: &Record<'_>, found: &mut Violations) {
    let gone: HashSet<i64> = record.noted("gateway.gone").filter_map(|e| e.data["pid"].as_i64()).collect();
    let logged: HashSet<&str> = record.dump.races.iter().map(|race| race.attempt.as_str()).collect();
    let cut: HashSet<&str> = record.noted("provider.cut").map(|e| e.text("attempt")).collect();
    for event in record.noted("provider.reply").filter(|e| e.is("whole")) {
        let Some(attempt) = record.attempts.get(event.text("attempt")) else { continue };
        let winner = record.jobs.get(attempt.job.as_str()).and_then(|job| job.completed_by.as_deref());
        let died = gone.contains(&attempt.pid) || cut.contains(attempt.id.as_str());
        found.unless(died || winner == Some(&attempt.id) || logged.contains(attempt.id.as_str()), "INV-22", || {
            format!(
                "attempt {} ({}) was answered, has not won job {} and is in no race",
                attempt.id, attempt.state, attempt.job
            )
        });
    }
    for (call, end) in record.ended("adversary.lose_race") {
        let attempt = call.text("attempt");
        found.unless(end.text("outcome") != "done" || logged.contains(attempt), "INV-22", || {
            format!("the acknowledged race of {attempt} is gone")
        });
    }
}

/// INV-28: the stored answer is what the winner's provider said, to this intent.
fn winners_gave_the_answer(record: &Record<'_>, received: &HashMap<&str, Vec<&Event>>, found: &mut Violations) {
    for result in &record.dump.results {
        let Some(job) = record.jobs.get(result.job.as_str()) else { continue };
        let mine = result.body.contains(&format!("attempt={}", result.attempt));
        found.unless(mine, "INV-28", || format!("the answer of job {} is not its winner's: {}", job.id, result.body));
        let by = received.get(result.attempt.as_str()).map(|events| events[0]);
        found.unless(by.is_some_and(|e| e.is("works")), "INV-28", || {
            format!("the winner of job {} worked nowhere", job.id)
        });
        let (tag, _) = super::answers::intent_of(job);
        let honest = by.is_none_or(|e| e.process == "adversary") || result.body.contains(&tag);
        found.unless(honest, "INV-28", || {
            format!("the answer of job {} is to another question: {}", job.id, result.body)
        });
    }
}
