//! The operations that make a job and wait for it, each in its client's own dialect: chat completions, messages,
//! responses, embeddings.
//!
//! All take the same path; a dialect is how the request is read and how the answer, its stream and its errors are shown.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use providers::canonical::Request;
use providers::dialects::responses::wants_background;
use providers::dialects::{Dialect, Rendering};
use providers::failure::clean;
use providers::json::Object;
use tokio::time::Instant;

use super::auth::Caller;
use super::openapi::{
    AnthropicErrors, ChatRequest, DialectErrors, EmbeddingsRequest, MessagesRequest, ResponsesRequest,
};
use super::problem::{Problem, Shape};
use super::{body, headers, responses, stream, view};
use crate::domain::fingerprint::fingerprint;
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::{Delivery, Job, JobState, Snapshot};
use crate::domain::key::IdempotencyKey;
use crate::domain::route::{KeyPolicy, Route};
use crate::engine::Engine;
use crate::engine::progress::{Delivered, Progress};
use crate::engine::settle::Undelivered;
use crate::engine::submit::{Submission, Submitted, Ticket};
use crate::engine::upstreams::Prepared;

#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "applications", security(("api_key" = [])),
    params(("Idempotency-Key" = String, Header, description = "One fresh value per intent: 1 to 255 visible characters")),
    request_body(content = ChatRequest, content_type = "application/json"),
    responses((status = 200, body = Object, description = "The answer, as OpenAI documents it", content_type = "application/json"), DialectErrors)
)]
pub async fn chat(State(engine): State<Engine>, caller: Caller, headers_in: HeaderMap, body_in: Body) -> Response {
    serve(&engine, Dialect::Chat, caller, &headers_in, body_in).await
}

#[utoipa::path(
    post, path = "/v1/messages", tag = "applications", security(("api_key" = [])),
    params(("Idempotency-Key" = String, Header, description = "One fresh value per intent: 1 to 255 visible characters")),
    request_body(content = MessagesRequest, content_type = "application/json"),
    responses((status = 200, body = Object, description = "The answer, as Anthropic documents it", content_type = "application/json"), AnthropicErrors)
)]
pub async fn messages(State(engine): State<Engine>, caller: Caller, headers_in: HeaderMap, body_in: Body) -> Response {
    serve(&engine, Dialect::Messages, caller, &headers_in, body_in).await
}

#[utoipa::path(
    post, path = "/v1/responses", tag = "applications", security(("api_key" = [])),
    params(("Idempotency-Key" = String, Header, description = "One fresh value per intent: 1 to 255 visible characters")),
    request_body(content = ResponsesRequest, content_type = "application/json"),
    responses((status = 200, body = Object, description = "The answer, as OpenAI documents it", content_type = "application/json"), DialectErrors)
)]
pub async fn responses(State(engine): State<Engine>, caller: Caller, headers_in: HeaderMap, body_in: Body) -> Response {
    serve(&engine, Dialect::Responses, caller, &headers_in, body_in).await
}

#[utoipa::path(
    post, path = "/v1/embeddings", tag = "applications", security(("api_key" = [])),
    params(("Idempotency-Key" = String, Header, description = "One fresh value per intent: 1 to 255 visible characters")),
    request_body(content = EmbeddingsRequest, content_type = "application/json"),
    responses((status = 200, body = Object, description = "The answer, as OpenAI documents it", content_type = "application/json"), DialectErrors)
)]
pub async fn embeddings(
    State(engine): State<Engine>,
    caller: Caller,
    headers_in: HeaderMap,
    body_in: Body,
) -> Response {
    serve(&engine, Dialect::Embeddings, caller, &headers_in, body_in).await
}

async fn serve(engine: &Engine, dialect: Dialect, caller: Caller, headers_in: &HeaderMap, body_in: Body) -> Response {
    let answered = complete(engine, dialect, caller, headers_in, body_in).await;
    answered.unwrap_or_else(|problem| problem.answer(Shape::of(dialect)))
}

