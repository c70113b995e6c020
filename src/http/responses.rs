//! `/v1/responses/{id}`: a response is a job under another name. And what goes on from an earlier one.

mod asked;
mod items;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use providers::dialects::responses::{continued, stem_of, unfinished};
use providers::dialects::{Dialect, Over, Rendering};
use providers::json::{Json, Object};
use tokio::time::{Instant, sleep};

use super::auth::Caller;
use super::dialects::{Form, answer_when_done, rendering, replay};
use super::extract::{Path, Query};
use super::openapi::DialectErrors;
use super::problem::{Problem, Shape};
use super::{body, headers, jobs, stream};
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::{JobState, Snapshot};
use crate::engine::Engine;
use crate::engine::settle::Undelivered;
use asked::{Asked, unsupported};
pub use items::{__path_input_items, input_items};

/// Between two looks at a response on which nobody works yet.
const LOOK: Duration = Duration::from_millis(300);
/// The longest that a stream waits for somebody to begin.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

#[utoipa::path(
    get, path = "/v1/responses/{id}", tag = "applications", security(("api_key" = [])),
    params(
        ("id" = String, Path, description = "The response's id: `resp_…`"),
        ("stream" = Option<String>, Query, description = "`true`: its events, as they come or as they came"),
        ("starting_after" = Option<String>, Query, description = "With `stream`: those behind this `sequence_number`"),
        ("include" = Option<String>, Query, description = "What its request had included; nothing can be added"),
    ),
    responses(
        (status = 200, body = Object, description = "The response as it stands", content_type = "application/json"),
        DialectErrors
    )
)]
pub async fn show(
    State(engine): State<Engine>,
    caller: Caller,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let shown = async {
        let asked = Asked::read(&pairs)?;
        let snapshot = find(&engine, caller.owner, &id).await?;
        if asked.includes() {
            let form = Form::whole(&snapshot.job);
            asked.check_include(&rendering(&engine, caller.owner, snapshot.job.id, &form).await?.request)?;
        }
        if asked.stream { streamed(&engine, snapshot, asked.after).await } else { shown(&engine, &snapshot).await }
    };
    shown.await.unwrap_or_else(|problem| problem.answer(Shape::of(Dialect::Responses)))
}

/// Whatever is over stays as it is, and is shown.
#[utoipa::path(
    post, path = "/v1/responses/{id}/cancel", tag = "applications", security(("api_key" = [])),
    params(("id" = String, Path, description = "The response's id: `resp_…`")),
    responses(
        (status = 200, body = Object, description = "The response as it stands", content_type = "application/json"),
        DialectErrors
    )
)]
pub async fn cancel(State(engine): State<Engine>, caller: Caller, Path(id): Path<String>) -> Response {
    let cancelled = async {
        let id = find(&engine, caller.owner, &id).await?.job.id;
        let snapshot = jobs::call_off(&engine, caller.owner, id).await?;
        shown(&engine, &snapshot).await
    };
    cancelled.await.unwrap_or_else(|problem| problem.answer(Shape::of(Dialect::Responses)))
}

/// The response's events behind the one that the client has: what is there, then what comes. An event has the same number
/// whenever it is told, since both the chunks and what is made of them are the same.
async fn streamed(engine: &Engine, mut snapshot: Snapshot, after: Option<u64>) -> Result<Response, Problem> {
    let (owner, job) = (snapshot.job.owner, snapshot.job.id);
    let form = Form::events(&snapshot.job, after);
    let until = Instant::now() + LONGEST_WAIT;
    loop {
        match snapshot.job.state {
            JobState::Succeeded { .. } | JobState::Failed | JobState::Cancelled => {
                return replay(engine, &snapshot, &form).await;
            }
            JobState::Running | JobState::Unknown => {
                let ticket = engine.attach(&snapshot, false);
                return answer_when_done(engine, owner, ticket, None, &form).await;
            }
            JobState::Queued if Instant::now() > until => return Err(Problem::Interrupted { job }),
            JobState::Queued => sleep(LOOK).await,
        }
        snapshot = engine.store().job(owner, job).await?.ok_or(Problem::NotFound)?;
    }
}

