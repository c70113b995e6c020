//! Ollama: what is sent, and what is refused by name.

use crate::adapter::Unsupported;
use crate::json::Json;
use crate::openai::request::parse;

fn write(members: &str) -> Result<Json, Unsupported> {
    let text = format!(r#"{{"model":"m",{members}}}"#);
    super::write(&parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap(), "qwen3")
}

fn text(json: &Json) -> String {
    String::from_utf8(json.to_bytes().to_vec()).unwrap()
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
const TOOL: &str = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;

#[test]
fn what_has_no_place_is_refused_by_its_name() {
    for (members, param) in [
        (r#""user":"u""#.to_owned(), "user"),
        (r#""n":2"#.to_owned(), "n"),
        (r#""logit_bias":{"5":1}"#.to_owned(), "logit_bias"),
        (r#""service_tier":"flex""#.to_owned(), "service_tier"),
        (r#""reasoning_effort":"minimal""#.to_owned(), "reasoning_effort"),
        (r#""reasoning_effort":3"#.to_owned(), "reasoning_effort"),
        (format!(r#"{TOOL},"tool_choice":"required""#), "tool_choice"),
        (format!(r#"{TOOL},"parallel_tool_calls":false"#), "parallel_tool_calls"),
        (TOOL.replace(r#""name":"f""#, r#""name":"f","strict":true"#), "tools[0].function.strict"),
    ] {
        assert_eq!(write(&format!("{HI},{members}")).unwrap_err().param, param);
    }
    let image =
        r#""messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]"#;
    assert_eq!(write(image).unwrap_err().param, "messages[0].content[0].image_url.url");
    let audio = r#""messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]"#;
    assert_eq!(write(audio).unwrap_err().param, "messages[0].content[0]");
}

#[test]
fn parameters_keep_their_digits_under_ollamas_names() {
    let body = write(&format!(
        r#"{HI},"temperature":0.10,"top_p":9e-1,"max_completion_tokens":7,"seed":7300000000000000001,"stop":["x","y"],
        "presence_penalty":0.5,"frequency_penalty":-0.5,"logprobs":true,"top_logprobs":3,"reasoning_effort":"low""#
    ))
    .unwrap();
    assert_eq!(
        text(body.get("options").unwrap()),
        concat!(
            r#"{"num_predict":7,"stop":["x","y"],"temperature":0.10,"top_p":9e-1,"seed":7300000000000000001,"#,
            r#""presence_penalty":0.5,"frequency_penalty":-0.5}"#
        )
    );
    assert_eq!(body.get("think"), Some(&Json::from("low")));
    assert_eq!(body.get("top_logprobs").unwrap().as_u64(), Some(3));
    assert_eq!(body.get("stream"), Some(&Json::Bool(false)), "it streams unless it is told not to");
    assert_eq!(write(&format!(r#"{HI},"reasoning_effort":"none""#)).unwrap().get("think"), Some(&Json::Bool(false)));
}

#[test]
fn a_forbidden_call_is_a_request_without_tools() {
    assert!(write(&format!(r#"{HI},{TOOL},"tool_choice":"none""#)).unwrap().get("tools").is_none());
    assert!(write(&format!(r#"{HI},{TOOL},"tool_choice":"auto""#)).unwrap().get("tools").is_some());
}

#[test]
fn json_comes_as_the_word_or_as_the_schema() {
    let object = write(&format!(r#"{HI},"response_format":{{"type":"json_object"}}"#)).unwrap();
    assert_eq!(object.get("format"), Some(&Json::from("json")));
    let schema = r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","maximum":1.0}}}"#;
    let body = write(&format!(r#"{HI},"response_format":{schema}"#)).unwrap();
    assert_eq!(text(body.get("format").unwrap()), r#"{"type":"object","maximum":1.0}"#);
}

#[test]
fn images_stand_beside_their_text_and_the_order_of_the_rest_stays() {
    let image = |data: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
    let words = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let parts = [words("a"), image("QQ=="), words("b"), image("Qg=="), image("Qw=="), words("c"), words("d")].join(",");
    let body = write(&format!(r#""messages":[{{"role":"user","content":[{parts}]}}]"#)).unwrap();
    assert_eq!(
        text(body.get("messages").unwrap()),
        concat!(
            r#"[{"role":"user","content":"a","images":["QQ=="]},"#,
            r#"{"role":"user","content":"b","images":["Qg==","Qw=="]},{"role":"user","content":"cd"}]"#
        )
    );
}
