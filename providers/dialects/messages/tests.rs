//! Messages into the canonical form and back; and through unread, where the provider speaks them.

use bytes::Bytes;

use crate::adapter::{CallContext, Unsupported, UpstreamRequest};
use crate::canonical::Request;
use crate::compatible::adapter_named;
use crate::dialects::assembled::{self, rendering, told};
use crate::dialects::{Dialect, Rendering, to_upstream};
use crate::fixtures;
use crate::json::Json;
use crate::openai::request::InvalidRequest;
use crate::stream::sampling::{Outcome, canonical, decode_every_way, decode_once};

fn read(text: &str) -> Result<Request, InvalidRequest> {
    Dialect::Messages.parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap())
}

fn request(text: &str) -> Request {
    read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn sent(adapter: &str, text: &str) -> Result<UpstreamRequest, Unsupported> {
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    to_upstream(adapter_named(adapter).unwrap().as_ref(), &request(text), &context)
}

fn body(adapter: &str, text: &str) -> String {
    let sent = sent(adapter, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    String::from_utf8(sent.body.to_vec()).unwrap()
}

fn with(members: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]{members}}}"#)
}

fn history(messages: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":9,"messages":[{messages}]}}"#)
}

fn this() -> Rendering {
    rendering("{}")
}

#[test]
fn what_has_a_meaning_in_chat_completions_is_translated_with_its_digits() {
    let text = body(
        "openai",
        &with(
            r#","system":[{"type":"text","text":"A"},{"type":"text","text":"B"}],"stop_sequences":["END"],"temperature":0.10,"top_p":1e-1,"metadata":{"user_id":"u"},"service_tier":"standard_only","tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"id":{"const":7300000000000000001}}},"strict":true},{"type":"custom","name":"g","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"title":"My Plan","type":"object"}}},"top_k":null"#,
        ),
    );
    let expected = r#"{"model":"target","messages":[{"role":"system","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},{"role":"user","content":"hi"}],"max_completion_tokens":9,"temperature":0.10,"top_p":1e-1,"stop":["END"],"user":"u","tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"id":{"const":7300000000000000001}}},"strict":true}},{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"g"}},"parallel_tool_calls":false,"reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":{"name":"MyPlan","schema":{"title":"My Plan","type":"object"},"strict":true}},"service_tier":"default"}"#;
    assert_eq!(text, expected);
    for (choice, expected) in [
        (r#"{"type":"auto"}"#, r#""tool_choice":"auto""#),
        (r#"{"type":"any"}"#, r#""tool_choice":"required""#),
        (r#"{"type":"none"}"#, r#""tool_choice":"none""#),
    ] {
        let tools = format!(r#","tools":[{{"name":"f","input_schema":{{"type":"object"}}}}],"tool_choice":{choice}"#);
        let text = body("openai", &with(&tools));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn every_block_of_a_conversation_finds_its_place() {
    let text = body(
        "openai",
        &history(
            r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0="}},{"type":"image","source":{"type":"url","url":"https://x/y.jpg"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"I look"},{"type":"tool_use","id":"t1","name":"f","input":{"id":7300000000000000001,"x":1.0}},{"type":"tool_use","id":"t2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},{"type":"tool_result","tool_use_id":"t2","is_error":false,"content":[{"type":"text","text":"two"}]},{"type":"text","text":"go on"}]},{"role":"assistant","content":"done"},{"role":"system","content":"be brief"},{"role":"user","content":"q"}"#,
        ),
    );
    let expected = r#""messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0="}},{"type":"image_url","image_url":{"url":"https://x/y.jpg"}}]},{"role":"assistant","content":[{"type":"text","text":"I look"}],"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"id\":7300000000000000001,\"x\":1.0}"}},{"id":"t2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t1","content":"one"},{"role":"tool","tool_call_id":"t2","content":[{"type":"text","text":"two"}]},{"role":"user","content":[{"type":"text","text":"go on"}]},{"role":"assistant","content":"done"},{"role":"system","content":"be brief"},{"role":"user","content":"q"}]"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_has_no_meaning_elsewhere_is_refused_by_name_and_goes_to_anthropic_untouched() {
    let user = |block: &str| history(&format!(r#"{{"role":"user","content":[{block}]}}"#));
    let call = r#"{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}"#;
    for (text, param) in [
        (with(r#","top_k":5"#), "top_k"),
        (with(r#","thinking":{"type":"enabled","budget_tokens":1024}"#), "thinking"),
        (with(r#","container":"c""#), "container"),
        (with(r#","mcp_servers":[]"#), "mcp_servers"),
        (with(r#","invented":7300000000000000001"#), "invented"),
        (with(r#","metadata":{"team":"x"}"#), "metadata.team"),
        (with(r#","output_config":{"effort":"max"}"#), "output_config.effort"),
        (with(r#","output_config":{"new":1}"#), "output_config.new"),
        (
            with(r#","system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]"#),
            "system[0].cache_control",
        ),
        (with(r#","tools":[{"type":"web_search_20250305","name":"web_search"}]"#), "tools[0]"),
        (
            with(r#","tools":[{"name":"f","input_schema":{},"cache_control":{"type":"ephemeral"}}]"#),
            "tools[0].cache_control",
        ),
        (user(r#"{"type":"document","source":{"type":"text","data":"x"}}"#), "messages[0].content[0]"),
        (user(r#"{"type":"image","source":{"type":"file","file_id":"f"}}"#), "messages[0].content[0].source"),
        (
            user(r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#),
            "messages[0].content[0].cache_control",
        ),
        (history(r#"{"role":"user","content":"x","id":1}"#), "messages[0].id"),
        (
            history(&format!(
                r#"{call},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","is_error":true}}]}}"#
            )),
            "messages[2].content[0].is_error",
        ),
        (
            history(&format!(
                r#"{call},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":[{{"type":"image"}}]}}]}}"#
            )),
            "messages[2].content[0].content[0]",
        ),
        (
            history(
                r#"{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s"}]}"#,
            ),
            "messages[1].content[0]",
        ),
    ] {
        for adapter in ["openai", "openai-responses"] {
            let refusal = sent(adapter, &text).expect_err(&text);
            assert_eq!(refusal.param, param, "{text}: {refusal}");
        }
        let expected = text.replace(r#""model":"m""#, r#""model":"target""#);
        assert_eq!(body("anthropic", &text), expected, "byte for byte but for the model");
    }
}

#[test]
fn what_no_provider_would_take_is_refused_by_its_own_name() {
    for (text, param) in [
        (r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#.to_owned(), "max_tokens"),
        (r#"{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#.to_owned(), "model"),
        (r#"{"model":"m","max_tokens":9}"#.to_owned(), "messages"),
        (history(""), "messages"),
        (history(r#"{"role":"robot","content":"x"}"#), "messages[0].role"),
        (history(r#"{"role":"user"}"#), "messages[0].content"),
        (history(r#"{"role":"user","content":[{"text":"x"}]}"#), "messages[0].content[0].type"),
        (history(r#"{"role":"user","content":[{"type":"text"}]}"#), "messages[0].content[0].text"),
        (with(r#","system":7"#), "system"),
        (with(r#","stop_sequences":"END""#), "stop_sequences"),
        (with(r#","stop_sequences":[7]"#), "stop_sequences[0]"),
        (with(r#","stream":"yes""#), "stream"),
        (with(r#","tools":[{"input_schema":{}}]"#), "tools[0].name"),
        (with(r#","tools":[{"name":"f","input_schema":"x"}]"#), "tools[0].input_schema"),
        (with(r#","tool_choice":{"type":"maybe"}"#), "tool_choice.type"),
        (with(r#","output_config":{"format":{"type":"json_schema"}}"#), "output_config.format.schema"),
        // Calls and results belong together; the path is the client's own, though a system message stands before.
        (
            r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}"#
                .to_owned(),
            "messages[0].content[0].tool_call_id",
        ),
    ] {
        let error = read(&text).expect_err(&text);
        assert_eq!(error.param, param, "{text}: {error}");
    }
}

#[test]
fn unsigned_reasoning_of_another_vendor_does_not_go_to_anthropic() {
    let text = history(
        r#"{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":""},{"type":"thinking","thinking":"y","signature":"c2ln"},{"type":"text","text":"a"}]},{"role":"user","content":"r"}"#,
    );
    let text = body("anthropic", &text);
    assert!(
        text.contains(r#"[{"type":"thinking","thinking":"y","signature":"c2ln"},{"type":"text","text":"a"}]"#),
        "{text}"
    );
}

#[test]
fn the_count_takes_the_prompt_alone_and_the_stream_is_delivery() {
    let text = with(r#","top_k":5,"temperature":0.5,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024}"#);
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    let adapter = adapter_named("anthropic").unwrap();
    let counted = crate::dialects::to_count(adapter.as_ref(), &request(&text), &context).unwrap().unwrap();
    let expected = r#"{"model":"target","messages":[{"role":"user","content":"hi"}],"thinking":{"type":"enabled","budget_tokens":1024}}"#;
    assert_eq!((counted.path.as_str(), &counted.body[..]), ("/messages/count_tokens", expected.as_bytes()));
    assert!(body("anthropic", &text).ends_with(r#","stream":true}"#));
}

fn whole(stored: &str) -> Json {
    let stored = Bytes::from(stored.to_owned());
    let rendered = Dialect::Messages.whole(&this(), &stored).unwrap();
    assert_eq!(Dialect::Messages.whole(&this(), &stored), Some(rendered.clone()), "always the same bytes");
    let json = Json::parse(&rendered).unwrap();
    let stream = Dialect::Messages.whole_as_stream(&this(), &stored).unwrap();
    let stream = String::from_utf8(stream.to_vec()).unwrap();
    assert_eq!(canonical(&assembled::message(&stream)), canonical(&json), "{stream}");
    json
}

#[test]
fn an_answer_is_a_message_under_the_jobs_own_id() {
    let message = whole(
        r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"id\":7300000000000000001,\"x\":1e2}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":1}}}"#,
    );
    let expected = r#"{"id":"msg_0193a1b2c3d4e5f60718293a4b5c6d7e","type":"message","role":"assistant","model":"gpt","content":[{"type":"thinking","thinking":"r","signature":""},{"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"f","input":{"id":7300000000000000001,"x":1e2}},{"type":"tool_use","id":"c2","name":"f","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":1,"cache_read_input_tokens":4,"output_tokens":5}}"#;
    assert_eq!(message.to_bytes(), expected);
}

#[test]
fn every_finish_reason_has_its_word() {
    for (choice, reason, sequence) in [
        (r#""finish_reason":"stop""#, "end_turn", Json::Null),
        (r#""finish_reason":"stop","stop_reason":"END""#, "stop_sequence", "END".into()),
        (r#""finish_reason":"stop","stop_reason":7"#, "end_turn", Json::Null),
        (r#""finish_reason":"length""#, "max_tokens", Json::Null),
        (r#""finish_reason":"tool_calls""#, "tool_use", Json::Null),
        (r#""finish_reason":"content_filter""#, "refusal", Json::Null),
    ] {
        let message = whole(&format!(
            r#"{{"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"","refusal":"No."}},{choice}}}]}}"#
        ));
        assert_eq!(message.get("stop_reason").and_then(Json::as_str), Some(reason));
        assert_eq!(message.get("stop_sequence"), Some(&sequence));
        let content = message.get("content").unwrap().to_bytes();
        assert_eq!(content, r#"[{"type":"text","text":"No."}]"#, "a refusal is said, an empty text is not");
        let usage = message.get("usage").and_then(|usage| usage.get("output_tokens"));
        assert_eq!(usage, Some(&Json::Null), "not known is not zero");
    }
}

/// What the stream tells, put together, is the whole answer.
fn assert_same(what: &str, outcome: &Outcome) {
    let (_, stored) = outcome.answer.as_ref().unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
    let whole = Dialect::Messages.whole(&this(), &Bytes::from(stored.clone())).unwrap();
    let stream = told(Dialect::Messages, &this(), outcome);
    let assembled = assembled::message(&stream);
    assert_eq!(canonical(&assembled), canonical(&Json::parse(&whole).unwrap()), "{what}: {stream}");
}

#[test]
fn streams_of_every_provider_are_the_whole_answer_in_order() {
    let mut streams = 0;
    for (provider, _) in fixtures::PROVIDERS.iter().filter(|(provider, _)| *provider != "anthropic") {
        for fixture in fixtures::all(provider) {
            let asked = crate::openai::request::parse(Json::from(&fixture["request"]).into_object().unwrap()).unwrap();
            if !asked.stream || fixture.get("reply").is_none() {
                continue;
            }
            let (head, body) = (fixtures::head(&fixture["response"]), fixtures::body(&fixture["response"]));
            assert_same(provider, &decode_every_way(provider, &asked, &head, &body));
            streams += 1;
        }
    }
    assert!(streams >= 4, "{streams}");
    let any = crate::stream::sampling::request("");
    for (cassette, adapter) in fixtures::stream_recordings().filter(|(_, adapter)| *adapter != "anthropic") {
        fixtures::recorded_streams(cassette, adapter, |source, head, body| {
            let outcome = decode_once(adapter, &any, head, body);
            if outcome.answer.is_ok() {
                assert_same(source, &outcome);
            }
        });
    }
}

#[test]
fn anthropics_own_answers_go_through_as_they_came() {
    let asked = request(&with(""));
    let adapter = adapter_named("anthropic").unwrap();
    for fixture in fixtures::all("anthropic") {
        let (head, body) = (fixtures::head(&fixture["response"]), fixtures::body(&fixture["response"]));
        if fixture.get("reply").is_none() || fixture["request"]["stream"] == true {
            continue;
        }
        let answer = adapter.from_upstream(&asked, &head, &body).unwrap();
        assert_eq!(answer.body, body, "byte for byte");
        whole(std::str::from_utf8(&body).unwrap());
    }
}

#[test]
fn anthropics_own_events_go_through_in_their_order_and_are_the_whole_answer() {
    let asked = request(&with(r#","stream":true"#));
    let check = |source: &str, head: &crate::adapter::Head, body: &str| {
        let outcome = decode_once("anthropic", &asked, head, body.as_bytes());
        if outcome.answer.is_err() {
            return;
        }
        let stream = told(Dialect::Messages, &this(), &outcome);
        let came: Vec<Json> = body
            .replace("\r\n", "\n")
            .lines()
            .filter_map(|line| Json::parse(line.strip_prefix("data:")?.trim().as_bytes()).ok())
            .filter(|event| event.get("type").and_then(Json::as_str) != Some("ping"))
            .collect();
        assert_eq!(assembled::events(&stream), came, "{source}");
        assert_same(source, &outcome);
    };
    let mut streams = 0;
    for fixture in fixtures::all("anthropic").iter().filter(|fixture| fixture["request"]["stream"] == true) {
        let body = String::from_utf8(fixtures::body(&fixture["response"]).to_vec()).unwrap();
        check("fixture", &fixtures::head(&fixture["response"]), &body);
        streams += 1;
    }
    assert!(streams >= 2, "{streams}");
    fixtures::recorded_streams("anthropic", "anthropic", |source, head, body| {
        check(source, head, std::str::from_utf8(body).unwrap());
    });
}

/// Real requests of public test suites: each is read, and goes through to Anthropic as it is.
#[test]
fn recorded_requests_are_read_and_pass() {
    let Some(exchanges) = fixtures::cassettes("anthropic") else { return };
    let mut read = 0;
    for exchange in exchanges {
        let uri = exchange["request"]["uri"].as_str().unwrap();
        let (Some(_), Some(200)) = (exchange["request"]["body"].as_object(), exchange["response"]["status"].as_u64())
        else {
            continue;
        };
        if !uri.split('?').next().unwrap().ends_with("/messages") {
            continue;
        }
        let text = exchange["request"]["body"].to_string();
        let passed = Json::parse(body("anthropic", &text).as_bytes()).unwrap();
        let mut came = Json::parse(text.as_bytes()).unwrap();
        assembled::object_mut(&mut came).insert("model", "target");
        if came.get("stream") == Some(&Json::Bool(false)) {
            assembled::object_mut(&mut came).remove("stream");
        }
        assert_eq!(canonical(&passed), canonical(&came), "{}", exchange["source"]);
        read += 1;
    }
    assert!(read > 20, "{read}");
    println!("{read} requests");
}
