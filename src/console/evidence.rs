//! Which fallbacks are proven, by which runs, and enabling or ending one.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use super::session::Session;
use super::{forms, page};
use crate::engine::Engine;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::{admin, contracts, view};

pub async fn show(State(engine): State<Engine>, Extension(session): Extension<Session>) -> Response {
    let shown = async {
        let runs = engine.store().runs(contracts::PAGE).await?;
        let permits = contracts::listed_permits(&engine, None).await?;
        let routes: Vec<&String> = engine.config().routes.keys().collect();
        Ok::<_, Problem>(page::render(
            "contracts.html",
            json!({
                "form_token": session.form_token,
                "runs": runs.iter().map(view::run).collect::<Vec<_>>(),
                "permits": permits,
                "routes": routes,
            }),
        ))
    };
    shown.await.unwrap_or_else(|problem| page::problem(&problem))
}

pub async fn run(
    State(engine): State<Engine>,
    Extension(session): Extension<Session>,
    Path(id): Path<String>,
) -> Response {
    let shown = async {
        let run = contracts::run_with_checks(&engine, &id).await?;
        Ok::<_, Problem>(page::render("run.html", json!({ "form_token": session.form_token, "run": run })))
    };
    shown.await.unwrap_or_else(|problem| page::problem(&problem))
}

pub async fn grant(
    State(engine): State<Engine>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
    body_in: Body,
) -> Response {
    let granted = async {
        let deed = forms::deed(&engine, &session, &headers, body_in).await?;
        let route = deed.route.as_deref().ok_or_else(|| forms::invalid("route", "is missing: say which route"))?;
        let run = deed.run_id.as_deref().ok_or_else(|| forms::invalid("run_id", "is missing: name a passed run"))?;
        let (actor, reason) = (admin::actor(deed.actor.as_deref()), admin::reason(deed.reason.as_deref())?);
        contracts::grant_by(&engine, route, run.trim(), actor, reason).await?;
        Ok(Redirect::to("/console/contracts").into_response())
    };
    granted.await.unwrap_or_else(|problem: Problem| page::problem(&problem))
}

pub async fn revoke(
    State(engine): State<Engine>,
    Extension(session): Extension<Session>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body_in: Body,
) -> Response {
    let revoked = async {
        let deed = forms::deed(&engine, &session, &headers, body_in).await?;
        let (actor, reason) = (admin::actor(deed.actor.as_deref()), admin::reason(deed.reason.as_deref())?);
        contracts::revoke_by(&engine, &id, actor, reason).await?;
        Ok(Redirect::to("/console/contracts").into_response())
    };
    revoked.await.unwrap_or_else(|problem: Problem| page::problem(&problem))
}
