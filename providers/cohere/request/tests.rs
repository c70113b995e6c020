//! Cohere: what is sent, and what is refused by name.

use crate::adapter::Unsupported;
use crate::json::Json;
use crate::openai::request::parse;

fn write(members: &str) -> Result<Json, Unsupported> {
    let text = format!(r#"{{"model":"m",{members}}}"#);
    super::write(&parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap(), "command-a")
}

fn text(json: &Json) -> String {
    String::from_utf8(json.to_bytes().to_vec()).unwrap()
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
const TOOL: &str = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;

#[test]
fn what_has_no_place_is_refused_by_its_name() {
    let one = r#"{"type":"function","function":{"name":"f"}}"#;
    for (members, param) in [
        (r#""user":"u""#.to_owned(), "user"),
        (r#""n":2"#.to_owned(), "n"),
        (r#""logprobs":true"#.to_owned(), "logprobs"),
        (r#""logit_bias":{"5":1}"#.to_owned(), "logit_bias"),
        (r#""reasoning_effort":"low""#.to_owned(), "reasoning_effort"),
        (r#""tool_choice":"required""#.to_owned(), "tool_choice"),
        (format!(r#"{TOOL},"tool_choice":{one}"#), "tool_choice"),
        (format!(r#"{TOOL},"parallel_tool_calls":false"#), "parallel_tool_calls"),
    ] {
        assert_eq!(write(&format!("{HI},{members}")).unwrap_err().param, param);
    }
}

#[test]
fn parameters_keep_their_digits_under_coheres_names() {
    let body = write(&format!(
        r#"{HI},"temperature":0.10,"top_p":9e-1,"max_completion_tokens":7,"seed":7300000000000000001,"stop":"x",
        "presence_penalty":0.5,"frequency_penalty":0.25,"reasoning_effort":"none""#
    ))
    .unwrap();
    assert_eq!(
        text(&body),
        concat!(
            r#"{"model":"command-a","messages":[{"role":"user","content":"hi"}],"max_tokens":7,"stop_sequences":["x"],"#,
            r#""temperature":0.10,"p":9e-1,"seed":7300000000000000001,"presence_penalty":0.5,"frequency_penalty":0.25,"#,
            r#""thinking":{"type":"disabled"}}"#
        )
    );
}

#[test]
fn tools_and_the_choice_among_them_keep_their_meaning() {
    for (choice, word) in [("required", Some("REQUIRED")), ("none", Some("NONE")), ("auto", None)] {
        let body = write(&format!(r#"{HI},{TOOL},"tool_choice":"{choice}""#)).unwrap();
        assert_eq!(body.get("tool_choice").and_then(Json::as_str), word);
    }
    let strict = TOOL.replace(r#""name":"f""#, r#""name":"f","strict":true"#);
    assert_eq!(write(&format!("{HI},{strict}")).unwrap().get("strict_tools"), Some(&Json::Bool(true)));
}

#[test]
fn text_and_images_keep_their_order_and_their_detail() {
    let parts = r#"{"type":"image_url","image_url":{"url":"https://x/y","detail":"low"}},{"type":"text","text":"a"}"#;
    let body = write(&format!(r#""messages":[{{"role":"user","content":[{parts}]}}]"#)).unwrap();
    assert_eq!(text(body.get("messages").unwrap()), format!(r#"[{{"role":"user","content":[{parts}]}}]"#));
}
