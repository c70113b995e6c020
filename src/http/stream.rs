//! Answers as an event stream: live from a running attempt, or from what is stored. `[DONE]` is sent only after the
//! winning commit; whatever else ends a stream ends it with an error event and no `[DONE]`.
//!
//! Nothing is buffered per client: a slow one reads the attempt's own log at its own pace.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use providers::openai::stream::rechunk;

use super::headers;
use super::problem::{Problem, Shape};
use crate::domain::job::KeyOrigin;
use crate::engine::progress::{Delivered, Progress};
use crate::engine::stream_log::{Follower, StreamLog};
use crate::engine::submit::Ticket;

const DONE: &[u8] = b"data: [DONE]\n\n";

/// A stream that has begun: what is there from its first chunk, then what comes.
pub fn live(log: &Arc<StreamLog>, ticket: Ticket, include_usage: bool) -> Response {
    let (attempt, provider, attempts) = (log.attempt, log.provider.clone(), log.attempts);
    let state = Live::Chunks { follower: log.follow(), ticket, include_usage };
    let body = stream::unfold(state, |state| async move {
        let (frame, next) = state.next().await?;
        Some((Ok::<_, Infallible>(frame), next))
    });
    let mut response = event_stream(Body::from_stream(body));
    headers::attempt(response.headers_mut(), attempt);
    headers::provider(response.headers_mut(), &provider);
    headers::attempts(response.headers_mut(), attempts);
    response
}

/// A live stream's two parts: its chunks, then how it ended.
enum Live {
    Chunks { follower: Follower, ticket: Ticket, include_usage: bool },
    Over,
}

impl Live {
    async fn next(self) -> Option<(Bytes, Live)> {
        let Live::Chunks { mut follower, mut ticket, include_usage } = self else { return None };
        // A clock that runs out ends the client's stream; the call itself is listened to on.
        let chunk = tokio::select! {
            biased;
            chunk = follower.next() => chunk,
            () = ticket.trouble() => None,
        };
        if let Some(chunk) = chunk {
            return Some((frame(&chunk), Live::Chunks { follower, ticket, include_usage }));
        }
        let job = ticket.job;
        let end = match ticket.wait(None).await {
            Progress::Succeeded(delivered) if delivered.attempt == follower.attempt() => {
                ending(&delivered, include_usage)
            }
            // Another attempt has won: a second answer is never glued to the first.
            Progress::Succeeded(_) => error_frame(&Problem::StreamBroken { job }),
            Progress::Unknown { attempt, since } => {
                let key_origin: KeyOrigin = ticket.key_origin;
                error_frame(&Problem::AttemptUnknown { job, attempt, since, key_origin })
            }
            Progress::RoundOver(error) => error_frame(&Problem::RoundOver { job, error }),
            Progress::Failed(error) => error_frame(&Problem::JobFailed { job, error }),
            Progress::Cancelled => error_frame(&Problem::JobCancelled { job }),
            Progress::Running | Progress::Streaming(_) | Progress::Interrupted => {
                error_frame(&Problem::Interrupted { job })
            }
        };
        Some((end, Live::Over))
    }
}

/// A job that has its answer, as a stream: the chunks as they were delivered, or the whole answer cut anew.
pub fn stored(delivered: &Delivered, include_usage: bool) -> Result<Response, Problem> {
    let mut out = BytesMut::with_capacity(delivered.body.len() * 2);
    match &delivered.stream {
        Some(stream) => {
            for chunk in stream.chunks() {
                put_frame(&mut out, &chunk);
            }
            out.extend_from_slice(&ending(delivered, include_usage));
        }
        None => {
            for chunk in rechunk(&delivered.body, include_usage).ok_or(Problem::Internal)? {
                put_frame(&mut out, &chunk);
            }
            out.put_slice(DONE);
        }
    }
    let mut response = event_stream(Body::from(out.freeze()));
    headers::delivered(response.headers_mut(), delivered);
    Ok(response)
}

/// The usage, for those who asked, and the end.
fn ending(delivered: &Delivered, include_usage: bool) -> Bytes {
    let mut out = BytesMut::new();
    if include_usage && let Some(usage) = delivered.stream.as_ref().and_then(|stream| stream.usage.as_ref()) {
        put_frame(&mut out, usage);
    }
    out.put_slice(DONE);
    out.freeze()
}

fn frame(data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 8);
    put_frame(&mut out, data);
    out.freeze()
}

fn put_frame(out: &mut BytesMut, data: &[u8]) {
    out.put_slice(b"data: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

fn error_frame(problem: &Problem) -> Bytes {
    frame(problem.text(Shape::OpenAi).as_bytes())
}

pub fn event_stream(body: Body) -> Response {
    let mut response = (StatusCode::OK, body).into_response();
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
