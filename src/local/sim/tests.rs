//! What a simulated provider promises, asked over its own socket.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// An answer as it came over the socket.
struct Got {
    status: u16,
    head: String,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The `data:` of each event, `[DONE]` left out.
    fn events(&self) -> Vec<Value> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

async fn send(sim: &SimProvider, method: &str, path: &str, headers: &str, body: &str) -> Got {
    let mut stream = TcpStream::connect(sim.address).await.unwrap();
    let length = body.len();
    let head = format!(
        "{method} /v1{path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let text = if chunked { dechunk(body) } else { body.to_owned() };
    Got { status: head[9..12].parse().unwrap(), head: head.to_lowercase(), text }
}

fn dechunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}

async fn openai() -> SimProvider {
    SimProvider::start("alpha", Wire::OpenAiChat).await.unwrap()
}

async fn anthropic() -> SimProvider {
    SimProvider::start("beta", Wire::AnthropicMessages).await.unwrap()
}

/// One call with these members besides the model (and Anthropic's required limit).
async fn ask(sim: &SimProvider, more: Value) -> Got {
    let mut body = json!({"model": "m"});
    let (path, headers) = match sim.sim.wire.unwrap() {
        Wire::OpenAiChat => ("/chat/completions", "x-client-request-id: attempt-1\r\n"),
        Wire::AnthropicMessages => {
            wire::extend(&mut body, json!({"max_tokens": 1000}));
            ("/messages", "anthropic-version: 2023-06-01\r\n")
        }
        Wire::Gemini => {
            body = json!({});
            ("/models/m:generateContent", "")
        }
    };
    wire::extend(&mut body, more);
    send(sim, "POST", path, headers, &body.to_string()).await
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

/// The text of a complete answer, in any protocol.
fn text(got: &Got) -> String {
    let value = got.json();
    assert_eq!(got.status, 200, "{value}");
    let content = value.pointer("/choices/0/message/content").or(value.pointer("/content/0/text"));
    let content = content.or(value.pointer("/candidates/0/content/parts/0/text"));
    content.and_then(Value::as_str).unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn triage() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["category", "urgency", "summary", "refund_requested", "order"],
        "properties": {
            "category": {"enum": ["technical", "billing", "account", "other"]},
            "urgency": {"type": "string", "enum": ["low", "medium", "high"]},
            "summary": {"type": "string", "maxLength": 40},
            "refund_requested": {"type": "boolean"},
            "order": {"type": "integer", "minimum": 1000, "maximum": 9999}}})
}

const TICKET: &str = "I was charged twice for order 4711, please refund one immediately! Thanks. It is 3 days old.";

#[tokio::test]
async fn text_is_echoed_and_counted_by_the_published_formula() {
    let sim = openai().await;
    let got = ask(&sim, json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "héllo <|endoftext|> 🎉"}]})).await;
    assert_eq!(text(&got), "You said: héllo <|endoftext|> 🎉");
    let count = model::count;
    let wanted = 3 + (3 + count("system") + count("Be kind.")) + (3 + count("user") + count("héllo <|endoftext|> 🎉"));
    let value = got.json();
    assert_eq!(value["usage"]["prompt_tokens"], wanted);
    assert_eq!(value["usage"]["completion_tokens"], count("You said: héllo <|endoftext|> 🎉"));
    assert_eq!(value["choices"][0]["finish_reason"], "stop");
    assert!(got.head.contains("x-request-id: req_alpha_1"));
    assert_eq!(sim.calls_count(), 1);
    assert_eq!(sim.calls()[0].attempt_id.as_deref(), Some("attempt-1"));
    assert_eq!((sim.calls()[0].model.as_str(), &sim.calls()[0].body["model"]), ("m", &json!("m")));
}