/// A response is not deleted: while its key can come back, its answer is what keeps the work from being done twice.
#[utoipa::path(
    delete, path = "/v1/responses/{id}", tag = "applications", security(("api_key" = [])),
    params(("id" = String, Path, description = "The response's id: `resp_…`")),
    responses(DialectErrors)
)]
pub async fn delete(State(engine): State<Engine>, caller: Caller, Path(id): Path<String>) -> Response {
    let refused = match find(&engine, caller.owner, &id).await {
        Ok(_) => unsupported(
            "id",
            "names a response that is kept: it is what a repeated request is answered with, so that nothing is done \
             twice. What it holds is erased after `jobs.retention`"
                .to_owned(),
        ),
        Err(problem) => problem,
    };
    refused.answer(Shape::of(Dialect::Responses))
}

/// The owner's job behind this response. An id of anything else, or of anybody else, is the same 404 (R11).
async fn find(engine: &Engine, owner: OwnerId, id: &str) -> Result<Snapshot, Problem> {
    let job: JobId = stem_of(id).and_then(|stem| stem.parse().ok()).ok_or(Problem::NotFound)?;
    let snapshot = engine.store().job(owner, job).await?.ok_or(Problem::NotFound)?;
    if snapshot.job.url == Dialect::Responses.url() { Ok(snapshot) } else { Err(Problem::NotFound) }
}

/// Work that was ordered in the background, as far as it is.
pub async fn begun(engine: &Engine, owner: OwnerId, job: JobId) -> Result<Response, Problem> {
    let snapshot = engine.store().job(owner, job).await?.ok_or(Problem::NotFound)?;
    let mut response = shown(engine, &snapshot).await?;
    headers::location(response.headers_mut(), job);
    Ok(response)
}

async fn shown(engine: &Engine, snapshot: &Snapshot) -> Result<Response, Problem> {
    let job = &snapshot.job;
    let (status, error) = match job.state {
        JobState::Succeeded { .. } => return replay(engine, snapshot, &Form::whole(job)).await,
        JobState::Queued => ("queued", None),
        // An outcome that nobody knows is not over.
        JobState::Running | JobState::Unknown => ("in_progress", None),
        JobState::Failed => ("failed", job.error.as_ref().map(stream::words)),
        JobState::Cancelled => ("cancelled", None),
    };
    let rendering: Rendering = rendering(engine, job.owner, job.id, &Form::whole(job)).await?;
    let created = u64::try_from(job.created_at.unix_timestamp()).unwrap_or_default();
    let body = unfinished(&rendering, &Over { status, created, error });
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    headers::job(response.headers_mut(), job.id);
    headers::idempotency_key(response.headers_mut(), &job.idempotency_key);
    Ok(response)
}

/// A body that goes on from an earlier response, with the whole input in it; any other as it is. What is stored and sent
/// needs nothing but itself.
pub async fn resolved(
    engine: &Engine,
    owner: OwnerId,
    dialect: Dialect,
    object: Object,
    bytes: Bytes,
) -> Result<(Object, Bytes), Problem> {
    let Some(id) = object.get_some("previous_response_id").filter(|_| dialect == Dialect::Responses) else {
        return Ok((object, bytes));
    };
    let Some((before, response)) = earlier(engine, owner, id.as_str().unwrap_or_default()).await? else {
        return Err(Problem::Invalid {
            param: Some("previous_response_id".to_owned()),
            code: "previous_response_not_found",
            message: "no finished response of yours has this id; send the whole conversation as `input` instead"
                .to_owned(),
        });
    };
    let object = continued(object, &before, &response);
    let bytes = Json::Object(object.clone()).to_bytes();
    Ok((object, bytes))
}

/// What was asked and answered under this id; `None` where there is no such answer, or not any more.
async fn earlier(engine: &Engine, owner: OwnerId, id: &str) -> Result<Option<(Arc<Object>, Json)>, Problem> {
    let snapshot = match find(engine, owner, id).await {
        Ok(snapshot) if snapshot.job.state.completed_by().is_some() => snapshot,
        Ok(_) | Err(Problem::NotFound) => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let form = Form::whole(&snapshot.job);
    let delivered = match engine.delivered(&snapshot).await {
        Ok(delivered) => delivered,
        Err(Undelivered::Erased) => return Ok(None),
        Err(Undelivered::Away) => return Err(Problem::StoreUnavailable),
    };
    let rendering = rendering(engine, owner, snapshot.job.id, &form).await?;
    let whole = form.dialect.whole(&rendering, &delivered.body).ok_or(Problem::Internal)?;
    let whole = Json::Object(body::object(&whole)?);
    Ok(Some((rendering.request, whole)))
}
