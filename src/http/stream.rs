//! Answers as an event stream: live from a running attempt, or from what is stored. The dialect's closing word
//! (`[DONE]`, `message_stop`) is sent only after the winning commit; whatever else ends a stream ends it with an error
//! event and no such word.
//!
//! Nothing is buffered per client: a slow one reads the attempt's own log at its own pace.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use providers::dialects::{EventWriter, Over, Rendering};

use super::dialects::Form;
use super::headers;
use super::problem::{Problem, Shape};
use crate::domain::job::{Job, JobError, JobErrorCode, KeyOrigin};
use crate::engine::progress::{Delivered, Progress};
use crate::engine::stream_log::{Follower, StreamLog};
use crate::engine::submit::Ticket;

/// A stream that has begun: what is there from its first chunk, then what comes.
pub fn live(log: &Arc<StreamLog>, ticket: Ticket, form: &Form, rendering: &Rendering) -> Response {
    let (attempt, provider, attempts) = (log.attempt, log.provider.clone(), log.attempts);
    let writer = form.dialect.writer(rendering);
    let state = Live::Chunks(Chunks { follower: log.follow(), ticket, writer, shape: form.shape() });
    let body = stream::unfold(state, |state| async move {
        let (frame, next) = state.next().await?;
        Some((Ok::<_, Infallible>(frame), next))
    });
    let mut response = event_stream(Body::from_stream(body));
    headers::attempt(response.headers_mut(), attempt);
    headers::provider(response.headers_mut(), &provider);
    headers::attempts(response.headers_mut(), attempts);
    headers::dropped(response.headers_mut(), &log.dropped);
    response
}

/// A live stream's two parts: its chunks, then how it ended.
enum Live {
    Chunks(Chunks),
    Over,
}

struct Chunks {
    follower: Follower,
    ticket: Ticket,
    writer: Box<dyn EventWriter>,
    shape: Shape,
}

impl Live {
    async fn next(self) -> Option<(Bytes, Live)> {
        let Live::Chunks(mut chunks) = self else { return None };
        while let Some(chunk) = chunks.next().await {
            let frame = chunks.writer.chunk(&chunk);
            if !frame.is_empty() {
                return Some((frame, Live::Chunks(chunks)));
            }
        }
        Some((chunks.end().await, Live::Over))
    }
}

impl Chunks {
    async fn next(&mut self) -> Option<Bytes> {
        // A clock that runs out ends the client's stream; the call itself is listened to on.
        tokio::select! {
            biased;
            chunk = self.follower.next() => chunk,
            () = self.ticket.trouble() => None,
        }
    }

    async fn end(mut self) -> Bytes {
        let job = self.ticket.job;
        let problem = match self.ticket.wait(None).await {
            Progress::Succeeded(delivered) if delivered.attempt == self.follower.attempt() => {
                return self.writer.end(usage(&delivered));
            }
            // Another attempt has won: a second answer is never glued to the first.
            Progress::Succeeded(_) => Problem::StreamBroken { job },
            Progress::Unknown { attempt, since } => {
                let key_origin: KeyOrigin = self.ticket.key_origin;
                Problem::AttemptUnknown { job, attempt, since, key_origin }
            }
            Progress::RoundOver(error) => Problem::RoundOver { job, error },
            Progress::Failed(error) => {
                return self.over(Some(&error), &Problem::JobFailed { job, error: error.clone() });
            }
            Progress::Cancelled => return self.over(None, &Problem::JobCancelled { job }),
            Progress::Running | Progress::Streaming(_) | Progress::Interrupted => Problem::Interrupted { job },
        };
        self.writer.error(&problem.text(self.shape))
    }

    /// The head went out with the first content: what began was announced with its own time.
    fn over(mut self, error: Option<&JobError>, problem: &Problem) -> Bytes {
        self.writer.over(&ended(error, 0), &problem.text(self.shape))
    }
}

/// A job that is over without an answer, as the whole stream of it.
pub fn over(form: &Form, rendering: &Rendering, job: &Job, problem: &Problem) -> Response {
    let created = u64::try_from(job.created_at.unix_timestamp()).unwrap_or_default();
    let over = ended(job.error.as_ref(), created);
    event_stream(Body::from(form.dialect.writer(rendering).over(&over, &problem.text(form.shape()))))
}

/// With its error it has failed, without one it was cancelled.
fn ended(error: Option<&JobError>, created: u64) -> Over<'_> {
    let status = if error.is_some() { "failed" } else { "cancelled" };
    Over { status, created, error: error.map(words) }
}

/// Code and words of a response's error. OpenAI's clients know a list of codes (OpenAPI 2.3.0, `ResponseErrorCode`; read
/// 2026-12-01); our own code is the job's.
pub fn words(error: &JobError) -> (&'static str, &str) {
    let code = match (error.code, error.status) {
        (JobErrorCode::RequestRefused | JobErrorCode::ContentPolicy | JobErrorCode::ContextLengthExceeded, _) => {
            "invalid_prompt"
        }
        (_, Some(429)) => "rate_limit_exceeded",
        _ => "server_error",
    };
    (code, &error.message)
}

fn usage(delivered: &Delivered) -> Option<&[u8]> {
    delivered.stream.as_ref()?.usage.as_deref()
}

/// A job that has its answer, as a stream: the chunks as they were delivered, or the whole answer cut anew.
pub fn stored(delivered: &Delivered, form: &Form, rendering: &Rendering) -> Result<Response, Problem> {
    let body = match &delivered.stream {
        // A provider may have answered a stream request with a whole answer.
        Some(stream) if !stream.lines.is_empty() => {
            let mut out = BytesMut::with_capacity(delivered.body.len() * 2);
            let mut writer = form.dialect.writer(rendering);
            for chunk in stream.chunks() {
                out.extend_from_slice(&writer.chunk(&chunk));
            }
            out.extend_from_slice(&writer.end(usage(delivered)));
            out.freeze()
        }
        Some(_) | None => form.dialect.whole_as_stream(rendering, &delivered.body).ok_or(Problem::Internal)?,
    };
    let mut response = event_stream(Body::from(body));
    headers::delivered(response.headers_mut(), delivered);
    Ok(response)
}

pub fn event_stream(body: Body) -> Response {
    let mut response = (StatusCode::OK, body).into_response();
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
