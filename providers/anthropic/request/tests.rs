//! What is sent for a request, and what is refused by name.

use super::*;
use crate::compatible::row_named;
use crate::openai::request::parse;

fn request(text: &str) -> Request {
    parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn sent(text: &str) -> String {
    let body =
        write(row_named("anthropic").unwrap(), &request(text), "claude").unwrap_or_else(|e| panic!("{text}: {e}"));
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

fn refused(text: &str) -> Unsupported {
    write(row_named("anthropic").unwrap(), &request(text), "claude").expect_err(text)
}

fn with(members: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{members}}}"#)
}

fn history(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":[{messages}]}}"#)
}

const USER: &str = r#"{"role":"user","content":"q"}"#;

#[test]
fn what_has_no_place_is_refused_by_name() {
    for (text, param) in [
        (with(r#""logprobs":true"#), "logprobs"),
        (with(r#""seed":7"#), "seed"),
        (with(r#""logit_bias":{"1":2}"#), "logit_bias"),
        (with(r#""frequency_penalty":0.5"#), "frequency_penalty"),
        (with(r#""presence_penalty":-1"#), "presence_penalty"),
        (with(r#""reasoning_effort":"low""#), "reasoning_effort"),
        (with(r#""service_tier":"flex""#), "service_tier"),
        (with(r#""store":true"#), "store"),
        (with(r#""metadata":{"a":"b"}"#), "metadata"),
        (with(r#""invented":1"#), "invented"),
        (with(r#""n":2"#), "n"),
        (with(r#""stop":["\n"]"#), "stop"),
        (with(r#""stop":"""#), "stop"),
        (with(r#""temperature":1.5"#), "temperature"),
        (with(r#""response_format":{"type":"json_object"}"#), "response_format"),
        (with(r#""tool_choice":"required""#), "tool_choice"),
        (history(r#"{"role":"user","content":"x","name":"ann"}"#), "messages[0].name"),
        (history(r#"{"role":"system","content":"x","name":"ann"}"#), "messages[0].name"),
        (history(r#"{"role":"user","content":"x","cache":1}"#), "messages[0].cache"),
        (history(r#"{"role":"user","content":" "}"#), "messages[0].content"),
        (history(r#"{"role":"system","content":"x"}"#), "messages"),
        (history(r#"{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}"#), "messages[0].content[0]"),
        (
            history(r#"{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]}"#),
            "messages[0].content[0].cache_control",
        ),
        (
            history(r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"ftp://x"}}]}"#),
            "messages[0].content[0].image_url.url",
        ),
        (
            history(
                r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x","detail":"high"}}]}"#,
            ),
            "messages[0].content[0].image_url.detail",
        ),
        (
            history(&format!(
                r#"{USER},{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"f","arguments":"[1]"}}}}]}}"#
            )),
            "messages[1].tool_calls[0].function.arguments",
        ),
    ] {
        let refusal = refused(&text);
        assert_eq!(refusal.param, param, "{text}: {refusal}");
    }
}

#[test]
fn what_asks_for_nothing_passes() {
    let text = sent(&with(
        r#""n":1,"logprobs":false,"top_logprobs":0,"presence_penalty":0,"frequency_penalty":0.0,"parallel_tool_calls":true,"seed":null,"logit_bias":{},"metadata":{},"store":false,"service_tier":"auto","modalities":["text"],"stop":[],"stream":false,"stream_options":null,"response_format":{"type":"text"},"tool_choice":"auto","invented":null"#,
    ));
    assert_eq!(
        text,
        r#"{"model":"claude","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":4096}"#
    );
}

#[test]
fn parameters_are_carried_with_their_digits() {
    let text = sent(&with(r#""max_completion_tokens":50,"stop":"END","temperature":0.10,"top_p":1e0,"user":"u-1""#));
    let tail =
        r#""max_tokens":50,"stop_sequences":["END"],"temperature":0.10,"top_p":1e0,"metadata":{"user_id":"u-1"}}"#;
    assert!(text.ends_with(tail), "{text}");
    let mut row = row_named("anthropic").unwrap().clone();
    row.default_max_tokens = 99;
    let body = write(&row, &request(&history(USER)), "claude").unwrap();
    assert_eq!(body.get("max_tokens"), Some(&Json::from(99)));
}

#[test]
fn results_come_first_in_the_order_of_their_calls() {
    let text = sent(&history(
        r#"{"role":"user","content":"q"},{"role":"assistant","content":"\n\n","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"id\":7300000000000000001,\"x\":1.0,\"y\":1e2}"}},{"id":"c2","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"c2","content":""},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"go on"}"#,
    ));
    let expected = concat!(
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"id":7300000000000000001,"x":1.0,"y":1e2}},"#,
        r#"{"type":"tool_use","id":"c2","name":"f","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"#,
        r#"{"type":"tool_result","tool_use_id":"c2"},{"type":"text","text":"go on"}]}"#
    );
    assert!(text.contains(expected), "{text}");
}

#[test]
fn no_message_is_dropped_wherever_it_stands() {
    let roles = ["system", "developer", "user", "assistant"];
    // Every sequence of four roles; each message carries a marker of its own.
    for n in 0..256_usize {
        let chosen: Vec<&str> = (0..4).map(|i| roles[(n >> (2 * i)) & 3]).collect();
        let messages: Vec<String> =
            chosen.iter().enumerate().map(|(i, role)| format!(r#"{{"role":"{role}","content":"MARK-{i}"}}"#)).collect();
        let body = write(row_named("anthropic").unwrap(), &request(&history(&messages.join(","))), "claude");
        let Ok(body) = body else {
            assert!(chosen.iter().all(|role| matches!(*role, "system" | "developer")), "{chosen:?}");
            continue;
        };
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        let places: Vec<usize> =
            (0..4).map(|i| text.find(&format!("MARK-{i}")).expect("a message is missing")).collect();
        assert!(places.is_sorted(), "{chosen:?}: {text}");
    }
}

#[test]
fn a_later_system_message_keeps_its_place_and_its_name() {
    let text = sent(&history(&format!(
        r#"{USER},{{"role":"assistant","content":"a"}},{{"role":"system","content":"RULE-TWO"}},{USER}"#
    )));
    assert!(
        text.contains(r#"[{"type":"text","text":"<system>\nRULE-TWO\n</system>"},{"type":"text","text":"q"}]"#),
        "{text}"
    );
}

#[test]
fn images_go_by_address_or_by_value() {
    let text = sent(&history(
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0="}},{"type":"image_url","image_url":{"url":"https://x/y.jpg","detail":"auto"}}]}"#,
    ));
    assert!(
        text.contains(r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0="}}"#),
        "{text}"
    );
    assert!(text.contains(r#"{"type":"image","source":{"type":"url","url":"https://x/y.jpg"}}"#), "{text}");
}

#[test]
fn tools_and_the_choice_among_them_are_translated() {
    let tools = r##""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"properties":{"a":{"$ref":"#/x"}}},"strict":true}},{"type":"function","function":{"name":"g"}}]"##;
    let text = sent(&with(&format!("{tools},\"tool_choice\":\"auto\"")));
    let expected = r##""tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"$ref":"#/x"}}},"strict":true},{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"auto"}"##;
    assert!(text.contains(expected), "{text}");
    for (choice, expected) in [
        (r#""tool_choice":"none""#, r#""tool_choice":{"type":"none"}"#),
        (r#""tool_choice":"required""#, r#""tool_choice":{"type":"any"}"#),
        (r#""parallel_tool_calls":false"#, r#""tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#),
        (
            r#""tool_choice":{"type":"function","function":{"name":"g"}},"parallel_tool_calls":false"#,
            r#""tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true}"#,
        ),
    ] {
        let text = sent(&with(&format!("{tools},{choice}")));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn ids_of_other_providers_are_made_fit_the_same_way_each_time() {
    let ids = ["functions.rd:0", "functions.rd:1", "functions_rd_0"];
    let turns: Vec<String> = ids
        .iter()
        .map(|id| {
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":""}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#
            )
        })
        .collect();
    let body = Json::parse(sent(&history(&format!("{USER},{}", turns.join(",")))).as_bytes()).unwrap();
    let blocks: Vec<&Json> = body.get("messages").unwrap().as_array().unwrap()[1..]
        .iter()
        .map(|turn| &turn.get("content").unwrap().as_array().unwrap()[0])
        .collect();
    let mut seen = std::collections::HashSet::new();
    for pair in blocks.chunks(2) {
        let id = pair[0].get("id").unwrap().as_str().unwrap();
        assert_eq!(pair[1].get("tool_use_id").unwrap().as_str(), Some(id));
        assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && id.len() <= 64, "{id}");
        assert!(seen.insert(id.to_owned()));
    }
}

#[test]
fn an_answer_of_ours_is_taken_back_with_its_signed_thinking() {
    let text = sent(&history(
        r#"{"role":"user","content":"q"},{"role":"assistant","content":null,"refusal":null,"annotations":[],"reasoning_content":"t","thinking_blocks":[{"type":"thinking","thinking":"","signature":"c2lnLTE="}],"tool_calls":[{"id":"t1","type":"function","function":{"name":"rd","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t1","content":"R"}"#,
    ));
    let expected =
        r#""content":[{"type":"thinking","thinking":"","signature":"c2lnLTE="},{"type":"tool_use","id":"t1""#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_count_is_asked_for_the_prompt_alone() {
    let text = with(r#""max_tokens":5,"temperature":0.5,"stop":"x","user":"u""#);
    let body = write_count(row_named("anthropic").unwrap(), &request(&text), "claude").unwrap();
    assert_eq!(
        body.to_bytes(),
        r#"{"model":"claude","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
    );
}
