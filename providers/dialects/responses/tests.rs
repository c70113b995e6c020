//! Responses into the canonical form and back; and through unread, where the provider speaks them.

use bytes::Bytes;

use super::{continued, input_items, stem_of, unfinished};
use crate::adapter::{CallContext, Unsupported};
use crate::canonical::Request;
use crate::compatible::adapter_named;
use crate::dialects::assembled::{self, JOB, rendering, told};
use crate::dialects::{Dialect, Over, to_upstream};
use crate::fixtures;
use crate::json::Json;
use crate::openai::request::InvalidRequest;
use crate::stream::sampling::{Outcome, canonical, decode_every_way, decode_once};

fn object(text: &str) -> crate::json::Object {
    Json::parse(text.as_bytes()).unwrap().into_object().unwrap()
}

fn read(text: &str) -> Result<Request, InvalidRequest> {
    Dialect::Responses.parse(object(text))
}

fn request(text: &str) -> Request {
    read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn sent(adapter: &str, text: &str) -> Result<String, Unsupported> {
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    let sent = to_upstream(adapter_named(adapter).unwrap().as_ref(), &request(text), &context)?;
    Ok(String::from_utf8(sent.body.to_vec()).unwrap())
}

fn with(members: &str) -> String {
    format!(r#"{{"model":"m","input":"hi"{members}}}"#)
}

fn items(items: &str) -> String {
    format!(r#"{{"model":"m","input":[{items}]}}"#)
}

#[test]
fn what_has_a_meaning_in_chat_completions_is_translated_with_its_digits() {
    let text = sent(
        "openai",
        &with(
            r#","instructions":"be brief","max_output_tokens":50,"temperature":0.10,"top_p":1e-1,"include":["message.output_text.logprobs"],"top_logprobs":2,"parallel_tool_calls":false,"service_tier":"flex","user":"u","safety_identifier":"s","prompt_cache_key":"k","reasoning":{"effort":"low","summary":null},"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","strict":true,"schema":{"const":7300000000000000001}}},"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false}],"tool_choice":{"type":"function","name":"f"},"truncation":"disabled","metadata":{"a":"b"},"background":true,"store":true,"previous_response_id":"resp_x","invented":null"#,
        ),
    );
    let expected = r#"{"model":"target","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"max_completion_tokens":50,"temperature":0.10,"top_p":1e-1,"parallel_tool_calls":false,"service_tier":"flex","user":"u","safety_identifier":"s","prompt_cache_key":"k","logprobs":true,"top_logprobs":2,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":false}}],"tool_choice":{"type":"function","function":{"name":"f"}},"verbosity":"low","response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"const":7300000000000000001}}},"reasoning_effort":"low"}"#;
    assert_eq!(text.unwrap(), expected);
}

#[test]
fn every_item_of_the_input_finds_its_place() {
    let text = sent(
        "openai",
        &items(
            r#"{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"https://x/y.jpg","detail":"high"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0=","detail":"auto"},{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}]},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_1","status":"completed","call_id":"c1","name":"f","arguments":"{\"id\":7300000000000000001}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c2","output":"two"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"}]},{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]},{"role":"user","content":"q"}"#,
        ),
    )
    .unwrap();
    let expected = r#"{"model":"target","messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://x/y.jpg","detail":"high"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0="}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]},{"role":"assistant","content":[{"type":"text","text":"I look"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"id\":7300000000000000001}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"one"}]},{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]},{"role":"user","content":"q"}]}"#;
    assert_eq!(text, expected);
}

#[test]
fn what_has_no_meaning_elsewhere_is_refused_by_name_and_goes_to_openai_untouched() {
    let user = |part: &str| items(&format!(r#"{{"role":"user","content":[{part}]}}"#));
    for (text, param) in [
        (with(r#","truncation":"auto""#), "truncation"),
        (with(r#","conversation":"conv_1""#), "conversation"),
        (with(r#","prompt":{"id":"p"}"#), "prompt"),
        (with(r#","max_tool_calls":2"#), "max_tool_calls"),
        (with(r#","invented":7300000000000000001"#), "invented"),
        (with(r#","include":["reasoning.encrypted_content"]"#), "include[0]"),
        (with(r#","top_logprobs":2"#), "top_logprobs"),
        (with(r#","reasoning":{"summary":"auto"}"#), "reasoning.summary"),
        (with(r#","text":{"new":1}"#), "text.new"),
        (with(r#","tools":[{"type":"web_search"}]"#), "tools[0]"),
        (with(r#","tools":[{"type":"custom","name":"x"}]"#), "tools[0]"),
        (with(r#","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}"#), "tool_choice"),
        (user(r#"{"type":"input_image","file_id":"f"}"#), "input[0].content[0].file_id"),
        (user(r#"{"type":"input_file","file_url":"https://x"}"#), "input[0].content[0].file_url"),
        (user(r#"{"type":"input_audio","input_audio":{}}"#), "input[0].content[0]"),
        (items(r#"{"role":"user","content":"x"},{"type":"item_reference","id":"i"}"#), "input[1]"),
        (items(r#"{"role":"user","content":"x"},{"type":"web_search_call","id":"i"}"#), "input[1]"),
        (
            items(
                r#"{"role":"user","content":"x"},{"type":"tool_search_call","call_id":"s"},{"type":"function_call_output","call_id":"s","output":"y"}"#,
            ),
            "input[1]",
        ),
        (
            items(r#"{"role":"assistant","content":"x","phase":"final_answer"},{"role":"user","content":"x"}"#),
            "input[0].phase",
        ),
    ] {
        for adapter in ["openai", "anthropic"] {
            let refusal = sent(adapter, &text).expect_err(&text);
            assert_eq!(refusal.param, param, "{text}: {refusal}");
        }
        let expected = text.replace(r#""model":"m""#, r#""model":"target""#);
        assert_eq!(sent("openai-responses", &text).unwrap(), expected, "byte for byte but for the model");
    }
    let text = with(r#","background":true,"previous_response_id":"resp_x","stream":true,"metadata":{"a":"b"}"#);
    let expected = r#"{"model":"target","input":"hi","metadata":{"a":"b"},"stream":true}"#;
    assert_eq!(sent("openai-responses", &text).unwrap(), expected, "what the gateway does itself stays here");
}

#[test]
fn what_no_provider_would_take_is_refused_by_its_own_name() {
    for (text, param) in [
        (r#"{"input":"hi"}"#.to_owned(), "model"),
        (r#"{"model":"m"}"#.to_owned(), "input"),
        (items(""), "input"),
        (items(r#"{"role":"robot","content":"x"}"#), "input[0].role"),
        (items(r#"{"role":"user"}"#), "input[0].content"),
        (items(r#"{"type":"function_call","name":"f","arguments":"{}"}"#), "input[0].call_id"),
        (
            items(r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{"}"#),
            "input[0].tool_calls[0].function.arguments",
        ),
        (items(r#"{"type":"function_call_output","call_id":"c","output":"x"}"#), "input[0].tool_call_id"),
        (with(r#","max_output_tokens":0"#), "max_output_tokens"),
        (with(r#","tool_choice":"maybe""#), "tool_choice"),
        (with(r#","text":{"format":{"type":"json_schema","schema":{}}}"#), "text.format"),
        (with(r#","stream":1"#), "stream"),
        (with(r#","background":true,"store":false"#), "store"),
    ] {
        let error = read(&text).expect_err(&text);
        assert_eq!(error.param, param, "{text}: {error}");
    }
}

fn whole(request: &str, stored: &str) -> Json {
    let stored = Bytes::from(stored.to_owned());
    let rendering = rendering(request);
    let rendered = Dialect::Responses.whole(&rendering, &stored).unwrap();
    assert_eq!(Dialect::Responses.whole(&rendering, &stored), Some(rendered.clone()), "always the same bytes");
    let json = Json::parse(&rendered).unwrap();
    let stream = Dialect::Responses.whole_as_stream(&rendering, &stored).unwrap();
    assert_eq!(canonical(&assembled::response(std::str::from_utf8(&stream).unwrap())), canonical(&json));
    json
}

#[test]
fn an_answer_is_a_response_under_the_jobs_own_id() {
    let response = whole(
        r#"{"model":"r","input":"hi","instructions":"i","temperature":0.10,"metadata":{"a":"b"},"tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"low"},"previous_response_id":"resp_x"}"#,
        r#"{"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"r","annotations":[{"type":"url_citation","url_citation":{"url":"https://x","title":"t","start_index":0,"end_index":1}}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"id\":7300000000000000001}"}}]},"logprobs":{"content":[{"token":"a","logprob":-0.10}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}}"#,
    );
    let expected = r#"{"id":"resp_JOB","object":"response","created_at":7,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":"i","max_output_tokens":null,"model":"gpt","output":[{"id":"rs_JOB0000","type":"reasoning","summary":[{"type":"summary_text","text":"r"}]},{"id":"msg_JOB0001","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"https://x","title":"t","start_index":0,"end_index":1}],"logprobs":[{"token":"a","logprob":-0.10,"bytes":[97],"top_logprobs":[]}]}]},{"id":"fc_JOB0002","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"id\":7300000000000000001}"}],"parallel_tool_calls":true,"previous_response_id":"resp_x","reasoning":{"effort":"low","summary":null},"store":true,"temperature":0.10,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[{"type":"function","name":"f"}],"top_p":null,"truncation":"disabled","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":15},"user":null,"metadata":{"a":"b"}}"#;
    assert_eq!(response.to_bytes(), expected.replace("JOB", JOB));
    assert_eq!(stem_of(&format!("resp_{JOB}")), Some(JOB));
    for other in ["resp_1", "msg_0193a1b2c3d4e5f60718293a4b5c6d7e", "", "resp_0193a1b2c3d4e5f60718293a4b5c6dxx"] {
        assert_eq!(stem_of(other), None);
    }
}

#[test]
fn every_way_to_end_has_its_status() {
    for (finish, status, reason) in [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", Some("max_output_tokens")),
        ("content_filter", "incomplete", Some("content_filter")),
    ] {
        let response = whole(
            "{}",
            &format!(
                r#"{{"model":"m","choices":[{{"index":0,"message":{{"content":"","refusal":"No."}},"finish_reason":"{finish}"}}]}}"#
            ),
        );
        assert_eq!(assembled::text(&response, "status"), status);
        let details = response.get("incomplete_details").and_then(|details| details.get("reason")?.as_str());
        assert_eq!(details, reason);
        assert_eq!(response.get("usage"), Some(&Json::Null), "not known is not zero");
        let item = &response.get("output").and_then(Json::as_array).unwrap()[0];
        assert_eq!(assembled::text(item, "status"), status);
    }
}

#[test]
fn what_is_not_over_is_shown_as_a_response_too() {
    let asked = rendering(r#"{"model":"r","background":true}"#);
    let shown = Json::parse(&unfinished(&asked, &Over { status: "in_progress", created: 7, error: None })).unwrap();
    assert_eq!(assembled::text(&shown, "status"), "in_progress");
    assert_eq!((assembled::text(&shown, "model"), shown.get("background")), ("r", Some(&Json::Bool(true))));
    let failed =
        Json::parse(&unfinished(&asked, &Over { status: "failed", created: 7, error: Some(("server_error", "boom")) }))
            .unwrap();
    assert_eq!(failed.get("error").unwrap().to_bytes(), r#"{"code":"server_error","message":"boom"}"#);
}

#[test]
fn a_conversation_goes_on_from_an_earlier_response() {
    let before = object(r#"{"model":"r","input":"one","instructions":"old"}"#);
    let response = Json::parse(br#"{"output":[{"type":"message","role":"assistant","content":[]}]}"#).unwrap();
    let body = continued(object(r#"{"model":"r","input":"two","previous_response_id":"resp_x"}"#), &before, &response);
    let expected = r#"[{"role":"user","content":"one"},{"type":"message","role":"assistant","content":[]},{"role":"user","content":"two"}]"#;
    assert_eq!(body.get("input").unwrap().to_bytes(), expected);
    assert_eq!(input_items(&body).len(), 3);
    assert!(body.get("instructions").is_none(), "they are not carried over");
}

/// What the stream tells, put together, is the whole answer.
fn assert_same(what: &str, outcome: &Outcome) {
    let (_, stored) = outcome.answer.as_ref().unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
    let rendering = rendering(r#"{"model":"m"}"#);
    let whole = Dialect::Responses.whole(&rendering, &Bytes::from(stored.clone())).unwrap();
    let stream = told(Dialect::Responses, &rendering, outcome);
    let assembled = assembled::response(&stream);
    assert_eq!(canonical(&assembled), canonical(&Json::parse(&whole).unwrap()), "{what}: {stream}");
}

#[test]
fn streams_of_every_provider_are_the_whole_answer_in_order() {
    let mut streams = 0;
    for (provider, _) in fixtures::PROVIDERS.iter().filter(|(provider, _)| *provider != "openai-responses") {
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
    for (cassette, adapter) in fixtures::stream_recordings().filter(|(_, adapter)| *adapter != "openai-responses") {
        fixtures::recorded_streams(cassette, adapter, |source, head, body| {
            let outcome = decode_once(adapter, &any, head, body);
            if outcome.answer.is_ok() {
                assert_same(source, &outcome);
            }
        });
    }
}

/// A provider's own events and answer, under our own id.
fn adopted(mut json: Json) -> Json {
    let response = if json.get("response").is_some() { object_in(&mut json) } else { assembled::object_mut(&mut json) };
    response.insert("id", format!("resp_{JOB}"));
    response.insert("previous_response_id", Json::Null);
    response.insert("background", false);
    json
}

fn object_in(json: &mut Json) -> &mut crate::json::Object {
    assembled::object_mut(assembled::object_mut(json).get_mut("response").unwrap())
}

#[test]
fn openais_own_answers_and_events_go_through_under_the_jobs_id() {
    let (whole_asked, stream_asked) = (request(&with("")), request(&with(r#","stream":true"#)));
    let rendering = rendering("{}");
    let adapter = adapter_named("openai-responses").unwrap();
    let check = |source: &str, head: &crate::adapter::Head, body: &str| {
        let outcome = decode_once("openai-responses", &stream_asked, head, body.as_bytes());
        if outcome.answer.is_err() {
            return;
        }
        let came = body.replace("\r\n", "\n");
        let came = came.lines().filter_map(|line| Json::parse(line.strip_prefix("data:")?.trim().as_bytes()).ok());
        let expected: Vec<Json> =
            came.map(|event| if event.get("response").is_some() { adopted(event) } else { event }).collect();
        let stream = told(Dialect::Responses, &rendering, &outcome);
        let events = assembled::events(&stream);
        for (told, expected) in events.iter().zip(&expected) {
            assert_eq!(canonical(told), canonical(expected), "{source}");
        }
        assert_eq!(events.len(), expected.len(), "{source}");
    };
    for fixture in fixtures::all("openai-responses").iter().filter(|fixture| fixture.get("reply").is_some()) {
        let (head, body) = (fixtures::head(&fixture["response"]), fixtures::body(&fixture["response"]));
        if fixture["request"]["stream"] == true {
            check("fixture", &head, std::str::from_utf8(&body).unwrap());
            continue;
        }
        let answer = adapter.from_upstream(&whole_asked, &head, &body).unwrap();
        assert_eq!(answer.body, body, "byte for byte");
        let rendered = Dialect::Responses.whole(&rendering, &answer.body).unwrap();
        assert_eq!(canonical(&Json::parse(&rendered).unwrap()), canonical(&adopted(Json::parse(&body).unwrap())));
    }
    for (cassette, adapter) in fixtures::stream_recordings().filter(|(_, adapter)| *adapter == "openai-responses") {
        fixtures::recorded_streams(cassette, adapter, |source, head, body| {
            check(source, head, std::str::from_utf8(body).unwrap());
        });
    }
}

/// Real requests of public test suites: each is read, and goes through to OpenAI as it is.
#[test]
fn recorded_requests_are_read_and_pass() {
    let Some(exchanges) = fixtures::cassettes("openai-responses") else { return };
    let mut passed = 0;
    for exchange in exchanges {
        let uri = exchange["request"]["uri"].as_str().unwrap();
        let (Some(body), Some(200)) =
            (exchange["request"]["body"].as_object(), exchange["response"]["status"].as_u64())
        else {
            continue;
        };
        if !uri.split('?').next().unwrap().ends_with("/responses") || body.contains_key("previous_response_id") {
            continue;
        }
        let text = exchange["request"]["body"].to_string();
        let sent = sent("openai-responses", &text).unwrap_or_else(|error| panic!("{}: {error}", exchange["source"]));
        let mut came = Json::parse(text.as_bytes()).unwrap();
        let object = assembled::object_mut(&mut came);
        object.insert("model", "target");
        object.remove("background");
        if object.get("stream") == Some(&Json::Bool(false)) {
            object.remove("stream");
        }
        assert_eq!(canonical(&Json::parse(sent.as_bytes()).unwrap()), canonical(&came), "{}", exchange["source"]);
        passed += 1;
    }
    assert!(passed > 10, "{passed}");
    println!("{passed} requests");
}
