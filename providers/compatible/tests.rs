//! The rows: each has an adapter, a source and its own departures.

use super::*;
use crate::adapter::{Adapter, CallContext, Head, Unsupported, UpstreamRequest};
use crate::failure::{Proof, Rejection};
use crate::fixtures::names_the_model;
use crate::json::Json;
use crate::openai::request::parse;

#[test]
fn every_row_can_write_a_request() {
    let body = Json::parse(br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    let request = parse(body.into_object().unwrap()).unwrap();
    let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
    for name in names() {
        let adapter = adapter_named(name).unwrap();
        let sent = adapter.to_upstream(&request, &context).unwrap();
        assert!(!sent.headers.iter().any(|(name, _)| name.as_str().contains("key") || name == "authorization"));
        assert_eq!(adapter.to_count(&request, &context).is_some(), row_named(name).unwrap().count_path.is_some());
        assert!(names_the_model(&sent), "{name}: {}", sent.path);
        let counts = row_named(name).unwrap().count_path.is_some().then_some(32);
        assert_eq!(
            adapter
                .from_count(br#"{"input_tokens":32,"totalTokens":32,"inputTokens":32}"#)
                .filter(|_| counts.is_some()),
            counts
        );
        assert_eq!(adapter.from_count(b"{}"), None);
        let api = row_named(name).unwrap().tokenizer_api;
        assert_eq!(adapter.to_tokenize("hi", &context).is_some(), api.is_some());
        assert_eq!(adapter.to_detokenize(&[1], &context).is_some(), api.is_some());
        assert_eq!(adapter.to_template(&request, &context).is_some(), api.is_some());
    }
}

#[test]
fn a_server_that_closes_after_a_stream_is_told_to() {
    let closes = |name: &str, stream: bool| {
        let body = format!(r#"{{"model":"m","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let request = parse(Json::parse(body.as_bytes()).unwrap().into_object().unwrap()).unwrap();
        let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
        let sent = adapter_named(name).unwrap().to_upstream(&request, &context).unwrap();
        sent.headers.iter().any(|(name, value)| name == http::header::CONNECTION && value == "close")
    };
    for name in ["llama-cpp", "llama-cpp-anthropic"] {
        assert!(closes(name, true) && !closes(name, false), "{name}");
    }
    assert!(!closes("openai", true) && !closes("anthropic", true));
}

#[test]
fn a_status_means_what_its_provider_says_it_means() {
    let proof = |name: &str, status: u16, message: &str| {
        let head = Head { status: http::StatusCode::from_u16(status).unwrap(), headers: http::HeaderMap::new() };
        let body = format!(r#"{{"error":{{"object":"error","type":"invalid_request_error","message":"{message}"}}}}"#);
        adapter_named(name).unwrap().from_failure(&head, body.as_bytes()).proof
    };
    let (context, setup) = (Proof::Rejected(Rejection::ContextLength), Proof::Rejected(Rejection::Setup));
    let too_long = "Input token count + max_tokens parameter must be less than the context length of the model";
    assert_eq!(proof("together", 403, too_long), context);
    assert_eq!(proof("together", 403, "your team may not use this model"), setup);
    assert_eq!(proof("openai", 403, too_long), setup);
    let tgi = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens";
    for name in ["together", "huggingface", "tgi"] {
        let head = Head { status: http::StatusCode::UNPROCESSABLE_ENTITY, headers: http::HeaderMap::new() };
        let body = match name {
            "tgi" => format!(r#"{{"error":"{tgi} and 9 `max_new_tokens`","error_type":"validation"}}"#),
            _ => format!(r#"{{"error":{{"message":"{tgi}","type":"invalid_request_error"}}}}"#),
        };
        assert_eq!(adapter_named(name).unwrap().from_failure(&head, body.as_bytes()).proof, context, "{name}");
    }
    assert_eq!(proof("fireworks", 412, "account is suspended"), setup);
    assert_eq!(proof("openai", 412, "x"), Proof::Rejected(Rejection::BadRequest));
}

#[test]
fn the_operator_may_distrust_a_providers_500() {
    let overrides = Overrides { error_500_unknown: true, default_max_tokens: Some(7), ..Overrides::default() };
    let head = Head { status: http::StatusCode::INTERNAL_SERVER_ERROR, headers: http::HeaderMap::new() };
    let own = br#"{"type":"error","error":{"type":"api_error","message":"x"}}"#;
    for name in ["openai", "anthropic"] {
        assert_eq!(adapter_named(name).unwrap().from_failure(&head, own).proof, Proof::EndedWithoutResult);
        assert_eq!(adapter_with(name, overrides.clone()).unwrap().from_failure(&head, own).proof, Proof::Unknown);
    }
}

#[test]
fn every_row_has_an_adapter_of_its_own_name_and_a_source() {
    for name in names() {
        let adapter = adapter_named(name).expect("a listed name has an adapter");
        assert_eq!(adapter.name(), name);
        assert!(adapter.version().starts_with(&format!("{name}/")), "{}", adapter.version());
        assert!(!row_named(name).unwrap().source.is_empty());
    }
    assert_eq!(names().len(), names().iter().collect::<std::collections::HashSet<_>>().len());
    assert!(adapter_named("nobody").is_none());
}

fn sent(adapter: &dyn Adapter, model: &str, members: &str) -> Result<UpstreamRequest, Unsupported> {
    let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{members}}}"#);
    let request = parse(Json::parse(text.as_bytes()).unwrap().into_object().unwrap()).unwrap();
    adapter.to_upstream(&request, &CallContext { model, attempt_id: "0193", api_key: None })
}

#[test]
fn azure_is_asked_by_deployment_and_version() {
    let overrides = Overrides { api_version: Some("2025-04-01-preview".into()), ..Overrides::default() };
    let path = |name, overrides: &Overrides| {
        sent(adapter_with(name, overrides.clone()).unwrap().as_ref(), "gpt-4.1-eu", "").unwrap().path
    };
    let own = Overrides::default();
    assert_eq!(path("azure-openai", &own), "/openai/deployments/gpt-4.1-eu/chat/completions?api-version=2024-10-21");
    assert!(path("azure-openai", &overrides).ends_with("?api-version=2025-04-01-preview"));
    assert_eq!(path("azure-openai-v1", &overrides), "/chat/completions", "that one has no versions");
    assert_eq!(path("azure-models", &own), "/chat/completions?api-version=2024-05-01-preview");
    for model in ["", "..", "a/b", "a?b", "a b"] {
        let refusal = sent(adapter_named("azure-openai").unwrap().as_ref(), model, "").unwrap_err();
        assert_eq!(refusal.param, "model", "{model}");
    }
}

#[test]
fn what_a_refused_request_costs_at_azure_is_not_known() {
    let adapter = adapter_named("azure-openai").unwrap();
    let head = Head { status: http::StatusCode::BAD_REQUEST, headers: http::HeaderMap::new() };
    let failure = adapter.from_failure(
        &head,
        br#"{"error":{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
    );
    assert_eq!(failure.proof, Proof::Rejected(crate::failure::Rejection::ContentPolicy));
    assert_eq!(failure.usage, None);
}

#[test]
fn a_parameter_that_a_provider_refuses_is_refused_by_its_name_and_nothing_else_is() {
    let cerebras = adapter_named("cerebras").unwrap();
    for (members, param) in [
        (r#","logit_bias":{"5":1}"#, "logit_bias"),
        (r#","parallel_tool_calls":true"#, "parallel_tool_calls"),
        (r#","service_tier":"flex""#, "service_tier"),
    ] {
        assert_eq!(sent(cerebras.as_ref(), "m", members).unwrap_err().param, param);
        assert!(sent(adapter_named("openai").unwrap().as_ref(), "m", members).is_ok());
    }
    let nothing = r#","logit_bias":{},"service_tier":null,"presence_penalty":0,"seed":5"#;
    assert!(sent(cerebras.as_ref(), "m", nothing).is_ok());
}

#[test]
fn an_error_counts_in_the_shapes_of_its_row_alone() {
    let judged = |name: &str, status: u16, body: &str| {
        let head = Head { status: http::StatusCode::from_u16(status).unwrap(), headers: http::HeaderMap::new() };
        adapter_named(name).unwrap().from_failure(&head, body.as_bytes()).reason
    };
    let tgi = r#"{"error":"Model is overloaded","error_type":"overloaded"}"#;
    assert_eq!(judged("tgi", 429, tgi), "overloaded");
    assert_eq!(judged("tgi", 424, tgi), "provider_error");
    assert_eq!(judged("tgi", 422, tgi), "bad_request");
    assert_eq!(judged("tgi", 422, r#"{"error":"text"}"#), "foreign_answer");
    let flat = r#"{"object":"error","message":"no","type":"BadRequest","code":400}"#;
    assert_eq!(judged("sglang", 400, flat), "bad_request");
    assert_eq!(judged("deepinfra", 400, flat), "foreign_answer");
}

#[test]
fn there_are_more_than_twenty_rows_of_openais_chat_protocol() {
    let rows = names().into_iter().filter(|name| row_named(name).unwrap().protocol == Protocol::OpenAiChat);
    assert!(rows.count() >= 20);
}
