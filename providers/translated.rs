//! Translated answers for the judges that others wrote: `tests/clients/` validates them with the official SDKs' models.
//!
//! With `INTERLOCK_TRANSLATED` naming a file, what clients of each dialect get is written there, a JSON document a line:
//! of every fixture and every full sample always, of others' recordings where they are at hand.

use std::io::Write;

use serde_json::{Value, json};

use crate::compatible::adapter_named;
use crate::dialects::Dialect;
use crate::fixtures::{PROVIDERS, all, body, cassettes, head, streamed};
use crate::matrix::answers::sent;
use crate::matrix::samples::{self, Sample};
use crate::recordings::{FILES, adapter_of, is_call};

const DIALECTS: [(Dialect, &str); 3] =
    [(Dialect::Chat, "chat"), (Dialect::Messages, "messages"), (Dialect::Responses, "responses")];

/// The answer in each dialect, as lines.
fn lines(source: &str, format: &str, sample: &Sample, streamed: bool) -> Vec<Value> {
    let mut lines = Vec::new();
    for (dialect, name) in DIALECTS {
        let Ok(text) = sent(dialect, format, sample, streamed) else { continue };
        // What a provider says in the client's own dialect goes on as it came: the judges of it are its own clients.
        let adapter = adapter_named(format).unwrap();
        let own = adapter.dialect() == Some(dialect) || (dialect == Dialect::Chat && !translates(format));
        let delivery = if streamed { "stream" } else { "whole" };
        lines.push(json!({"source": source, "format": format, "dialect": name, "delivery": delivery, "own": own, "body": text}));
    }
    lines
}

/// Whether the format is another than chat completions.
fn translates(format: &str) -> bool {
    ["anthropic", "openai-responses", "gemini", "vertex", "ollama", "cohere", "bedrock"].contains(&format)
}

fn of_fixtures() -> Vec<Value> {
    let mut written = Vec::new();
    for (format, _) in PROVIDERS {
        for fixture in all(format).iter().filter(|fixture| fixture.get("reply").is_some()) {
            let sample = Sample { head: head(&fixture["response"]), body: body(&fixture["response"]) };
            let stream = fixture["request"]["stream"] == true;
            written.extend(lines(&format!("fixtures/{format}"), format, &sample, stream));
        }
        for stream in [false, true] {
            written.extend(lines("full sample", format, &samples::full(format, stream), stream));
            for end in ["stop", "length", "filter", "stop string", "refusal"] {
                if let Some(sample) = samples::ending(format, end, stream) {
                    written.extend(lines(end, format, &sample, stream));
                }
            }
        }
    }
    written
}

fn of_recordings() -> Vec<Value> {
    let mut written = Vec::new();
    for (file, row, _) in FILES {
        for exchange in cassettes(file).unwrap_or_default().iter().filter(|exchange| is_call(exchange)) {
            let (response, format) = (&exchange["response"], adapter_of(row, exchange));
            if response["status"].as_u64() >= Some(400) {
                continue;
            }
            let source = exchange["source"].as_str().unwrap();
            let stream = streamed(response);
            let (delivered, bytes) = (stream.is_some(), stream.map_or_else(|| body(response), Into::into));
            written.extend(lines(source, format, &Sample { head: head(response), body: bytes }, delivered));
        }
    }
    written
}

#[test]
fn answers_are_translated_for_the_official_clients_to_judge() {
    let (fixtures, recordings) = (of_fixtures(), of_recordings());
    println!("{} of fixtures, {} of recordings", fixtures.len(), recordings.len());
    assert!(fixtures.len() > 300, "{}", fixtures.len());
    if let Some(path) = std::env::var_os("INTERLOCK_TRANSLATED") {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        for line in fixtures.iter().chain(&recordings) {
            writeln!(file, "{line}").unwrap();
        }
    }
}
