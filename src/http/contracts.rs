//! Contract runs and permits, for those who prove and enable a fallback.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::admin::{Deed, actor, read, reason};
use super::extract::{Path, Query};
use super::openapi::Refusals;
use super::problem::{Problem, Shape};
use super::view::{self, GrantedView, List, PermitView, RunView, RunWithChecks};
use crate::domain::ids::{PermitId, RunId};
use crate::domain::route::Target;
use crate::engine::certify::coverage::{Coverage, standings};
use crate::engine::certify::{CertifyError, GrantError, Planned, RunMode, grant_permit};
use crate::engine::{Engine, tasks};
use crate::store::permits::ListedPermit;

/// Runs in a list.
pub const PAGE: i64 = 100;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    suite: String,
    /// `provider/model`.
    target: String,
    /// `live` (the default) or `replay`.
    mode: Option<String>,
}

/// Files the run and makes it in the background.
#[utoipa::path(
    post, path = "/admin/v1/contract-runs", tag = "operators", security(("operator" = [])),
    request_body(content = NewRun, content_type = "application/json"),
    responses((status = 202, body = RunView), Refusals)
)]
pub async fn start_run(State(engine): State<Engine>, headers: HeaderMap, body_in: Body) -> Response {
    let started = async {
        let new: NewRun = read(&engine, &headers, body_in).await?;
        let invalid = |param: &str, message: String| Problem::Invalid {
            param: Some(param.to_owned()),
            code: "invalid_request",
            message,
        };
        let target = Target::parse(&new.target)
            .ok_or_else(|| invalid("target", format!("`{}` is not of the form provider/model", new.target)))?;
        let mode = match new.mode.as_deref() {
            None | Some("live") => RunMode::Live,
            Some("replay") => RunMode::Replay,
            Some(other) => return Err(invalid("mode", format!("`{other}` is neither live nor replay"))),
        };
        let planned =
            Planned::new(engine.config(), &new.suite, target.clone(), mode).map_err(|error| match &error {
                CertifyError::Suite(_) => invalid("suite", error.to_string()),
                CertifyError::NoProvider { .. } => invalid("target", error.to_string()),
                CertifyError::Engine(_) | CertifyError::Store(_) => Problem::Internal,
            })?;
        planned.begin(engine.store(), Some(engine.instance())).await.map_err(internal)?;
        let id = planned.id;
        let run = engine.store().run(id).await?.ok_or(Problem::NotFound)?;
        spawn_run(engine.clone(), planned, target);
        Ok((StatusCode::ACCEPTED, axum::Json(view::run(&run))).into_response())
    };
    started.await.unwrap_or_else(|problem: Problem| problem.answer(Shape::Problem))
}

fn internal(error: CertifyError) -> Problem {
    match error {
        CertifyError::Store(error) => error.into(),
        CertifyError::Engine(error) => error.into(),
        CertifyError::Suite(_) | CertifyError::NoProvider { .. } => Problem::Internal,
    }
}

fn spawn_run(engine: Engine, planned: Planned, target: Target) {
    tasks::spawn(async move {
        let run = planned.id;
        match planned.finish(engine.store(), &|_| {}).await {
            Ok(report) if report.passed() => engine.note_passed_run(&target, &report),
            Ok(_) => tracing::info!(%run, %target, "contract run failed"),
            Err(error) => tracing::error!(%run, %error, "the contract run could not be made"),
        }
    });
}

#[utoipa::path(
    get, path = "/admin/v1/contract-runs", tag = "operators", security(("operator" = [])),
    responses((status = 200, body = List<RunView>), Refusals)
)]
pub async fn runs(State(engine): State<Engine>) -> Response {
    match engine.store().runs(PAGE).await {
        Ok(runs) => axum::Json(view::list(runs.iter().map(view::run).collect())).into_response(),
        Err(error) => Problem::from(error).answer(Shape::Problem),
    }
}

#[utoipa::path(
    get, path = "/admin/v1/contract-runs/{id}", tag = "operators", security(("operator" = [])),
    params(("id" = Uuid, Path, description = "The run's id")),
    responses((status = 200, body = RunWithChecks), Refusals)
)]
pub async fn run(State(engine): State<Engine>, Path(id): Path<String>) -> Response {
    match run_with_checks(&engine, &id).await {
        Ok(run) => axum::Json(run).into_response(),
        Err(problem) => problem.answer(Shape::Problem),
    }
}

/// One run with its checks.
pub async fn run_with_checks(engine: &Engine, id: &str) -> Result<Value, Problem> {
    let id: RunId = id.parse().map_err(|_| Problem::NotFound)?;
    let run = engine.store().run(id).await?.ok_or(Problem::NotFound)?;
    let checks = engine.store().checks(id).await?;
    let mut out = view::run(&run);
    if let Value::Object(out) = &mut out {
        out.insert("checks".to_owned(), checks.iter().map(view::check).collect());
    }
    Ok(out)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ByRoute {
    route: Option<String>,
}

#[utoipa::path(
    get, path = "/admin/v1/permits", tag = "operators", security(("operator" = [])),
    params(ByRoute),
    responses((status = 200, body = List<PermitView>), Refusals)
)]
pub async fn permits(State(engine): State<Engine>, Query(by): Query<ByRoute>) -> Response {
    match listed_permits(&engine, by.route.as_deref()).await {
        Ok(permits) => axum::Json(view::list(permits)).into_response(),
        Err(problem) => problem.answer(Shape::Problem),
    }
}

