//! What a run has exercised. A kind of fault that was enabled and never hit fails the run: it has proved nothing of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::dump::Dump;
use crate::faults::Fault;
use crate::history::{Event, Kind};
use crate::wire;

/// What every run must have met at least once, besides the faults.
const NEEDED: [&str; 10] = [
    "client double clicks",
    "client conflicts",
    "client replays",
    "client attaches",
    "client hang-ups",
    "client streams done",
    "client streams broken",
    "operator release",
    "operator cancel",
    "operator fail",
];
const IN_TABLES: [&str; 4] = ["jobs", "attempts", "races", "attempts unknown"];

#[derive(Debug, Default, Clone)]
pub struct Counts {
    by_name: BTreeMap<String, u64>,
}

impl Counts {
    pub fn of(events: &[Event], dump: &Dump) -> Counts {
        let mut counts = Counts::of_events(events);
        counts.put("runs", 1);
        counts.put("jobs", dump.jobs.len());
        counts.put("attempts", dump.attempts.len());
        counts.put("races", dump.races.len());
        for job in &dump.jobs {
            counts.put(&format!("jobs {} at the end", job.state), 1);
        }
        for step in dump.audit.iter().filter(|step| step.attempt.is_some()) {
            counts.put(&format!("attempts {}", step.became), 1);
            if step.was.as_deref().is_some_and(|was| was != "started") && step.became == "succeeded" {
                counts.put("attempts that won late", 1);
            }
        }
        counts
    }

    /// What the history alone tells.
    pub fn of_events(events: &[Event]) -> Counts {
        let mut counts = Counts::default();
        counts.of_clients(events);
        counts.of_the_rest(events);
        counts
    }

    fn put(&mut self, name: &str, n: usize) {
        *self.by_name.entry(name.to_owned()).or_default() += n as u64;
    }

    fn of_clients(&mut self, events: &[Event]) {
        let mut under_way: HashMap<(String, String), usize> = HashMap::new();
        let mut calls: HashMap<u64, (String, String)> = HashMap::new();
        let mut answered = BTreeSet::new();
        for event in events.iter().filter(|e| e.what == "chat" || e.what == "job.create") {
            if event.kind == Kind::Invoke {
                let key = (event.data["owner"].to_string(), event.text("key").to_owned());
                let there = under_way.entry(key.clone()).or_default();
                if *there > 0 {
                    self.put("client double clicks", 1);
                }
                *self.by_name.entry("client calls".to_owned()).or_default() += 1;
                *under_way.entry(key.clone()).or_default() += 1;
                calls.insert(event.op, key);
                continue;
            }
            if let Some(there) = calls.get(&event.op).and_then(|key| under_way.get_mut(key)) {
                *there -= 1;
            }
            let status = event.data["status"].as_u64().unwrap_or_default();
            match (event.text("end"), status) {
                ("hung_up", _) => self.put("client hang-ups", 1),
                ("broken", _) => self.put("client connections broken", 1),
                (_, 409) if event.text("code") == "idempotency_key_conflict" => self.put("client conflicts", 1),
                (_, 504) => self.put("client told unknown", 1),
                (_, 503) => self.put("client told 503", 1),
                (_, 200) if event.is("replayed") => self.put("client replays", 1),
                (_, 200) if !answered.insert(event.text("job").to_owned()) => self.put("client attaches", 1),
                _ => {}
            }
            if event.is("stream") {
                self.put(if event.is("done") { "client streams done" } else { "client streams broken" }, 1);
            }
        }
    }

    fn of_the_rest(&mut self, events: &[Event]) {
        for event in events {
            let done = event.kind == Kind::Ok;
            match event.what {
                "provider.receive" => self.put(&format!("provider {}", event.text("behaviour")), 1),
                "provider.closed_unread" => self.put("provider closed_unread", 1),
                "provider.cut" => self.put("provider connections cut at work", 1),
                "run.stranded" => self.put(
                    "jobs queued that only their client carries on",
                    event.data["jobs"].as_u64().unwrap_or_default() as usize,
                ),
                "gateway.kill" => self.put("gateways killed", 1),
                _ if event.process == "faults" && done => self.put(&format!("fault {}", event.what), 1),
                what if what.starts_with("operator.") && done => self.put(&what.replace('.', " "), 1),
                what if what.starts_with("adversary.") && event.kind != Kind::Invoke => {
                    let outcome = if ["won", "lost", "done"].contains(&event.text("outcome")) {
                        event.text("outcome")
                    } else {
                        "refused"
                    };
                    self.put(&format!("{} {outcome}", what.replace('.', " ")), 1);
                }
                _ => {}
            }
        }
    }

    pub fn add(&mut self, other: &Counts) {
        for (name, n) in &other.by_name {
            *self.by_name.entry(name.clone()).or_default() += n;
        }
    }

    fn get(&self, name: &str) -> u64 {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// What was enabled and never happened.
    pub fn never_hit(&self, enabled: &[Fault]) -> Vec<String> {
        let tables = IN_TABLES.iter().filter(|name| self.get(name) == 0).map(|name| (*name).to_owned());
        let missing = self.missing_events(enabled).into_iter().chain(tables);
        missing.map(|name| format!("COVERAGE: never hit: {name}")).collect()
    }

    /// Of what the history alone tells.
    pub fn missing_events(&self, enabled: &[Fault]) -> BTreeSet<String> {
        let faults = enabled.iter().map(|fault| format!("fault {}", fault.as_str()));
        let providers = wire::WHOLE.iter().chain(&wire::STREAM).map(|how| format!("provider {}", how.as_str()));
        let needed = NEEDED.iter().map(|name| (*name).to_owned());
        faults.chain(providers).chain(needed).filter(|name| self.get(name) == 0).collect()
    }

    /// The most telling ones.
    pub fn line(&self) -> String {
        let of = |name| self.get(name);
        format!(
            "{} jobs, {} attempts, {} unknown, {} races, {} gateway kills, {} Postgres kills",
            of("jobs"),
            of("attempts"),
            of("attempts unknown"),
            of("races"),
            of("fault kill_gateway"),
            of("fault kill_postgres")
        )
    }

    pub fn table(&self) -> String {
        self.by_name.iter().map(|(name, n)| format!("  {name:<46} {n:>8}\n")).collect()
    }
}
