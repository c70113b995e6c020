//! The pages for people on call: what nobody knows, which fallbacks are proven, and the few deeds that change either.
//!
//! Plain pages from the operator's listener, with no script. They show what `/admin/v1` says ([`crate::http::view`]) and
//! do what it does, through the same functions; whatever can be done here can be done there. No prompt and no answer is
//! ever shown.

mod evidence;
mod forms;
mod jobs;
mod overview;
mod page;
mod session;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::engine::Engine;
use crate::http;

/// Everything that operators see: `/admin/v1` and these pages.
pub fn operator(engine: Engine) -> Router {
    http::operator(engine.clone()).merge(pages(engine))
}

fn pages(engine: Engine) -> Router {
    let guarded = Router::new()
        .route("/console", get(overview::show))
        .route("/console/jobs", get(jobs::list))
        .route("/console/jobs/{id}", get(jobs::show))
        .route("/console/attempts/{id}/{deed}", post(jobs::clear))
        .route("/console/contracts", get(evidence::show))
        .route("/console/contract-runs/{id}", get(evidence::run))
        .route("/console/permits", post(evidence::grant))
        .route("/console/permits/{id}/revoke", post(evidence::revoke))
        .route("/console/logout", post(session::log_out))
        .route_layer(middleware::from_fn_with_state(engine.clone(), session::required));
    Router::new()
        .merge(guarded)
        .route("/console/login", get(session::login_page).post(session::log_in))
        .route("/console/style.css", get(page::style))
        .layer(middleware::map_response(page::protect))
        .with_state(engine)
}
