//! The written exchanges in `fixtures/`, run through the adapters; and the recorded ones of others, where they are at
//! hand. A fixture is one exchange: the client's body, what goes to the provider, its answer, and what becomes of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::adapter::{Adapter, CallContext, Head, Secret, UpstreamRequest};
use crate::canonical::Request;
use crate::compatible::adapter_named;
use crate::eventstream::tests::frame;
use crate::failure::{Failure, Proof};
use crate::json::Json;
use crate::openai::request::parse;
use crate::stream::sampling::{
    assert_cuts_prove_nothing, assert_round_trip, assert_the_client_saw_the_answer, decode_every_way,
};

pub(crate) const PROVIDERS: &[(&str, &str)] = &[
    ("openai", "gpt-4.1"),
    ("openai-responses", "gpt-4.1"),
    ("anthropic", "claude-sonnet-4-5"),
    ("gemini", "gemini-2.5-flash"),
    ("ollama", "qwen3:8b"),
    ("azure-openai", "gpt-4.1-eu"),
    ("cohere", "command-a-03-2025"),
    ("bedrock", "eu.amazon.nova-lite-v1:0"),
];

/// Exchanges recorded from real servers on loopback: what these can be made to answer of the same cases.
const RECORDED: &[(&str, &str)] = &[("llama-cpp", "smollm2-135m")];

/// Whether the request says which model is meant, in its body or in its path.
pub(crate) fn names_the_model(sent: &UpstreamRequest) -> bool {
    let body = Json::parse(&sent.body).unwrap();
    body.get("model") == Some(&Json::from("target")) || sent.path.contains("/target")
}

fn folder(provider: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(provider)
}

fn cases(provider: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder(provider)).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<String> =
        files.filter_map(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned)).collect();
    names.sort();
    names
}

pub(crate) fn read(provider: &str, case: &str) -> Value {
    let text = std::fs::read_to_string(folder(provider).join(format!("{case}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What is found, and compared with what is written.
const PARTS: [&str; 5] = ["upstream", "refused", "chunks", "reply", "failure"];

/// Puts what was found into the file, for somebody to read line by line before it counts.
fn write(provider: &str, case: &str, fixture: &Value, found: &Value) {
    let mut written = json!({"request": fixture["request"]});
    for part in PARTS {
        if let Some(value) = found.get(part) {
            written[part] = value.clone();
        }
        if part == "refused" {
            written["response"] = fixture["response"].clone();
        }
    }
    let text = format!("{}\n", serde_json::to_string_pretty(&written).unwrap());
    std::fs::write(folder(provider).join(format!("{case}.json")), text).unwrap();
}

/// Every fixture of the provider.
pub(crate) fn all(provider: &str) -> Vec<Value> {
    cases(provider).iter().map(|case| read(provider, case)).collect()
}

pub(crate) fn head(response: &Value) -> Head {
    let status = StatusCode::from_u16(response["status"].as_u64().unwrap() as u16).unwrap();
    let headers = response["headers"].as_object().unwrap().iter();
    let headers = headers
        .filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value.as_str()?).ok()?))
        })
        .collect();
    Head { status, headers }
}

/// A body that is a string in the file is sent as that text, a list of `event` and `data` as Amazon's frames, anything
/// else as JSON.
pub(crate) fn body(response: &Value) -> bytes::Bytes {
    match &response["body"] {
        Value::String(text) => text.clone().into(),
        Value::Array(events) if is_of_frames(response) => {
            let frame = |event: &Value| frame(event["event"].as_str().unwrap_or_default(), &event["data"].to_string());
            events.iter().flat_map(frame).collect::<Vec<u8>>().into()
        }
        other => serde_json::to_vec(other).unwrap().into(),
    }
}

fn is_of_frames(response: &Value) -> bool {
    response["headers"]["content-type"] == "application/vnd.amazon.eventstream"
}

/// The body of a recorded stream; frames are recorded in base64.
pub(crate) fn streamed(response: &Value) -> Option<Vec<u8>> {
    match (&response["body"], &response["body"]["base64"]) {
        (Value::String(text), _) => Some(text.clone().into_bytes()),
        (_, Value::String(text)) => Some(base64::engine::general_purpose::STANDARD.decode(text).unwrap()),
        _ => None,
    }
}

/// Whether the exchange is a request for an answer in the adapter's own protocol.
fn is_of(adapter: &str, exchange: &Value) -> bool {
    let endpoint = exchange["request"]["uri"].as_str().unwrap().split(['?', '#']).next().unwrap();
    match adapter {
        "openai-responses" => endpoint.ends_with("/responses"),
        _ => {
            let endpoints = [
                "/chat/completions",
                "/messages",
                ":generateContent",
                ":streamGenerateContent",
                "/v2/chat",
                "/converse",
                "/converse-stream",
            ];
            endpoints.iter().any(|known| endpoint.ends_with(known))
        }
    }
}

