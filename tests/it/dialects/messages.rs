//! Anthropic messages: `POST /v1/messages` and `/v1/messages/count_tokens`.

use http::Method;
use serde_json::{Value, json};

use super::{CLOCKS, assert_same_job, call, calling, calling_stream, calls, events, kinds, whole};
use crate::support::app::App;
use crate::support::client::{Answer, Client, OpenStream};
use crate::support::settings::Settings;
use crate::support::sse::{Stream, sound};
use crate::support::upstream::{Piece, Reply, ScriptedUpstream, Wire};

const PATH: &str = "/v1/messages";

fn ask() -> Value {
    json!({ "model": "support", "max_tokens": 64, "messages": [{ "role": "user", "content": "hi" }] })
}

fn with(members: Value) -> Value {
    let mut body = ask();
    for (name, value) in members.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

async fn post(client: &Client, key: &str, body: &Value) -> Answer {
    call(client, PATH, key, body).send().await
}

async fn stream(client: &Client, key: &str, body: &Value) -> OpenStream {
    let mut body = body.clone();
    body["stream"] = true.into();
    call(client, PATH, key, &body).open().await
}

/// What a client makes of the events, by the rules of the SDKs.
fn assembled(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    let mut inputs: Vec<String> = Vec::new();
    for event in &events[1..] {
        let at = event["index"].as_u64().unwrap_or_default() as usize;
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                message["content"].as_array_mut().expect("a list").push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => match event["delta"]["type"].as_str() {
                Some("text_delta") => {
                    let text = &mut message["content"][at]["text"];
                    *text = format!("{}{}", text.as_str().unwrap(), event["delta"]["text"].as_str().unwrap()).into();
                }
                Some("input_json_delta") => inputs[at].push_str(event["delta"]["partial_json"].as_str().unwrap()),
                other => panic!("{other:?}"),
            },
            "content_block_stop" if !inputs[at].is_empty() => {
                message["content"][at]["input"] = serde_json::from_str(&inputs[at]).expect("an input");
            }
            "message_delta" => {
                for part in ["stop_reason", "stop_sequence"] {
                    message[part] = event["delta"][part].clone();
                }
                for (name, count) in event["usage"].as_object().expect("usage") {
                    message["usage"][name] = count.clone();
                }
            }
            _ => {}
        }
    }
    message
}

#[tokio::test]
async fn a_message_is_a_job_in_its_own_words_and_replays_in_both_forms() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let first = post(&client, "k", &ask()).await.expect(200);
    let message = first.json();
    let id = format!("msg_{}", first.job_id().replace('-', ""));
    let expected = json!({
        "id": id, "type": "message", "role": "assistant", "model": "m1",
        "content": [{ "type": "text", "text": "ok" }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1 },
    });
    assert_eq!(message, expected);
    assert!(first.header("request-id").is_some_and(|id| id.starts_with("req_")));
    assert_eq!(first.header("x-interlock-provider"), Some("alpha"));
    let again = post(&client, "k", &ask()).await.expect(200);
    assert_same_job(&first, &again);
    assert_ne!(again.header("request-id"), first.header("request-id"), "a request's id is its own");
    let replayed = events(&whole(stream(&client, "k", &ask()).await).await);
    assert_eq!(assembled(&replayed), expected);
    let order = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds(&replayed), order);
    let result = client.result(&first.job_id()).await.expect(200);
    assert_eq!(result.body, first.body);
    let job = client.job(&first.job_id()).await;
    assert_eq!((&job["url"], &job["state"]), (&json!(PATH), &json!("succeeded")));
    assert_eq!(alpha.count(), 1);
    let sent = alpha.calls()[0].clone();
    assert_eq!(sent.path, "/v1/chat/completions");
    let expected =
        json!({ "model": "m1", "messages": [{ "role": "user", "content": "hi" }], "max_completion_tokens": 64 });
    assert_eq!(sent.json(), expected);
}

