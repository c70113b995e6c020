//! What people on call do: see what nobody knows, clear it by name and with a reason, see races and circuits.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use providers::failure::clean;
use providers::json::Json;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::contracts;
use super::extract::{Path, Query};
use super::headers::rfc3339;
use super::jobs::id_of;
use super::openapi::Refusals;
use super::problem::{Problem, Shape};
use super::view::{CircuitView, FailingCircuit, JobView, List, ProviderView, RaceView};
use super::{body, view};
use crate::domain::ids::{AttemptId, JobId};
use crate::domain::job::Snapshot;
use crate::engine::Engine;
use crate::store::attempts::AttemptKey;
use crate::store::operators::{Clearance, Cleared};

const PAGE: i64 = 100;
/// Who an action is put down to when the operator does not say.
const NAMELESS: &str = "operator";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ByState {
    /// `queued`, `running`, `unknown`, `succeeded`, `failed` or `cancelled`.
    state: Option<String>,
    /// The last job of the page before.
    before: Option<String>,
}

pub const STATES: [&str; 6] = ["queued", "running", "unknown", "succeeded", "failed", "cancelled"];

#[utoipa::path(
    get, path = "/admin/v1/jobs", tag = "operators", security(("operator" = [])),
    params(ByState),
    responses((status = 200, body = List<JobView>), Refusals)
)]
pub async fn jobs(State(engine): State<Engine>, Query(by): Query<ByState>) -> Response {
    match jobs_page(&engine, by.state.as_deref(), by.before.as_deref(), PAGE).await {
        Ok(jobs) => axum::Json(view::page(jobs.iter().map(view::job).collect(), PAGE)).into_response(),
        Err(problem) => problem.answer(Shape::Problem),
    }
}

/// At most `size` jobs of every owner, newest first; `before`: older than this one.
pub async fn jobs_page(
    engine: &Engine,
    state: Option<&str>,
    before: Option<&str>,
    size: i64,
) -> Result<Vec<Snapshot>, Problem> {
    if let Some(state) = state.filter(|state| !STATES.contains(state)) {
        let message = format!("`{}` is no state of a job; known are {}", clean(state), STATES.join(", "));
        return Err(Problem::Invalid { param: Some("state".to_owned()), code: "invalid_request", message });
    }
    let before = before.map(id_of).transpose()?;
    Ok(engine.store().list_jobs(state, None, before, size).await?)
}

#[utoipa::path(
    get, path = "/admin/v1/jobs/{id}", tag = "operators", security(("operator" = [])),
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, body = JobView), Refusals)
)]
pub async fn job(State(engine): State<Engine>, Path(id): Path<String>) -> Response {
    let found = async { Ok(axum::Json(examine(&engine, id_of(&id)?).await?).into_response()) };
    found.await.unwrap_or_else(|problem: Problem| problem.answer(Shape::Problem))
}

/// Anybody's job, with what providers said of its attempts.
pub async fn examine(engine: &Engine, id: JobId) -> Result<Value, Problem> {
    let owner = engine.store().job_owner(id).await?.ok_or(Problem::NotFound)?;
    let snapshot = engine.store().job(owner, id).await?.ok_or(Problem::NotFound)?;
    let lookups = engine.store().lookups_of_job(owner, id).await?;
    Ok(view::examined_job(&snapshot, &lookups))
}

#[utoipa::path(
    post, path = "/admin/v1/attempts/{id}/release", tag = "operators", security(("operator" = [])),
    params(("id" = Uuid, Path, description = "The attempt's id")),
    request_body(content = Deed, content_type = "application/json"),
    responses((status = 200, body = JobView), Refusals)
)]
pub async fn release(state: State<Engine>, path: Path<String>, headers: HeaderMap, body_in: Body) -> Response {
    clear(state, path, headers, body_in, Clearance::Release).await
}

#[utoipa::path(
    post, path = "/admin/v1/attempts/{id}/cancel", tag = "operators", security(("operator" = [])),
    params(("id" = Uuid, Path, description = "The attempt's id")),
    request_body(content = Deed, content_type = "application/json"),
    responses((status = 200, body = JobView), Refusals)
)]
pub async fn cancel(state: State<Engine>, path: Path<String>, headers: HeaderMap, body_in: Body) -> Response {
    clear(state, path, headers, body_in, Clearance::Cancel).await
}

#[utoipa::path(
    post, path = "/admin/v1/attempts/{id}/fail", tag = "operators", security(("operator" = [])),
    params(("id" = Uuid, Path, description = "The attempt's id")),
    request_body(content = Deed, content_type = "application/json"),
    responses((status = 200, body = JobView), Refusals)
)]
pub async fn fail(state: State<Engine>, path: Path<String>, headers: HeaderMap, body_in: Body) -> Response {
    clear(state, path, headers, body_in, Clearance::Fail).await
}