async fn complete(
    engine: &Engine,
    dialect: Dialect,
    caller: Caller,
    headers_in: &HeaderMap,
    body_in: Body,
) -> Result<Response, Problem> {
    let key = body::idempotency_key(headers_in)?;
    let prefer = Preference::read(headers_in);
    let bytes = body::read(headers_in, body_in, &engine.config().server).await?;
    let object = body::object(&bytes)?;
    let print = fingerprint(&format!("POST {}", dialect.url()), &object);
    let (object, bytes) = responses::resolved(engine, caller.owner, dialect, object, bytes).await?;
    let Understood { route, request, prepared } = understand(engine, dialect, object)?;
    let key = required_key(key, caller, &route)?;
    let form = Form::asked(dialect, &request);
    let background = form.is_background();
    let delivery = if prefer.respond_async || background { Delivery::Async } else { Delivery::Sync };
    let submission = Submission {
        owner: caller.owner,
        key,
        dialect,
        fingerprint: print,
        route,
        request: Arc::new(request),
        prepared,
        body: bytes,
        metadata: None,
        callback: None,
        delivery,
        limit: caller.limit,
    };
    let until = prefer.wait.map(|wait| Instant::now() + wait);
    match engine.submit(submission).await? {
        Submitted::New(ticket) | Submitted::Attached(ticket) if background && !form.stream => {
            responses::begun(engine, caller.owner, ticket.job).await
        }
        Submitted::Finished(snapshot, _) if background && !form.stream => {
            responses::begun(engine, caller.owner, snapshot.job.id).await
        }
        Submitted::New(ticket) => answer_when_done(engine, caller.owner, ticket, until, &form).await,
        // The body is the same in meaning, not in bytes: what is shown of it comes from what is stored.
        Submitted::Attached(ticket) => answer_when_done(engine, caller.owner, ticket, until, &form.as_stored()).await,
        Submitted::Finished(snapshot, Some(delivered)) => {
            let job = snapshot.job.id;
            Ok(replayed(&snapshot, success(engine, caller.owner, &delivered, job, &form.as_stored()).await?))
        }
        Submitted::Finished(snapshot, None) => replay(engine, &snapshot, &form.as_stored()).await,
        Submitted::Conflict { job } => Err(Problem::KeyConflict { job }),
    }
}

/// A request, read, with its route, and written for the wire of the route's primary.
pub struct Understood {
    pub route: Arc<Route>,
    pub request: Request,
    pub prepared: Prepared,
}

/// Reads a request and finds its route; what the primary cannot carry is refused here, before there is a job.
pub fn understand(engine: &Engine, dialect: Dialect, object: Object) -> Result<Understood, Problem> {
    let request = dialect.parse(object).map_err(|invalid| Problem::Invalid {
        param: Some(invalid.param),
        code: invalid.code,
        message: invalid.message,
    })?;
    let route = engine.config().routes.get(&request.model).cloned();
    let route = route.ok_or_else(|| Problem::RouteUnknown { model: clean(&request.model) })?;
    let prepared = engine.upstreams().prepare(&route, &request).map_err(|unsupported| Problem::Invalid {
        message: format!("the route's primary cannot carry `{}`: {}", unsupported.param, unsupported.why),
        param: Some(unsupported.param),
        code: "unsupported_parameter",
    })?;
    Ok(Understood { route, request, prepared })
}

/// A key is needed, unless the API key or the route lets the gateway make one.
pub fn required_key(
    key: Option<IdempotencyKey>,
    caller: Caller,
    route: &Route,
) -> Result<Option<IdempotencyKey>, Problem> {
    match (key, caller.idempotency.unwrap_or(route.idempotency)) {
        (Some(key), _) => Ok(Some(key)),
        (None, KeyPolicy::Generate) => Ok(None),
        (None, KeyPolicy::Required) => Err(Problem::KeyMissing),
    }
}

/// Waits for the job's answer, or for its stream to begin.
pub async fn answer_when_done(
    engine: &Engine,
    owner: OwnerId,
    mut ticket: Ticket,
    until: Option<Instant>,
    form: &Form,
) -> Result<Response, Problem> {
    let job = ticket.job;
    let key = ticket.idempotency_key.clone();
    let shape = form.shape();
    let progress = match form.stream {
        false => ticket.wait(until).await,
        true => ticket.wait_for_stream(until).await,
    };
    let mut response = match progress {
        Progress::Succeeded(delivered) => success(engine, owner, &delivered, job, form).await?,
        Progress::Streaming(log) if form.stream => {
            let rendering = rendering(engine, owner, job, form).await?;
            stream::live(&log, ticket, form, &rendering)
        }
        Progress::Running | Progress::Streaming(_) => still_running(engine, owner, &ticket, form).await?,
        Progress::Unknown { attempt, since } => {
            Problem::AttemptUnknown { job, attempt, since, key_origin: ticket.key_origin }.answer(shape)
        }
        Progress::RoundOver(error) => Problem::RoundOver { job, error }.answer(shape),
        Progress::Failed(_) | Progress::Cancelled if form.tells_how_it_ended() => {
            let snapshot = engine.store().job(owner, job).await?.ok_or(Problem::NotFound)?;
            without_answer(engine, &snapshot, form).await?
        }
        Progress::Failed(error) => Problem::JobFailed { job, error }.answer(shape),
        Progress::Cancelled => Problem::JobCancelled { job }.answer(shape),
        Progress::Interrupted => interrupted(engine, owner, &ticket, form).await?,
    };
    headers::job(response.headers_mut(), job);
    headers::idempotency_key(response.headers_mut(), &key);
    Ok(response)
}

