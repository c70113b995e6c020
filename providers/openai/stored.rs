//! `lookup = "stored"`: every completion is stored at the provider with the attempt's id in its metadata, and found by
//! it (OpenAI OpenAPI 2.3.0, `listChatCompletions`; facts 2.4, 2026-11).
//!
//! The list shows completions that have ended, some time after they did: while one runs, it is absent. It is asked for
//! by the metadata alone. The id is unique, and a filter by model could miss a completion that is stored under the
//! model's dated name, which would then pass for absent.

use http::Method;

use super::{JSON, reply};
use crate::adapter::{CallContext, Head, Unsupported};
use crate::canonical::Request;
use crate::compatible::Row;
use crate::failure::Proof;
use crate::json::{Json, Object};
use crate::lookup::{Absence, LookupAnswer, LookupRequest, in_query};

/// The name under which the attempt's id stands in the metadata (64 characters at most there).
pub(crate) const METADATA_KEY: &str = "interlock_attempt_id";

/// Pairs that a completion's metadata may hold.
const MOST_PAIRS: usize = 16;

const ABSENCE: Absence = Absence { shows_running: false, remembered_for: None };

/// The request with the order to store it under the attempt's id. Names what of the client's own stands in the way.
pub(super) fn mark(request: &Request, attempt_id: &str) -> Result<Request, Unsupported> {
    match request.body.get_some("store") {
        None | Some(Json::Bool(true)) => {}
        Some(Json::Bool(false)) => {
            let why = "is false, but this provider is set up to store completions (lookup = \"stored\"): leave it out";
            return Err(Unsupported::new("store", why));
        }
        Some(other) => return Err(Unsupported::new("store", format!("must be a boolean, not {}", other.kind()))),
    }
    let mut metadata = match request.body.get_some("metadata") {
        None => Object::new(),
        Some(Json::Object(metadata)) => metadata.clone(),
        Some(other) => return Err(Unsupported::new("metadata", format!("must be an object, not {}", other.kind()))),
    };
    if metadata.contains_key(METADATA_KEY) {
        let why = "is the gateway's own: leave it out";
        return Err(Unsupported::new(format!("metadata.{METADATA_KEY}"), why));
    }
    if metadata.len() >= MOST_PAIRS {
        let why = format!("holds {} pairs; {} are left beside the gateway's own", metadata.len(), MOST_PAIRS - 1);
        return Err(Unsupported::new("metadata", why));
    }
    metadata.insert(METADATA_KEY, attempt_id);
    let mut marked = request.clone();
    marked.body.insert("store", true);
    marked.body.insert("metadata", metadata);
    Ok(marked)
}

pub(super) fn question(context: &CallContext<'_>) -> Option<LookupRequest> {
    let path = format!("/chat/completions?metadata%5B{METADATA_KEY}%5D={}&limit=1", in_query(context.attempt_id));
    let headers = super::asking_headers(JSON, context)?;
    let (method, body) = (Method::GET, bytes::Bytes::new());
    Some(LookupRequest { step: "list", method, path, headers, body, expected_bytes: None })
}

pub(super) fn read(row: &Row, context: &CallContext<'_>, head: &Head, body: &[u8]) -> LookupAnswer {
    if !head.status.is_success() {
        return LookupAnswer::unreadable(format!("status {} instead of a list", head.status.as_u16()));
    }
    let Ok(mut json) = Json::parse(body).or_else(|_| Json::parse_with_loose_logprobs(body)) else {
        return LookupAnswer::unreadable("the list is not JSON");
    };
    if json.get("object").and_then(Json::as_str) != Some("list") {
        return LookupAnswer::unreadable("the answer is no list");
    }
    let Some(Json::Array(items)) = (match &mut json {
        Json::Object(list) => list.remove("data"),
        _ => None,
    }) else {
        return LookupAnswer::unreadable("the list has no data");
    };
    match items.into_iter().next() {
        None => LookupAnswer::Absent(ABSENCE),
        Some(Json::Object(found)) => completion(row, context, head, found),
        Some(_) => LookupAnswer::unreadable("the list holds something that is no completion"),
    }
}

/// A server that ignores the filter would show anybody's: only the one that carries the id is ours.
fn completion(row: &Row, context: &CallContext<'_>, head: &Head, mut found: Object) -> LookupAnswer {
    let Some(Json::Object(mut metadata)) = found.remove("metadata") else {
        return LookupAnswer::unreadable("a completion without metadata was shown: the filter does not work");
    };
    if metadata.remove(METADATA_KEY).as_ref().and_then(Json::as_str) != Some(context.attempt_id) {
        return LookupAnswer::unreadable("a completion of another attempt was shown: the filter does not work");
    }
    // What the client put there itself is its own to see.
    if !metadata.is_empty() {
        found.insert("metadata", metadata);
    }
    match reply::read(row, head, &Json::Object(found).to_bytes()) {
        Ok(answer) => LookupAnswer::Finished { answer, pieces: Vec::new() },
        // It may be the list that shows it badly: what cannot be read proves nothing here.
        Err(failure) if failure.proof == Proof::Unknown || failure.reason == "invalid_answer" => {
            LookupAnswer::unreadable(format!("the stored completion cannot be read: {}", failure.message))
        }
        Err(failure) => LookupAnswer::Failed(failure),
    }
}
