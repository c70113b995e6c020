//! Gemini: what is sent, and what is refused by name.

use crate::adapter::{CallContext, Unsupported};
use crate::compatible::adapter_named;
use crate::json::Json;
use crate::openai::request::parse;

fn write_for(model: &str, members: &str) -> Result<Json, Unsupported> {
    let text = format!(r#"{{"model":"m",{members}}}"#);
    let request = parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap();
    super::write(&request, model)
}

fn write(members: &str) -> Result<Json, Unsupported> {
    write_for("gemini-2.5-flash", members)
}

fn text(json: &Json) -> String {
    String::from_utf8(json.to_bytes().to_vec()).unwrap()
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
const TOOL: &str = r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#;

#[test]
fn what_has_no_place_is_refused_by_its_name() {
    for (members, param) in [
        (r#""user":"u""#, "user"),
        (r#""metadata":{"a":"b"}"#, "metadata"),
        (r#""logit_bias":{"5":1}"#, "logit_bias"),
        (r#""service_tier":"flex""#, "service_tier"),
        (r#""prediction":{}"#, "prediction"),
        (r#""tool_choice":"required""#, "tool_choice"),
        (r#""reasoning_effort":"xhigh""#, "reasoning_effort"),
        (&format!(r#"{TOOL},"parallel_tool_calls":false"#), "parallel_tool_calls"),
    ] {
        assert_eq!(write(&format!("{HI},{members}")).unwrap_err().param, param);
    }
    for (message, param) in [
        (r#"{"role":"user","content":"x","name":"Al"}"#, "messages[0].name"),
        (r#"{"role":"user","content":"x","weight":1}"#, "messages[0].weight"),
        (r#"{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}"#, "messages[0].content[0]"),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}"#,
            "messages[0].content[0].image_url.url",
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ==","detail":"low"}}]}"#,
            "messages[0].content[0].image_url.detail",
        ),
        (r#"{"role":"system","content":"only rules"}"#, "messages"),
    ] {
        assert_eq!(write(&format!(r#""messages":[{message}]"#)).unwrap_err().param, param);
    }
}

#[test]
fn what_asks_for_nothing_is_no_reason_to_refuse() {
    let body = write(&format!(r#"{HI},"logprobs":false,"store":false,"n":1,"metadata":{{}},"user":null"#)).unwrap();
    assert_eq!(
        text(&body),
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"responseLogprobs":false}}"#
    );
}

#[test]
fn parameters_keep_their_digits_under_googles_names() {
    let body = write(&format!(
        r#"{HI},"temperature":0.10,"top_p":9e-1,"max_tokens":7,"n":2,"seed":7300000000000000001,"stop":"x",
        "presence_penalty":0.5,"frequency_penalty":-0.5,"logprobs":true,"top_logprobs":3,"reasoning_effort":"low""#
    ))
    .unwrap();
    assert_eq!(
        text(body.get("generationConfig").unwrap()),
        concat!(
            r#"{"maxOutputTokens":7,"stopSequences":["x"],"temperature":0.10,"topP":9e-1,"candidateCount":2,"#,
            r#""seed":7300000000000000001,"presencePenalty":0.5,"frequencyPenalty":-0.5,"responseLogprobs":true,"#,
            r#""logprobs":3,"thinkingConfig":{"thinkingBudget":1024}}"#
        )
    );
    let level = write_for("gemini-3-pro-preview", &format!(r#"{HI},"reasoning_effort":"low""#)).unwrap();
    assert!(text(&level).contains(r#""thinkingConfig":{"thinkingLevel":"low"}"#), "{}", text(&level));
    let none = write_for("gemini-3-pro-preview", &format!(r#"{HI},"reasoning_effort":"none""#));
    assert_eq!(none.unwrap_err().param, "reasoning_effort");
}

#[test]
fn images_go_as_data_or_by_their_address() {
    let part = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    let parts = [part("data:image/png;base64,QQ=="), part("https://x/a.JPG?b=c")].join(",");
    let body = write(&format!(r#""messages":[{{"role":"user","content":[{parts}]}}]"#)).unwrap();
    assert_eq!(
        text(body.get("contents").unwrap()),
        concat!(
            r#"[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"QQ=="}},"#,
            r#"{"fileData":{"mimeType":"image/jpeg","fileUri":"https://x/a.JPG?b=c"}}]}]"#
        )
    );
}

#[test]
fn the_choice_among_tools_has_its_mode() {
    for (members, mode) in [
        (r#""tool_choice":"auto""#, r#"{"mode":"AUTO"}"#),
        (r#""tool_choice":"none""#, r#"{"mode":"NONE"}"#),
        (r#""tool_choice":"required""#, r#"{"mode":"ANY"}"#),
        (
            r#""tool_choice":{"type":"function","function":{"name":"f"}}"#,
            r#"{"mode":"ANY","allowedFunctionNames":["f"]}"#,
        ),
    ] {
        let body = write(&format!("{HI},{TOOL},{members}")).unwrap();
        assert_eq!(text(body.get("toolConfig").unwrap().get("functionCallingConfig").unwrap()), mode);
    }
    let strict = TOOL.replace(r#""name":"f","#, r#""name":"f","strict":true,"#);
    let body = write(&format!("{HI},{strict}")).unwrap();
    assert!(text(&body).contains(r#"{"mode":"VALIDATED"}"#));
}

const HISTORY: &str = r#""messages":[{"role":"user","content":"q"},{"role":"assistant","content":"t",
    "extra_content":{"google":{"thought_signature":"VA=="}},"tool_calls":[
    {"id":"a","type":"function","function":{"name":"f","arguments":"{}"},
    "extra_content":{"google":{"thought_signature":"Uw=="}}},
    {"id":"b","type":"function","function":{"name":"g","arguments":"{\"n\":1.0}"}}]},
    {"role":"tool","tool_call_id":"b","content":"{\"v\":1.50}"},{"role":"tool","tool_call_id":"a","content":"[1]"}]"#;

#[test]
fn signatures_go_back_where_they_came_from_and_results_in_the_order_of_the_calls() {
    let body = write(HISTORY).unwrap();
    assert_eq!(
        text(body.get("contents").unwrap()),
        concat!(
            r#"[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"t","thoughtSignature":"VA=="},"#,
            r#"{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"Uw=="},"#,
            r#"{"functionCall":{"id":"b","name":"g","args":{"n":1.0}}}]},{"role":"user","parts":["#,
            r#"{"functionResponse":{"id":"a","name":"f","response":{"output":"[1]"}}},"#,
            r#"{"functionResponse":{"id":"b","name":"g","response":{"v":1.50}}}]}]"#
        )
    );
}

#[test]
fn calls_of_another_model_are_marked_for_those_who_ask_for_signatures() {
    let unsigned = HISTORY.replace("google", "elsewhere");
    assert!(!text(&write(&unsigned).unwrap()).contains("thoughtSignature"));
    let body = text(&write_for("gemini-3-flash-preview", &unsigned).unwrap());
    assert_eq!(body.matches("thoughtSignature").count(), 1, "the first call of a turn, and no other: {body}");
}

#[test]
fn googles_signatures_go_to_nobody_else() {
    let text_of = |name: &str| {
        let body = Json::parse(format!(r#"{{"model":"m",{HISTORY}}}"#).as_bytes()).unwrap().into_object().unwrap();
        let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
        let sent = adapter_named(name).unwrap().to_upstream(&parse(body).unwrap(), &context).unwrap();
        String::from_utf8(sent.body.to_vec()).unwrap()
    };
    for name in ["openai", "groq", "anthropic"] {
        assert!(!text_of(name).contains("extra_content"), "{name}: {}", text_of(name));
    }
}

#[test]
fn a_count_holds_the_whole_prompt() {
    let body = Json::parse(format!(r#"{{"model":"m",{HI}}}"#).as_bytes()).unwrap().into_object().unwrap();
    let request = parse(body).unwrap();
    let context = CallContext { model: "gemini-2.5-flash", attempt_id: "0193", api_key: None };
    for (name, body) in [
        (
            "gemini",
            r#"{"generateContentRequest":{"model":"models/gemini-2.5-flash","contents":[{"role":"user","parts":[{"text":"hi"}]}]}}"#,
        ),
        ("vertex", r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#),
    ] {
        let adapter = adapter_named(name).unwrap();
        let sent = adapter.to_count(&request, &context).unwrap().unwrap();
        assert_eq!(sent.path, "/models/gemini-2.5-flash:countTokens");
        assert_eq!(sent.body, body);
        assert_eq!(adapter.from_count(br#"{"totalTokens":12}"#), Some(12));
    }
}

#[test]
fn a_model_that_would_leave_its_place_in_the_path_is_refused() {
    let body = Json::parse(format!(r#"{{"model":"m",{HI}}}"#).as_bytes()).unwrap().into_object().unwrap();
    let request = parse(body).unwrap();
    for model in ["", "..", "a/b", "a?b", "a:b", "a b"] {
        let context = CallContext { model, attempt_id: "0193", api_key: None };
        assert_eq!(adapter_named("gemini").unwrap().to_upstream(&request, &context).unwrap_err().param, "model");
    }
}
