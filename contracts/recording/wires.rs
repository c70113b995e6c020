//! What each adapter sends for a suite's own call, and what a replay through it makes of what comes back: snapshots, so
//! that nobody changes either without seeing it (and raising the adapter's version, which ends the permits).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::*;
use crate::probe::{self, OUTPUT};
use crate::upstream::{Call, CallKey, Upstream};

const SUITE: &str = r#"
name = "demo"
description = "x"
required = []
[prompt]
system = "Sort the ticket of {{name}}."
turns = [{ role = "user", content = "First." }, { role = "assistant", content = "{\"n\": 1}" }]
user = "Then: 水 \"quoted\""
[[cases]]
name = "one"
vars = { name = "Ada" }
[tokenizer]
window = 100000
[parameters]
temperature = 0.1
max_tokens = 77
stop = ["<END>"]
"#;
const FORMAT: &str = "response_format = \"json_schema\"\n";
const TOOL: &str = "tools = [{ name = \"file\", description = \"Files it.\", parameters = \"tool.json\" }]\n";
const SCHEMA: &str =
    r#"{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567890}},"required":["n"]}"#;

fn suite_of(root: &Path, head: &str, parameters: &str) -> Suite {
    let dir = root.join("demo");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("schema.json"), SCHEMA).unwrap();
    std::fs::write(dir.join("tool.json"), SCHEMA).unwrap();
    std::fs::write(dir.join("suite.toml"), format!("{head}{SUITE}{parameters}")).unwrap();
    Suite::load(&dir).unwrap()
}

/// One request as it leaves, in words that a reviewer can read.
fn sent(adapter: &dyn Adapter, call: &Call) -> String {
    let key = Secret::new("key-of-the-suite".to_owned());
    let request = providers::openai::request::parse(call.body.clone()).unwrap();
    let context =
        providers::adapter::CallContext { model: "model-1", attempt_id: "contract-one.output.1", api_key: Some(&key) };
    let wire = match adapter.to_upstream(&request, &context) {
        Ok(wire) => wire,
        Err(unsupported) => return format!("refused: {unsupported}\n"),
    };
    let mut out = format!("POST {}\n", wire.path);
    for (name, value) in &wire.headers {
        let _ = writeln!(out, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    let mut body = Vec::new();
    pretty(&Json::parse(&wire.body).unwrap(), 0, &mut body);
    out + &String::from_utf8(body).unwrap() + "\n"
}

/// The adapters that send the same stand together.
fn sent_by_all(suite: &Suite) -> String {
    let call = probe::plan(suite, "model-1").into_iter().find(|p| p.call.key.probe == OUTPUT).unwrap().call;
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for name in providers::compatible::names() {
        let text = sent(&*providers::compatible::adapter_named(name).unwrap(), &call);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name),
            None => groups.push((text, vec![name])),
        }
    }
    groups.iter().map(|(text, names)| format!("== {}\n{text}\n", names.join(", "))).collect()
}

#[test]
fn what_each_adapter_sends_for_an_answer_in_json() {
    let root = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(sent_by_all(&suite_of(root.path(), "", FORMAT)));
}

#[test]
fn what_each_adapter_sends_for_a_forced_tool_call() {
    let root = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(sent_by_all(&suite_of(root.path(), "output = \"tool\"\n", TOOL)));
}

/// The answers of `fixtures/`, under the names that stand in every provider's folder.
const ANSWERS: [&str; 13] = [
    "plain",
    "structured",
    "stop",
    "length",
    "refusal",
    "tools",
    "parallel_tools",
    "auth",
    "bad_request",
    "context_length",
    "rate_limited",
    "server_error",
    "html_502",
];

fn fixture(provider: &str, case: &str) -> Json {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/{provider}/{case}.json"));
    Json::parse(&std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))).unwrap()
}

/// A recording of today's request with the fixture's answer.
fn record(folder: &Path, name: &str, adapter: &dyn Adapter, call: &Call, answer: &Json) {
    let request = providers::openai::request::parse(call.body.clone()).unwrap();
    let attempt = format!("contract-{name}");
    let context = providers::adapter::CallContext { model: "model-1", attempt_id: &attempt, api_key: None };
    let wire = adapter.to_upstream(&request, &context).unwrap();
    let status = u16::try_from(answer.get("status").and_then(Json::as_u64).unwrap()).unwrap();
    let mut headers = HeaderMap::new();
    let kind = answer.get("headers").and_then(|h| h.get("content-type")).and_then(Json::as_str).unwrap();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    let body = match answer.get("body").unwrap() {
        Json::String(text) => Bytes::from(text.clone()),
        json => json.to_bytes(),
    };
    let head = Head { status: StatusCode::from_u16(status).unwrap(), headers };
    let recorder = Recorder { inner: (), folder: folder.to_owned(), secret: None };
    let document = recorder.document(&wire.path, &wire.body, &Exchanged::Answer(head, body)).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(format!("{name}.json")), document).unwrap();
}

fn seen(observation: &Observation) -> String {
    let reply = match observation {
        Observation::Answered(reply) => reply,
        Observation::Failed(failure) => {
            return format!("failed: {:?}, {}: {}\n", failure.proof, failure.reason, failure.message);
        }
        other => return format!("no exchange: {}\n", other.trouble()),
    };
    let mut out = String::new();
    for choice in &reply.choices {
        let _ = writeln!(out, "answered: {:?} (in its words {:?})", choice.finish, choice.native_finish);
        if let Some(text) = &choice.text {
            let _ = writeln!(out, "  text {text:?}");
        }
        if let Some(refusal) = &choice.refusal {
            let _ = writeln!(out, "  refusal {refusal:?}");
        }
        for call in &choice.tool_calls {
            let _ = writeln!(out, "  call {} {} {:?}", call.id, call.name, call.arguments);
        }
    }
    match &reply.usage {
        Some(usage) => {
            let _ = writeln!(out, "  usage {} in, {} out", usage.input_tokens, usage.output_tokens);
        }
        None => out.push_str("  usage unknown\n"),
    }
    out
}

async fn read_by(provider: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let suite = suite_of(root.path(), "", FORMAT);
    let adapter = providers::compatible::adapter_named(provider).unwrap();
    let folder = root.path().join(format!("demo/recordings/{provider}-model-1"));
    let mut out = String::new();
    for case in ANSWERS {
        let document = fixture(provider, case);
        let body = document.get("request").and_then(Json::as_object).unwrap().clone();
        let call = Call { key: CallKey { case: case.to_owned(), probe: OUTPUT, repeat: 1 }, body, model: None };
        record(&folder, &call.key.to_string(), &*adapter, &call, document.get("response").unwrap());
        let replay = ReplayUpstream::new(&suite, adapter.clone(), provider, "model-1");
        let _ = write!(out, "{case}: {}", seen(&replay.call(&call).await));
    }
    out
}

#[tokio::test]
async fn what_openai_s_answers_are_read_as_in_a_replay() {
    insta::assert_snapshot!(read_by("openai").await);
}

#[tokio::test]
async fn what_anthropic_s_answers_are_read_as_in_a_replay() {
    insta::assert_snapshot!(read_by("anthropic").await);
}
