//! What is sent for a request, and what is refused by name.

use super::*;
use crate::openai::request::parse;

fn request(text: &str) -> Request {
    parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn sent(text: &str) -> String {
    let body = write(&request(text), "gpt").unwrap_or_else(|e| panic!("{text}: {e}"));
    String::from_utf8(Json::Object(body).to_bytes().to_vec()).unwrap()
}

fn refused(text: &str) -> Unsupported {
    write(&request(text), "gpt").expect_err(text)
}

fn with(members: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{members}}}"#)
}

fn history(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":[{messages}]}}"#)
}

/// The items that a conversation becomes, as text.
fn items(messages: &str) -> String {
    let body = Json::parse(sent(&history(messages)).as_bytes()).unwrap();
    String::from_utf8(body.get("input").unwrap().to_bytes().to_vec()).unwrap()
}

const USER: &str = r#"{"role":"user","content":"q"}"#;
const INPUT: &str = r#""input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]"#;

#[test]
fn what_has_no_place_is_refused_by_name() {
    let user = |part: &str| history(&format!(r#"{{"role":"user","content":[{part}]}}"#));
    for (text, param) in [
        (with(r#""stop":"END""#), "stop"),
        (with(r#""n":2"#), "n"),
        (with(r#""seed":7"#), "seed"),
        (with(r#""logit_bias":{"1":2}"#), "logit_bias"),
        (with(r#""frequency_penalty":0.5"#), "frequency_penalty"),
        (with(r#""presence_penalty":-1"#), "presence_penalty"),
        (with(r#""modalities":["text","audio"]"#), "modalities"),
        (with(r#""audio":{"voice":"x"}"#), "audio"),
        (with(r#""prediction":{"type":"content"}"#), "prediction"),
        (with(r#""web_search_options":{}"#), "web_search_options"),
        (with(r#""invented":1"#), "invented"),
        (with(r#""max_tokens":15"#), "max_tokens"),
        (with(r#""max_completion_tokens":1"#), "max_completion_tokens"),
        (with(r#""top_logprobs":2"#), "top_logprobs"),
        (with(r#""logprobs":1"#), "logprobs"),
        (with(r#""store":1"#), "store"),
        (
            with(r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{},"x":1}}"#),
            "response_format.json_schema.x",
        ),
        (with(r#""tools":[{"type":"function","function":{"name":"f","x":1}}]"#), "tools[0].function.x"),
        (with(r#""tools":[{"type":"function","function":{"name":"f"},"x":1}]"#), "tools[0].x"),
        (history(r#"{"role":"user","content":"x","name":"ann"}"#), "messages[0].name"),
        (history(r#"{"role":"system","content":"x","name":"ann"}"#), "messages[0].name"),
        (history(r#"{"role":"user","content":"x","cache":1}"#), "messages[0].cache"),
        (history(&format!(r#"{USER},{{"role":"assistant","content":"x","audio":{{"id":"a"}}}}"#)), "messages[1].audio"),
        (user(r#"{"type":"input_audio","input_audio":{}}"#), "messages[0].content[0]"),
        (user(r#"{"type":"text","text":"x","cache_control":{}}"#), "messages[0].content[0].cache_control"),
        (
            user(r#"{"type":"image_url","image_url":{"url":"https://x","size":1}}"#),
            "messages[0].content[0].image_url.size",
        ),
        (user(r#"{"type":"file"}"#), "messages[0].content[0].file"),
        (user(r#"{"type":"file","file":{"file_url":"https://x"}}"#), "messages[0].content[0].file.file_url"),
        (
            history(&format!(r#"{USER},{{"role":"assistant","content":[{{"type":"audio"}}]}}"#)),
            "messages[1].content[0]",
        ),
        (
            history(&format!(r#"{USER},{{"role":"assistant","content":[{{"type":"text","text":"x","y":1}}]}}"#)),
            "messages[1].content[0].y",
        ),
    ] {
        let refusal = refused(&text);
        assert_eq!(refusal.param, param, "{text}: {refusal}");
        assert!(!refusal.why.is_empty());
    }
}

#[test]
fn what_asks_for_nothing_passes() {
    let text = sent(&with(
        r#""n":1,"logprobs":false,"top_logprobs":0,"presence_penalty":0,"frequency_penalty":0.0,"seed":null,"logit_bias":{},"modalities":["text"],"stop":[],"stream":false,"stream_options":null,"invented":null,"metadata":null"#,
    ));
    assert_eq!(text, format!(r#"{{"model":"gpt",{INPUT},"store":false}}"#));
}

#[test]
fn what_has_a_meaning_there_survives_with_its_digits() {
    let text = sent(&with(
        r#""max_completion_tokens":16,"temperature":0.10,"top_p":1e-1,"reasoning_effort":"low","verbosity":"high","metadata":{"a":"b"},"user":"u","safety_identifier":"s","service_tier":"flex","store":true,"prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"30m"},"parallel_tool_calls":false,"logprobs":true,"top_logprobs":3,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}"#,
    ));
    let expected = format!(
        r#"{{"model":"gpt",{INPUT},"parallel_tool_calls":false,"text":{{"verbosity":"high"}},"reasoning":{{"effort":"low"}},"max_output_tokens":16,"temperature":0.10,"top_p":1e-1,"include":["message.output_text.logprobs"],"top_logprobs":3,"metadata":{{"a":"b"}},"user":"u","safety_identifier":"s","service_tier":"flex","prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{{"ttl":"30m"}},"store":true,"stream":true,"stream_options":{{"include_obfuscation":false}}}}"#
    );
    assert_eq!(text, expected);
}

#[test]
fn the_answers_format_is_translated() {
    let schema = r#"{"type":"object","properties":{"n":{"const":7300000000000000001}}}"#;
    let format = format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","description":"d","schema":{schema},"strict":true}}}}"#
    );
    let expected = format!(
        r#""text":{{"format":{{"type":"json_schema","name":"n","description":"d","schema":{schema},"strict":true}}}}"#
    );
    let text = sent(&with(&format));
    assert!(text.contains(&expected), "{text}");
    for kind in ["text", "json_object"] {
        let text = sent(&with(&format!(r#""response_format":{{"type":"{kind}"}}"#)));
        assert!(text.contains(&format!(r#""text":{{"format":{{"type":"{kind}"}}}}"#)), "{text}");
    }
}

/// A tool without a word is strict there, and is not in the client's dialect.
#[test]
fn tools_and_the_choice_among_them_are_translated() {
    let tools = r##""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"properties":{"a":{"$ref":"#/x"}}},"strict":true}},{"type":"function","function":{"name":"g"}}]"##;
    let text = sent(&with(tools));
    let expected = r##""tools":[{"type":"function","name":"f","description":"d","parameters":{"properties":{"a":{"$ref":"#/x"}}},"strict":true},{"type":"function","name":"g","parameters":{"type":"object","properties":{},"additionalProperties":false},"strict":false}]"##;
    assert!(text.contains(expected), "{text}");
    for (choice, expected) in [
        (r#""none""#, r#""none""#),
        (r#""auto""#, r#""auto""#),
        (r#""required""#, r#""required""#),
        (r#"{"type":"function","function":{"name":"g"}}"#, r#"{"type":"function","name":"g"}"#),
    ] {
        let text = sent(&with(&format!("{tools},\"tool_choice\":{choice}")));
        assert!(text.contains(&format!("\"tool_choice\":{expected}")), "{text}");
    }
}

#[test]
fn no_message_is_dropped_or_moved_wherever_it_stands() {
    let roles = ["system", "developer", "user", "assistant"];
    // Every sequence of four roles; each message carries a marker of its own.
    for n in 0..256_usize {
        let chosen: Vec<&str> = (0..4).map(|i| roles[(n >> (2 * i)) & 3]).collect();
        let messages: Vec<String> =
            chosen.iter().enumerate().map(|(i, role)| format!(r#"{{"role":"{role}","content":"MARK-{i}"}}"#)).collect();
        let text = items(&messages.join(","));
        let written: Vec<String> = chosen
            .iter()
            .enumerate()
            .map(|(i, role)| {
                let kind = if *role == "assistant" { "output_text" } else { "input_text" };
                format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"MARK-{i}"}}]}}"#)
            })
            .collect();
        assert_eq!(text, format!("[{}]", written.join(",")));
    }
}

#[test]
fn images_and_files_go_by_address_or_by_value() {
    let text = items(
        r#"{"role":"user","content":[{"type":"text","text":"see","prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0="}},{"type":"image_url","image_url":{"url":"https://x/y.jpg","detail":"high"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}},{"type":"file","file":{"file_id":"file-1"}}]}"#,
    );
    let expected = r#"[{"type":"message","role":"user","content":[{"type":"input_text","text":"see","prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0=","detail":"auto"},{"type":"input_image","image_url":"https://x/y.jpg","detail":"high"},{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="},{"type":"input_file","file_id":"file-1"}]}]"#;
    assert_eq!(text, expected);
}

/// Field case B038: an empty turn between a call and what asked for it parts the call from its result.
#[test]
fn calls_stand_beside_their_results_and_no_turn_is_empty() {
    let text = items(
        r#"{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"rd","arguments":"{\"id\":7300000000000000001}"}},{"id":"c2","function":{"name":"rd","arguments":" "}}]},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"tool","tool_call_id":"c1","content":"R"},{"role":"assistant","content":null,"refusal":"No."}"#,
    );
    let expected = r#"[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"function_call","call_id":"c1","name":"rd","arguments":"{\"id\":7300000000000000001}"},{"type":"function_call","call_id":"c2","name":"rd","arguments":"{}"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},{"type":"function_call_output","call_id":"c1","output":"R"},{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}]"#;
    assert_eq!(text, expected);
}

#[test]
fn ids_that_are_too_long_are_made_fit_the_same_way_each_time() {
    let (long, longer) = ("x".repeat(65), "x".repeat(66));
    let turn = |id: &str| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":""}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#
        )
    };
    let fits = "functions.rd:0";
    let text = items(&format!("{USER},{},{},{}", turn(&long), turn(&longer), turn(fits)));
    let body = Json::parse(text.as_bytes()).unwrap();
    let ids: Vec<&str> =
        body.as_array().unwrap()[1..].iter().map(|item| item.get("call_id").unwrap().as_str().unwrap()).collect();
    assert_eq!((ids[0], ids[2], ids[4]), (ids[1], ids[3], ids[5]));
    assert_ne!(ids[0], ids[2]);
    assert_eq!(ids[4], fits);
    assert!(ids.iter().all(|id| id.len() <= 64), "{ids:?}");
}

#[test]
fn an_answer_of_ours_is_taken_back_with_its_encrypted_reasoning() {
    let text = items(
        r#"{"role":"user","content":"q"},{"role":"assistant","content":"a","refusal":null,"annotations":[],"reasoning_content":"t","other_items":[{"type":"x"}],"reasoning_items":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},{"type":"reasoning","id":"rs_2","summary":[]}]}"#,
    );
    let expected = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]"#;
    assert!(text.ends_with(expected) && !text.contains("rs_2"), "{text}");
}

#[test]
fn the_count_is_asked_for_the_prompt_alone() {
    let text = with(r#""max_tokens":50,"temperature":0.5,"user":"u","store":true,"reasoning_effort":"low""#);
    let body = write_count(&request(&text), "gpt").unwrap();
    assert_eq!(Json::Object(body).to_bytes(), format!(r#"{{"model":"gpt",{INPUT},"reasoning":{{"effort":"low"}}}}"#));
}
