//! Every exchange that others recorded with real providers, where they are at hand: each is read by the adapter of its
//! protocol, translated into every dialect, whole and streamed, and means the same there; each failure proves something;
//! each request that is one of a dialect goes on with the same meaning, or is refused by name.
//!
//! Each exchange of each file is looked at, and what it was is counted: none is passed over in silence.

mod beside;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::adapter::{Adapter, CallContext, Head};
use crate::canonical::{Finish, Reply, Request};
use crate::compatible::{adapter_named, names};
use crate::dialects::{Dialect, to_upstream};
use crate::failure::Proof;
use crate::fixtures::{body, cassettes, head, streamed};
use crate::json::Json;
use crate::matrix::answers::client;
use crate::matrix::samples::Sample;
use crate::stream::sampling::{canonical, decode_once};

/// The files, with the adapters for requests to `/chat/completions` (or the provider's own endpoint) and for failures,
/// and the exchanges of each kind: answers, streams, failures, counts, and what is no call of a model.
pub(crate) const FILES: [(&str, &str, [usize; 5]); 14] = [
    ("anthropic", "anthropic", [19, 9, 5, 4, 3]),
    ("azure", "azure-models", [28, 2, 2, 0, 2]),
    ("bedrock", "bedrock", [19, 8, 10, 3, 0]),
    ("cohere", "cohere", [31, 7, 2, 0, 0]),
    ("deepseek", "deepseek", [31, 6, 3, 0, 0]),
    ("gemini", "gemini", [21, 13, 4, 2, 0]),
    ("groq", "groq", [32, 0, 4, 0, 0]),
    ("mistral", "mistral", [31, 4, 1, 0, 0]),
    ("ollama", "ollama-openai", [17, 2, 2, 0, 0]),
    ("openai-chat", "openai", [23, 13, 4, 0, 0]),
    ("openai-responses", "openai-responses", [19, 12, 7, 2, 0]),
    ("openrouter", "openrouter", [24, 11, 5, 0, 0]),
    ("vertex", "vertex", [27, 7, 3, 3, 0]),
    ("xai", "xai", [25, 1, 1, 0, 6]),
];

const KINDS: [&str; 5] = ["answers", "streams", "failures", "counts", "no calls of a model"];

/// The path of the exchange's address.
fn endpoint(exchange: &Value) -> &str {
    exchange["request"]["uri"].as_str().unwrap().split(['?', '#']).next().unwrap()
}

/// The adapter of the exchange's protocol.
pub(crate) fn adapter_of(row: &'static str, exchange: &Value) -> &'static str {
    if endpoint(exchange).contains("/responses") { "openai-responses" } else { row }
}

pub(crate) fn is_call(exchange: &Value) -> bool {
    let end = endpoint(exchange).rsplit('/').next().unwrap();
    let names = ["completions", "responses", "messages", "chat", "converse", "converse-stream"];
    let generates = end.ends_with(":generateContent") || end.ends_with(":streamGenerateContent");
    // A response that was asked for later is the same document.
    generates || names.contains(&end) || end.starts_with("resp_")
}

fn is_count(exchange: &Value) -> bool {
    let end = endpoint(exchange);
    ["count_tokens", "count-tokens", ":countTokens", "/input_tokens"].iter().any(|name| end.ends_with(name))
}

fn source(exchange: &Value) -> &str {
    exchange["source"].as_str().unwrap()
}

/// What an exchange was, as its place in [`KINDS`].
fn look_at(row: &'static str, exchange: &Value) -> usize {
    let name = adapter_of(row, exchange);
    let adapter = adapter_named(name).unwrap();
    let response = &exchange["response"];
    let (head, bytes) = (head(response), body(response));
    if head.status.is_client_error() || head.status.is_server_error() {
        let failure = adapter_named(row).unwrap().from_failure(&head, &bytes);
        assert_ne!(failure.proof, Proof::Unknown, "{}: {failure:?}", source(exchange));
        assert!(!failure.message.is_empty(), "{}", source(exchange));
        return 2;
    }
    if is_count(exchange) {
        assert!(adapter.from_count(&bytes) > Some(0), "{}", source(exchange));
        return 3;
    }
    if !is_call(exchange) {
        return 4;
    }
    match streamed(response) {
        Some(stream) => {
            streams_mean_the_same(name, exchange, &head, &stream);
            1
        }
        None => {
            answers_mean_the_same(name, adapter.as_ref(), exchange, Sample { head, body: bytes });
            0
        }
    }
}

fn asked(dialect: Dialect, stream: bool) -> Request {
    let text = match dialect {
        Dialect::Messages => r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":S}"#,
        Dialect::Responses => r#"{"model":"m","input":"hi","stream":S}"#,
        _ => r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":S}"#,
    };
    let text = text.replace('S', if stream { "true" } else { "false" });
    dialect.parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap()
}

fn answers_mean_the_same(name: &str, adapter: &dyn Adapter, exchange: &Value, sample: Sample) {
    let answer = adapter.from_upstream(&asked(Dialect::Chat, false), &sample.head, &sample.body);
    // Background mode answers at once; `complete` is what somebody wrote by hand.
    if matches!(exchange["response"]["body"]["status"].as_str(), Some("queued" | "complete")) {
        assert_eq!(answer.unwrap_err().proof, Proof::Unknown, "{}", source(exchange));
        return;
    }
    let answer = answer.unwrap_or_else(|failure| panic!("{}: {failure:?}", source(exchange)));
    assert!(answer.reply.usage.is_some() && !answer.reply.usage_unreadable, "{}", source(exchange));
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        let seen = client(dialect, name, &sample, false);
        let seen = seen.unwrap_or_else(|why| panic!("{}: {why}", source(exchange)));
        let native = adapter.dialect() == Some(dialect);
        let at = format!("{} as {dialect:?}", source(exchange));
        assert_means(&at, dialect, &answer.reply, &seen, native);
        beside::assert_kept(&at, dialect, &Json::parse(&answer.body).unwrap(), &seen, native);
    }
}

