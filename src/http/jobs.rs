//! `/v1/jobs`: jobs without waiting for them, and what became of them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use providers::dialects::Dialect;
use providers::json::{Json, Object};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::auth::Caller;
use super::dialects::{Form, Understood, replay, required_key, success, undelivered, understand};
use super::extract::{Path, Query};
use super::openapi::{NewJob, Refusals};
use super::problem::{Problem, Shape};
use super::view::{JobView, List};
use super::{body, headers, responses, view};
use crate::domain::fingerprint::fingerprint;
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::{Delivery, JobState, Snapshot};
use crate::engine::Engine;
use crate::engine::submit::{Submission, Submitted};
use crate::store::StoreError;

/// The longest that a single `?wait=` holds a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Jobs in one list.
const PAGE: i64 = 50;
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

#[utoipa::path(
    post, path = "/v1/jobs", tag = "applications", security(("api_key" = [])),
    params(("Idempotency-Key" = String, Header, description = "One fresh value per intent: 1 to 255 visible characters")),
    request_body(content = NewJob, content_type = "application/json"),
    responses((status = 201, body = JobView), Refusals)
)]
pub async fn create(State(engine): State<Engine>, caller: Caller, headers_in: HeaderMap, body_in: Body) -> Response {
    admit(&engine, caller, &headers_in, body_in).await.unwrap_or_else(|problem| problem.answer(Shape::Problem))
}

async fn admit(engine: &Engine, caller: Caller, headers_in: &HeaderMap, body_in: Body) -> Result<Response, Problem> {
    let key = body::idempotency_key(headers_in)?;
    let bytes = body::read(headers_in, body_in, &engine.config().server).await?;
    let mut order = Order::read(body::object(&bytes)?)?;
    let body = Json::Object(order.body.clone()).to_bytes();
    let (body, bytes) = responses::resolved(engine, caller.owner, order.dialect, order.body, body).await?;
    order.body = body;
    let callback = order.callback.as_deref().map(|url| engine.read_callback(url)).transpose();
    let callback = callback.map_err(|error| invalid("callback", format!("`callback` {error}")))?;
    let Understood { route, request, prepared } = understand(engine, order.dialect, order.body)?;
    let key = required_key(key, caller, &route)?;
    let submission = Submission {
        owner: caller.owner,
        key,
        dialect: order.dialect,
        fingerprint: order.fingerprint,
        route,
        request: Arc::new(request),
        prepared,
        body: bytes,
        metadata: order.metadata.map(|metadata| metadata.to_bytes()),
        callback,
        delivery: Delivery::Async,
        limit: caller.limit,
    };
    let (job, is_new) = match engine.submit(submission).await? {
        Submitted::New(ticket) => (ticket.job, true),
        Submitted::Attached(ticket) => (ticket.job, false),
        Submitted::Finished(snapshot, _) => (snapshot.job.id, false),
        Submitted::Conflict { job } => return Err(Problem::KeyConflict { job }),
    };
    let snapshot = find(engine, caller.owner, job).await?;
    let mut response = (StatusCode::CREATED, axum::Json(view::job(&snapshot))).into_response();
    headers::job(response.headers_mut(), job);
    headers::location(response.headers_mut(), job);
    headers::idempotency_key(response.headers_mut(), &snapshot.job.idempotency_key);
    if !is_new {
        headers::replayed(response.headers_mut());
    }
    Ok(response)
}

/// `{"url", "body", "metadata"?, "callback"?}`: the Batch API's words.
struct Order {
    dialect: Dialect,
    body: Object,
    metadata: Option<Json>,
    callback: Option<String>,
    fingerprint: [u8; 32],
}

impl Order {
    fn read(mut order: Object) -> Result<Order, Problem> {
        let known = ["url", "body", "metadata", "callback"];
        if let Some((name, _)) = order.iter().find(|(name, _)| !known.contains(name)) {
            return Err(invalid(name, format!("`{name}` is no member of a job; known are {}", known.join(", "))));
        }
        let Some(dialect) = order.get("url").and_then(Json::as_str).and_then(Dialect::of_url) else {
            let known = Dialect::ALL.map(|dialect| format!("\"{}\"", dialect.url())).join(" or ");
            return Err(invalid("url", format!("`url` must be {known}")));
        };
        let metadata = match order.get("metadata") {
            None | Some(Json::Null) => None,
            Some(object @ Json::Object(_)) => Some(object.clone()),
            Some(_) => return Err(invalid("metadata", "`metadata` must be an object".to_owned())),
        };
        let callback = match order.get("callback") {
            None | Some(Json::Null) => None,
            Some(Json::String(url)) => Some(url.to_string()),
            Some(_) => return Err(invalid("callback", "`callback` must be an address, as text".to_owned())),
        };
        let Some(Json::Object(body)) = order.get("body").cloned() else {
            return Err(invalid("body", format!("`body` must be the object that {} takes", dialect.url())));
        };
        // How the answer is delivered is no part of the intent, inside as outside.
        if let Some(Json::Object(inner)) = order.get_mut("body") {
            inner.remove("stream");
            inner.remove("stream_options");
        }
        Ok(Order { dialect, body, metadata, callback, fingerprint: fingerprint("POST /v1/jobs", &order) })
    }
}