async fn clear(
    State(engine): State<Engine>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body_in: Body,
    clearance: Clearance,
) -> Response {
    let cleared = async {
        let deed: Deed = read(&engine, &headers, body_in).await?;
        let id: AttemptId = id.parse().map_err(|_| Problem::NotFound)?;
        let key = clear_attempt(&engine, id, clearance, deed.actor(), deed.reason()?).await?;
        let snapshot = engine.store().job(key.owner, key.job).await?.ok_or(Problem::NotFound)?;
        Ok(axum::Json(view::job(&snapshot)).into_response())
    };
    cleared.await.unwrap_or_else(|problem: Problem| problem.answer(Shape::Problem))
}

/// Clears an unknown attempt, and lets its job go on.
pub async fn clear_attempt(
    engine: &Engine,
    id: AttemptId,
    clearance: Clearance,
    actor: &str,
    reason: &str,
) -> Result<AttemptKey, Problem> {
    match engine.store().clear_attempt(id, clearance, actor, reason).await? {
        Cleared::Done(key) => {
            tracing::warn!(job = %key.job, attempt = %id, action = clearance.as_str(), actor, "attempt cleared");
            if clearance == Clearance::Cancel {
                engine.call_off(key.owner, key.job).await;
            }
            engine.look_at(key.owner, key.job).await?;
            Ok(key)
        }
        Cleared::NotUnknown(state) => Err(Problem::NotUnknown { attempt: id, state }),
        Cleared::NoSuchAttempt => Err(Problem::NotFound),
    }
}

/// Every deed has a reason, and somebody's name where it is given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Deed {
    /// What the next person on call will read.
    #[schema(required, nullable = false, min_length = 1)]
    reason: Option<String>,
    /// Who did it.
    actor: Option<String>,
}

impl Deed {
    pub fn actor(&self) -> &str {
        actor(self.actor.as_deref())
    }

    pub fn reason(&self) -> Result<&str, Problem> {
        reason(self.reason.as_deref())
    }
}

pub fn actor(text: Option<&str>) -> &str {
    text.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(NAMELESS)
}

pub fn reason(text: Option<&str>) -> Result<&str, Problem> {
    text.map(str::trim).filter(|reason| !reason.is_empty()).ok_or_else(|| Problem::Invalid {
        param: Some("reason".to_owned()),
        code: "reason_missing",
        message: "`reason` is needed: it is what the next person on call will read".to_owned(),
    })
}

/// An operator's body, whose members are all known.
pub async fn read<T: for<'de> Deserialize<'de>>(
    engine: &Engine,
    headers: &HeaderMap,
    body_in: Body,
) -> Result<T, Problem> {
    let bytes = body::read(headers, body_in, &engine.config().server).await?;
    let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
    let object = body::object(bytes)?;
    let holds_nul = |json: &Json| matches!(json, Json::String(text) if text.contains('\0'));
    if let Some((name, _)) = object.iter().find(|(_, json)| holds_nul(json)) {
        return Err(Problem::Invalid {
            param: Some(name.to_owned()),
            code: "invalid_request",
            message: format!("`{}` holds NUL, which is kept nowhere", clean(name)),
        });
    }
    serde_json::from_slice(bytes).map_err(|e| Problem::InvalidJson(e.to_string()))
}

#[utoipa::path(
    get, path = "/admin/v1/races", tag = "operators", security(("operator" = [])),
    responses((status = 200, body = List<RaceView>), Refusals)
)]
pub async fn races(State(engine): State<Engine>) -> Response {
    match engine.store().list_races(PAGE).await {
        Ok(races) => axum::Json(view::list(races.iter().map(view::race).collect())).into_response(),
        Err(error) => Problem::from(error).answer(Shape::Problem),
    }
}

/// The providers, each with its circuits and with how its permits stand.
#[utoipa::path(
    get, path = "/admin/v1/providers", tag = "operators", security(("operator" = [])),
    responses((status = 200, body = List<ProviderView>), Refusals)
)]
pub async fn providers(State(engine): State<Engine>) -> Response {
    let permits = match contracts::listed_permits(&engine, None).await {
        Ok(permits) => contracts::newest(permits),
        Err(problem) => return problem.answer(Shape::Problem),
    };
    let (circuits, held) = (engine.circuits(), engine.held_circuits());
    let data = engine.config().providers.values().map(|provider| {
        let failing = circuits.iter().filter(|(target, _, _)| target.provider == provider.name);
        let failing = failing.map(|(target, since, until)| {
            CircuitView::Failing(FailingCircuit {
                model: target.model.clone(),
                failing_since: since.map(rfc3339),
                left_alone_until: until.map(rfc3339),
            })
        });
        let broken = held.iter().filter(|circuit| circuit.target.provider == provider.name);
        ProviderView {
            name: provider.name.clone(),
            object: "provider",
            adapter: provider.adapter.name().to_owned(),
            adapter_version: provider.adapter.version().to_string(),
            base_url: provider.endpoint.base_url.to_string(),
            circuits: failing.chain(broken.map(|circuit| CircuitView::Held(view::held_circuit(circuit)))).collect(),
            permits: permits.iter().filter(|p| p["provider"] == provider.name).map(brief).collect(),
        }
    });
    axum::Json(List::whole(data.collect())).into_response()
}

fn brief(permit: &Value) -> Value {
    ["id", "route", "model", "state", "status"].iter().map(|name| ((*name).to_owned(), permit[*name].clone())).collect()
}
