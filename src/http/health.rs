//! Alive, ready, metrics. Being alive never depends on the database; being ready does.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::engine::{Engine, Phase};

#[utoipa::path(
    get, path = "/healthz", tag = "everybody",
    responses((status = 200, body = String, description = "Alive", content_type = "text/plain"))
)]
pub async fn alive() -> &'static str {
    "ok\n"
}

/// Ready: the database answers within a second, and this process's lease lets it start attempts.
#[utoipa::path(
    get, path = "/readyz", tag = "everybody",
    responses((status = 200, body = String, description = "Ready", content_type = "text/plain"), (status = 503, body = String, description = "Not ready, and why", content_type = "text/plain"))
)]
pub async fn ready(State(engine): State<Engine>) -> Response {
    let fault = match engine.phase() {
        Phase::Draining | Phase::Stopped => Some("shutting down"),
        Phase::Serving if !engine.store().is_ready().await => Some("the database does not answer"),
        Phase::Serving if !engine.may_start() => Some("this instance's lease has not been renewed"),
        Phase::Serving => None,
    };
    match fault {
        None => (StatusCode::OK, "ready\n").into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response(),
    }
}

#[utoipa::path(
    get, path = "/metrics", tag = "everybody",
    responses((status = 200, body = String, description = "Prometheus' text format", content_type = "text/plain"))
)]
pub async fn metrics(State(engine): State<Engine>) -> Response {
    let metrics = engine.metrics();
    let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    metrics.calls.set(gauge(engine.calls()));
    metrics.jobs.set(gauge(engine.jobs()));
    let (entering, limit) = engine.gate().load();
    metrics.entering.set(gauge(entering));
    metrics.entering_limit.set(gauge(limit));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render()).into_response()
}