/// Every permit, or one route's, newest first, each with how it stands under this process's settings.
pub async fn listed_permits(engine: &Engine, route: Option<&str>) -> Result<Vec<Value>, Problem> {
    Ok(shown(engine, &engine.store().listed_permits(route).await?).await)
}

async fn shown(engine: &Engine, permits: &[ListedPermit]) -> Vec<Value> {
    let standings = standings(engine.config(), permits).await;
    permits.iter().zip(&standings).map(|(permit, standing)| view::permit(permit, standing)).collect()
}

async fn shown_one(engine: &Engine, id: PermitId) -> Result<(ListedPermit, Value), Problem> {
    let listed = engine.store().listed_permit(id).await?.ok_or(Problem::NotFound)?;
    let value = shown(engine, std::slice::from_ref(&listed)).await.pop().unwrap_or_default();
    Ok((listed, value))
}

/// Of each fallback the newest permit, and whatever else is in force; `permits` as listed.
pub fn newest(permits: Vec<Value>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut is_newest = |permit: &Value| seen.insert(["route", "provider", "model"].map(|of| permit[of].to_string()));
    let in_force = |permit: &Value| permit["state"] == "valid" || permit["state"] == "expiring";
    permits.into_iter().filter(|permit| is_newest(permit) || in_force(permit)).collect()
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPermit {
    route: String,
    /// A passed run of the route's suite against one of its targets.
    #[serde(alias = "run")]
    run_id: String,
    #[schema(required, nullable = false, min_length = 1)]
    reason: Option<String>,
    actor: Option<String>,
}

#[utoipa::path(
    post, path = "/admin/v1/permits", tag = "operators", security(("operator" = [])),
    request_body(content = NewPermit, content_type = "application/json"),
    responses((status = 201, body = GrantedView), Refusals)
)]
pub async fn grant(State(engine): State<Engine>, headers: HeaderMap, body_in: Body) -> Response {
    let granted = async {
        let new: NewPermit = read(&engine, &headers, body_in).await?;
        let why = reason(new.reason.as_deref())?;
        let permit = grant_by(&engine, &new.route, &new.run_id, actor(new.actor.as_deref()), why).await?;
        Ok((StatusCode::CREATED, axum::Json(permit)).into_response())
    };
    granted.await.unwrap_or_else(|problem: Problem| problem.answer(Shape::Problem))
}

/// Grants a permit on this run, and shows it with what its evidence covers; or says what is missing.
pub async fn grant_by(engine: &Engine, route: &str, run: &str, actor: &str, reason: &str) -> Result<Value, Problem> {
    let run: RunId = run.parse().map_err(|_| Problem::Invalid {
        param: Some("run_id".to_owned()),
        code: "invalid_request",
        message: "`run_id` is no run's id; GET /admin/v1/contract-runs lists them".to_owned(),
    })?;
    let permit = grant_permit(engine.store(), engine.config(), route, run, actor, reason).await.map_err(refused)?;
    let (listed, mut out) = shown_one(engine, permit.id()).await?;
    let covered = Coverage::of(engine.store(), &listed).await?;
    if let (Some(covered), Value::Object(out)) = (covered, &mut out) {
        out.insert("evidence".to_owned(), view::coverage(&covered));
    }
    Ok(out)
}

fn refused(error: GrantError) -> Problem {
    match error {
        GrantError::Store(error) => error.into(),
        GrantError::NoRoute(_) | GrantError::NoRun(_) => Problem::Invalid {
            param: Some(if matches!(error, GrantError::NoRun(_)) { "run_id" } else { "route" }.to_owned()),
            code: "invalid_request",
            message: error.to_string(),
        },
        GrantError::NotPassed { .. } | GrantError::DoesNotFit(_) | GrantError::NoReason | GrantError::Suite(_) => {
            Problem::Refused { code: "permit_refused", message: error.to_string() }
        }
    }
}

/// Ends a permit at once.
#[utoipa::path(
    delete, path = "/admin/v1/permits/{id}", tag = "operators", security(("operator" = [])),
    params(("id" = Uuid, Path, description = "The permit's id")),
    request_body(content = Deed, content_type = "application/json"),
    responses((status = 200, body = PermitView), Refusals)
)]
pub async fn revoke(
    State(engine): State<Engine>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body_in: Body,
) -> Response {
    let revoked = async {
        let deed: Deed = read(&engine, &headers, body_in).await?;
        revoke_by(&engine, &id, deed.actor(), deed.reason()?).await
    };
    match revoked.await {
        Ok(permit) => axum::Json(permit).into_response(),
        Err(problem) => problem.answer(Shape::Problem),
    }
}

/// Ends this permit, and shows it as it is now.
pub async fn revoke_by(engine: &Engine, id: &str, actor: &str, reason: &str) -> Result<Value, Problem> {
    let id: PermitId = id.parse().map_err(|_| Problem::NotFound)?;
    if !engine.store().revoke_permit(id, actor, reason).await? {
        return Err(Problem::NotFound);
    }
    Ok(shown_one(engine, id).await?.1)
}