fn invalid(param: &str, message: String) -> Problem {
    Problem::Invalid { param: Some(param.to_owned()), code: "invalid_request", message }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Wait {
    /// Waits this long for the job's end: `30s`, `500ms` or plain seconds; at most 5 minutes.
    wait: Option<String>,
}

impl Wait {
    /// `30s`, `500ms`, or plain seconds.
    fn read(&self) -> Result<Duration, Problem> {
        let Some(text) = &self.wait else { return Ok(Duration::ZERO) };
        let plain = text.parse().ok().map(Duration::from_secs);
        let wait = plain.or_else(|| humantime::parse_duration(text).ok());
        wait.map(|wait| wait.min(LONGEST_WAIT)).ok_or_else(|| Problem::Invalid {
            param: Some("wait".to_owned()),
            code: "invalid_request",
            message: "`wait` is no duration; write 30s".to_owned(),
        })
    }
}

#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "applications", security(("api_key" = [])),
    params(("id" = Uuid, Path, description = "The job's id"), Wait),
    responses((status = 200, body = JobView), Refusals)
)]
pub async fn show(
    State(engine): State<Engine>,
    caller: Caller,
    Path(id): Path<String>,
    Query(wait): Query<Wait>,
) -> Response {
    let shown = async {
        let snapshot = watch(&engine, caller.owner, id_of(&id)?, wait.read()?).await?;
        let callback = engine.store().callback(caller.owner, snapshot.job.id).await?;
        let mut response = axum::Json(view::job_with_callback(&snapshot, callback.as_ref())).into_response();
        headers::job(response.headers_mut(), snapshot.job.id);
        Ok::<_, Problem>(response)
    };
    shown.await.unwrap_or_else(|problem| problem.answer(Shape::Problem))
}

/// Looks until the job is over or the time is. The database is asked, since any instance may finish it.
async fn watch(engine: &Engine, owner: OwnerId, id: JobId, wait: Duration) -> Result<Snapshot, Problem> {
    let until = Instant::now() + wait;
    let mut pause = FIRST_LOOK;
    loop {
        let snapshot = find(engine, owner, id).await?;
        if snapshot.job.state.is_terminal() || Instant::now() >= until {
            return Ok(snapshot);
        }
        tokio::time::sleep_until(until.min(Instant::now() + pause)).await;
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// The owner's job; anybody else's is the same 404 as none (R11).
async fn find(engine: &Engine, owner: OwnerId, id: JobId) -> Result<Snapshot, Problem> {
    engine.store().job(owner, id).await?.ok_or(Problem::NotFound)
}

pub fn id_of(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_| Problem::NotFound)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Listing {
    /// The one job of this key.
    idempotency_key: Option<String>,
    /// The last job of the page before.
    before: Option<String>,
}

#[utoipa::path(
    get, path = "/v1/jobs", tag = "applications", security(("api_key" = [])),
    params(Listing),
    responses((status = 200, body = List<JobView>), Refusals)
)]
pub async fn list(State(engine): State<Engine>, caller: Caller, Query(listing): Query<Listing>) -> Response {
    let listed = async {
        let jobs: Vec<Snapshot> = match &listing.idempotency_key {
            Some(key) => engine.store().job_by_key(caller.owner, key).await?.into_iter().collect(),
            None => {
                let before = listing.before.as_deref().map(id_of).transpose()?;
                engine.store().list_jobs(None, Some(caller.owner), before, PAGE).await?
            }
        };
        Ok::<_, Problem>(axum::Json(view::page(jobs.iter().map(view::job).collect(), PAGE)).into_response())
    };
    listed.await.unwrap_or_else(|problem| problem.answer(Shape::Problem))
}

/// The stored answer, byte for byte; a failed job's error in the shape of its dialect.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/result", tag = "applications", security(("api_key" = [])),
    params(("id" = Uuid, Path, description = "The job's id")),
    responses(
        (status = 200, body = Object, description = "The answer in its dialect", content_type = "application/json"),
        Refusals
    )
)]
pub async fn result(State(engine): State<Engine>, caller: Caller, Path(id): Path<String>) -> Response {
    let stored = async {
        let snapshot = find(&engine, caller.owner, id_of(&id)?).await?;
        let state = snapshot.job.state;
        match state {
            JobState::Succeeded { .. } => {
                let (job, form) = (snapshot.job.id, Form::whole(&snapshot.job));
                let delivered = engine.delivered(&snapshot).await.map_err(|why| undelivered(job, why))?;
                let mut response = success(&engine, caller.owner, &delivered, job, &form).await?;
                headers::job(response.headers_mut(), job);
                Ok(response)
            }
            JobState::Failed | JobState::Cancelled => replay(&engine, &snapshot, &Form::whole(&snapshot.job)).await,
            JobState::Queued | JobState::Running | JobState::Unknown => {
                Err(Problem::ResultNotReady { job: snapshot.job.id, state: state.as_str() })
            }
        }
    };
    stored.await.unwrap_or_else(|problem| problem.answer(Shape::Problem))
}

/// Cancels the owner's job, if it is not over, and shows it as it is then.
pub async fn call_off(engine: &Engine, owner: OwnerId, id: JobId) -> Result<Snapshot, Problem> {
    find(engine, owner, id).await?;
    match engine.store().cancel_job(owner, id).await {
        Ok(()) | Err(StoreError::LostRace) => {}
        Err(error) => return Err(error.into()),
    }
    engine.nudge(id);
    engine.call_off(owner, id).await;
    find(engine, owner, id).await
}

/// The owner cancels: fenced, whatever still comes back is thrown away. A job that is over stays as it is.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", tag = "applications", security(("api_key" = [])),
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, body = JobView), Refusals)
)]
pub async fn cancel(State(engine): State<Engine>, caller: Caller, Path(id): Path<String>) -> Response {
    let cancelled = async {
        let id = id_of(&id)?;
        let snapshot = call_off(&engine, caller.owner, id).await?;
        match snapshot.job.state {
            JobState::Cancelled => Ok(axum::Json(view::job(&snapshot)).into_response()),
            other => Err(Problem::JobOver { job: id, state: other.as_str() }),
        }
    };
    cancelled.await.unwrap_or_else(|problem: Problem| problem.answer(Shape::Problem))
}
