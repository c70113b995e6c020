//! `POST /v1/messages/count_tokens`: how many tokens a prompt has. No job: nothing is generated and nothing is paid for.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use providers::dialects::Dialect;
use serde_json::json;

use super::auth::Caller;
use super::body;
use super::dialects::{Understood, understand};
use super::openapi::{AnthropicErrors, CountRequest, CountView};
use super::problem::{Problem, Shape};
use crate::engine::Engine;
use crate::engine::count::Count;

/// Counts a prompt's tokens without answering it.
#[utoipa::path(
    post, path = "/v1/messages/count_tokens", tag = "applications", security(("api_key" = [])),
    request_body(content = CountRequest, content_type = "application/json"),
    responses((status = 200, body = CountView), AnthropicErrors)
)]
pub async fn messages(State(engine): State<Engine>, _caller: Caller, headers_in: HeaderMap, body_in: Body) -> Response {
    let counted = count(&engine, &headers_in, body_in).await;
    counted.unwrap_or_else(|problem| problem.answer(Shape::of(Dialect::Messages)))
}

async fn count(engine: &Engine, headers_in: &HeaderMap, body_in: Body) -> Result<Response, Problem> {
    let bytes = body::read(headers_in, body_in, &engine.config().server).await?;
    let mut object = body::object(&bytes)?;
    // A request that is only counted has no limit; one that is answered must have one.
    if object.get_some("max_tokens").is_none() {
        object.insert("max_tokens", 1);
    }
    let Understood { route, request, .. } = understand(engine, Dialect::Messages, object)?;
    match engine.count_tokens(&route, &request).await {
        Count::Tokens(tokens) => Ok(axum::Json(json!({ "input_tokens": tokens })).into_response()),
        Count::Cannot => Err(Problem::Invalid {
            param: Some("model".to_owned()),
            code: "unsupported_operation",
            message: "the route's primary has no endpoint that counts tokens, and its tokenizer is not known here"
                .to_owned(),
        }),
        Count::Failed(failure) => Err(Problem::NotCounted { status: failure.status, message: failure.message }),
    }
}
