//! The checker: pure, over the history, the providers' log (part of it) and the database at the end. Each violation
//! begins with the invariant's name from the list in README.md.

mod answers;
mod books;
mod evidence;
mod transitions;

use std::collections::HashMap;

pub use answers::intent_of;

use crate::dump::{Attempt, Dump, Job};
use crate::history::{Event, Kind};

/// The most that is said of one invariant.
const SAID: usize = 5;

/// The record, indexed.
struct Record<'a> {
    events: &'a [Event],
    dump: &'a Dump,
    jobs: HashMap<&'a str, &'a Job>,
    attempts: HashMap<&'a str, &'a Attempt>,
    /// The arguments of each operation.
    invoked: HashMap<u64, &'a Event>,
}

impl<'a> Record<'a> {
    fn of(events: &'a [Event], dump: &'a Dump) -> Record<'a> {
        Record {
            events,
            dump,
            jobs: dump.jobs.iter().map(|job| (job.id.as_str(), job)).collect(),
            attempts: dump.attempts.iter().map(|attempt| (attempt.id.as_str(), attempt)).collect(),
            invoked: events.iter().filter(|e| e.kind == Kind::Invoke).map(|e| (e.op, e)).collect(),
        }
    }

    /// Operations of this kind that have ended, with their arguments.
    fn ended(&self, what: &'static str) -> impl Iterator<Item = (&'a Event, &'a Event)> {
        let ends = self.events.iter().filter(move |e| e.kind != Kind::Invoke && e.op > 0 && e.what == what);
        ends.filter_map(|end| Some((*self.invoked.get(&end.op)?, end)))
    }

    fn noted(&self, what: &'static str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |e| e.what == what)
    }

    fn attempts_of(&self) -> HashMap<&'a str, Vec<&'a Attempt>> {
        let mut by_job: HashMap<&str, Vec<&Attempt>> = HashMap::new();
        for attempt in &self.dump.attempts {
            by_job.entry(&attempt.job).or_default().push(attempt);
        }
        by_job.values_mut().for_each(|attempts| attempts.sort_by_key(|a| a.ordinal));
        by_job
    }
}

/// What does not hold.
struct Violations {
    all: Vec<(&'static str, String)>,
}

impl Violations {
    fn add(&mut self, invariant: &'static str, what: String) {
        self.all.push((invariant, what));
    }

    fn unless(&mut self, holds: bool, invariant: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(invariant, what());
        }
    }
}

pub fn check(events: &[Event], dump: &Dump) -> Vec<String> {
    let record = Record::of(events, dump);
    let mut found = Violations { all: Vec::new() };
    books::check(&record, &mut found);
    transitions::check(&record, &mut found);
    evidence::check(&record, &mut found);
    answers::check(&record, &mut found);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (invariant, _) in &found.all {
        *counts.entry(invariant).or_default() += 1;
    }
    let mut said: HashMap<&str, usize> = HashMap::new();
    let mut lines = Vec::new();
    for (invariant, what) in &found.all {
        let n = said.entry(invariant).or_default();
        *n += 1;
        if *n <= SAID {
            lines.push(format!("{invariant} ({n} of {}): {what}", counts[invariant]));
        }
    }
    lines
}