#[tokio::test]
async fn a_stream_goes_out_as_it_comes_and_a_second_client_joins_it() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).then(Piece::Hold).words(&["two"]).sound());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let mut first = stream(&client, "k", &ask()).await;
    let mut begun = Vec::new();
    while begun.len() < 3 {
        begun.push(first.next().await.expect("an event"));
    }
    assert_eq!(kinds(&events(&begun)), ["message_start", "content_block_start", "content_block_delta"]);
    let second = stream(&client, "k", &ask()).await;
    alpha.release();
    begun.extend(first.rest().await);
    assert_eq!(whole(second).await, begun, "attached: the same events");
    let told = events(&begun);
    assert_eq!(kinds(&told).last(), Some(&"message_stop"));
    assert_eq!(assembled(&told)["content"], json!([{ "type": "text", "text": "one two" }]));
    assert_eq!(whole(stream(&client, "k", &ask()).await).await, begun, "replayed: the same bytes");
    let answer = post(&client, "k", &ask()).await.expect(200);
    assert_eq!(answer.json(), assembled(&told), "the whole answer is what was streamed");
    assert_eq!(alpha.count(), 1);
}

#[tokio::test]
async fn tools_parallel_calls_and_structured_output_survive_both_ways() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(calling());
    alpha.next(calling_stream());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let schema = json!({ "type": "object", "properties": { "id": { "type": "integer" } } });
    let body = with(json!({
        "tools": [{ "name": "rd", "description": "reads", "input_schema": schema }], "tool_choice": { "type": "any" },
        "output_config": { "format": { "type": "json_schema", "schema": schema } },
        "messages": [
            { "role": "user", "content": "q" },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "rd", "input": { "id": 1 } }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "R" }] },
        ],
    }));
    let answer = post(&client, "k", &body).await.expect(200);
    let expected = json!([
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "c1", "name": "rd", "input": { "id": 7_300_000_000_000_000_001_u64 } },
        { "type": "tool_use", "id": "c2", "name": "rd", "input": {} },
    ]);
    assert_eq!((&answer.json()["content"], &answer.json()["stop_reason"]), (&expected, &json!("tool_use")));
    assert_eq!(answer.json()["usage"]["cache_read_input_tokens"], 4);
    assert_eq!(answer.json()["usage"]["input_tokens"], 5, "what was cached stands apart");
    let told = events(&whole(stream(&client, "s", &body).await).await);
    assert_eq!((&assembled(&told)["content"], &assembled(&told)["stop_reason"]), (&expected, &json!("tool_use")));
    let sent = alpha.calls()[0].json();
    assert_eq!(sent["tools"][0]["function"], json!({ "name": "rd", "description": "reads", "parameters": schema }));
    assert_eq!(
        (&sent["tool_choice"], &sent["response_format"]["json_schema"]["schema"]),
        (&json!("required"), &schema)
    );
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"id\":1}");
    assert_eq!(sent["messages"][2], json!({ "role": "tool", "tool_call_id": "t1", "content": "R" }));
    assert_eq!(calls().as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn nothing_is_lost_between_a_client_and_a_provider_of_the_same_dialect() {
    let alpha = ScriptedUpstream::speaking(Wire::Anthropic).await;
    let native = r#"{"id":"msg_01X","type":"message","role":"assistant","model":"m1","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":7300000000000000001}},{"type":"text","text":"a","citations":[{"type":"x"}]}],"stop_reason":"pause_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1,"service_tier":"standard"},"invented":1.0}"#;
    alpha.next(Reply::whole(200, "application/json", native));
    let sse = [
        r#"{"type":"message_start","message":{"id":"msg_02","type":"message","role":"assistant","model":"m1","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":0}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{},"caller":{"type":"direct"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"id\":7300000000000000001}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let body: String = sse
        .iter()
        .map(|data| {
            let kind = serde_json::from_str::<Value>(data).expect("JSON")["type"].as_str().expect("a type").to_owned();
            format!("event: {kind}\ndata: {data}\n\nevent: ping\ndata: {{\"type\":\"ping\"}}\n\n")
        })
        .collect();
    alpha.next(Reply::whole(200, "text/event-stream", &body));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let asked = r#"{"model":"support","max_tokens":64,"top_k":5,"thinking":{"type":"enabled","budget_tokens":1024},"invented":7300000000000000001,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}"#;
    let send = async || client.request(Method::POST, PATH).key("k").body(asked).send().await.expect(200);
    let answer = send().await;
    assert_eq!(answer.text(), native, "byte for byte");
    assert_eq!(alpha.calls()[0].body, asked.replace("support", "m1"));
    assert_same_job(&answer, &send().await);
    assert_eq!(client.job(&answer.job_id()).await["attempts"][0]["usage"]["output_tokens"], 1, "and it is understood");
    let streamed = whole(stream(&client, "s", &ask()).await).await;
    let expected: Vec<Value> = sse.iter().map(|data| serde_json::from_str(data).expect("JSON")).collect();
    assert_eq!(events(&streamed), expected, "every event but the pings");
    assert_eq!(whole(stream(&client, "s", &ask()).await).await, streamed);
    let again = post(&client, "s", &ask()).await.expect(200);
    assert_eq!(again.json()["content"][0]["input"]["id"], 7_300_000_000_000_000_001_u64);
    assert_eq!(again.json()["content"][0]["caller"]["type"], "direct");
}

#[tokio::test]
async fn what_the_primary_cannot_carry_is_refused_by_name_before_there_is_a_job() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    for (members, param) in [
        (json!({ "top_k": 5 }), "top_k"),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }), "thinking"),
        (json!({ "invented": 1 }), "invented"),
        (json!({ "system": [{ "type": "text", "text": "x", "cache_control": {} }] }), "system[0].cache_control"),
        (json!({ "max_tokens": null }), "max_tokens"),
    ] {
        let refused = post(&client, "k", &with(members)).await.expect(400);
        let error = refused.json();
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
        assert_eq!(error["error"]["param"], param, "{error}");
        assert_eq!(error["request_id"].as_str(), refused.header("request-id"), "{error}");
    }
    assert_eq!((alpha.count(), client.job_by_key("k").await), (0, None));
}

