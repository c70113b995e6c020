//! What the clients were told, against each other and against what stands at the end.

use std::collections::HashMap;

use serde_json::Value;

use crate::dump::Job;
use crate::history::Event;

use super::{Record, Violations};

const TERMINAL: [&str; 3] = ["succeeded", "failed", "cancelled"];

pub fn check(record: &Record<'_>, found: &mut Violations) {
    one_job_for_one_intent(record, found);
    conflicts_are_conflicts(record, found);
    same_bytes_for_ever(record, found);
    broken_streams_are_beginnings(record, found);
    reads_never_go_back(record, found);
    owners_are_strangers(record, found);
}

/// Submissions that were told of a job: the call, what came back, and the job.
fn accepted<'a>(record: &'a Record<'_>) -> impl Iterator<Item = (&'a Event, &'a Event, &'a str)> {
    let all = ["chat", "job.create"].into_iter().flat_map(|what| record.ended(what));
    all.filter(|(_, end)| end.data["status"].as_u64().is_some_and(|s| s < 300))
        .filter_map(|(call, end)| Some((call, end, end.data["job"].as_str()?)))
}

/// What the job was made for: the first caller's words, and by which endpoint.
pub fn intent_of(job: &Job) -> (String, &'static str) {
    let request: Value = job.request.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let tag = request["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    (tag, if job.delivery == "async" { "job.create" } else { "chat" })
}

/// INV-02, INV-19.
fn one_job_for_one_intent(record: &Record<'_>, found: &mut Violations) {
    let mut by_key: HashMap<(u64, &str), &str> = HashMap::new();
    for (call, _, job) in accepted(record) {
        let key = (call.data["owner"].as_u64().unwrap_or_default(), call.text("key"));
        let first = *by_key.entry(key).or_insert(job);
        found.unless(first == job, "INV-02", || format!("key {} named job {first}, then job {job}", key.1));
        let Some(row) = record.jobs.get(job) else {
            found.add("INV-19", format!("job {job} was acknowledged and is gone"));
            continue;
        };
        let (tag, endpoint) = intent_of(row);
        found.unless(tag == call.text("tag") && endpoint == call.what, "INV-02", || {
            format!("job {job} is for {tag} and was given to {} ({})", call.text("tag"), call.what)
        });
    }
}

/// INV-02: a conflict is another payload, and names the job that has the key.
fn conflicts_are_conflicts(record: &Record<'_>, found: &mut Violations) {
    for (call, end) in ["chat", "job.create"].into_iter().flat_map(|what| record.ended(what)) {
        if end.text("code") != "idempotency_key_conflict" {
            continue;
        }
        let Some(job) = record.jobs.get(end.text("named_job")) else {
            found.add("INV-02", format!("a conflict names job {:?}, which is none", end.data["named_job"]));
            continue;
        };
        let (tag, endpoint) = intent_of(job);
        found.unless(job.key == call.text("key"), "INV-02", || {
            format!("the conflict on {} names job {} of key {}", call.text("key"), job.id, job.key)
        });
        found.unless(tag != call.text("tag") || endpoint != call.what, "INV-02", || {
            format!("key {} was refused for the very payload of its job {}", call.text("key"), job.id)
        });
    }
}

/// The complete answers of each job by form: `whole`, `stream`, `usage`.
fn answers<'a>(record: &'a Record<'_>) -> HashMap<(&'a str, &'a str), Vec<&'a Event>> {
    let mut by_form: HashMap<(&str, &str), Vec<&Event>> = HashMap::new();
    let is_whole = |end: &Event| end.text("end") == "whole" && end.data["status"] == 200;
    for (call, end, job) in accepted(record).filter(|(call, end, _)| call.what == "chat" && is_whole(end)) {
        let form = call.text("form");
        if form == "whole" || end.is("done") {
            by_form.entry((job, form)).or_default().push(end);
        }
    }
    for (call, end) in record.ended("job.result").filter(|(_, end)| is_whole(end)) {
        by_form.entry((call.text("job"), "whole")).or_default().push(end);
    }
    by_form
}

/// INV-20, INV-21: one answer per job and form, the winner's, and what was answered stands.
fn same_bytes_for_ever(record: &Record<'_>, found: &mut Violations) {
    let stored: HashMap<&str, &str> = record.dump.results.iter().map(|r| (r.job.as_str(), r.body.as_str())).collect();
    for ((job, form), ends) in answers(record) {
        let first = ends[0].text("body");
        for end in &ends {
            found.unless(end.text("body") == first, "INV-21", || {
                format!("job {job} was answered ({form}) with\n{first}\nand then with\n{}", end.text("body"))
            });
            let winner = record.jobs.get(job).and_then(|row| row.completed_by.as_deref());
            found.unless(winner == Some(end.text("attempt")), "INV-20", || {
                format!(
                    "job {job} was answered ({form}) by attempt {} and is completed by {winner:?}",
                    end.text("attempt")
                )
            });
        }
        found.unless(form != "whole" || stored.get(job) == Some(&first), "INV-20", || {
            format!("job {job} was answered with\n{first}\nand holds\n{:?}", stored.get(job))
        });
    }
}

/// INV-28: what a broken stream has shown is the beginning of what its attempt's whole stream shows.
fn broken_streams_are_beginnings(record: &Record<'_>, found: &mut Violations) {
    let whole = answers(record);
    for (call, end, job) in accepted(record).filter(|(_, end, _)| end.is("stream") && !end.is("done")) {
        let Some(full) = whole.get(&(job, call.text("form"))).map(|ends| ends[0]) else { continue };
        let mut shown: Vec<&str> =
            end.text("body").split_inclusive("\n\n").filter(|frame| frame.ends_with("\n\n")).collect();
        shown.retain(|frame| !frame.starts_with("data: {\"error\""));
        let is_beginning = full.text("body").starts_with(&shown.concat());
        found.unless(end.text("attempt") != full.text("attempt") || is_beginning, "INV-28", || {
            format!(
                "a broken stream of job {job} shows\n{}\nwhich is no beginning of\n{}",
                shown.concat(),
                full.text("body")
            )
        });
    }
}

/// INV-10, INV-21: in the order of real time.
fn reads_never_go_back(record: &Record<'_>, found: &mut Violations) {
    let mut reads: HashMap<&str, Vec<(u64, u64, Value)>> = HashMap::new();
    for (call, end) in ["job.read", "job.wait"].into_iter().flat_map(|what| record.ended(what)) {
        if end.data["status"] == 200 && end.text("end") == "whole" {
            let body = serde_json::from_str(end.text("body")).unwrap_or_default();
            reads.entry(call.text("job")).or_default().push((call.at, end.at, body));
        }
    }
    for (job, mut seen) in reads {
        seen.sort_by_key(|(_, ended, _)| *ended);
        for (n, (invoked, _, now)) in seen.iter().enumerate() {
            for (_, ended, then) in &seen[..n] {
                if ended >= invoked {
                    continue;
                }
                let terminal = then["state"].as_str().is_some_and(|s| TERMINAL.contains(&s));
                let same = ["state", "version", "completed_by"].iter().all(|f| then[f] == now[f]);
                found.unless(!terminal || same, "INV-21", || {
                    format!("job {job} was read as {} and later as {}", then["state"], now["state"])
                });
                let risen = now["version"].as_i64() >= then["version"].as_i64();
                found.unless(risen, "INV-21", || {
                    format!("job {job}'s version was read as {} and later as {}", then["version"], now["version"])
                });
            }
            let last = record.jobs.get(job).map(|row| row.state.as_str());
            let terminal = now["state"].as_str().is_some_and(|s| TERMINAL.contains(&s));
            found.unless(!terminal || last == now["state"].as_str(), "INV-10", || {
                format!("job {job} was read as {} and ends as {last:?}", now["state"])
            });
        }
    }
    for (call, _) in record
        .ended("job.cancel")
        .filter(|(call, end)| call.data["asker"] == call.data["owner"] && end.data["status"] == 200)
    {
        let last = record.jobs.get(call.text("job")).map(|row| row.state.as_str());
        found.unless(last == Some("cancelled"), "INV-10", || {
            format!("job {} was cancelled and ends as {last:?}", call.text("job"))
        });
    }
}

/// INV-25: a foreign job is not there, and nobody gets another's words.
fn owners_are_strangers(record: &Record<'_>, found: &mut Violations) {
    for what in ["job.read", "job.result", "job.cancel"] {
        for (call, end) in record.ended(what).filter(|(call, _)| call.data["asker"] != call.data["owner"]) {
            let status = end.data["status"].as_u64().unwrap_or(503);
            found.unless(matches!(status, 404 | 500..), "INV-25", || {
                format!("{what} of another owner's job {} was answered with {status}", call.text("job"))
            });
        }
    }
    for (call, end, job) in accepted(record) {
        let strangers =
            ["<acme/", "<umbrella/"].into_iter().enumerate().filter(|(n, _)| call.data["owner"] != *n as u64);
        for (_, mark) in strangers {
            found.unless(!end.text("body").contains(mark), "INV-25", || {
                format!("job {job} was answered with another owner's words")
            });
        }
    }
}