fn streams_mean_the_same(name: &str, exchange: &Value, head: &Head, stream: &[u8]) {
    let outcome = decode_once(name, &asked(Dialect::Chat, true), head, stream);
    if source(exchange).contains("stream_error") {
        assert_eq!(outcome.failure().reason, "error_in_answer", "{}", source(exchange));
        return;
    }
    let (reply, whole) = outcome.answer();
    assert!(reply.usage.is_some() && !reply.usage_unreadable, "{}", source(exchange));
    let sample = Sample { head: head.clone(), body: stream.to_vec().into() };
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        let native = adapter_named(name).unwrap().dialect() == Some(dialect);
        // The provider's own events go on as they came: their order is its own.
        if native && dialect != Dialect::Chat {
            let outcome = decode_once(name, &asked(dialect, true), head, stream);
            assert_means(&format!("{} as {dialect:?}", source(exchange)), dialect, reply, &outcome.answer().1, native);
            continue;
        }
        let seen = client(dialect, name, &sample, true);
        let seen = seen.unwrap_or_else(|why| panic!("{}: {why}", source(exchange)));
        let at = format!("{} as {dialect:?}, streamed", source(exchange));
        assert_means(&at, dialect, reply, &seen, native);
        beside::assert_kept(&at, dialect, &whole, &seen, native);
    }
}

/// What a dialect's answer says: its texts and refusals, its calls, its end, its tokens.
#[derive(Debug, Default)]
struct Meaning {
    words: String,
    calls: Vec<(String, String, String)>,
    end: String,
    input: u64,
    output: u64,
}

fn list<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    json.get(name).and_then(Json::as_array).unwrap_or_default()
}

fn word<'a>(json: &'a Json, name: &str) -> &'a str {
    json.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn number(json: &Json, path: &[&str]) -> u64 {
    path.iter().try_fold(json, |json, name| json.get(name)).and_then(Json::as_u64).unwrap_or_default()
}

/// Arguments in one order and spelling; what is no JSON as it is.
fn arguments(text: &str) -> String {
    Json::parse(text.as_bytes()).map_or_else(|_| text.to_owned(), |json| canonical(&json))
}

fn of_message(seen: &Json) -> Meaning {
    let mut meaning = Meaning { end: word(seen, "stop_reason").to_owned(), ..Meaning::default() };
    for block in list(seen, "content") {
        match word(block, "type") {
            "text" => meaning.words.push_str(word(block, "text")),
            "tool_use" => {
                let input = block.get("input").map(canonical).unwrap_or_default();
                meaning.calls.push((word(block, "id").to_owned(), word(block, "name").to_owned(), input));
            }
            _ => {}
        }
    }
    let names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    meaning.input = names.iter().map(|name| number(seen, &["usage", name])).sum();
    meaning.output = number(seen, &["usage", "output_tokens"]);
    meaning
}

