//! What a client's body is read as, and that it leaves unharmed.

use super::*;
use crate::canonical::{Message, Part, SystemRole, ToolChoice};
use crate::compatible::row_named;

fn body(text: &str) -> Object {
    Json::parse(text.as_bytes()).unwrap().into_object().unwrap()
}

fn read(text: &str) -> Request {
    parse(body(text)).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The field that the refusal names.
fn refused(text: &str) -> InvalidRequest {
    parse(body(text)).expect_err(text)
}

fn with(members: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{members}}}"#)
}

fn history(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":[{messages}]}}"#)
}

fn sent(row: &str, text: &str) -> String {
    String::from_utf8(to_upstream(row_named(row).unwrap(), &read(text), "target").to_vec()).unwrap()
}

const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;

#[test]
fn a_whole_request_is_understood() {
    let request = read(
        r#"{"model":"m","messages":[
            {"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d"}]},
            {"role":"user","name":"ann","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},{"type":"input_audio","input_audio":{}}]},
            {"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]}],
            "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}],
            "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"stop":"x",
            "max_completion_tokens":50.0,"temperature":0.10,"top_p":1,"n":2,"stream":true,"seed":7,"unknown":{"kept":1e2}}"#,
    );
    assert_eq!(
        request.messages[1],
        Message::System { role: SystemRole::Developer, parts: vec![Part::Text("d".into())] }
    );
    let Message::User { parts, name } = &request.messages[2] else { panic!() };
    assert_eq!((parts.len(), name.as_deref(), &parts[2]), (3, Some("ann"), &Part::Other("input_audio".into())));
    assert!(matches!(&request.messages[3], Message::Assistant { refusal: Some(text), .. } if text == "no"));
    assert_eq!(request.tool_choice, Some(ToolChoice::Function("f".into())));
    assert_eq!((request.max_tokens, request.n, request.stream), (Some(50), Some(2), true));
    assert_eq!(request.temperature.unwrap().as_str(), "0.10");
    assert_eq!((request.stop, request.parallel_tool_calls), (vec!["x".to_owned()], Some(false)));
    assert!(request.body.contains_key("unknown"));
}

