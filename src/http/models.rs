//! `GET /v1/models`: the routes this key may use.

use super::auth::Caller;
use super::openapi::DialectErrors;
use super::view::{List, ModelView};
use crate::engine::Engine;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

#[utoipa::path(
    get, path = "/v1/models", tag = "applications", security(("api_key" = [])),
    responses((status = 200, body = List<ModelView>), DialectErrors)
)]
pub async fn list(State(engine): State<Engine>, _caller: Caller) -> Response {
    let models = engine.config().routes.keys().map(|name| ModelView {
        id: name.to_string(),
        object: "model",
        created: 0,
        owned_by: "interlock",
    });
    axum::Json(List::whole(models.collect())).into_response()
}