/// `Prefer: wait` is over: the job goes on, and this is where to ask.
async fn still_running(engine: &Engine, owner: OwnerId, ticket: &Ticket, form: &Form) -> Result<Response, Problem> {
    let snapshot = engine.store().job(owner, ticket.job).await?.ok_or(Problem::NotFound)?;
    if let Some(known) = as_stored(engine, &snapshot, form).await? {
        return Ok(known);
    }
    let mut response = (StatusCode::ACCEPTED, axum::Json(view::job(&snapshot))).into_response();
    headers::location(response.headers_mut(), ticket.job);
    Ok(response)
}

/// This process waits no longer; the database may know more.
async fn interrupted(engine: &Engine, owner: OwnerId, ticket: &Ticket, form: &Form) -> Result<Response, Problem> {
    let job = ticket.job;
    let snapshot = engine.store().job(owner, job).await?.ok_or(Problem::NotFound)?;
    let known = as_stored(engine, &snapshot, form).await?;
    Ok(known.unwrap_or_else(|| Problem::Interrupted { job }.answer(form.shape())))
}

/// A job that is over, or whose outcome nobody knows, as the database has it; whoever waits has not heard of it yet.
async fn as_stored(engine: &Engine, snapshot: &Snapshot, form: &Form) -> Result<Option<Response>, Problem> {
    let job = &snapshot.job;
    if job.state.is_terminal() {
        return replay(engine, snapshot, form).await.map(Some);
    }
    let unknown = snapshot.unknown_attempt().map(|open| Problem::AttemptUnknown {
        job: job.id,
        attempt: open.id,
        since: job.updated_at,
        key_origin: job.key_origin,
    });
    Ok(unknown.map(|problem| problem.answer(form.shape())))
}

/// A job that is over, answered again from what is stored.
pub async fn replay(engine: &Engine, snapshot: &Snapshot, form: &Form) -> Result<Response, Problem> {
    let job = snapshot.job.id;
    let response = match snapshot.job.state {
        JobState::Succeeded { .. } => match engine.delivered(snapshot).await {
            Ok(delivered) => success(engine, snapshot.job.owner, &delivered, job, form).await?,
            Err(why) => return Err(undelivered(job, why)),
        },
        JobState::Failed | JobState::Cancelled => without_answer(engine, snapshot, form).await?,
        JobState::Queued | JobState::Running | JobState::Unknown => return Err(Problem::Internal),
    };
    Ok(replayed(snapshot, response))
}

/// A job that is over and has no answer: its error, or the stream of a response that failed.
async fn without_answer(engine: &Engine, snapshot: &Snapshot, form: &Form) -> Result<Response, Problem> {
    let job = &snapshot.job;
    let problem = match (job.state, job.error.clone()) {
        (JobState::Failed, Some(error)) => Problem::JobFailed { job: job.id, error },
        (JobState::Cancelled, _) => Problem::JobCancelled { job: job.id },
        _ => return Err(Problem::Internal),
    };
    if !form.tells_how_it_ended() {
        return Ok(problem.answer(form.shape()));
    }
    let rendering = rendering(engine, job.owner, job.id, form).await?;
    Ok(stream::over(form, &rendering, job, &problem))
}

pub fn undelivered(job: JobId, why: Undelivered) -> Problem {
    match why {
        Undelivered::Erased => Problem::ResultErased { job },
        Undelivered::Away => Problem::StoreUnavailable,
    }
}

fn replayed(snapshot: &Snapshot, mut response: Response) -> Response {
    headers::job(response.headers_mut(), snapshot.job.id);
    headers::idempotency_key(response.headers_mut(), &snapshot.job.idempotency_key);
    headers::replayed(response.headers_mut());
    response
}

/// How the caller wants the answer: in which words, and how delivered, which is no intent. A stored answer is given in
/// either form.
#[derive(Debug, Clone)]
pub struct Form {
    pub dialect: Dialect,
    stream: bool,
    include_usage: bool,
    /// The number of the last event that the caller has.
    after: Option<u64>,
    /// The answer is a resource with an id of its own: that it came to nothing is told in it, not in its place.
    resource: bool,
    /// The request's own document, where it is at hand as it is stored.
    request: Option<Arc<Object>>,
}