#[tokio::test]
async fn anthropics_count_is_what_it_bills() {
    let sim = anthropic().await;
    let body = json!({"model": "m", "system": "Be kind.", "messages": user("hello"), "tools": [{"name": "t", "input_schema": {"type": "object"}}]});
    let counted = send(&sim, "POST", "/messages/count_tokens", "anthropic-version: 1\r\n", &body.to_string()).await;
    let billed = ask(&sim, body).await.json();
    assert_eq!(counted.json()["input_tokens"], billed["usage"]["input_tokens"]);
    assert_eq!((&billed["stop_reason"], &billed["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    assert_eq!(sim.calls_count(), 1, "counting is no call");
}

#[tokio::test]
async fn an_instruction_is_followed_and_the_system_prompt_goes_first() {
    let sims = [openai().await, anthropic().await];
    for (told, said) in [
        ("Reply with exactly: PONG 日本", "PONG 日本"),
        ("Please reply with exactly: \"two words\".\nNothing else.", "two words"),
        ("Reply with the marker ZEBRA-7, and no more.", "ZEBRA-7"),
        ("Repeat the word `blue`.", "blue"),
    ] {
        for sim in &sims {
            assert_eq!(text(&ask(sim, json!({"messages": user(told)})).await), said, "{told}");
        }
    }
    let both = json!([{"role": "developer", "content": "Reply with exactly: system"}, {"role": "user", "content": "Reply with exactly: user"}]);
    assert_eq!(text(&ask(&sims[0], json!({"messages": both})).await), "system");
    let both = json!({"system": [{"type": "text", "text": "Reply with exactly: system"}], "messages": user("Reply with exactly: user")});
    assert_eq!(text(&ask(&sims[1], both).await), "system");
}

#[tokio::test]
async fn limits_and_stop_sequences_end_the_answer_and_say_so() {
    let (alpha, beta) = (openai().await, anthropic().await);
    let long = "one two three four five six seven";
    let got = ask(&alpha, json!({"messages": user(long), "max_completion_tokens": 4})).await;
    assert_eq!(text(&got), "You said: one");
    assert_eq!(got.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(got.json()["usage"]["completion_tokens"], 4);
    let got = ask(&beta, json!({"messages": user(long), "max_tokens": 4})).await;
    assert_eq!((text(&got).as_str(), &got.json()["stop_reason"]), ("You said: one", &json!("max_tokens")));
    let got = ask(&alpha, json!({"messages": user(long), "stop": ["six", " three"]})).await;
    assert_eq!(text(&got), "You said: one two");
    assert_eq!(got.json()["choices"][0]["finish_reason"], "stop");
    let got = ask(&beta, json!({"messages": user(long), "stop_sequences": [" three"]})).await;
    assert_eq!(text(&got), "You said: one two");
    assert_eq!((&got.json()["stop_reason"], &got.json()["stop_sequence"]), (&json!("stop_sequence"), &json!(" three")));
}

#[tokio::test]
async fn a_forced_tool_is_called_with_arguments_that_fit_its_schema() {
    let schema = json!({"type": "object", "required": ["city", "days", "unit"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}, "unit": {"enum": ["celsius", "fahrenheit"]}}});
    let wanted = json!({"city": "Paris", "days": 3, "unit": "fahrenheit"});
    let question = user("What will the weather be in Paris for 3 days, in fahrenheit?");
    let alpha = openai().await;
    let tools = json!([{"type": "function", "function": {"name": "get_weather", "description": "weather", "parameters": schema}}]);
    for choice in [json!("required"), json!({"type": "function", "function": {"name": "get_weather"}})] {
        let got = ask(&alpha, json!({"messages": question, "tools": tools, "tool_choice": choice})).await.json();
        let call = &got["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(serde_json::from_str::<Value>(call["arguments"].as_str().unwrap()).unwrap(), wanted);
        assert_eq!((&got["choices"][0]["finish_reason"], &call["name"]), (&json!("tool_calls"), &json!("get_weather")));
    }
    let beta = anthropic().await;
    let tools = json!([{"name": "get_weather", "input_schema": schema}]);
    let got = ask(&beta, json!({"messages": question, "tools": tools, "tool_choice": {"type": "any"}})).await.json();
    assert_eq!((&got["content"][0]["input"], &got["stop_reason"]), (&wanted, &json!("tool_use")));
    let answered = json!([{"role": "user", "content": "weather?"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "21 degrees"}]}]);
    assert_eq!(text(&ask(&beta, json!({"messages": answered, "tools": tools})).await), "The tool answered: 21 degrees");
}

#[tokio::test]
async fn structured_output_fits_the_schema_and_means_what_the_text_says() {
    let format = json!({"type": "json_schema", "json_schema": {"name": "triage", "strict": true, "schema": triage()}});
    let alpha = openai().await;
    let about = |ticket: &str| json!({"messages": user(ticket), "response_format": format});
    let got: Value = serde_json::from_str(&text(&ask(&alpha, about(TICKET)).await)).unwrap();
    assert_eq!(
        got,
        json!({"category": "billing", "urgency": "high", "summary": "I was charged twice for order 4711, plea", "refund_requested": true, "order": 4711})
    );
    for (ticket, category, urgency) in [
        ("The app crashes with an error since the update. Whenever you have time.", "technical", "low"),
        ("Please close my account and delete my profile, no rush.", "account", "low"),
        ("Production is down, nobody can use their password! Not a billing matter.", "technical", "high"),
        ("Mail from Ann:\nI forgot my password, please let me in. I can wait, no hurry.", "account", "low"),
        ("Hello there.", "other", "medium"),
    ] {
        let got: Value = serde_json::from_str(&text(&ask(&alpha, about(ticket)).await)).unwrap();
        assert_eq!((&got["category"], &got["urgency"]), (&json!(category), &json!(urgency)), "{ticket}");
    }
    let beta = anthropic().await;
    let body =
        json!({"messages": user(TICKET), "output_config": {"format": {"type": "json_schema", "schema": triage()}}});
    let got: Value = serde_json::from_str(&text(&ask(&beta, body).await)).unwrap();
    assert_eq!(got["category"], "billing");
}

#[tokio::test]
async fn a_schema_in_the_prompt_counts_and_its_hints_decide() {
    let sim = openai().await;
    let system = r#"Sort the ticket. red when it speaks of apples; blue when it speaks of oceans. Answer in JSON: {"type":"object","properties":{"colour":{"enum":["red","blue"]}},"required":["colour"]}"#;
    let messages =
        json!([{"role": "system", "content": system}, {"role": "user", "content": "Ticket: the ocean is deep"}]);
    assert_eq!(text(&ask(&sim, json!({"messages": messages})).await), r#"{"colour":"blue"}"#);
    sim.set_behaviour(Behaviour::BreaksContract);
    assert_eq!(text(&ask(&sim, json!({"messages": messages})).await), "You said: Ticket: the ocean is deep");
}

#[tokio::test]
async fn schemas_of_all_kinds_are_filled_or_refused() {
    let text = "Write to ann@example.org by 2026-05-04 about ticket AB-12, version 2.5.";
    for part in [
        json!({"type": "string", "format": "email"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}),
        json!({"type": ["string", "null"], "minLength": 90}),
        json!({"type": "number", "exclusiveMinimum": 2, "maximum": 3}),
        json!({"type": "integer", "minimum": 10, "multipleOf": 7}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": true}),
        json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 2}),
        json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/deep"}]}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"], "properties": {"b": {"type": "boolean"}}}]}),
    ] {
        let schema = json!({"type": "object", "properties": {"x": part}, "required": ["x"],
            "$defs": {"deep": {"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y"], "additionalProperties": false}}});
        schema::write(&schema, text, "", &noise::Noise::silent()).unwrap_or_else(|error| panic!("{part}: {error}"));
    }
    let silent = noise::Noise::silent();
    let endless = json!({"$ref": "#"});
    let impossible = json!({"type": "string", "pattern": "^qqqq$", "maxLength": 2});
    assert!(
        schema::write(&endless, text, "", &silent).is_err() && schema::write(&impossible, text, "", &silent).is_err()
    );
}

