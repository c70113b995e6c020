//! What is listed falls where it has no place, and only there; what is not listed is refused as ever.

use super::*;
use crate::compatible::adapter_named;

fn request(dialect: Dialect, members: &str) -> Request {
    let body = Json::parse(format!(r#"{{"model":"m",{members}}}"#).as_bytes()).unwrap();
    dialect.parse(body.into_object().unwrap()).unwrap()
}

fn send(adapter: &str, request: &Request, droppable: &[&str]) -> Result<(String, Vec<String>), String> {
    let droppable: Vec<String> = droppable.iter().map(|name| (*name).to_owned()).collect();
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    let adapter = adapter_named(adapter).unwrap();
    let reduced = to_upstream(adapter.as_ref(), request, &context, &droppable).map_err(|refused| refused.param)?;
    Ok((String::from_utf8(reduced.wire.body.to_vec()).unwrap(), reduced.dropped))
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

#[test]
fn a_listed_parameter_falls_where_it_has_no_place_and_only_there() {
    let asked = request(Dialect::Chat, &format!(r#"{HI},"seed":7,"logit_bias":{{"1":2}},"temperature":0.5"#));
    let (body, dropped) = send("anthropic", &asked, &["seed", "logit_bias", "temperature"]).unwrap();
    assert_eq!(dropped, ["seed", "logit_bias"], "what can be carried stays");
    assert!(body.contains(r#""temperature":0.5"#) && !body.contains("seed") && !body.contains("logit_bias"), "{body}");
    let (body, dropped) = send("openai", &asked, &["seed", "logit_bias"]).unwrap();
    assert!(dropped.is_empty() && body.contains(r#""seed":7"#), "{body}");
}

#[test]
fn what_is_not_listed_is_refused_by_its_name_although_something_else_fell() {
    let asked = request(Dialect::Chat, &format!(r#"{HI},"seed":7,"n":2"#));
    assert_eq!(send("anthropic", &asked, &["seed"]).unwrap_err(), "n");
    assert_eq!(send("anthropic", &asked, &[]).unwrap_err(), "seed");
    assert_eq!(send("anthropic", &asked, &["logit_bias"]).unwrap_err(), "seed");
}

#[test]
fn other_dialects_lose_what_has_no_meaning_elsewhere_in_their_own_words() {
    let text = r#"{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}"#;
    let members = format!(
        r#""max_tokens":5,"top_k":3,"metadata":{{"user_id":"u","team":"t"}},"messages":[{{"role":"user","content":[{text},{text}]}}]"#
    );
    let asked = request(Dialect::Messages, &members);
    let (body, dropped) = send("openai", &asked, &["cache_control", "top_k", "metadata"]).unwrap();
    let mut sorted = dropped.clone();
    sorted.sort();
    let paths =
        ["messages[0].content[0].cache_control", "messages[0].content[1].cache_control", "metadata.team", "top_k"];
    assert_eq!(sorted, paths);
    assert!(body.contains(r#""user":"u""#) && !body.contains("cache_control"), "{body}");
    let (body, dropped) = send("anthropic", &asked, &["cache_control", "top_k", "metadata"]).unwrap();
    assert!(dropped.is_empty() && body.contains("cache_control"), "its own vendor gets the document as it is");

    let asked = request(
        Dialect::Responses,
        r#""input":"hi","include":["message.output_text.logprobs","reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"}"#,
    );
    let (body, dropped) = send("openai", &asked, &["include", "reasoning.summary"]).unwrap();
    assert_eq!(dropped, ["include[1]", "reasoning.summary"]);
    assert!(body.contains(r#""reasoning_effort":"low""#) && body.contains(r#""logprobs":true"#), "{body}");
}

#[test]
fn a_name_that_could_not_be_told_of_is_refused() {
    let asked = request(
        Dialect::Messages,
        r#""max_tokens":5,"metadata":{"a,b":1},"messages":[{"role":"user","content":"hi"}]"#,
    );
    assert_eq!(send("openai", &asked, &["metadata"]).unwrap_err(), "metadata.a,b");
}

#[test]
fn nothing_that_changes_what_is_asked_can_be_listed() {
    let never = [
        "messages",
        "model",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "stop",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "input",
        "instructions",
        "system",
        "store",
        "stream",
        "modalities",
    ];
    for name in never {
        assert!(!DROPPABLE.contains(&name), "{name}");
    }
    assert!(INNER.iter().all(|name| DROPPABLE.contains(name)));
    assert!(DROPPABLE.is_sorted());
}
