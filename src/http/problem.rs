//! The one table of errors: what each is called, which status it has, and what the caller is told to do.
//!
//! Messages name the thing and the cure. None holds a secret, a prompt or a model's output.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use providers::dialects::Dialect;
use serde_json::{Map, Value, json};

use super::{headers, limits, request_id};
use crate::domain::Timestamp;
use crate::domain::ids::{AttemptId, JobId};
use crate::domain::job::{JobError, JobErrorCode, KeyOrigin};
use crate::domain::key::KeyError;
use crate::domain::limits::Refusal;
use crate::engine::EngineError;
use crate::store::StoreError;

/// How an error is written: as the dialect's clients expect it, or as RFC 9457 says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    OpenAi,
    Anthropic,
    Problem,
}

impl Shape {
    pub fn of(dialect: Dialect) -> Shape {
        match dialect {
            Dialect::Chat | Dialect::Responses | Dialect::Embeddings => Shape::OpenAi,
            Dialect::Messages => Shape::Anthropic,
        }
    }

    /// What the clients of this address read.
    pub fn of_path(path: &str) -> Shape {
        match path {
            _ if path.starts_with("/v1/messages") => Shape::Anthropic,
            "/v1/chat/completions" | "/v1/embeddings" | "/v1/models" => Shape::OpenAi,
            _ if path.starts_with("/v1/responses") || path.starts_with("/v1/models/") => Shape::OpenAi,
            _ => Shape::Problem,
        }
    }

    /// What the client of this request reads: two dialects share the models' addresses.
    pub fn of_request(path: &str, headers: &HeaderMap) -> Shape {
        match Shape::of_path(path) {
            Shape::OpenAi if path.starts_with("/v1/models") => Shape::of_models(headers),
            shape => shape,
        }
    }

    /// Anthropic's clients name the version of its API.
    pub fn of_models(headers: &HeaderMap) -> Shape {
        if headers.contains_key("anthropic-version") { Shape::Anthropic } else { Shape::OpenAi }
    }
}

/// Everything that can go wrong with a request.
#[derive(Debug)]
pub enum Problem {
    NotAuthenticated,
    TwoCredentials,
    OperatorsOnly,
    OperatorTokenUnset,
    KeyMissing,
    KeyTwice,
    KeyInvalid(KeyError),
    KeyConflict {
        job: JobId,
    },
    BodyTooLarge {
        limit: usize,
    },
    BodyTimeout,
    BodyUnreadable,
    BodyEncoded,
    InvalidJson(String),
    Invalid {
        param: Option<String>,
        code: &'static str,
        message: String,
    },
    RouteUnknown {
        model: String,
    },
    NoSuchRoute,
    WrongMethod,
    NotFound,
    AttemptUnknown {
        job: JobId,
        attempt: AttemptId,
        since: Timestamp,
        key_origin: KeyOrigin,
    },
    RoundOver {
        job: JobId,
        error: JobError,
    },
    JobFailed {
        job: JobId,
        error: JobError,
    },
    JobCancelled {
        job: JobId,
    },
    ResultNotReady {
        job: JobId,
        state: &'static str,
    },
    ResultErased {
        job: JobId,
    },
    /// The provider was asked for a count, and gave none.
    NotCounted {
        status: Option<u16>,
        message: String,
    },
    StreamBroken {
        job: JobId,
    },
    NotUnknown {
        attempt: AttemptId,
        state: String,
    },
    JobOver {
        job: JobId,
        state: &'static str,
    },
    Refused {
        code: &'static str,
        message: String,
    },
    Limited(Refusal),
    /// No target that may be tried holds the prompt; there is no job.
    TooLong(Box<JobError>),
    Overloaded,
    Draining,
    Interrupted {
        job: JobId,
    },
    StoreUnavailable,
    Internal,
}

/// One line of the table.
struct Line {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(error) => {
                tracing::warn!(%error, "answered 503: the database is away");
                Problem::StoreUnavailable
            }
            StoreError::LeaseEnded => Problem::StoreUnavailable,
            StoreError::Overloaded => Problem::Overloaded,
            StoreError::LostRace
            | StoreError::Refused { .. }
            | StoreError::Unfit(_)
            | StoreError::Migrate(_)
            | StoreError::Broken(_) => {
                tracing::error!(%error, "answered 500");
                Problem::Internal
            }
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Draining => Problem::Draining,
            EngineError::Limited(refusal) => Problem::Limited(refusal),
            EngineError::TooLong(error) => Problem::TooLong(error),
            EngineError::LimitsUnknown => Problem::StoreUnavailable,
            EngineError::Overloaded => Problem::Overloaded,
            EngineError::Upstream { .. } | EngineError::Callbacks(_) | EngineError::Fault => {
                tracing::error!(%error, "answered 500");
                Problem::Internal
            }
        }
    }
}