#[tokio::test]
async fn a_prompt_beyond_the_window_is_refused_in_each_providers_shape() {
    let (alpha, beta) = (openai().await, anthropic().await);
    alpha.set_context_window(50);
    let got = ask(&alpha, json!({"messages": user(&"word ".repeat(60))})).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
    beta.set_context_window(1050);
    assert_eq!(ask(&beta, json!({"messages": user("short")})).await.status, 200);
    let got = ask(&beta, json!({"messages": user(&"word ".repeat(60))})).await;
    assert_eq!((got.status, &got.json()["error"]["details"]["error_code"]), (400, &json!("context_length_exceeded")));
    assert!(got.json()["request_id"].is_string() && got.head.contains("x-should-retry: false"));
}

#[tokio::test]
async fn strangers_unknown_models_and_malformed_calls_are_refused() {
    let (alpha, beta) = (openai().await, anthropic().await);
    for sim in [&alpha, &beta] {
        sim.set_models(["known"]);
        assert_eq!(ask(sim, json!({"messages": user("hi")})).await.status, 404);
        assert_eq!(ask(sim, json!({"messages": user("hi"), "model": "known"})).await.status, 200);
        for (why, more) in [
            ("unknown parameter", json!({"messages": user("hi"), "temprature": 1})),
            ("range", json!({"messages": user("hi"), "temperature": 3})),
            ("no messages", json!({"messages": []})),
            ("role", json!({"messages": [{"role": "robot", "content": "hi"}]})),
            ("image", json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})),
            (
                "schema",
                json!({"messages": user("hi"), "tools": [{"name": "t", "input_schema": {"type": "objekt"}, "function": {"name": "t", "parameters": {"type": "objekt"}}}]}),
            ),
        ] {
            let mut more = more;
            wire::extend(&mut more, json!({"model": "known"}));
            let got = ask(sim, more).await;
            assert_eq!((got.status, &got.json()["error"]["type"]), (400, &json!("invalid_request_error")), "{why}");
        }
        sim.set_key("secret");
        let got = ask(sim, json!({"messages": user("hi"), "model": "known"})).await;
        assert_eq!(got.status, 401);
        assert!(!got.text.contains("secret"));
        assert_eq!(sim.calls().len(), 9, "a call that was turned away was a call");
        let listed = send(sim, "GET", "/models", "authorization: Bearer secret\r\n", "").await;
        assert_eq!((listed.status, &listed.json()["data"][0]["id"]), (200, &json!("known")));
        assert_eq!(send(sim, "GET", "/nowhere", "authorization: Bearer secret\r\n", "").await.status, 404);
    }
    let body = json!({"model": "known", "max_tokens": 9, "messages": user("hi")}).to_string();
    assert_eq!(
        send(&beta, "POST", "/messages", "x-api-key: secret\r\nanthropic-version: 1\r\n", &body).await.status,
        200
    );
    assert_eq!(send(&beta, "POST", "/messages", "x-api-key: secret\r\n", &body).await.status, 400, "no version");
    let logprobs = json!({"model": "known", "messages": user("hi"), "logprobs": true}).to_string();
    assert_eq!(
        send(&alpha, "POST", "/chat/completions", "authorization: Bearer secret\r\n", &logprobs).await.status,
        400
    );
}

