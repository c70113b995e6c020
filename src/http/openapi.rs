//! `GET /openapi.json`: what both listeners serve, made from the handlers and views themselves.

use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};
use uuid::Uuid;

use super::{admin, contracts, count, dialects, events, health, jobs, models, responses};

/// The whole document.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Interlock",
        description = "A multi-provider inference gateway. Tag `applications` is served on `server.listen`, `operators` \
                       on `server.operator_listen`, `everybody` on both."
    ),
    modifiers(&Credentials),
    // Those that are named in refusals only, which are not followed by themselves.
    components(schemas(ProblemBody, DialectErrorBody, AnthropicErrorBody, ModelErrorBody)),
    paths(
        dialects::chat, dialects::messages, count::messages, dialects::responses, responses::show, responses::cancel, responses::delete,
        responses::input_items,
        dialects::embeddings, models::list, models::show, jobs::create, jobs::list, jobs::show, jobs::result, jobs::cancel, events::follow,
        admin::jobs, admin::job, admin::release, admin::cancel, admin::fail, admin::races, admin::providers,
        contracts::runs, contracts::start_run, contracts::run, contracts::permits, contracts::grant, contracts::revoke,
        health::alive, health::ready, health::metrics, show,
    )
)]
pub struct Document;

/// Two kinds of credentials, for two listeners.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = |told: &str| {
            let http = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(told));
            SecurityScheme::Http(http.build())
        };
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", bearer("An owner's key, as `interlock key create` prints it"));
        components.add_security_scheme("operator", bearer("The value of `server.operator_token`"));
    }
}

/// Serves the document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "everybody",
    responses((status = 200, body = Object, description = "This document", content_type = "application/json"))
)]
pub async fn show() -> Response {
    axum::Json(Document::openapi()).into_response()
}

/// What chat completions are asked with: the members that every call has. All others are OpenAI's own.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "a schema: the request is read by hand, so that nothing in it is lost")]
pub struct ChatRequest {
    /// A route's name.
    model: String,
    #[schema(min_items = 1)]
    messages: Vec<Value>,
    stream: Option<bool>,
}

/// What Anthropic's messages are asked with: the members that every call has.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "a schema: the request is read by hand, so that nothing in it is lost")]
pub struct MessagesRequest {
    /// A route's name.
    model: String,
    #[schema(minimum = 1)]
    max_tokens: u64,
    #[schema(min_items = 1)]
    messages: Vec<Value>,
    stream: Option<bool>,
}

/// What a count of tokens is asked with.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "a schema: the request is read by hand, so that nothing in it is lost")]
pub struct CountRequest {
    /// A route's name.
    model: String,
    #[schema(min_items = 1)]
    messages: Vec<Value>,
}

/// A prompt's tokens.
#[derive(Debug, ToSchema)]
#[schema(as = TokenCount)]
#[expect(dead_code, reason = "a schema of one member")]
pub struct CountView {
    input_tokens: u64,
}

/// What responses are asked with: the members that every call has.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "a schema: the request is read by hand, so that nothing in it is lost")]
pub struct ResponsesRequest {
    /// A route's name.
    model: String,
    /// A text, or a list of items.
    input: Value,
    stream: Option<bool>,
    /// Answers at once; ask again at `/v1/responses/{id}`.
    background: Option<bool>,
}

/// What embeddings are asked with.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "a schema: the request is read by hand, so that nothing in it is lost")]
pub struct EmbeddingsRequest {
    /// A route's name.
    model: String,
    /// A text, a list of texts, or tokens.
    input: Value,
}

/// A job that nobody waits for: the Batch API's words.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "a schema: the request is read by hand, so that nothing in it is lost")]
pub struct NewJob {
    /// The operation: `/v1/chat/completions`, `/v1/messages`, `/v1/responses` or `/v1/embeddings`.
    url: String,
    /// What that route takes.
    #[schema(value_type = Object)]
    body: Value,
    /// Kept with the job, and sent nowhere.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// An address that is told when the job has ended.
    callback: Option<String>,
}

/// An error outside the dialects: RFC 9457.
#[derive(Debug, ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
pub struct ProblemBody {
    #[schema(rename = "type")]
    r#type: String,
    title: String,
    status: u16,
    /// For programs.
    code: String,
    /// What is wrong and how it is cured.
    detail: String,
    /// The member or header at fault.
    param: Option<String>,
    job_id: Option<Uuid>,
}

/// An error on a dialect's route: OpenAI's shape.
#[derive(Debug, ToSchema)]
#[schema(as = DialectError)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
pub struct DialectErrorBody {
    error: DialectErrorInner,
}

#[derive(Debug, ToSchema)]
#[schema(as = DialectErrorDetails)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
struct DialectErrorInner {
    message: String,
    #[schema(rename = "type")]
    r#type: String,
    code: String,
    #[schema(required)]
    param: Option<String>,
    job_id: Option<Uuid>,
}

/// How every route but the dialects' refuses.
#[derive(Debug, IntoResponses)]
pub enum Refusals {
    /// The request is at fault, or the resource is not in the state for it.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Request(ProblemBody),
    /// The gateway or its database is at fault: nothing was promised.
    #[response(status = "5XX", content_type = "application/problem+json")]
    Gateway(ProblemBody),
}

/// How a dialect's route refuses.
#[derive(Debug, IntoResponses)]
pub enum DialectErrors {
    /// The request is at fault, or the provider has refused it.
    #[response(status = "4XX", content_type = "application/json")]
    Request(DialectErrorBody),
    /// The outcome is not known, or nobody could answer.
    #[response(status = "5XX", content_type = "application/json")]
    Gateway(DialectErrorBody),
}

/// How the models' routes refuse: in the words of whoever asks.
#[derive(Debug, IntoResponses)]
pub enum ModelErrors {
    /// The request is at fault.
    #[response(status = "4XX", content_type = "application/json")]
    Request(ModelErrorBody),
    /// The gateway or its database is at fault.
    #[response(status = "5XX", content_type = "application/json")]
    Gateway(ModelErrorBody),
}

/// An error in OpenAI's words, or in Anthropic's: these have `type` and `request_id` beside it.
#[derive(Debug, ToSchema)]
#[schema(as = ModelError)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
pub struct ModelErrorBody {
    #[schema(rename = "type", pattern = "^error$")]
    r#type: Option<String>,
    error: ModelErrorInner,
    request_id: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(as = ModelErrorDetails)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
struct ModelErrorInner {
    message: String,
    #[schema(rename = "type")]
    r#type: String,
    code: String,
    param: Option<String>,
}

/// An error on Anthropic's routes.
#[derive(Debug, ToSchema)]
#[schema(as = AnthropicError)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
pub struct AnthropicErrorBody {
    #[schema(rename = "type", pattern = "^error$")]
    r#type: String,
    error: AnthropicErrorInner,
    request_id: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(as = AnthropicErrorDetails)]
#[expect(dead_code, reason = "a schema: `problem.rs` writes it")]
struct AnthropicErrorInner {
    #[schema(rename = "type")]
    r#type: String,
    message: String,
}

/// How Anthropic's routes refuse.
#[derive(Debug, IntoResponses)]
pub enum AnthropicErrors {
    /// The request is at fault, or the provider has refused it.
    #[response(status = "4XX", content_type = "application/json")]
    Request(AnthropicErrorBody),
    /// The outcome is not known, or nobody could answer.
    #[response(status = "5XX", content_type = "application/json")]
    Gateway(AnthropicErrorBody),
}