#[test]
fn a_wrong_member_is_named() {
    for (text, param) in [
        (r#"{"messages":[{"role":"user","content":"hi"}]}"#.to_owned(), "model"),
        (r#"{"model":7,"messages":[{"role":"user","content":"hi"}]}"#.to_owned(), "model"),
        (r#"{"model":"a\nb","messages":[{"role":"user","content":"hi"}]}"#.to_owned(), "model"),
        (r#"{"model":"","messages":[{"role":"user","content":"hi"}]}"#.to_owned(), "model"),
        (r#"{"model":"m"}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":"hi"}"#.to_owned(), "messages"),
        (history(""), "messages"),
        (history("7"), "messages[0]"),
        (history(r#"{"content":"x"}"#), "messages[0].role"),
        (history(r#"{"role":"robot","content":"x"}"#), "messages[0].role"),
        (history(r#"{"role":"user"}"#), "messages[0].content"),
        (history(r#"{"role":"user","content":7}"#), "messages[0].content"),
        (history(r#"{"role":"user","content":[{"type":"text"}]}"#), "messages[0].content[0].text"),
        (history(r#"{"role":"user","content":[{"text":"x"}]}"#), "messages[0].content[0].type"),
        (
            history(r#"{"role":"user","content":[{"type":"image_url","image_url":"x"}]}"#),
            "messages[0].content[0].image_url",
        ),
        (history(r#"{"role":"user","content":[{"type":"refusal","refusal":"x"}]}"#), "messages[0].content[0].type"),
        (history(r#"{"role":"function","name":"f","content":"x"}"#), "messages[0].role"),
        (history(r#"{"role":"assistant","function_call":{"name":"f","arguments":""}}"#), "messages[0].function_call"),
        (history(r#"{"role":"tool","content":"x"}"#), "messages[0].tool_call_id"),
        (with(r#""functions":[]"#), "functions"),
        (with(r#""stop":7"#), "stop"),
        (with(r#""stop":["a",null]"#), "stop[1]"),
        (with(r#""temperature":"0.5""#), "temperature"),
        (with(r#""max_tokens":0"#), "max_tokens"),
        (with(r#""max_tokens":1.5"#), "max_tokens"),
        (with(r#""max_tokens":"50""#), "max_tokens"),
        (with(r#""n":-1"#), "n"),
        (with(r#""stream":"yes""#), "stream"),
        (with(r#""max_tokens":50,"max_completion_tokens":60"#), "max_completion_tokens"),
        (with(r#""tools":{}"#), "tools"),
        (with(r#""tools":[{"type":"custom","custom":{}}]"#), "tools[0].type"),
        (with(r#""tools":[{"type":"function","function":{"name":""}}]"#), "tools[0].function.name"),
        (
            with(r#""tools":[{"type":"function","function":{"name":"f","parameters":"{}"}}]"#),
            "tools[0].function.parameters",
        ),
        (with(r#""tool_choice":"any""#), "tool_choice"),
        (with(r#""tool_choice":{"type":"allowed_tools"}"#), "tool_choice.type"),
        (with(r#""response_format":"json""#), "response_format"),
        (with(r#""response_format":{"type":"yaml"}"#), "response_format.type"),
        (with(r#""response_format":{"type":"json_schema"}"#), "response_format.json_schema"),
        (
            with(r#""response_format":{"type":"json_schema","json_schema":{"schema":{}}}"#),
            "response_format.json_schema.name",
        ),
    ] {
        let refusal = refused(&text);
        assert_eq!(refusal.param, param, "{text}: {refusal}");
        assert!(!refusal.message.is_empty());
    }
}

#[test]
fn null_is_absent_and_equal_limits_are_one() {
    let request = read(&with(
        r#""stop":null,"tools":null,"tool_choice":null,"response_format":null,"temperature":null,"n":null,"stream":null,"max_tokens":50,"max_completion_tokens":50"#,
    ));
    assert_eq!((request.max_tokens, request.stream, request.stop.len()), (Some(50), false, 0));
}

#[test]
fn a_tool_only_turn_may_have_null_empty_or_no_content() {
    for content in [r#""content":null,"#, r#""content":"","#, "", r#""content":[],"#] {
        let call = CALL.replace(r#""content":null,"#, content);
        let request = read(&history(&format!(r#"{call},{{"role":"tool","tool_call_id":"c1","content":"r"}}"#)));
        assert!(matches!(&request.messages[0], Message::Assistant { parts, .. } if parts.is_empty()));
    }
}

#[test]
fn malformed_arguments_in_the_history_are_named() {
    let bad = CALL.replace(r#""arguments":"{}""#, r#""arguments":"{\"path\":\"a\"}{\"path\":\"b\"}""#);
    let refusal = refused(&history(&format!(r#"{{"role":"user","content":"q"}},{bad}"#)));
    assert_eq!(refusal.param, "messages[1].tool_calls[0].function.arguments");
    read(&history(&CALL.replace(r#""arguments":"{}""#, r#""arguments":" ""#)));
}

#[test]
fn calls_and_results_belong_together() {
    let result = |id: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#);
    let user = r#"{"role":"user","content":"q"}"#;
    let two = r#"{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":""}},{"id":"c2","function":{"name":"f","arguments":""}}]}"#;
    for (messages, param, id) in [
        (format!("{CALL},{user}"), "messages[0].tool_calls", "c1"),
        (format!("{two},{}", result("c2")), "messages[0].tool_calls", "c1"),
        (format!("{two},{},{user}", result("c1")), "messages[0].tool_calls", "c2"),
        (format!("{user},{}", result("c9")), "messages[1].tool_call_id", "c9"),
        (format!("{CALL},{},{}", result("c1"), result("c1")), "messages[2].tool_call_id", "c1"),
        (format!("{CALL},{},{user},{}", result("c1"), result("c1")), "messages[3].tool_call_id", "c1"),
        (two.replace("c2", "c1"), "messages[0].tool_calls[1].id", "c1"),
    ] {
        let refusal = refused(&history(&messages));
        assert_eq!(refusal.param, param, "{messages}: {refusal}");
        assert!(refusal.message.contains(id), "{refusal}");
    }
    read(&history(&format!("{two},{},{},{user}", result("c2"), result("c1"))));
    read(&history(&format!("{user},{CALL}")));
}

#[test]
fn conversations_are_bounded() {
    let many = vec![r#"{"role":"user","content":"x"}"#; MAX_MESSAGES + 1].join(",");
    assert_eq!(refused(&history(&many)).code, "array_above_max_length");
    let calls = (0..=MAX_TOOL_CALLS).map(|i| format!(r#"{{"id":"{i}","function":{{"name":"f","arguments":""}}}}"#));
    let turn = format!(r#"{{"role":"assistant","tool_calls":[{}]}}"#, calls.collect::<Vec<_>>().join(","));
    assert_eq!(refused(&history(&turn)).param, "messages[0].tool_calls");
}

#[test]
fn only_model_and_delivery_change_on_the_way() {
    let text = r#"{"z":1e2,"model":"m","stream":true,"messages":[{"role":"user","content":"hi","x":7300000000000000001}],"stream_options":{"include_obfuscation":false},"seed":-0,"a":{"b":null}}"#;
    let expected = r#"{"z":1e2,"model":"target","messages":[{"role":"user","content":"hi","x":7300000000000000001}],"seed":-0,"a":{"b":null}"#;
    let asked = r#","stream":true,"stream_options":{"include_obfuscation":false,"include_usage":true}}"#;
    assert_eq!(sent("openai", text), format!("{expected}{asked}"));
    let whole = text.replace(r#""stream":true,"#, "").replace(r#""stream_options":{"include_obfuscation":false},"#, "");
    assert_eq!(sent("openai", &whole), format!("{expected}}}"));
    let counted = write_count(row_named("llama-cpp").unwrap(), &read(text), "target");
    assert_eq!(counted, format!("{expected}}}"), "a count is no stream");
}

#[test]
fn usage_of_a_stream_is_for_those_who_ask_for_it() {
    for (members, wanted) in [
        (r#""stream":true"#, false),
        (r#""stream":true,"stream_options":null"#, false),
        (r#""stream":true,"stream_options":{"include_usage":null}"#, false),
        (r#""stream":true,"stream_options":{"include_usage":false}"#, false),
        (r#""stream":true,"stream_options":{"include_usage":true}"#, true),
    ] {
        assert_eq!(read(&with(members)).include_usage, wanted, "{members}");
    }
    for (members, param) in [
        (r#""stream_options":{"include_usage":true}"#, "stream_options"),
        (r#""stream":false,"stream_options":{}"#, "stream_options"),
        (r#""stream":true,"stream_options":[]"#, "stream_options"),
        (r#""stream":true,"stream_options":{"include_usage":"yes"}"#, "stream_options.include_usage"),
    ] {
        assert_eq!(refused(&with(members)).param, param, "{members}");
    }
}

#[test]
fn blank_arguments_become_an_empty_object() {
    let text = history(&CALL.replace(r#""arguments":"{}""#, r#""arguments":"""#));
    assert!(sent("vllm", &text).contains(r#""arguments":"{}""#));
}

#[test]
fn a_row_says_the_name_of_the_limit_and_of_the_developer() {
    let text = r#"{"model":"m","messages":[{"role":"developer","content":"d"}],"max_completion_tokens":50,"x":1}"#;
    let expected = r#"{"model":"target","messages":[{"role":"system","content":"d"}],"max_tokens":50,"x":1}"#;
    assert_eq!(sent("deepseek", text), expected);
    assert!(sent("openai", text).contains("developer") && sent("openai", text).contains("max_completion_tokens"));
    let both = with(r#""max_tokens":null,"max_completion_tokens":50"#);
    assert!(sent("deepseek", &both).contains(r#""max_tokens":50"#));
    let both = with(r#""max_tokens":50,"max_completion_tokens":50"#);
    assert_eq!(sent("deepseek", &both).matches("50").count(), 1);
}

#[test]
fn another_vendors_signed_reasoning_stays_behind() {
    let text = history(
        r#"{"role":"assistant","content":"a","reasoning_content":"r","thinking_blocks":[{"type":"thinking","signature":"s"}]},{"role":"assistant","content":"b","reasoning_content":"kept"}"#,
    );
    let sent = sent("openai", &text);
    assert!(!sent.contains("thinking") && !sent.contains("\"r\"") && sent.contains("kept"), "{sent}");
}