fn of_response(seen: &Json) -> Meaning {
    let reason = seen.get("incomplete_details").map_or("", |details| word(details, "reason"));
    let mut meaning = Meaning { end: format!("{}{reason}", word(seen, "status")), ..Meaning::default() };
    for item in list(seen, "output") {
        for part in list(item, "content").iter().filter(|_| word(item, "type") == "message") {
            meaning.words.push_str(word(part, "text"));
            meaning.words.push_str(word(part, "refusal"));
        }
        if word(item, "type") == "function_call" {
            let (id, name) = (word(item, "call_id").to_owned(), word(item, "name").to_owned());
            meaning.calls.push((id, name, arguments(word(item, "arguments"))));
        }
    }
    meaning.input = number(seen, &["usage", "input_tokens"]);
    meaning.output = number(seen, &["usage", "output_tokens"]);
    meaning
}

fn of_completion(seen: &Json) -> Meaning {
    let choice = &list(seen, "choices")[0];
    let message = choice.get("message").unwrap();
    let mut meaning = Meaning { end: word(choice, "finish_reason").to_owned(), ..Meaning::default() };
    meaning.words.push_str(word(message, "content"));
    for part in list(message, "content") {
        meaning.words.push_str(word(part, "text"));
    }
    meaning.words.push_str(word(message, "refusal"));
    for call in list(message, "tool_calls") {
        let function = call.get("function").unwrap();
        let (id, name) = (word(call, "id").to_owned(), word(function, "name").to_owned());
        meaning.calls.push((id, name, arguments(word(function, "arguments"))));
    }
    meaning.input = number(seen, &["usage", "prompt_tokens"]);
    meaning.output = number(seen, &["usage", "completion_tokens"]);
    meaning
}

fn end(dialect: Dialect, finish: Finish) -> &'static [&'static str] {
    match (dialect, finish) {
        (Dialect::Messages, Finish::Stop) => &["end_turn", "stop_sequence"],
        (Dialect::Messages, Finish::Length) => &["max_tokens"],
        (Dialect::Messages, Finish::ToolCalls) => &["tool_use"],
        (Dialect::Messages, Finish::ContentFilter) => &["refusal"],
        (Dialect::Responses, Finish::Length) => &["incompletemax_output_tokens"],
        (Dialect::Responses, Finish::ContentFilter) => &["incompletecontent_filter"],
        (Dialect::Responses, _) => &["completed"],
        // Some stop with "stop" behind calls: that is passed on as they said it.
        (_, Finish::ToolCalls) => &["tool_calls", "stop", "function_call"],
        (_, Finish::Stop) => &["stop"],
        (_, Finish::Length) => &["length"],
        (_, Finish::ContentFilter) => &["content_filter"],
    }
}

fn assert_means(at: &str, dialect: Dialect, reply: &Reply, seen: &Json, native: bool) {
    let meaning = match dialect {
        Dialect::Messages => of_message(seen),
        Dialect::Responses => of_response(seen),
        _ => of_completion(seen),
    };
    let choice = &reply.choices[0];
    let words = [choice.text.as_deref(), choice.refusal.as_deref()].map(Option::unwrap_or_default).concat();
    assert_eq!(meaning.words, words, "{at}");
    let calls: Vec<_> =
        choice.tool_calls.iter().map(|call| (&call.id, &call.name, arguments(&call.arguments))).collect();
    let told: Vec<_> = meaning.calls.iter().map(|(id, name, text)| (id, name, text.clone())).collect();
    assert_eq!(told, calls, "{at}");
    let ends = end(dialect, choice.finish);
    assert!(native || ends.contains(&meaning.end.as_str()), "{at}: {} is none of {ends:?}", meaning.end);
    let usage = reply.usage.unwrap();
    // Some count what they read from a cache, or wrote to it, beside the prompt.
    let names = ["cache_read_input_tokens", "cache_creation_input_tokens"];
    let beside = names.map(|name| number(seen, &["usage", name])).into_iter().chain([0]);
    let inputs: Vec<u64> = beside.map(|part| usage.input_tokens + part).collect();
    assert!(inputs.contains(&meaning.input) && meaning.output == usage.output_tokens, "{at}: {usage:?}");
}

