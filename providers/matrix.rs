//! What of the client's dialect each wire format carries: every feature against every format, one cell each.
//!
//! A cell is `yes` (what goes out differs from the same request without the feature, and holds its marks in their
//! order), the parameter by which it is refused, or `–` where the feature belongs to another vendor. There is no fourth:
//! a request that goes out as if the feature had not been asked for is dropped silently, and fails the test. The table
//! stands in `fixtures/matrix.md`, so that every change of it is seen.

mod answers;
mod features;

use std::collections::BTreeMap;
use std::path::Path;

use crate::adapter::{Adapter, CallContext, UpstreamRequest};
use crate::compatible::adapter_named;
use crate::fixtures::PROVIDERS;
use crate::json::Json;
use crate::openai::request::parse;
use features::{FEATURES, Feature};

/// Rows beside those that have fixtures, which are every wire format's.
const MORE: &[&str] = &["vertex", "mistral", "vllm", "llama-cpp", "tgi"];

fn formats() -> Vec<&'static str> {
    PROVIDERS.iter().map(|(name, _)| *name).chain(MORE.iter().copied()).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cell {
    Yes,
    /// By this parameter.
    Refused(String),
    /// The mark of one vendor, which means nothing to this one.
    NotApplicable,
    Dropped(String),
}

fn send(adapter: &dyn Adapter, members: &str) -> Result<UpstreamRequest, String> {
    let text = format!(r#"{{"model":"m",{members}}}"#);
    let body = Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let request = parse(body.into_object().unwrap()).map_err(|refusal| refusal.param)?;
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    adapter.to_upstream(&request, &context).map_err(|refusal| {
        assert!(!refusal.why.is_empty(), "a refusal says what to do");
        refusal.param
    })
}

fn cell(feature: &Feature, format: &str) -> Cell {
    let adapter = adapter_named(format).unwrap();
    let sent = match send(adapter.as_ref(), feature.with) {
        Ok(sent) => sent,
        Err(param) if feature.names.iter().any(|name| param.starts_with(name)) => return Cell::Refused(param),
        Err(param) => return Cell::Dropped(format!("refused as `{param}`, which does not name it")),
    };
    if !feature.of.is_empty() && !feature.of.contains(&format) {
        let body = String::from_utf8_lossy(&sent.body);
        let leaks = feature.marks.last().is_some_and(|mark| body.contains(mark));
        return if leaks { Cell::Dropped("another vendor's mark is sent".to_owned()) } else { Cell::NotApplicable };
    }
    let bare = send(adapter.as_ref(), feature.without).unwrap();
    let same = (&sent.path, &sent.body) == (&bare.path, &bare.body);
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

#[test]
fn every_feature_is_carried_or_refused_by_name_in_every_format_and_none_is_dropped() {
    let formats = formats();
    let mut dropped = Vec::new();
    let mut totals = BTreeMap::from([("yes", 0), ("refused by name", 0), ("not applicable", 0)]);
    let mut rows = Vec::new();
    for feature in FEATURES {
        let cells = formats.iter().map(|format| match cell(feature, format) {
            Cell::Yes => (*totals.get_mut("yes").unwrap() += 1, "yes".to_owned()).1,
            Cell::Refused(param) => (*totals.get_mut("refused by name").unwrap() += 1, format!("`{param}`")).1,
            Cell::NotApplicable => (*totals.get_mut("not applicable").unwrap() += 1, "–".to_owned()).1,
            Cell::Dropped(why) => {
                dropped.push(format!("{} to {format}: {why}", feature.name));
                "DROPPED".to_owned()
            }
        });
        rows.push(format!("| {} | {} |", feature.name, cells.collect::<Vec<_>>().join(" | ")));
    }
    println!("{} features in {} formats: {totals:?}, {} dropped", FEATURES.len(), formats.len(), dropped.len());
    assert!(dropped.is_empty(), "{}", dropped.join("\n"));
    let summary: Vec<String> = totals.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let table = format!(
        "{INTRODUCTION}\n{} features in {} formats: {}, 0 dropped.\n\n| | {} |\n|---{}|\n{}\n",
        FEATURES.len(),
        formats.len(),
        summary.join(", "),
        formats.join(" | "),
        "|---".repeat(formats.len()),
        rows.join("\n")
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/matrix.md");
    if std::env::var_os("INTERLOCK_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, table, "fixtures/matrix.md is not true any more: set INTERLOCK_WRITE_FIXTURES, and read it");
}

const INTRODUCTION: &str = "# What each wire format carries of a chat completion

Written by `providers/matrix.rs`, which fails when it is not true any more. `yes`: it is sent. A name: the request is
refused with a 400 that names this parameter. `–`: one vendor's own mark, which goes to no other.
";
