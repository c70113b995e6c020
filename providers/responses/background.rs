//! `lookup = "background"`: the response runs at the provider in background mode and is stored there, so that it can be
//! asked for and cancelled by the id that its first event brought (OpenAI OpenAPI 2.3.0, `getResponse`,
//! `cancelResponse`; developers.openai.com/api/docs/guides/background, read 2026-11-30).
//!
//! There is no list of responses: one whose id was never heard of cannot be asked about. It is shown from its first
//! moment. What is stored is said to be kept for about ten minutes at least, longer where the account allows it.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use super::{failure, reply};
use crate::adapter::{CallContext, Head, Unsupported};
use crate::canonical::Request;
use crate::compatible::Row;
use crate::error_shapes::own_error;
use crate::failure::Proof;
use crate::json::{Json, Object};
use crate::lookup::{Absence, LookupAnswer, LookupRequest, in_query};
use crate::openai::{JSON, asking_headers};

const PATH: &str = "/responses/";

const ABSENCE: Absence = Absence { shows_running: true, remembered_for: Some(Duration::from_secs(600)) };

/// The order to work in the background, to store the response, and to stream it. Names what of the client's own stands
/// in the way.
pub(super) fn mark(request: &Request, body: &mut Object) -> Result<(), Unsupported> {
    if request.body.get_some("store") == Some(&Json::Bool(false)) {
        let why = "is false, but this provider is set up to store responses (lookup = \"background\"): leave it out";
        return Err(Unsupported::new("store", why));
    }
    for name in ["store", "background", "stream"] {
        body.insert(name, true);
    }
    Ok(())
}

pub(super) fn question(context: &CallContext<'_>, reference: &str) -> Option<LookupRequest> {
    let headers = asking_headers(JSON, context)?;
    let path = format!("{PATH}{}", in_query(reference));
    Some(LookupRequest { step: "get", method: Method::GET, path, headers, body: Bytes::new(), expected_bytes: None })
}

/// One that has ended stays as it is; cancelling twice is the same as once.
pub(super) fn cancel(context: &CallContext<'_>, reference: &str) -> Option<LookupRequest> {
    let headers = asking_headers(JSON, context)?;
    let path = format!("{PATH}{}/cancel", in_query(reference));
    Some(LookupRequest {
        step: "cancel",
        method: Method::POST,
        path,
        headers,
        body: Bytes::new(),
        expected_bytes: None,
    })
}

pub(super) fn read(row: &Row, asked: &LookupRequest, head: &Head, body: &[u8], native: bool) -> LookupAnswer {
    match head.status {
        StatusCode::OK => response(asked, head, body, native),
        // A 404 of some hop says nothing about the response.
        StatusCode::NOT_FOUND if own_error(row, head.status, body).is_some() => LookupAnswer::Absent(ABSENCE),
        _ => LookupAnswer::unreadable(failure::read(row, head, body).message),
    }
}

fn response(asked: &LookupRequest, head: &Head, body: &[u8], native: bool) -> LookupAnswer {
    let json = match Json::parse(body) {
        Ok(json) if json.get("object").and_then(Json::as_str) == Some("response") => json,
        _ => return LookupAnswer::unreadable("the answer is no response"),
    };
    let shown = json.get("id").and_then(Json::as_str).map(in_query);
    if shown.as_deref() != asked.path.strip_prefix(PATH) {
        return LookupAnswer::unreadable("another response than the one asked for was shown");
    }
    if let Some("queued" | "in_progress") = json.get("status").and_then(Json::as_str) {
        return LookupAnswer::Running;
    }
    match reply::read_response(head, &json) {
        Ok(whole) if native => LookupAnswer::Finished {
            answer: whole.into_native_answer(Bytes::copy_from_slice(body)),
            pieces: Vec::new(),
        },
        Ok(whole) => LookupAnswer::Finished { answer: whole.into_answer(), pieces: Vec::new() },
        Err(failure) if failure.proof == Proof::Unknown => LookupAnswer::unreadable(failure.message),
        // It is this one, it is over, and it will never be another.
        Err(failure) => LookupAnswer::Failed(failure),
    }
}
