//! OpenAI embeddings (OpenAPI 2.3.0: `createEmbedding`; read 2026-11-30): text in, vectors out, passed through as they are.
//!
//! Nothing is translated: only a provider that speaks OpenAI's protocol takes them, and every member goes on unread.

use std::sync::Arc;

use bytes::Bytes;

use crate::adapter::Head;
use crate::canonical::{Answer, Reply, Request, Usage};
use crate::dialects::{Dialect, Native};
use crate::error_shapes::error_within_success;
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::openai::request::InvalidRequest;
use crate::openai::request::fields::{boolean, expected, invalid};
use crate::refusal;

pub(crate) fn parse(body: Object) -> Result<Request, InvalidRequest> {
    let model = match body.get_some("model") {
        Some(Json::String(model)) if !model.is_empty() && !model.chars().any(char::is_control) => model.clone(),
        Some(Json::String(_)) => return Err(invalid("model", "invalid_value", "must be a route's name")),
        Some(other) => return Err(expected("model", "a string", other)),
        None => return Err(invalid("model", "missing_required_parameter", "name a route: \"model\": \"…\"")),
    };
    match body.get_some("input") {
        Some(Json::String(_)) => {}
        Some(Json::Array(items)) if !items.is_empty() => {}
        Some(Json::Array(_)) => return Err(invalid("input", "empty_array", "send at least one text")),
        Some(other) => return Err(expected("input", "a string or an array", other)),
        None => return Err(invalid("input", "missing_required_parameter", "send a string or an array")),
    }
    if boolean(&body, "stream")? == Some(true) {
        return Err(invalid("stream", "unsupported_value", "embeddings come whole: leave it out"));
    }
    let native =
        Native { dialect: Dialect::Embeddings, body: Arc::new(body.clone()), lost: Vec::new(), origins: Vec::new() };
    Ok(Request {
        body,
        native: Some(Arc::new(native)),
        model,
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: None,
        parallel_tool_calls: None,
        response_format: None,
        stop: Vec::new(),
        max_tokens: None,
        temperature: None,
        top_p: None,
        n: None,
        stream: false,
        include_usage: false,
    })
}

/// Whether vectors are asked for. They mean nothing beside those of another model.
pub fn is_asked(request: &Request) -> bool {
    request.native.as_ref().is_some_and(|native| native.dialect == Dialect::Embeddings)
}

/// The body on the wire: the client's own with the target's model.
pub(crate) fn write(request: &Request, model: &str) -> Bytes {
    let members = request.body.iter().filter(|(name, _)| *name != "stream");
    let members = members.map(|(name, value)| {
        let value = if name == "model" { Json::from(model) } else { value.clone() };
        (name.to_owned(), value)
    });
    Json::Object(Object::from_unique(members.collect())).to_bytes()
}

/// The answer, checked: as many vectors as were sent, each with its numbers.
pub(crate) fn read(head: &Head, body: &[u8]) -> Result<Answer, Failure> {
    let json = Json::parse(body)
        .map_err(|error| refusal::invalid_answer(head.status, format!("the answer is not JSON: {error}")))?;
    let count = |name: &str| json.get("usage").and_then(|usage| usage.get(name)).and_then(Json::as_u64);
    let usage = count("prompt_tokens").map(|input_tokens| Usage { input_tokens, ..Usage::default() });
    let billed = |failure: Failure| Failure { usage, ..failure };
    if let Some(error) = json.get_some("error") {
        return Err(billed(refusal::error_in_answer(head.status, error_within_success(error))));
    }
    let invalid = |why: &str| Err(billed(refusal::invalid_answer(head.status, why)));
    let Some(vectors) = json.get("data").and_then(Json::as_array).filter(|data| !data.is_empty()) else {
        return invalid("the answer has no embeddings");
    };
    let is_vector = |item: &Json| match item.get("embedding") {
        Some(Json::Array(numbers)) => !numbers.is_empty() && numbers.iter().all(|number| number.as_number().is_some()),
        // In base64, where the client asked for that.
        Some(Json::String(text)) => !text.is_empty(),
        _ => false,
    };
    if !vectors.iter().all(is_vector) {
        return invalid("an embedding of the answer is no vector");
    }
    let reply = Reply {
        id: None,
        model: json.get("model").and_then(Json::as_str).map(str::to_owned),
        choices: Vec::new(),
        usage,
        usage_unreadable: json.get_some("usage").is_some() && usage.is_none(),
    };
    Ok(Answer { reply, body: Bytes::copy_from_slice(body) })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::adapter::CallContext;
    use crate::compatible::adapter_named;
    use crate::dialects::to_upstream;
    use crate::failure::Proof;

    fn request(text: &str) -> Result<Request, InvalidRequest> {
        Dialect::Embeddings.parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap())
    }

    #[test]
    fn a_body_goes_through_with_its_unknown_members_to_those_who_embed() {
        let text = r#"{"model":"m","input":["a","b"],"dimensions":7300000000000000001,"invented":1.0}"#;
        let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
        let send = |adapter| to_upstream(adapter_named(adapter).unwrap().as_ref(), &request(text).unwrap(), &context);
        let sent = send("openai").unwrap();
        assert_eq!(sent.path, "/embeddings");
        assert_eq!(sent.body, text.replace(r#""m""#, r#""target""#));
        for adapter in ["anthropic", "openai-responses"] {
            assert_eq!(send(adapter).unwrap_err().param, "model");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_by_name() {
        for (text, param) in [
            (r#"{"input":"a"}"#, "model"),
            (r#"{"model":"","input":"a"}"#, "model"),
            (r#"{"model":"m"}"#, "input"),
            (r#"{"model":"m","input":[]}"#, "input"),
            (r#"{"model":"m","input":7}"#, "input"),
            (r#"{"model":"m","input":"a","stream":true}"#, "stream"),
        ] {
            assert_eq!(request(text).unwrap_err().param, param, "{text}");
        }
    }

    #[test]
    fn only_vectors_are_an_answer() {
        let head = Head { status: StatusCode::OK, headers: HeaderMap::new() };
        let sound = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-1e-9]}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}"#;
        let answer = read(&head, sound.as_bytes()).unwrap();
        assert_eq!((answer.body, answer.reply.usage.unwrap().input_tokens), (Bytes::from_static(sound.as_bytes()), 3));
        for broken in [
            sound.replace("[0.10,-1e-9]", "[]"),
            sound.replace("[0.10,-1e-9]", r#"[0.1,"x"]"#),
            sound.replace("[0.10,-1e-9]", "null"),
            r#"{"object":"list","data":[]}"#.to_owned(),
            r#"{"error":{"message":"boom"}}"#.to_owned(),
            "[".to_owned(),
        ] {
            assert_eq!(read(&head, broken.as_bytes()).unwrap_err().proof, Proof::EndedWithoutResult, "{broken}");
        }
    }
}