impl Form {
    fn asked(dialect: Dialect, request: &Request) -> Form {
        let own = request.native.as_ref().map(|native| Arc::clone(&native.body));
        let background = dialect == Dialect::Responses && own.as_deref().is_some_and(wants_background);
        Form {
            dialect,
            stream: request.stream,
            include_usage: request.include_usage,
            after: None,
            resource: background,
            request: own,
        }
    }

    /// The whole answer of a job, in the dialect that it was asked in.
    pub fn whole(job: &Job) -> Form {
        let dialect = Dialect::of_url(&job.url).unwrap_or(Dialect::Chat);
        Form { dialect, stream: false, include_usage: false, after: None, resource: false, request: None }
    }

    /// The stream of a job, in the dialect that it was asked in, behind an event that the caller has.
    pub fn events(job: &Job, after: Option<u64>) -> Form {
        Form { stream: true, after, resource: true, ..Form::whole(job) }
    }

    pub fn shape(&self) -> Shape {
        Shape::of(self.dialect)
    }

    fn as_stored(self) -> Form {
        Form { request: None, ..self }
    }

    /// Whether the caller wants to be answered at once, and to ask again later.
    fn is_background(&self) -> bool {
        self.resource
    }

    /// Whether a job's end without an answer is an event of its stream. A response in the background, or one that is
    /// asked for by its id, is there before it is done; of any other the error's status comes first, which is what
    /// clients decide on whether to try again.
    fn tells_how_it_ended(&self) -> bool {
        self.resource && self.stream
    }
}

/// What the rendering of this job's answer is made of. Only responses show what was asked for.
pub async fn rendering(engine: &Engine, owner: OwnerId, job: JobId, form: &Form) -> Result<Rendering, Problem> {
    let request = match (&form.request, form.dialect) {
        (Some(request), _) => Arc::clone(request),
        (None, Dialect::Responses) => {
            let stored = engine.store().job_request(owner, job).await?.ok_or(Problem::ResultErased { job })?;
            Arc::new(body::object(&stored.body)?)
        }
        (None, Dialect::Chat | Dialect::Messages | Dialect::Embeddings) => Arc::default(),
    };
    let stem = job.as_uuid().simple().to_string();
    Ok(Rendering { stem, request, include_usage: form.include_usage, after: form.after })
}

/// The winner's answer in the dialect's words, made of what is stored.
pub async fn success(
    engine: &Engine,
    owner: OwnerId,
    delivered: &Delivered,
    job: JobId,
    form: &Form,
) -> Result<Response, Problem> {
    let rendering = rendering(engine, owner, job, form).await?;
    if form.stream {
        return stream::stored(delivered, form, &rendering);
    }
    let body = form.dialect.whole(&rendering, &delivered.body).ok_or(Problem::Internal)?;
    let mut response = bytes_response(&delivered.content_type, body);
    headers::delivered(response.headers_mut(), delivered);
    Ok(response)
}

fn bytes_response(content_type: &str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// What `Prefer` asks for (RFC 7240); anything else in it is ignored, as the RFC says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preference {
    pub wait: Option<Duration>,
    pub respond_async: bool,
}

impl Preference {
    pub fn read(headers_in: &HeaderMap) -> Self {
        let mut preference = Preference::default();
        let values = headers_in.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        for item in values.flat_map(|value| value.split([',', ';'])).map(str::trim) {
            match item.split_once('=') {
                Some((name, seconds)) if name.trim().eq_ignore_ascii_case("wait") => {
                    preference.wait = seconds.trim().trim_matches('"').parse().ok().map(Duration::from_secs);
                }
                None if item.eq_ignore_ascii_case("respond-async") => preference.respond_async = true,
                Some(_) | None => {}
            }
        }
        if preference.respond_async {
            preference.wait.get_or_insert(Duration::ZERO);
        }
        preference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefer_is_read_as_the_rfc_says() {
        let mut headers_in = HeaderMap::new();
        headers_in.append("prefer", HeaderValue::from_static("handling=lenient, wait=20"));
        assert_eq!(Preference::read(&headers_in).wait, Some(Duration::from_secs(20)));
        headers_in.append("prefer", HeaderValue::from_static("respond-async"));
        assert!(Preference::read(&headers_in).respond_async);
        assert_eq!(Preference::read(&HeaderMap::new()), Preference::default());
    }
}