#[tokio::test]
async fn errors_of_every_class_have_anthropics_shape() {
    let alpha = ScriptedUpstream::start().await;
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let check = |answer: Answer, kind: &str, code: &str| {
        let error = answer.json();
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!(kind)), "{error}");
        assert_eq!(answer.code(), code);
        assert_eq!(error["request_id"].as_str(), answer.header("request-id"));
    };
    let anonymous = client.anonymous(Method::POST, PATH).key("k").json(&ask()).send().await.expect(401);
    check(anonymous, "authentication_error", "invalid_api_key");
    let keyless = client.request(Method::POST, PATH).json(&ask()).send().await.expect(400);
    check(keyless, "invalid_request_error", "idempotency_key_missing");
    let nowhere = post(&client, "k", &with(json!({ "model": "nobody" }))).await.expect(404);
    check(nowhere, "not_found_error", "model_not_found");
    for (reply, status, kind, code) in [
        (Reply::error(429, "rate_limit_exceeded", "slow down"), 429, "rate_limit_error", "all_targets_failed"),
        (Reply::overloaded(), 503, "overloaded_error", "all_targets_failed"),
        (Reply::bad_request(), 400, "invalid_request_error", "request_refused"),
        (Reply::error(500, "server_error", "boom"), 502, "api_error", "all_targets_failed"),
    ] {
        alpha.next(reply);
        let answer = post(&client, &format!("k{status}"), &ask()).await.expect(status);
        assert!(answer.header("x-interlock-job-id").is_some());
        check(answer, kind, code);
    }
    post(&client, "c", &ask()).await.expect(200);
    let conflict = post(&client, "c", &with(json!({ "max_tokens": 65 }))).await.expect(409);
    assert_eq!(conflict.header("x-should-retry"), Some("false"));
    check(conflict, "invalid_request_error", "idempotency_key_conflict");
}

#[tokio::test]
async fn an_unknown_outcome_is_told_waited_for_and_answered_once() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(&alpha, "attempt_timeout = \"300ms\"")).await;
    let client = app.client("acme").await;
    let unknown = post(&client, "k", &ask()).await.expect(504);
    assert_eq!(
        (unknown.code().as_str(), &unknown.json()["error"]["type"]),
        ("attempt_unknown", &json!("timeout_error"))
    );
    assert_eq!(unknown.header("location"), Some(format!("/v1/jobs/{}", unknown.job_id()).as_str()));
    alpha.release();
    client.job_in_state(&unknown.job_id(), "succeeded").await;
    let answer = post(&client, "k", &ask()).await.expect(200);
    assert_eq!(answer.json()["content"][0]["text"], "late");
    assert_eq!(alpha.count(), 1);
}

