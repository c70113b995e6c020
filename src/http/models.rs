//! `GET /v1/models`: the routes this key may use, in the words of whoever asks. Anthropic's clients name the version of
//! its API in every call; anybody else is answered as OpenAI answers.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use providers::failure::clean;
use serde::Deserialize;

use super::auth::Caller;
use super::extract::{Path, Query};
use super::openapi::ModelErrors;
use super::problem::{Problem, Shape};
use super::view::{AnthropicModelView, AnthropicModels, List, ModelAnswer, ModelView, ModelsAnswer};
use crate::engine::Engine;

/// The page that is asked for, in Anthropic's words; OpenAI's list has no pages.
#[derive(Debug, Default, Deserialize)]
pub struct Page {
    limit: Option<String>,
    after_id: Option<String>,
    before_id: Option<String>,
}

#[utoipa::path(
    get, path = "/v1/models", tag = "applications", security(("api_key" = [])),
    params(
        ("anthropic-version" = Option<String>, Header, description = "Answers in Anthropic's words, a page at a time"),
        ("limit" = Option<String>, Query, description = "Anthropic's: at most so many, 1 to 1000; 20 if not said"),
        ("after_id" = Option<String>, Query, description = "Anthropic's: those behind this one"),
        ("before_id" = Option<String>, Query, description = "Anthropic's: those before this one"),
    ),
    responses((status = 200, body = ModelsAnswer), ModelErrors)
)]
pub async fn list(
    State(engine): State<Engine>,
    headers_in: HeaderMap,
    _caller: Caller,
    Query(page): Query<Page>,
) -> Response {
    let names: Vec<&str> = engine.config().routes.keys().map(String::as_str).collect();
    match Shape::of_models(&headers_in) {
        Shape::Anthropic => match page.of(&names) {
            Ok(page) => axum::Json(page).into_response(),
            Err(problem) => problem.answer(Shape::Anthropic),
        },
        Shape::OpenAi | Shape::Problem => {
            axum::Json(List::whole(names.into_iter().map(ModelView::of).collect())).into_response()
        }
    }
}

#[utoipa::path(
    get, path = "/v1/models/{id}", tag = "applications", security(("api_key" = [])),
    params(
        ("id" = String, Path, description = "A route's name"),
        ("anthropic-version" = Option<String>, Header, description = "Answers in Anthropic's words"),
    ),
    responses((status = 200, body = ModelAnswer), ModelErrors)
)]
pub async fn show(
    State(engine): State<Engine>,
    headers_in: HeaderMap,
    _caller: Caller,
    Path(id): Path<String>,
) -> Response {
    let shape = Shape::of_models(&headers_in);
    if !engine.config().routes.contains_key(&id) {
        return Problem::RouteUnknown { model: clean(&id) }.answer(shape);
    }
    match shape {
        Shape::Anthropic => axum::Json(AnthropicModelView::of(&id)).into_response(),
        Shape::OpenAi | Shape::Problem => axum::Json(ModelView::of(&id)).into_response(),
    }
}

impl Page {
    /// The names on this page, in the order of the list.
    fn of(&self, names: &[&str]) -> Result<AnthropicModels, Problem> {
        let limit = self.limit.as_deref().map_or(Some(20), |limit| limit.parse().ok());
        let limit = limit
            .filter(|limit| (1..=1_000).contains(limit))
            .ok_or_else(|| invalid("limit", "`limit` is a number from 1 to 1000".to_owned()))?;
        let place = |name: &str, id: &str| {
            let found = names.iter().position(|known| *known == id);
            found.ok_or_else(|| invalid(name, format!("`{name}` names no model of the list: `{}`", clean(id))))
        };
        let (page, has_more) = match (&self.after_id, &self.before_id) {
            (Some(_), Some(_)) => {
                return Err(invalid("before_id", "`after_id` and `before_id` exclude each other".to_owned()));
            }
            (None, Some(before)) => {
                let before = place("before_id", before)?;
                let from = before.saturating_sub(limit);
                (&names[from..before], from > 0)
            }
            (after, None) => {
                let from = after.as_deref().map_or(Ok(0), |after| place("after_id", after).map(|at| at + 1))?;
                let to = names.len().min(from + limit);
                (&names[from..to], to < names.len())
            }
        };
        Ok(AnthropicModels::of(page, has_more))
    }
}

fn invalid(param: &str, message: String) -> Problem {
    Problem::Invalid { param: Some(param.to_owned()), code: "invalid_request", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_on_from_an_id_in_either_direction() {
        let names = ["a", "b", "c", "d", "e"];
        let page = |limit: &str, after: Option<&str>, before: Option<&str>| {
            let page = Page {
                limit: Some(limit.to_owned()),
                after_id: after.map(str::to_owned),
                before_id: before.map(str::to_owned),
            };
            let shown = serde_json::to_value(page.of(&names).ok()?).unwrap();
            let ids = shown["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned());
            Some((ids.collect::<String>(), shown["has_more"] == true))
        };
        let told = |ids: &str, more| Some((ids.to_owned(), more));
        assert_eq!(page("2", None, None), told("ab", true));
        assert_eq!(page("2", Some("b"), None), told("cd", true));
        assert_eq!(page("2", Some("d"), None), told("e", false));
        assert_eq!(page("2", Some("e"), None), told("", false));
        assert_eq!(page("2", None, Some("d")), told("bc", true));
        assert_eq!(page("2", None, Some("c")), told("ab", false));
        for (limit, after, before) in [
            ("0", None, None),
            ("1001", None, None),
            ("x", None, None),
            ("1", Some("z"), None),
            ("1", Some("a"), Some("c")),
        ] {
            assert_eq!(page(limit, after, before), None);
        }
    }
}
