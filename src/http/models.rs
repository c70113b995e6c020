//! `GET /v1/models`: the routes this key may use.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::auth::Caller;
use super::view;
use crate::engine::Engine;

pub async fn list(State(engine): State<Engine>, _caller: Caller) -> Response {
    let models = engine
        .config()
        .routes
        .keys()
        .map(|name| json!({ "id": name, "object": "model", "created": 0, "owned_by": "interlock" }));
    axum::Json(view::list(models.collect())).into_response()
}