// B021, R5
#[tokio::test]
async fn a_cut_stream_ends_with_an_error_event_and_no_message_stop() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Stream::begin().words(&["one "]).cut());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let told = events(&whole(stream(&client, "k", &ask()).await).await);
    assert_eq!(kinds(&told), ["message_start", "content_block_start", "content_block_delta", "error"]);
    let last = told.last().expect("an event");
    assert_eq!((&last["error"]["type"], &last["error"]["code"]), (&json!("timeout_error"), &json!("attempt_unknown")));
}

#[tokio::test]
async fn a_round_is_continued_from_what_is_stored() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(Reply::overloaded());
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let beside = App::beside(&app, &Settings::one(&alpha, CLOCKS)).await;
    let client = app.client("acme").await;
    let first = post(&client, "k", &with(json!({ "system": "s" }))).await.expect(503);
    let again = post(&client.at(beside.application), "k", &with(json!({ "system": "s" }))).await.expect(200);
    assert_eq!(again.job_id(), first.job_id());
    assert_eq!(again.json()["type"], "message");
    let calls = alpha.calls();
    assert_eq!(calls[1].json(), calls[0].json(), "read again from the database, it is the same request");
}

#[tokio::test]
async fn a_job_may_be_ordered_and_fetched_later_by_its_owner_alone() {
    let alpha = ScriptedUpstream::start().await;
    alpha.next(sound(&["a"]));
    let app = App::start(&Settings::one(&alpha, CLOCKS)).await;
    let (client, stranger) = (app.client("acme").await, app.client("evil").await);
    let order = json!({ "url": PATH, "body": with(json!({ "stream": true })) });
    let ordered = client.request(Method::POST, "/v1/jobs").key("k").json(&order).send().await.expect(201);
    let id = ordered.json()["id"].as_str().expect("an id").to_owned();
    client.job_in_state(&id, "succeeded").await;
    let result = client.result(&id).await.expect(200);
    assert_eq!((&result.json()["type"], &result.json()["content"][0]["text"]), (&json!("message"), &json!("a")));
    stranger.result(&id).await.expect(404);
    let other = post(&stranger, "k", &ask()).await.expect(200);
    assert_ne!(other.job_id(), id, "a stranger's key is a stranger's");
}

#[tokio::test]
async fn tokens_are_counted_by_the_provider_or_here_and_never_guessed() {
    let (alpha, beta) = (ScriptedUpstream::speaking(Wire::Anthropic).await, ScriptedUpstream::start().await);
    alpha.next(Reply::whole(200, "application/json", r#"{"input_tokens":14}"#));
    alpha.next(Reply::error(429, "rate_limit_error", "slow down"));
    let settings = Settings::one(&alpha, CLOCKS)
        .upstream("beta", &beta)
        .route("local", &["beta/gpt-4.1"], CLOCKS)
        .route("nobody", &["beta/m2"], CLOCKS);
    let app = App::start(&settings).await;
    let client = app.client("acme").await;
    let count = async |route: &str, members: Value| {
        let mut body = json!({ "model": route, "messages": [{ "role": "user", "content": "hi" }] });
        for (name, value) in members.as_object().expect("an object") {
            body[name] = value.clone();
        }
        client.post("/v1/messages/count_tokens", &body).await
    };
    let counted = count("support", json!({ "thinking": { "type": "adaptive" } })).await.expect(200);
    assert_eq!(counted.json(), json!({ "input_tokens": 14 }));
    let sent = alpha.calls()[0].clone();
    assert_eq!(sent.path, "/v1/messages/count_tokens");
    let expected =
        json!({ "model": "m1", "messages": [{ "role": "user", "content": "hi" }], "thinking": { "type": "adaptive" } });
    assert_eq!(sent.json(), expected, "and no limit that nobody gave");
    let limited = count("support", json!({})).await.expect(429);
    assert_eq!(limited.json()["error"]["type"], "rate_limit_error");
    assert_eq!(count("local", json!({})).await.expect(200).json()["input_tokens"], 8, "3 + user + hi + 3");
    let refused = count("nobody", json!({})).await.expect(400);
    assert_eq!(
        (refused.code().as_str(), &refused.json()["error"]["param"]),
        ("unsupported_operation", &json!("model"))
    );
    assert_eq!(beta.count(), 0);
    assert_eq!(client.get("/v1/jobs").await.json()["data"], json!([]), "a count is no job");
}