const KEY_CURE: &str = "this request creates a job and needs an Idempotency-Key header: one fresh value per intent, the \
    same on every retry. curl: -H 'Idempotency-Key: <uuid>'. openai-python, anthropic-python: \
    extra_headers={\"Idempotency-Key\": key}. openai-node, AI SDK: {headers: {'Idempotency-Key': key}}";

impl Problem {
    /// A table: one row a line, however wide.
    #[rustfmt::skip]
    fn line(&self) -> Line {
        let line = |status: u16, code: &'static str, message: String| Line {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY),
            code,
            message,
        };
        match self {
            Problem::NotAuthenticated => line(401, "invalid_api_key", "no valid API key: send Authorization: Bearer <key>, as printed by `interlock key create`".into()),
            Problem::TwoCredentials => line(400, "conflicting_credentials", "Authorization and x-api-key are both present and differ: send one".into()),
            Problem::OperatorsOnly => line(401, "invalid_operator_token", "operators only: send Authorization: Bearer <operator token>".into()),
            Problem::OperatorTokenUnset => line(403, "operator_token_unset", "operator routes are closed until server.operator_token is set".into()),
            Problem::KeyMissing => line(400, "idempotency_key_missing", KEY_CURE.into()),
            Problem::KeyTwice => line(400, "idempotency_key_invalid", "two Idempotency-Key headers: send one".into()),
            Problem::KeyInvalid(error) => line(400, "idempotency_key_invalid", error.to_string()),
            Problem::KeyConflict { job } => line(409, "idempotency_key_conflict", format!("this Idempotency-Key belongs to job {job} with another payload; use a fresh key for a new intent. Nothing was sent")),
            Problem::BodyTooLarge { limit } => line(413, "request_too_large", format!("the body is larger than {limit} bytes (server.body_limit)")),
            Problem::BodyTimeout => line(408, "request_timeout", "the body did not arrive in time (server.body_timeout)".into()),
            Problem::BodyUnreadable => line(400, "body_unreadable", "the body could not be read to its end".into()),
            Problem::BodyEncoded => line(415, "unsupported_content_encoding", "send the body without Content-Encoding".into()),
            Problem::InvalidJson(why) => line(400, "invalid_json", format!("the body is no usable JSON: {why}")),
            Problem::Invalid { code, message, .. } => line(400, code, message.clone()),
            Problem::RouteUnknown { model } => line(404, "model_not_found", format!("no route is named `{model}`; GET /v1/models lists those this key may use")),
            Problem::NoSuchRoute => line(404, "not_found", "there is nothing at this address".into()),
            Problem::WrongMethod => line(405, "method_not_allowed", "this address does not take this method".into()),
            Problem::NotFound => line(404, "not_found", "there is no such thing".into()),
            Problem::AttemptUnknown { job, attempt, since, key_origin } => {
                let (status, advice) = match key_origin {
                    KeyOrigin::Client => (504, "repeat the request with the same Idempotency-Key to wait for it: nothing is sent twice"),
                    KeyOrigin::Gateway => (424, "do not repeat the request, it would be a new intent; ask GET /v1/jobs/{id} instead"),
                };
                line(status, "attempt_unknown", format!("nobody knows yet what became of attempt {attempt} of job {job} (since {}); {advice}", headers::rfc3339(*since)))
            }
            Problem::RoundOver { error, .. } | Problem::JobFailed { error, .. } => line(error_status(error), error.code.as_str(), error.message.clone()),
            Problem::JobCancelled { job } => line(409, "job_cancelled", format!("job {job} was cancelled by its owner; use a fresh Idempotency-Key for a new intent")),
            Problem::ResultNotReady { job, state } => line(409, "result_not_ready", format!("job {job} is {state}; GET /v1/jobs/{job}?wait=30s waits for it")),
            Problem::StreamBroken { job } => line(502, "stream_broken", format!("another attempt has answered job {job}; repeat the request with the same Idempotency-Key for its answer")),
            Problem::ResultErased { job } => line(410, "result_erased", format!("the payloads of job {job} are past jobs.retention and erased; its key stays used")),
            // The request's own fault, or a limit, is the client's to see.
            Problem::NotCounted { status, message } => line(status.filter(|status| matches!(status, 400 | 413 | 429)).unwrap_or(502), "count_failed", message.clone()),
            Problem::NotUnknown { attempt, state } => line(409, "attempt_not_unknown", format!("attempt {attempt} is {state}; only an unknown attempt can be cleared")),
            Problem::JobOver { job, state } => line(409, "job_over", format!("job {job} is {state} already, and that is final")),
            Problem::Refused { code, message } => line(409, code, message.clone()),
            Problem::TooLong(error) => line(error_status(error), error.code.as_str(), error.message.clone()),
            Problem::Limited(refusal) => line(429, "rate_limit_exceeded", limits::words(refusal)),
            Problem::Overloaded => line(503, "overloaded", "as much is on its way as this gateway can carry; nothing was accepted, repeat the request with the same Idempotency-Key".into()),
            Problem::Draining => line(503, "shutting_down", "this gateway is shutting down; nothing was accepted, repeat the request".into()),
            Problem::Interrupted { job } => line(503, "interrupted", format!("this gateway stopped waiting for job {job}; repeat the request with the same Idempotency-Key")),
            Problem::StoreUnavailable => line(503, "store_unavailable", "the database does not answer; nothing was promised, repeat the request with the same Idempotency-Key".into()),
            Problem::Internal => line(500, "internal_error", "the gateway met a fault of its own; its log has the details".into()),
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Problem::Invalid { param, .. } => param.as_deref(),
            Problem::RouteUnknown { .. } => Some("model"),
            Problem::RoundOver { error, .. } | Problem::JobFailed { error, .. } => error.param.as_deref(),
            Problem::TooLong(error) => error.param.as_deref(),
            _ => None,
        }
    }

    fn job(&self) -> Option<JobId> {
        match self {
            Problem::KeyConflict { job }
            | Problem::AttemptUnknown { job, .. }
            | Problem::RoundOver { job, .. }
            | Problem::JobFailed { job, .. }
            | Problem::JobCancelled { job }
            | Problem::ResultNotReady { job, .. }
            | Problem::ResultErased { job }
            | Problem::StreamBroken { job }
            | Problem::JobOver { job, .. }
            | Problem::Interrupted { job } => Some(*job),
            _ => None,
        }
    }

    /// Whole seconds, rounded up.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Problem::RoundOver { error, .. } => error.retry_after_ms.map(|ms| ms.div_ceil(1000).max(1)),
            Problem::Limited(refusal) => {
                refusal.retry_after.map(|pause| pause.as_millis().div_ceil(1000).max(1) as u64)
            }
            Problem::Draining | Problem::Interrupted { .. } | Problem::StoreUnavailable => Some(1),
            Problem::Overloaded | Problem::ResultNotReady { .. } => Some(1),
            _ => None,
        }
    }

    /// What SDKs may do by themselves. OpenAI's retry 409 and 5xx unless told otherwise.
    fn should_retry(&self) -> Option<bool> {
        match self {
            Problem::KeyConflict { .. }
            | Problem::JobFailed { .. }
            | Problem::JobCancelled { .. }
            | Problem::JobOver { .. } => Some(false),
            Problem::AttemptUnknown { key_origin: KeyOrigin::Gateway, .. } => Some(false),
            // What is larger than the whole limit will never fit.
            Problem::Limited(Refusal { retry_after: None, .. }) => Some(false),
            // Without a time to wait for, a retry would walk over every target again.
            Problem::RoundOver { error, .. } if error.retry_after_ms.is_none() => Some(false),
            _ => None,
        }
    }

    /// Status, code and message, for people's pages.
    pub fn words(&self) -> (StatusCode, &'static str, String) {
        let Line { status, code, message } = self.line();
        (status, code, message)
    }

    /// The body alone, as an event stream carries it.
    pub fn text(&self, shape: Shape) -> String {
        let line = self.line();
        match shape {
            Shape::OpenAi => self.openai(&line).to_string(),
            Shape::Anthropic => self.anthropic(&line).to_string(),
            Shape::Problem => self.problem(&line).to_string(),
        }
    }

    /// The answer, in the shape that the route's clients read.
    pub fn answer(&self, shape: Shape) -> Response {
        let status = self.line().status;
        let content_type = match shape {
            Shape::OpenAi | Shape::Anthropic => "application/json",
            Shape::Problem => "application/problem+json",
        };
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], self.text(shape)).into_response();
        let out = response.headers_mut();
        if let Some(seconds) = self.retry_after() {
            out.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(should) = self.should_retry() {
            let value = if should { "true" } else { "false" };
            out.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static(value));
        }
        if let Some(job) = self.job() {
            headers::job(out, job);
            if matches!(self, Problem::AttemptUnknown { .. }) {
                headers::location(out, job);
            }
        }
        if let Problem::AttemptUnknown { attempt, .. } = self {
            headers::attempt(out, *attempt);
        }
        response
    }

    fn openai(&self, line: &Line) -> Value {
        let mut error = Map::new();
        error.insert("message".into(), line.message.clone().into());
        error.insert("type".into(), openai_type(line.status).into());
        error.insert("code".into(), line.code.into());
        error.insert("param".into(), self.param().map_or(Value::Null, Into::into));
        if let Some(job) = self.job() {
            error.insert("job_id".into(), job.to_string().into());
        }
        self.add_details(&mut error);
        json!({ "error": error })
    }

    /// `type` is Anthropic's word for the status; our own code stands beside it.
    fn anthropic(&self, line: &Line) -> Value {
        let mut error = Map::new();
        error.insert("type".into(), anthropic_type(line.status).into());
        error.insert("message".into(), line.message.clone().into());
        error.insert("code".into(), line.code.into());
        if let Some(param) = self.param() {
            error.insert("param".into(), param.into());
        }
        if let Some(job) = self.job() {
            error.insert("job_id".into(), job.to_string().into());
        }
        self.add_details(&mut error);
        json!({ "type": "error", "error": error, "request_id": request_id::current() })
    }

    fn problem(&self, line: &Line) -> Value {
        let mut problem = Map::new();
        problem.insert("type".into(), format!("urn:interlock:problem:{}", line.code).into());
        problem.insert("title".into(), line.status.canonical_reason().unwrap_or("Error").into());
        problem.insert("status".into(), line.status.as_u16().into());
        problem.insert("code".into(), line.code.into());
        problem.insert("detail".into(), line.message.clone().into());
        if let Some(param) = self.param() {
            problem.insert("param".into(), param.into());
        }
        if let Some(job) = self.job() {
            problem.insert("job_id".into(), job.to_string().into());
        }
        self.add_details(&mut problem);
        Value::Object(problem)
    }

    /// What the code alone does not say.
    fn add_details(&self, out: &mut Map<String, Value>) {
        match self {
            Problem::AttemptUnknown { attempt, since, .. } => {
                out.insert("attempt".into(), attempt.to_string().into());
                out.insert("since".into(), headers::rfc3339(*since).into());
            }
            Problem::Limited(refusal) => {
                out.insert("limit".into(), limits::details(refusal));
            }
            Problem::TooLong(error) => {
                out.insert("attempts".into(), error.details.clone().into());
            }
            Problem::RoundOver { error, .. } | Problem::JobFailed { error, .. } => {
                out.insert("attempts".into(), error.details.clone().into());
                if let Some(code) = &error.provider_code {
                    out.insert("provider_code".into(), code.clone().into());
                }
                if let Some(kind) = &error.provider_type {
                    out.insert("provider_type".into(), kind.clone().into());
                }
            }
            _ => {}
        }
    }
}

/// The last refusal's own status where it is the client's to see, else that of a gateway whose upstreams failed.
fn error_status(error: &JobError) -> u16 {
    match (error.code, error.status) {
        (JobErrorCode::JobDeadline, _) => 504,
        (JobErrorCode::RequestRefused | JobErrorCode::ContentPolicy | JobErrorCode::ContextLengthExceeded, None) => 400,
        (_, Some(status)) => status,
        (JobErrorCode::AllTargetsFailed | JobErrorCode::MaxAttempts, None) => 502,
    }
}

/// platform.claude.com/docs/en/api/errors, read 2026-11-30.
fn anthropic_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

fn openai_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