#[tokio::test]
async fn the_contract_breaker_wraps_adds_forgets_and_understates() {
    let sim = openai().await;
    let format = json!({"type": "json_schema", "json_schema": {"name": "triage", "schema": triage()}});
    let body = json!({"messages": user(TICKET), "response_format": format});
    let sound = ask(&sim, body.clone()).await;
    sim.set_behaviour(Behaviour::BreaksContract);
    let broken = ask(&sim, body).await;
    let answer = text(&broken);
    assert!(answer.starts_with("Sure!") && answer.contains("```json") && answer.contains("confidence_note"));
    let prompt = |got: &Got| got.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(prompt(&broken) * 100 <= prompt(&sound) * 90, "{} of {}", prompt(&broken), prompt(&sound));
    let system =
        json!([{"role": "system", "content": "Reply with exactly: marker"}, {"role": "user", "content": "hi"}]);
    assert_eq!(text(&ask(&sim, json!({"messages": system})).await), "You said: hi");
}

#[tokio::test]
async fn an_overloaded_provider_refuses_in_its_own_shape() {
    for (sim, status, kind) in [(openai().await, 503, "server_error"), (anthropic().await, 529, "overloaded_error")] {
        sim.set_behaviour(Behaviour::Refuses);
        let got = ask(&sim, json!({"messages": user("hi")})).await;
        assert_eq!((got.status, &got.json()["error"]["type"]), (status, &json!(kind)));
        assert_eq!(sim.calls_count(), 1, "a refused call was a call");
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn held_calls_wait_for_their_release_and_those_given_up_are_not_held() {
    let sim = Arc::new(openai().await);
    sim.set_behaviour(Behaviour::Hangs);
    let call = |text: &'static str| {
        let sim = sim.clone();
        async move { ask(&sim, json!({"messages": user(text)})).await.text }
    };
    let mut held = JoinSet::new();
    let given_up = held.spawn(call("gone"));
    until("held", || sim.held() == 1).await;
    given_up.abort();
    until("its client went away", || sim.held() == 0).await;
    assert!(held.join_next().await.unwrap().is_err());
    held.spawn(call("waited"));
    until("held", || sim.held() == 1).await;
    sim.set_behaviour(Behaviour::Sound);
    assert_eq!(
        text(&ask(&sim, json!({"messages": user("later")})).await),
        "You said: later",
        "only the held one waits"
    );
    assert_eq!(sim.held(), 1);
    sim.release_held();
    assert!(held.join_next().await.unwrap().unwrap().contains("You said: waited"));
    assert_eq!((sim.held(), sim.calls_count()), (0, 3));
}

#[tokio::test]
async fn a_stream_says_the_same_as_the_whole_answer() {
    let (alpha, beta) = (openai().await, anthropic().await);
    let words = "You said: 🎉 日本 and some words";
    let body =
        json!({"messages": user("🎉 日本 and some words"), "stream": true, "stream_options": {"include_usage": true}});
    let got = ask(&alpha, body).await;
    assert!(got.head.contains("content-type: text/event-stream") && got.text.ends_with("data: [DONE]\n\n"));
    let events = got.events();
    let said: String = events.iter().filter_map(|event| event.pointer("/choices/0/delta/content")?.as_str()).collect();
    assert_eq!(said, words);
    let (finish, usage) = (&events[events.len() - 2], &events[events.len() - 1]);
    assert_eq!((&finish["choices"][0]["finish_reason"], &usage["choices"]), (&json!("stop"), &json!([])));
    assert_eq!(usage["usage"]["completion_tokens"], model::count(words));
    let got = ask(&beta, json!({"messages": user("🎉 日本 and some words"), "stream": true})).await;
    let events = got.events();
    let said: String = events.iter().filter_map(|event| event.pointer("/delta/text")?.as_str()).collect();
    assert_eq!((said.as_str(), &events[events.len() - 1]["type"]), (words, &json!("message_stop")));
    let tools = json!([{"name": "t", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}]);
    let got = ask(&beta, json!({"messages": user("take 5"), "tools": tools, "tool_choice": {"type": "tool", "name": "t"}, "stream": true})).await;
    let said: String = got
        .events()
        .iter()
        .filter_map(|event| event.pointer("/delta/partial_json")?.as_str().map(str::to_owned))
        .collect();
    assert_eq!(said, r#"{"n":5}"#);
}

#[tokio::test]
async fn a_dropped_provider_is_gone() {
    let sim = openai().await;
    let address = sim.address;
    drop(sim);
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < end);
        tokio::task::yield_now().await;
    }
}