#[test]
fn every_recorded_exchange_means_the_same_in_every_dialect() {
    for (file, row, expected) in FILES {
        let Some(exchanges) = cassettes(file) else { continue };
        let mut counted = [0; 5];
        for exchange in &exchanges {
            counted[look_at(row, exchange)] += 1;
        }
        let said: Vec<String> = KINDS.iter().zip(counted).map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("{file}: {} exchanges: {}", exchanges.len(), said.join(", "));
        assert_eq!(counted.iter().sum::<usize>(), exchanges.len(), "{file}");
        assert_eq!(counted, expected, "{file}: {KINDS:?}");
    }
    let looked_for = beside::LOOKED_FOR.each_ref().map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
    println!("{} signatures, {} sources", looked_for[0], looked_for[1]);
    assert!(FILES.iter().any(|(file, ..)| cassettes(file).is_none()) || looked_for.iter().all(|count| *count > 30));
}

/// The dialect that the recorded request speaks.
fn dialect_of(exchange: &Value) -> Option<Dialect> {
    match endpoint(exchange).rsplit('/').next()? {
        "completions" => Some(Dialect::Chat),
        "messages" => Some(Dialect::Messages),
        "responses" => Some(Dialect::Responses),
        _ => None,
    }
}

/// What the gateway does itself, or leaves out because it means nothing.
fn as_sent(mut came: Json) -> String {
    if let Json::Object(object) = &mut came {
        object.insert("model", "target");
        for (name, idle) in [("stream", false), ("background", false), ("background", true)] {
            if object.get(name) == Some(&Json::Bool(idle)) {
                object.remove(name);
            }
        }
        object.remove("stream_options");
        object.remove("previous_response_id");
    }
    canonical(&came)
}

fn goes_on(row: &'static str, exchange: &Value, dialect: Dialect, totals: &mut BTreeMap<&str, usize>) {
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    let came = Json::from(&exchange["request"]["body"]);
    let request = match dialect.parse(came.clone().into_object().unwrap()) {
        Ok(request) => request,
        Err(refusal) => {
            println!("{}: {}: {}", source(exchange), refusal.param, refusal.message);
            *totals.entry("refused by everybody").or_default() += 1;
            return;
        }
    };
    for name in names() {
        match to_upstream(adapter_named(name).unwrap().as_ref(), &request, &context) {
            Ok(_) => *totals.entry("sent to others").or_default() += 1,
            Err(refusal) => {
                assert!(!refusal.param.is_empty() && !refusal.why.is_empty(), "{}", source(exchange));
                *totals.entry("refused to others by name").or_default() += 1;
            }
        }
    }
    let adapter = adapter_named(adapter_of(row, exchange)).unwrap();
    match to_upstream(adapter.as_ref(), &request, &context) {
        Ok(sent) => {
            let sent = Json::parse(&sent.body).unwrap();
            assert_eq!(as_sent(sent), as_sent(came), "{}", source(exchange));
            *totals.entry("the same to their provider").or_default() += 1;
        }
        Err(refusal) => {
            println!("{}: {refusal}", source(exchange));
            *totals.entry("refused to their provider").or_default() += 1;
        }
    }
}

#[test]
fn every_recorded_request_of_a_dialect_goes_on_with_its_meaning() {
    for (file, row, _) in FILES {
        let Some(exchanges) = cassettes(file) else { continue };
        let mut totals = BTreeMap::new();
        for exchange in &exchanges {
            if let (Some(dialect), Some(_)) = (dialect_of(exchange), exchange["request"]["body"].as_object()) {
                goes_on(row, exchange, dialect, &mut totals);
            }
        }
        println!("{file}: {totals:?}");
        // The two are a hosted tool, which only OpenRouter has in this dialect, and a media type that nobody takes.
        let refused = |kind: &str| totals.get(kind).copied().unwrap_or_default();
        assert!(refused("refused by everybody") <= 1 && refused("refused to their provider") == 0, "{file}");
        let ours = exchanges.iter().filter_map(dialect_of).count();
        assert!(ours == 0 || refused("the same to their provider") > 20, "{file}: {ours} requests");
    }
}
