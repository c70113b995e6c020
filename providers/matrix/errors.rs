//! Errors of every class: the provider's own words reach the client, and no key that they repeat does.
//!
//! How a failure is shown in each dialect is the application's table of errors; what it shows is the message tested here.

use serde_json::Value;

use super::{Cell, Totals, head};
use crate::compatible::adapter_named;
use crate::fixtures::{self, PROVIDERS};

/// The classes, by their fixtures' names.
const CLASSES: [&str; 6] = ["auth", "bad_request", "context_length", "rate_limited", "overloaded", "server_error"];

/// A key that a provider repeats, as careless ones do.
const KEY: &str = "sk-proj-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4";

/// The same body with a key behind the provider's words.
fn with_key(body: &Value, words: &str) -> Option<Value> {
    let text = body.to_string();
    // What the provider masked itself is masked again.
    let words = words.split("[secret]").last()?;
    let words = serde_json::to_string(words).unwrap();
    let words = words.trim_matches('"');
    text.contains(words).then(|| serde_json::from_str(&text.replace(words, &format!("{words} Key: {KEY}"))).unwrap())
}

fn cell(format: &str, class: &str) -> Cell {
    let fixture = fixtures::read(format, class);
    let (Some(words), mut response) = (fixture["failure"]["message"].as_str(), fixture["response"].clone()) else {
        return Cell::Dropped("the fixture is no failure".to_owned());
    };
    let adapter = adapter_named(format).unwrap();
    let failure = adapter.from_failure(&fixtures::head(&response), &fixtures::body(&response));
    if failure.message != words || format!("{:?}", failure.proof) != fixture["failure"]["proof"].as_str().unwrap() {
        return Cell::Dropped(format!("{failure:?} is not {words}"));
    }
    let Some(body) = with_key(&response["body"], words) else {
        return Cell::Dropped(format!("the provider did not say: {words}"));
    };
    response["body"] = body;
    let failure = adapter.from_failure(&fixtures::head(&response), &fixtures::body(&response));
    match (failure.message.contains(words), failure.message.contains(&KEY[8..])) {
        (true, false) => Cell::Yes,
        (false, _) => Cell::Dropped(format!("{words} is not in {}", failure.message)),
        (_, true) => Cell::Dropped(format!("the key is in {}", failure.message)),
    }
}

/// Title, table and totals.
pub(super) fn table() -> (String, String, Totals) {
    let formats: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
    let (mut totals, mut table) = (Totals::default(), head(&formats));
    for class in CLASSES {
        let cells = formats.iter().map(|format| totals.add(&format!("{format}, {class}"), cell(format, class)));
        table.push_str(&format!("| {class} | {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    ("Errors, with the provider's words and no keys".to_owned(), table, totals)
}