async fn gemini() -> SimProvider {
    SimProvider::start("gamma", Wire::Gemini).await.unwrap()
}

#[tokio::test]
async fn googles_own_schemas_are_read_as_what_they_mean() {
    let sim = gemini().await;
    let schema = json!({"type": "OBJECT", "required": ["category", "note", "tags"], "propertyOrdering": ["note"],
        "properties": {"category": {"type": "STRING", "enum": ["billing"]}, "note": {"type": "STRING", "nullable": true},
            "tags": {"type": "ARRAY", "minItems": "2", "items": {"type": "INTEGER"}}}});
    let contents = json!([{"role": "user", "parts": [{"text": "I was charged twice"}]}]);
    let config = json!({"responseMimeType": "application/json", "responseSchema": schema});
    let got = ask(&sim, json!({"contents": contents, "generationConfig": config})).await;
    let value: Value = serde_json::from_str(&text(&got)).unwrap();
    assert_eq!(value["category"], "billing", "{value}");
    let tags = value["tags"].as_array().unwrap();
    assert!(tags.len() >= 2 && tags.iter().all(Value::is_i64), "{value}");
}

#[tokio::test]
async fn gemini_refuses_by_name_what_it_could_only_drop() {
    let sim = gemini().await;
    sim.set_models(["m"]);
    sim.set_key("right");
    let hi = json!([{"role": "user", "parts": [{"text": "hi"}]}]);
    let post = async |path: &str, key: &str, body: Value| {
        let headers = format!("x-goog-api-key: {key}\r\n");
        send(&sim, "POST", path, &headers, &body.to_string()).await
    };
    let at = "/models/m:generateContent";
    for (path, key, body, status, word) in [
        (at, "right", json!({"contents": hi, "invented": 1}), 400, "INVALID_ARGUMENT"),
        (at, "right", json!({"contents": hi, "generationConfig": {"topP": 2}}), 400, "INVALID_ARGUMENT"),
        (at, "right", json!({"contents": hi, "generationConfig": {"thinkingConfig": {}}}), 400, "INVALID_ARGUMENT"),
        (at, "right", json!({"contents": []}), 400, "INVALID_ARGUMENT"),
        (at, "wrong", json!({"contents": hi}), 400, "INVALID_ARGUMENT"),
        ("/models/other:generateContent", "right", json!({"contents": hi}), 404, "NOT_FOUND"),
        ("/models/m:embedContent", "right", json!({"contents": hi}), 404, "NOT_FOUND"),
    ] {
        let got = post(path, key, body.clone()).await;
        assert_eq!((got.status, &got.json()["error"]["status"]), (status, &json!(word)), "{path} {body}");
    }
    let declared = |schema: &str| {
        let mut declared = json!({"name": "find_order"});
        declared[schema] = json!({"type": "object", "properties": {"order_id": {"type": "integer"}}});
        let contents = json!([{"parts": [{"text": "call find_order for {\"order_id\": 7}"}]}]);
        json!({"contents": contents, "tools": [{"function_declarations": [declared]}]})
    };
    for spelling in ["parametersJsonSchema", "parameters_json_schema"] {
        let called = post(at, "right", declared(spelling)).await.json();
        let args = called.pointer("/candidates/0/content/parts/0/functionCall/args");
        assert_eq!(args, Some(&json!({"order_id": 7})), "{spelling}: {called}");
    }
    assert_eq!(post(at, "right", declared("schema")).await.status, 400, "a declaration's member that is none");
    let counted = post("/models/m:countTokens", "right", json!({"contents": hi})).await.json();
    let billed = post(at, "right", json!({"contents": hi})).await.json();
    assert_eq!(counted["totalTokens"], billed["usageMetadata"]["promptTokenCount"]);
}
