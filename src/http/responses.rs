//! `/v1/responses/{id}`: a response is a job under another name. And what goes on from an earlier one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use providers::dialects::responses::{continued, stem_of, unfinished};
use providers::dialects::{Dialect, Rendering};
use providers::json::{Json, Object};
use serde::Deserialize;

use super::auth::Caller;
use super::dialects::{Form, rendering, replay};
use super::extract::{Path, Query};
use super::openapi::DialectErrors;
use super::problem::{Problem, Shape};
use super::{body, headers, jobs};
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::{JobError, JobState, Snapshot};
use crate::engine::Engine;
use crate::engine::settle::Undelivered;

/// What a client may ask of a stored response. None of it is served here; each is refused by its name.
#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    stream: Option<String>,
    starting_after: Option<String>,
    include: Option<String>,
    #[serde(rename = "include[]")]
    include_list: Option<String>,
}

impl Asked {
    fn check(&self) -> Result<(), Problem> {
        let named = [
            ("stream", self.stream.as_ref().filter(|asked| *asked != "false")),
            ("starting_after", self.starting_after.as_ref()),
            ("include", self.include.as_ref().or(self.include_list.as_ref())),
        ];
        match named.iter().find(|(_, asked)| asked.is_some()) {
            None => Ok(()),
            Some((name, _)) => Err(Problem::Invalid {
                param: Some((*name).to_owned()),
                code: "unsupported_parameter",
                message: format!(
                    "`{name}` is not taken here: leave it out; GET /v1/jobs/{{id}}/events follows work as it runs"
                ),
            }),
        }
    }
}

#[utoipa::path(
    get, path = "/v1/responses/{id}", tag = "applications", security(("api_key" = [])),
    params(("id" = String, Path, description = "The response's id: `resp_…`")),
    responses(
        (status = 200, body = Object, description = "The response as it stands", content_type = "application/json"),
        DialectErrors
    )
)]
pub async fn show(
    State(engine): State<Engine>,
    caller: Caller,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let shown = async {
        asked.check()?;
        let snapshot = find(&engine, caller.owner, &id).await?;
        shown(&engine, &snapshot).await
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
        JobState::Failed => ("failed", job.error.as_ref().map(words)),
        JobState::Cancelled => ("cancelled", None),
    };
    let rendering: Rendering = rendering(engine, job.owner, job.id, &Form::whole(job)).await?;
    let created = u64::try_from(job.created_at.unix_timestamp()).unwrap_or_default();
    let body = unfinished(&rendering, status, created, error);
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    headers::job(response.headers_mut(), job.id);
    headers::idempotency_key(response.headers_mut(), &job.idempotency_key);
    Ok(response)
}

fn words(error: &JobError) -> (&str, &str) {
    (error.code.as_str(), &error.message)
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
