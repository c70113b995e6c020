//! Every route on one page, and the only place that knows status codes.
//!
//! Applications connect to [`application`], operators to [`operator`]: two listeners, two kinds of credentials. Each
//! resource has a file of its own; [`problem`] is the one table of errors.

pub mod admin;
mod auth;
pub mod body;
pub mod contracts;
mod count;
mod dialects;
mod events;
pub mod extract;
pub mod headers;
mod health;
pub mod jobs;
mod limits;
mod models;
pub mod openapi;
pub mod problem;
mod request_id;
mod responses;
pub mod serve;
mod stream;
pub mod view;

use axum::Router;
use axum::middleware;
use axum::response::Response;
use axum::routing::{delete, get, post};

use crate::engine::Engine;
use problem::{Problem, Shape};

/// What applications see.
pub fn application(engine: Engine) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(dialects::chat))
        .route("/v1/messages", post(dialects::messages))
        .route("/v1/messages/count_tokens", post(count::messages))
        .route("/v1/responses", post(dialects::responses))
        .route("/v1/responses/{id}", get(responses::show).delete(responses::delete))
        .route("/v1/responses/{id}/input_items", get(responses::input_items))
        .route("/v1/responses/{id}/cancel", post(responses::cancel))
        .route("/v1/embeddings", post(dialects::embeddings))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{id}", get(models::show))
        .route("/v1/jobs", post(jobs::create).get(jobs::list))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/jobs/{id}/result", get(jobs::result))
        .route("/v1/jobs/{id}/events", get(events::follow))
        .route("/v1/jobs/{id}/cancel", post(jobs::cancel))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::show))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(engine.clone(), limits::tell))
        .layer(middleware::from_fn(request_id::stamp))
        .with_state(engine)
}

/// What people on call and ML engineers see.
pub fn operator(engine: Engine) -> Router {
    let guarded = Router::new()
        .route("/admin/v1/jobs", get(admin::jobs))
        .route("/admin/v1/jobs/{id}", get(admin::job))
        .route("/admin/v1/attempts/{id}/release", post(admin::release))
        .route("/admin/v1/attempts/{id}/cancel", post(admin::cancel))
        .route("/admin/v1/attempts/{id}/fail", post(admin::fail))
        .route("/admin/v1/races", get(admin::races))
        .route("/admin/v1/providers", get(admin::providers))
        .route("/admin/v1/contract-runs", get(contracts::runs).post(contracts::start_run))
        .route("/admin/v1/contract-runs/{id}", get(contracts::run))
        .route("/admin/v1/permits", get(contracts::permits).post(contracts::grant))
        .route("/admin/v1/permits/{id}", delete(contracts::revoke))
        .route_layer(middleware::from_fn_with_state(engine.clone(), auth::operators_only));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::show))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(request_id::stamp))
        .with_state(engine)
}

async fn nothing_here() -> Response {
    Problem::NoSuchRoute.answer(Shape::Problem)
}

async fn wrong_method() -> Response {
    Problem::WrongMethod.answer(Shape::Problem)
}