fn request(body: &Value) -> Request {
    parse(Json::from(body).into_object().unwrap()).unwrap()
}

/// What the adapter makes of the fixture's request and response, in the fixture's own form.
fn run(adapter: &dyn Adapter, model: &str, fixture: &Value) -> Value {
    let key = Secret::new("key-of-the-fixture".into());
    let context = CallContext { model, attempt_id: "0193-attempt", api_key: Some(&key) };
    let request = request(&fixture["request"]);
    let mut found = match adapter.to_upstream(&request, &context) {
        Ok(sent) => {
            let headers: serde_json::Map<String, Value> =
                sent.headers.iter().map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap()))).collect();
            let body: Value = serde_json::from_slice(&sent.body).unwrap();
            json!({"upstream": {"path": sent.path, "headers": headers, "body": body}})
        }
        Err(refusal) => json!({"refused": {"param": refusal.param, "why": refusal.why}}),
    };
    let (head, body) = (head(&fixture["response"]), body(&fixture["response"]));
    if request.stream && head.status.is_success() {
        let decoded = decode_every_way(adapter.name(), &request, &head, &body);
        found["chunks"] = json!(decoded.payloads());
        // Collected first, it is the same answer or the same failure.
        let collected = adapter.from_upstream(&request, &head, &body).map(|answer| answer.body);
        assert_eq!(collected, decoded.answer.map(|(_, body)| body.into()));
    }
    let outcome = if head.status.is_success() {
        adapter.from_upstream(&request, &head, &body)
    } else {
        Err(adapter.from_failure(&head, &body))
    };
    match outcome {
        Ok(answer) => found["reply"] = serde_json::from_slice(&answer.body).unwrap(),
        Err(failure) => found["failure"] = described(&failure),
    }
    found
}

fn described(failure: &Failure) -> Value {
    json!({
        "proof": format!("{:?}", failure.proof),
        "reason": failure.reason,
        "message": failure.message,
        "status": failure.status,
        "code": failure.code,
        "kind": failure.kind,
        "param": failure.param,
        "retry_after_ms": failure.retry_after.as_ref().map(Duration::as_millis),
    })
}

