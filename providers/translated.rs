//! Translated answers for the judges that others wrote: `tests/clients/` validates them with the official SDKs' models.
//!
//! With `INTERLOCK_TRANSLATED` naming a file, what clients of each dialect get is written there, a JSON document a line:
//! of every fixture and every full sample always, of others' recordings where they are at hand.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Map, Value, json};

use crate::compatible::adapter_named;
use crate::dialects::Dialect;
use crate::fixtures::{PROVIDERS, all, body, cassettes, head, streamed};
use crate::matrix::answers::sent;
use crate::matrix::samples::{self, Sample};
use crate::recordings::{FILES, adapter_of, is_call};

const DIALECTS: [(Dialect, &str); 3] =
    [(Dialect::Chat, "chat"), (Dialect::Messages, "messages"), (Dialect::Responses, "responses")];

/// The answer in each dialect, as lines.
fn lines(source: &Source) -> Vec<Value> {
    let Source { name: from, format, sample, streamed } = source;
    let mut lines = Vec::new();
    for (dialect, name) in DIALECTS {
        let Ok(text) = sent(dialect, format, sample, *streamed) else { continue };
        // What a provider says in the client's own dialect goes on as it came: the judges of it are its own clients.
        let adapter = adapter_named(format).unwrap();
        let own = adapter.dialect() == Some(dialect) || (dialect == Dialect::Chat && !translates(format));
        let delivery = if *streamed { "stream" } else { "whole" };
        lines.push(
            json!({"source": from, "format": format, "dialect": name, "delivery": delivery, "own": own, "body": text}),
        );
    }
    lines
}

/// Whether the format is another than chat completions.
fn translates(format: &str) -> bool {
    ["anthropic", "openai-responses", "gemini", "vertex", "ollama", "cohere", "bedrock"].contains(&format)
}

/// An answer, where it comes from, its format, and whether it is a stream.
struct Source {
    name: String,
    format: String,
    sample: Sample,
    streamed: bool,
}

fn of_fixtures() -> Vec<Source> {
    let mut found = Vec::new();
    for (format, _) in PROVIDERS {
        let mut add = |name: String, sample, streamed| {
            found.push(Source { name, format: (*format).to_owned(), sample, streamed });
        };
        for fixture in all(format).iter().filter(|fixture| fixture.get("reply").is_some()) {
            let sample = Sample { head: head(&fixture["response"]), body: body(&fixture["response"]) };
            add(format!("fixtures/{format}"), sample, fixture["request"]["stream"] == true);
        }
        for stream in [false, true] {
            add("full sample".to_owned(), samples::full(format, stream), stream);
            for end in ["stop", "length", "filter", "stop string", "refusal"] {
                samples::ending(format, end, stream).into_iter().for_each(|sample| add(end.to_owned(), sample, stream));
            }
        }
    }
    found
}

fn of_recordings() -> Vec<Source> {
    let mut found = Vec::new();
    for (file, row, _) in FILES {
        for exchange in cassettes(file).unwrap_or_default().iter().filter(|exchange| is_call(exchange)) {
            let response = &exchange["response"];
            if response["status"].as_u64() >= Some(400) {
                continue;
            }
            let stream = streamed(response);
            let (streamed, bytes) = (stream.is_some(), stream.map_or_else(|| body(response), Into::into));
            found.push(Source {
                name: exchange["source"].as_str().unwrap().to_owned(),
                format: adapter_of(row, exchange).to_owned(),
                sample: Sample { head: head(response), body: bytes },
                streamed,
            });
        }
    }
    found
}

#[test]
fn answers_are_translated_for_the_official_clients_to_judge() {
    let written = |sources: Vec<Source>| sources.iter().flat_map(lines).collect::<Vec<_>>();
    let (fixtures, recordings) = (written(of_fixtures()), written(of_recordings()));
    println!("{} of fixtures, {} of recordings", fixtures.len(), recordings.len());
    assert!(fixtures.len() > 300, "{}", fixtures.len());
    if let Some(path) = std::env::var_os("INTERLOCK_TRANSLATED") {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        for line in fixtures.iter().chain(&recordings) {
            writeln!(file, "{line}").unwrap();
        }
    }
}

/// Adds a delta as the helper of OpenAI's own Python client does (openai-python 2.54.0, `lib/streaming/_deltas.py`).
fn add(whole: &mut Map<String, Value>, delta: Map<String, Value>) -> Result<(), String> {
    for (name, more) in delta {
        let Some(known) = whole.get_mut(&name).filter(|known| !known.is_null()) else {
            whole.insert(name, more);
            continue;
        };
        match (known, more) {
            (known, more) if matches!(name.as_str(), "index" | "type") => *known = more,
            (Value::String(text), Value::String(more)) => text.push_str(&more),
            (Value::Number(_), Value::Number(_)) => return Err(format!("{name} would be summed up")),
            (Value::Object(members), Value::Object(more)) => add(members, more)?,
            (Value::Array(items), Value::Array(more)) if items.iter().all(Value::is_string) => items.extend(more),
            (Value::Array(items), Value::Array(more)) => {
                for item in more {
                    let at =
                        item["index"].as_u64().ok_or_else(|| format!("{name} without its index: {item}"))? as usize;
                    let next = items.len();
                    match (items.get_mut(at), item) {
                        (Some(Value::Object(known)), Value::Object(item)) => add(known, item)?,
                        (None, item) if at == next => items.push(item),
                        (_, item) => return Err(format!("{name} has no place for {item}")),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The message without what only a stream or only a whole answer says: the places of list items, and what is empty.
fn bare(message: &Value) -> Value {
    let mut message = message.clone();
    let members = message.as_object_mut().unwrap();
    members.retain(|_, value| !value.is_null() && *value != json!("") && *value != json!([]));
    for value in members.values_mut() {
        for item in value.as_array_mut().into_iter().flatten() {
            item.as_object_mut().and_then(|item| item.remove("index"));
        }
    }
    message
}

/// What OpenAI's helper makes of each choice, against what is stored of the same answer.
fn helped(format: &str, sample: &Sample) -> Option<()> {
    let request = crate::stream::sampling::request("");
    let outcome = crate::stream::sampling::decode_once(format, &request, &sample.head, &sample.body);
    outcome.answer.as_ref().ok()?;
    let mut wholes: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    for payload in outcome.payloads() {
        for choice in serde_json::from_str::<Value>(payload).unwrap()["choices"].as_array().unwrap() {
            let whole = wholes.entry(choice["index"].as_u64().unwrap()).or_default();
            add(whole, choice["delta"].as_object().unwrap().clone()).unwrap_or_else(|why| panic!("{format}: {why}"));
        }
    }
    let stored = outcome.answer().1.to_serde();
    for choice in stored["choices"].as_array().unwrap() {
        let helped = Value::Object(wholes.remove(&choice["index"].as_u64().unwrap()).unwrap());
        assert_eq!(bare(&helped), bare(&choice["message"]), "{format}");
    }
    Some(())
}

#[test]
fn what_openais_helper_makes_of_a_translated_stream_is_the_stored_answer() {
    let sources = of_fixtures().into_iter().chain(of_recordings());
    let streams = sources.filter(|source| source.streamed && translates(&source.format));
    let helped = streams.filter_map(|source| helped(&source.format, &source.sample)).count();
    println!("{helped} streams");
    // The fixtures alone; with the recordings of others it is more.
    assert!(helped > 30, "{helped}");
}
