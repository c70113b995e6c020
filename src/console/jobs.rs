//! Jobs, and the three ways to clear an attempt whose outcome nobody knows.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;

use super::session::Session;
use super::{forms, page};
use crate::domain::ids::AttemptId;
use crate::engine::Engine;
use crate::http::extract::{Path, Query};
use crate::http::jobs::id_of;
use crate::http::problem::Problem;
use crate::http::{admin, view};
use crate::store::operators::Clearance;

const PAGE: i64 = 50;

#[derive(Debug, Deserialize)]
pub struct ByState {
    #[serde(default)]
    state: String,
    before: Option<String>,
}

pub async fn list(
    State(engine): State<Engine>,
    Extension(session): Extension<Session>,
    Query(by): Query<ByState>,
) -> Response {
    let shown = async {
        let state = Some(by.state.as_str()).filter(|state| !state.is_empty());
        let jobs = admin::jobs_page(&engine, state, by.before.as_deref(), PAGE).await?;
        let last = (jobs.len() as i64 >= PAGE).then(|| jobs.last().map(|last| last.job.id.to_string())).flatten();
        Ok::<_, Problem>(page::render(
            "jobs.html",
            json!({
                "form_token": session.form_token,
                "states": admin::STATES,
                "wanted": by.state,
                "jobs": jobs.iter().map(view::job).collect::<Vec<_>>(),
                "last": last,
            }),
        ))
    };
    shown.await.unwrap_or_else(|problem| page::problem(&problem))
}

pub async fn show(
    State(engine): State<Engine>,
    Extension(session): Extension<Session>,
    Path(id): Path<String>,
) -> Response {
    let shown = async {
        let job = admin::examine(&engine, id_of(&id)?).await?;
        Ok::<_, Problem>(page::render("job.html", json!({ "form_token": session.form_token, "job": job })))
    };
    shown.await.unwrap_or_else(|problem| page::problem(&problem))
}

/// Does as `/admin/v1/attempts/{id}/{deed}` does, and shows the job.
pub async fn clear(
    State(engine): State<Engine>,
    Extension(session): Extension<Session>,
    Path((id, deed)): Path<(String, String)>,
    headers: HeaderMap,
    body_in: Body,
) -> Response {
    let cleared = async {
        let clearance = Clearance::parse(&deed).ok_or(Problem::NoSuchRoute)?;
        let id: AttemptId = id.parse().map_err(|_| Problem::NotFound)?;
        let deed = forms::deed(&engine, &session, &headers, body_in).await?;
        let (actor, reason) = (admin::actor(deed.actor.as_deref()), admin::reason(deed.reason.as_deref())?);
        let key = admin::clear_attempt(&engine, id, clearance, actor, reason).await?;
        Ok(Redirect::to(&format!("/console/jobs/{}", key.job)).into_response())
    };
    cleared.await.unwrap_or_else(|problem: Problem| page::problem(&problem))
}