#[test]
fn every_fixture_comes_out_as_written() {
    let mut wrong = Vec::new();
    for (provider, model) in PROVIDERS.iter().chain(RECORDED) {
        let adapter = adapter_named(provider).unwrap();
        for case in cases(provider) {
            let fixture = read(provider, &case);
            let found = run(adapter.as_ref(), model, &fixture);
            if let Some(reply) = found.get("reply") {
                assert_round_trip(&Json::from(reply));
            }
            if fixture.get("upstream").or(fixture.get("refused")).is_none()
                && std::env::var_os("INTERLOCK_WRITE_FIXTURES").is_some()
            {
                write(provider, &case, &fixture, &found);
                continue;
            }
            for part in PARTS {
                if found.get(part) != fixture.get(part) {
                    let (found, expected) = (found.get(part), fixture.get(part));
                    wrong.push(format!("{provider}/{case}: {part}\n  found    {found:?}\n  expected {expected:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_provider_has_the_same_cases() {
    let (first, others) = PROVIDERS.split_first().unwrap();
    for (other, _) in others {
        assert_eq!(cases(first.0), cases(other), "{other}");
    }
    for (recorded, _) in RECORDED {
        let other: Vec<_> = cases(recorded).into_iter().filter(|case| !cases(first.0).contains(case)).collect();
        assert_eq!(other, Vec::<String>::new(), "{recorded}");
    }
    assert!(cases(first.0).len() >= 19);
}

/// The recordings of public test suites, where the machine has them: `INTERLOCK_SHARED`, or `shared` beside the
/// repository. They are not ours to copy.
pub(crate) fn cassettes(name: &str) -> Option<Vec<Value>> {
    let shared = std::env::var_os("INTERLOCK_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let path = shared.join("cassettes").join(format!("{name}.jsonl"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not at hand", path.display());
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn every_recorded_answer_is_read_and_every_recorded_failure_proves_something() {
    for (cassette, adapter) in [
        ("openai-chat", "openai"),
        ("openai-responses", "openai-responses"),
        ("anthropic", "anthropic"),
        ("mistral", "mistral"),
        ("groq", "groq"),
        ("deepseek", "deepseek"),
        ("xai", "xai"),
        ("openrouter", "openrouter"),
        ("ollama", "ollama-openai"),
        ("azure", "azure-models"),
        ("azure", "openai-responses"),
        ("deepseek", "openai-responses"),
        ("xai", "openai-responses"),
        ("gemini", "gemini"),
        ("vertex", "vertex"),
        ("cohere", "cohere"),
        ("bedrock", "bedrock"),
    ] {
        let Some(exchanges) = cassettes(cassette) else { continue };
        let name = adapter;
        let adapter = adapter_named(name).unwrap();
        let any = request(&json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
        let mut read = 0;
        for exchange in exchanges {
            let (response, source) = (&exchange["response"], &exchange["source"]);
            let streamed = streamed(response).is_some();
            let failed = response["status"].as_u64() >= Some(400);
            // xAI's errors have a shape of their own, which only its row knows.
            if failed && cassette == "xai" && name != "xai" {
                continue;
            }
            if streamed || !(failed || is_of(name, &exchange)) {
                continue;
            }
            let (head, body) = (head(response), body(response));
            if failed {
                let failure = adapter.from_failure(&head, &body);
                assert_ne!(failure.proof, Proof::Unknown, "{source}: {failure:?}");
                assert!(!failure.message.is_empty(), "{source}");
            } else {
                let answer = adapter.from_upstream(&any, &head, &body);
                // Background mode answers at once; `complete` is what somebody wrote by hand.
                if matches!(response["body"]["status"].as_str(), Some("queued" | "complete")) {
                    assert_eq!(answer.unwrap_err().proof, Proof::Unknown, "{source}");
                    continue;
                }
                let answer = answer.unwrap_or_else(|failure| panic!("{source}: {failure:?}\n{}", response["body"]));
                assert!(answer.reply.usage.is_some() && !answer.reply.usage_unreadable, "{source}");
                assert_round_trip(&Json::parse(&answer.body).unwrap());
            }
            read += 1;
        }
        assert!(read > 0, "{cassette} held nothing to read");
        println!("{cassette} by {name}: {read} exchanges");
    }
}

/// The recorded streams by the adapter that reads them, and how many there are at least.
const STREAM_COUNTS: [(&str, &str, usize); 16] = [
    ("openai-chat", "openai", 13),
    ("openai-responses", "openai-responses", 12),
    ("anthropic", "anthropic", 9),
    ("mistral", "mistral", 4),
    ("deepseek", "deepseek", 2),
    ("openrouter", "openrouter", 9),
    ("ollama", "ollama-openai", 2),
    ("azure", "azure-models", 1),
    ("azure", "openai-responses", 1),
    ("deepseek", "openai-responses", 4),
    ("openrouter", "openai-responses", 1),
    ("xai", "openai-responses", 1),
    ("gemini", "gemini", 13),
    ("vertex", "vertex", 7),
    ("cohere", "cohere", 7),
    ("bedrock", "bedrock", 8),
];

/// The same for other modules' tests.
pub(crate) fn stream_recordings() -> impl Iterator<Item = (&'static str, &'static str)> {
    STREAM_COUNTS.iter().map(|(cassette, adapter, _)| (*cassette, *adapter))
}

/// Hands every recorded stream of the adapter's own protocol on, with its source; does nothing where there are none.
pub(crate) fn recorded_streams(cassette: &str, adapter: &str, mut hand_on: impl FnMut(&str, &Head, &[u8])) {
    for exchange in cassettes(cassette).unwrap_or_default().iter().filter(|exchange| is_of(adapter, exchange)) {
        let response = &exchange["response"];
        if let Some(body) = streamed(response) {
            hand_on(exchange["source"].as_str().unwrap(), &head(response), &body);
        }
    }
}

#[test]
fn every_recorded_stream_is_one_whole_answer_and_none_when_it_is_cut() {
    let any = request(&json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true}));
    for (cassette, adapter, streams) in STREAM_COUNTS {
        let Some(exchanges) = cassettes(cassette) else { continue };
        let mut read = 0;
        for exchange in exchanges {
            let response = &exchange["response"];
            let Some(body) = streamed(response) else { continue };
            if !is_of(adapter, &exchange) {
                continue;
            }
            println!("{}", exchange["source"]);
            let head = head(response);
            let outcome = decode_every_way(adapter, &any, &head, &body);
            if exchange["source"].as_str().unwrap().contains("stream_error") {
                assert_eq!(outcome.failure().reason, "error_in_answer");
                continue;
            }
            let (reply, whole) = outcome.answer();
            assert!(reply.usage.is_some() && !reply.usage_unreadable);
            assert_the_client_saw_the_answer(&outcome);
            assert_round_trip(&whole);
            let lines = match String::from_utf8(body) {
                Ok(text) => text.replace("\r\n", "\n").into_bytes(),
                Err(binary) => binary.into_bytes(),
            };
            assert!(assert_cuts_prove_nothing(adapter, &any, &head, &lines) > 0);
            read += 1;
        }
        assert!(read >= streams, "{cassette} by {adapter}: {read} streams");
        println!("{cassette} by {adapter}: {read} streams");
    }
}
