//! Bedrock: what is sent, and what is refused by name.

use crate::adapter::{CallContext, Unsupported};
use crate::compatible::adapter_named;
use crate::json::Json;
use crate::openai::request::parse;

fn write(members: &str) -> Result<Json, Unsupported> {
    let text = format!(r#"{{"model":"m",{members}}}"#);
    super::write(&parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap(), "0193")
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
        (r#""seed":1"#.to_owned(), "seed"),
        (r#""logprobs":true"#.to_owned(), "logprobs"),
        (r#""reasoning_effort":"none""#.to_owned(), "reasoning_effort"),
        (r#""service_tier":"scale""#.to_owned(), "service_tier"),
        (r#""response_format":{"type":"json_object"}"#.to_owned(), "response_format"),
        (r#""metadata":{"a":"ü"}"#.to_owned(), "metadata.a"),
        (r#""metadata":{"interlock_attempt_id":"x"}"#.to_owned(), "metadata"),
        (format!(r#"{TOOL},"tool_choice":"none""#), "tool_choice"),
        (format!(r#"{TOOL},"parallel_tool_calls":false"#), "parallel_tool_calls"),
    ] {
        assert_eq!(write(&format!("{HI},{members}")).unwrap_err().param, param);
    }
    let image = |url: &str| {
        format!(r#""messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]"#)
    };
    for url in ["https://x/y.png", "data:image/tiff;base64,AA=="] {
        assert_eq!(write(&image(url)).unwrap_err().param, "messages[0].content[0].image_url.url");
    }
    assert!(
        text(&write(&image("data:image/png;base64,AA==")).unwrap())
            .contains(r#""format":"png","source":{"bytes":"AA=="}"#)
    );
}

#[test]
fn parameters_keep_their_digits_under_bedrocks_names() {
    let body = write(&format!(
        r#"{HI},"temperature":0.10,"top_p":9e-1,"max_tokens":7,"stop":"x","service_tier":"flex",
        "reasoning_effort":"high","metadata":{{"k":"v"}}"#
    ));
    assert_eq!(
        text(&body.unwrap()),
        concat!(
            r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{"maxTokens":7,"#,
            r#""temperature":0.10,"topP":9e-1,"stopSequences":["x"]},"outputConfig":{"effort":"high"},"#,
            r#""serviceTier":{"type":"flex"},"requestMetadata":{"k":"v","interlock_attempt_id":"0193"}}"#
        )
    );
}

#[test]
fn tools_and_the_choice_among_them_keep_their_meaning() {
    let one = r#"{"type":"function","function":{"name":"f"}}"#;
    for (choice, written) in
        [(r#""auto""#, r#"{"auto":{}}"#), (r#""required""#, r#"{"any":{}}"#), (one, r#"{"tool":{"name":"f"}}"#)]
    {
        let body = write(&format!("{HI},{TOOL},\"tool_choice\":{choice}")).unwrap();
        assert_eq!(text(body.get("toolConfig").unwrap().get("toolChoice").unwrap()), written);
    }
    let strict = TOOL.replace(r#""name":"f""#, r#""name":"f","strict":true"#);
    let tools = text(write(&format!("{HI},{strict}")).unwrap().get("toolConfig").unwrap());
    assert_eq!(
        tools,
        r#"{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}},"strict":true}}]}"#
    );
}

#[test]
fn signed_reasoning_goes_back_as_it_came_and_unsigned_does_not() {
    let said = r#"{"role":"assistant","content":"a","thinking_blocks":[{"type":"thinking","thinking":"t","signature":"Uw=="},
        {"type":"redacted_thinking","data":"UmVk"},{"type":"thinking","thinking":"bare"}],"reasoning_content":"t"}"#;
    let body =
        write(&format!(r#""messages":[{{"role":"user","content":"q"}},{said},{{"role":"user","content":"go on"}}]"#));
    let turn = body.unwrap().get("messages").unwrap().as_array().unwrap()[1].clone();
    assert_eq!(
        text(turn.get("content").unwrap()),
        concat!(
            r#"[{"reasoningContent":{"reasoningText":{"text":"t","signature":"Uw=="}}},"#,
            r#"{"reasoningContent":{"redactedContent":"UmVk"}},{"text":"a"}]"#
        )
    );
}

#[test]
fn the_model_is_one_part_of_the_path_whatever_its_id() {
    let body = Json::parse(format!(r#"{{"model":"m",{HI}}}"#).as_bytes()).unwrap().into_object().unwrap();
    let request = parse(body).unwrap();
    let sent = |model| {
        let context = CallContext { model, attempt_id: "0193", api_key: None };
        adapter_named("bedrock").unwrap().to_upstream(&request, &context)
    };
    assert_eq!(sent("eu.amazon.nova-lite-v1:0").unwrap().path, "/model/eu.amazon.nova-lite-v1%3A0/converse");
    let arn = "arn:aws:bedrock:us-east-1:123:inference-profile/x";
    assert_eq!(
        sent(arn).unwrap().path,
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123%3Ainference-profile%2Fx/converse"
    );
    for model in ["", "..", "/a", "a?b", "a%b", "a b", "a#b"] {
        assert_eq!(sent(model).unwrap_err().param, "model", "{model}");
    }
}

#[test]
fn a_count_holds_the_prompt_alone() {
    let body = format!(r#"{{"model":"m",{HI},"max_tokens":3,"temperature":1}}"#);
    let request = parse(Json::parse(body.as_bytes()).unwrap().into_object().unwrap()).unwrap();
    let context = CallContext { model: "a:0", attempt_id: "0193", api_key: None };
    let adapter = adapter_named("bedrock").unwrap();
    let sent = adapter.to_count(&request, &context).unwrap().unwrap();
    assert_eq!(sent.path, "/model/a%3A0/count-tokens");
    assert_eq!(sent.body, r#"{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"hi"}]}]}}}"#);
    assert_eq!(adapter.from_count(br#"{"inputTokens":12}"#), Some(12));
}
