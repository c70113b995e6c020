//! `GET /v1/responses/{id}/input_items`: what a response was asked with, from the stored request.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use providers::dialects::Dialect;
use providers::dialects::responses::listed_items;
use providers::failure::clean;
use providers::json::{Json, Object};
use serde::Serialize;
use utoipa::ToSchema;

use super::asked::{Asked, invalid};
use super::find;
use crate::engine::Engine;
use crate::http::auth::Caller;
use crate::http::dialects::{Form, rendering};
use crate::http::extract::{Path, Query};
use crate::http::openapi::DialectErrors;
use crate::http::problem::{Problem, Shape};

/// A page of items, in OpenAI's words.
#[derive(Debug, Serialize, ToSchema)]
pub struct InputItems {
    #[schema(pattern = "^list$")]
    object: &'static str,
    #[schema(value_type = Vec<Object>)]
    data: Vec<serde_json::Value>,
    has_more: bool,
    #[schema(required)]
    first_id: Option<String>,
    #[schema(required)]
    last_id: Option<String>,
}

#[utoipa::path(
    get, path = "/v1/responses/{id}/input_items", tag = "applications", security(("api_key" = [])),
    params(
        ("id" = String, Path, description = "The response's id: `resp_…`"),
        ("limit" = Option<String>, Query, description = "At most so many, 1 to 100; 20 if not said"),
        ("order" = Option<String>, Query, description = "`asc`, or `desc` (if not said)"),
        ("after" = Option<String>, Query, description = "Those behind this item"),
    ),
    responses((status = 200, body = InputItems), DialectErrors)
)]
pub async fn input_items(
    State(engine): State<Engine>,
    caller: Caller,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let listed = async {
        let asked = Asked::read(&pairs)?;
        let snapshot = find(&engine, caller.owner, &id).await?;
        let rendering = rendering(&engine, caller.owner, snapshot.job.id, &Form::whole(&snapshot.job)).await?;
        asked.check_include(&rendering.request)?;
        let page = page(&pairs, listed_items(&rendering.stem, &rendering.request))?;
        Ok::<_, Problem>(axum::Json(page).into_response())
    };
    listed.await.unwrap_or_else(|problem| problem.answer(Shape::of(Dialect::Responses)))
}

fn page(pairs: &[(String, String)], mut items: Vec<Object>) -> Result<InputItems, Problem> {
    let asked = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let limit = asked("limit").map_or(Some(20), |limit| limit.parse::<usize>().ok());
    let limit = limit.filter(|limit| (1..=100).contains(limit));
    let limit = limit.ok_or_else(|| invalid("limit", "is a number from 1 to 100"))?;
    match asked("order") {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => return Err(invalid("order", "is `asc` or `desc`")),
    }
    let id = |item: &Object| item.get("id").and_then(Json::as_str).map(str::to_owned);
    if let Some(after) = asked("after") {
        let at = items.iter().position(|item| id(item).as_deref() == Some(after));
        let at = at.ok_or_else(|| invalid("after", &format!("names no item of this input: `{}`", clean(after))))?;
        items.drain(..=at);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let (first_id, last_id) = (items.first().and_then(id), items.last().and_then(id));
    let shown = |item: Object| serde_json::from_slice(&Json::Object(item).to_bytes()).map_err(|_| Problem::Internal);
    let data = items.into_iter().map(shown).collect::<Result<_, _>>()?;
    Ok(InputItems { object: "list", data, has_more, first_id, last_id })
}
