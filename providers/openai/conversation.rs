//! `lookup = "conversation"`: llama-server keeps a streamed answer under the id in `X-Conversation-Id`, whether or not
//! the client is still there, and replays its bytes (llama.cpp b11434, `tools/server/server-stream.cpp`, measured
//! 2026-11-30).
//!
//! Running ones are seen from their first moment. One that has ended is kept for 300 s, in memory, its last 4 MiB. A
//! second POST with the same id would cancel the first, which the transport never sends.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method};

use super::{JSON, stream};
use crate::adapter::{CallContext, Head};
use crate::canonical::Request;
use crate::compatible::Row;
use crate::failure::{Failure, Proof};
use crate::json::{Json, Object};
use crate::lookup::{Absence, LookupAnswer, LookupRequest, in_query};

pub(super) const HEADER: HeaderName = HeaderName::from_static("x-conversation-id");

const FIND: &str = "find";
const REPLAY: &str = "replay";

/// `STREAM_SESSION_TTL_SECONDS`.
const ABSENCE: Absence = Absence { shows_running: true, remembered_for: Some(Duration::from_secs(300)) };

/// Whether it is there and has ended. Only streams are kept.
pub(super) fn question(request: &Request, context: &CallContext<'_>) -> Option<LookupRequest> {
    if !request.stream {
        return None;
    }
    let mut body = Object::new();
    body.insert("conversation_ids", vec![Json::from(context.attempt_id)]);
    let headers = super::asking_headers(JSON, context)?;
    let (method, path, body) = (Method::POST, "/streams/lookup".to_owned(), Json::Object(body).to_bytes());
    Some(LookupRequest { step: FIND, method, path, headers, body, expected_bytes: None })
}

fn replay(context: &CallContext<'_>, bytes: u64) -> Option<LookupRequest> {
    let headers = super::asking_headers(http::HeaderValue::from_static("text/event-stream"), context)?;
    let path = format!("/stream?conv_id={}&from=0", in_query(context.attempt_id));
    let (method, body) = (Method::GET, Bytes::new());
    Some(LookupRequest { step: REPLAY, method, path, headers, body, expected_bytes: Some(bytes) })
}

/// Generation stops and what there was is forgotten; 204 also where there was nothing.
pub(super) fn cancel(context: &CallContext<'_>) -> Option<LookupRequest> {
    let headers = super::asking_headers(JSON, context)?;
    let path = format!("/stream?conv_id={}", in_query(context.attempt_id));
    let (method, body) = (Method::DELETE, Bytes::new());
    Some(LookupRequest { step: "cancel", method, path, headers, body, expected_bytes: None })
}

pub(super) fn read(
    row: &Row,
    request: &Request,
    context: &CallContext<'_>,
    asked: &LookupRequest,
    head: &Head,
    body: &[u8],
) -> LookupAnswer {
    if head.status != http::StatusCode::OK {
        return LookupAnswer::unreadable(format!("status {} to the step `{}`", head.status.as_u16(), asked.step));
    }
    match asked.step {
        REPLAY => replayed(row, request, asked, head, body),
        _ => found(context, body),
    }
}

/// `[{"conversation_id", "is_done", "total_bytes", "started_at", "completed_at"}]`; empty where there is none.
fn found(context: &CallContext<'_>, body: &[u8]) -> LookupAnswer {
    let json = Json::parse(body);
    let Ok(Json::Array(sessions)) = json else { return LookupAnswer::unreadable("the answer is no list of streams") };
    let Some(session) = sessions.first() else { return LookupAnswer::Absent(ABSENCE) };
    if session.get("conversation_id").and_then(Json::as_str) != Some(context.attempt_id) {
        return LookupAnswer::unreadable("another stream than the one asked for was shown");
    }
    match (session.get("is_done").and_then(Json::as_bool), session.get("total_bytes").and_then(Json::as_u64)) {
        (Some(false), _) => LookupAnswer::Running,
        (Some(true), Some(bytes)) => match replay(context, bytes) {
            Some(question) => LookupAnswer::Ask(question),
            None => LookupAnswer::unreadable("the stream cannot be asked for"),
        },
        (Some(true) | None, _) => LookupAnswer::unreadable("a stream without is_done or total_bytes was shown"),
    }
}

/// The bytes that the client would have read, through the decoder that would have read them.
fn replayed(row: &Row, request: &Request, asked: &LookupRequest, head: &Head, body: &[u8]) -> LookupAnswer {
    if asked.expected_bytes != Some(body.len() as u64) {
        let expected = asked.expected_bytes.unwrap_or_default();
        return LookupAnswer::unreadable(format!("{} bytes were replayed of {expected}", body.len()));
    }
    let decoded = stream::decoder(row, request, head).and_then(|mut decoder| {
        let mut pieces = decoder.feed(body)?;
        pieces.extend(decoder.drain());
        Ok((decoder.finish()?, pieces))
    });
    match decoded {
        Ok((answer, pieces)) => LookupAnswer::Finished { answer, pieces },
        // It is done, these are all of its bytes, and they hold no whole answer: none will come.
        Err(failure) if failure.proof == Proof::Unknown => {
            let why = format!("the provider ended the stream: {}", failure.message);
            let ended = Failure::new(Proof::EndedWithoutResult, "stream_ended_short", why);
            LookupAnswer::Failed(Failure { status: failure.status, usage: failure.usage, ..ended })
        }
        Err(failure) => LookupAnswer::Failed(failure),
    }
}
