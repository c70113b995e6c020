//! What of each client's dialect each wire format carries: every feature against every format, one cell each; and the
//! way back, in `answers`.
//!
//! A cell is `yes` (what goes out differs from the same request without the feature, and holds its marks in their
//! order), the parameter by which it is refused, or `–` where the feature belongs to another vendor or to the gateway
//! itself. There is no fourth: a request that goes out as if the feature had not been asked for is dropped silently, and
//! fails the test. The tables stand in `fixtures/matrix.md`, so that every change of them is seen.

pub(crate) mod answers;
mod embeddings;
mod errors;
mod features;
mod messages;
mod newcomers;
mod responses;
mod returned;
pub(crate) mod samples;
mod values;

use std::path::Path;

use crate::adapter::{Adapter, CallContext, UpstreamRequest};
use crate::compatible::adapter_named;
use crate::dialects::{Dialect, to_upstream};
use crate::fixtures::PROVIDERS;
use crate::json::Json;
use features::Feature;

/// Rows beside those that have fixtures, which are every wire format's.
const MORE: &[&str] = &["vertex", "mistral", "vllm", "llama-cpp", "tgi"];

const TABLES: [(Dialect, &str, &[Feature]); 4] = [
    (Dialect::Chat, "OpenAI chat completions", features::FEATURES),
    (Dialect::Responses, "OpenAI responses", responses::FEATURES),
    (Dialect::Messages, "Anthropic messages", messages::FEATURES),
    (Dialect::Embeddings, "OpenAI embeddings", embeddings::FEATURES),
];

fn formats() -> Vec<&'static str> {
    PROVIDERS.iter().map(|(name, _)| *name).chain(MORE.iter().copied()).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cell {
    Yes,
    /// By this parameter; in answers, for this reason.
    Refused(String),
    /// The mark of one vendor, which means nothing to this one.
    NotApplicable,
    Dropped(String),
}

/// How many cells there are of each kind.
#[derive(Debug, Default)]
struct Totals {
    yes: usize,
    refused: usize,
    not_applicable: usize,
    dropped: Vec<String>,
}

impl Totals {
    /// The cell as it is written.
    fn add(&mut self, of: &str, cell: Cell) -> String {
        match cell {
            Cell::Yes => (self.yes += 1, "yes".to_owned()).1,
            Cell::Refused(param) => (self.refused += 1, format!("`{param}`")).1,
            Cell::NotApplicable => (self.not_applicable += 1, "–".to_owned()).1,
            Cell::Dropped(why) => (self.dropped.push(format!("{of}: {why}")), "DROPPED".to_owned()).1,
        }
    }

    fn line(&self, refused: &str) -> String {
        let (yes, no) = (self.yes, self.not_applicable);
        format!("{yes} yes, {} {refused}, {no} not applicable, {} dropped", self.refused, self.dropped.len())
    }
}

fn send(dialect: Dialect, adapter: &dyn Adapter, members: &str) -> Result<UpstreamRequest, String> {
    let text = format!(r#"{{"model":"m",{members}}}"#);
    let body = Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let request = dialect.parse(body.into_object().unwrap()).map_err(|refusal| {
        assert!(!refusal.message.is_empty(), "a refusal says what to do");
        refusal.param
    })?;
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    to_upstream(adapter, &request, &context).map_err(|refusal| {
        assert!(!refusal.why.is_empty(), "a refusal says what to do");
        refusal.param
    })
}

fn cell(dialect: Dialect, feature: &Feature, format: &str) -> Cell {
    let adapter = adapter_named(format).unwrap();
    let sent = match send(dialect, adapter.as_ref(), feature.with) {
        Ok(sent) => sent,
        Err(param) if feature.names.iter().any(|name| param.starts_with(name)) => return Cell::Refused(param),
        Err(param) => return Cell::Dropped(format!("refused as `{param}`, which does not name it")),
    };
    let bare = send(dialect, adapter.as_ref(), feature.without).unwrap();
    let same = (&sent.path, &sent.body) == (&bare.path, &bare.body);
    if feature.ours {
        return if same { Cell::NotApplicable } else { Cell::Dropped("is sent to a provider".to_owned()) };
    }
    if !feature.of.is_empty() && !feature.of.contains(&format) {
        let body = String::from_utf8_lossy(&sent.body);
        let leaks = feature.marks.last().is_some_and(|mark| body.contains(mark));
        return if leaks { Cell::Dropped("another vendor's mark is sent".to_owned()) } else { Cell::NotApplicable };
    }
    assert!(same || !feature.always.contains(&format), "{} does nothing always in {format}", feature.name);
    if same && !feature.always.contains(&format) {
        return Cell::Dropped("sent as if it had not been asked for".to_owned());
    }
    let body = String::from_utf8(sent.body.to_vec()).unwrap();
    let mut rest = body.as_str();
    for mark in feature.marks {
        match rest.find(mark) {
            Some(at) => rest = &rest[at + mark.len()..],
            None => return Cell::Dropped(format!("`{mark}` is missing or out of order in {body}")),
        }
    }
    Cell::Yes
}

/// A table of requests, with its totals.
fn requests(dialect: Dialect, features: &[Feature], formats: &[&str]) -> (String, Totals) {
    let mut totals = Totals::default();
    let mut table = head(formats);
    for feature in features {
        let cells = formats.iter().map(|format| {
            let of = format!("{}: {} to {format}", dialect.url(), feature.name);
            totals.add(&of, cell(dialect, feature, format))
        });
        let cells: Vec<String> = cells.collect();
        table.push_str(&format!("| {} | {} |\n", feature.name, cells.join(" | ")));
    }
    (table, totals)
}

fn head(formats: &[&str]) -> String {
    format!("| | {} |\n|---{}|\n", formats.join(" | "), "|---".repeat(formats.len()))
}

#[test]
fn every_feature_of_every_dialect_survives_the_trip_or_is_refused_by_name_and_none_is_dropped() {
    let formats = formats();
    let (mut summary, mut body, mut dropped) = (String::new(), String::new(), Vec::new());
    for (dialect, title, features) in TABLES {
        let (table, totals) = requests(dialect, features, &formats);
        let line =
            format!("{} features in {} formats: {}", features.len(), formats.len(), totals.line("refused by name"));
        summary.push_str(&format!("- {title}, requests: {line}\n"));
        body.push_str(&format!("\n## {title}: requests\n\n{table}"));
        dropped.extend(totals.dropped);
    }
    for (title, table, totals) in answers::tables().into_iter().chain([errors::table()]) {
        summary.push_str(&format!("- {title}: {}\n", totals.line("without a place")));
        body.push_str(&format!("\n## {title}\n\n{table}"));
        dropped.extend(totals.dropped);
    }
    println!("{summary}");
    assert!(dropped.is_empty(), "{}\n{} dropped", dropped.join("\n"), dropped.len());
    let written = format!("{INTRODUCTION}\n{summary}\n{}{body}", answers::reasons());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/matrix.md");
    if std::env::var_os("INTERLOCK_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == written, "fixtures/matrix.md is not true any more: set INTERLOCK_WRITE_FIXTURES, and read it");
}

const INTRODUCTION: &str = "# What survives the trip

Written by `providers/matrix.rs`, which fails when it is not true any more.

Requests, of each dialect to each wire format. `yes`: it is sent. A name: the request is refused with a 400 that names
this parameter. `–`: one vendor's own mark, which goes to no other, or the gateway's own work, which goes to none.

Answers, of each wire format to each dialect, whole and streamed. `yes`: its value stands at its place. A word: the
dialect has no place for it, for the reason given below. `–`: the format has no such thing.
";
