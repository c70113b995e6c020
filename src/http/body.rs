//! Bodies in: bounded in size, in time and in depth, before anything is made of them.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use providers::json::{Json, Object};

use super::problem::Problem;
use crate::config::Server;
use crate::domain::key::IdempotencyKey;

/// Reads the whole body, or says what was wrong with it.
pub async fn read(headers: &HeaderMap, body: Body, server: &Server) -> Result<Bytes, Problem> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::BodyEncoded);
    }
    let too_large = || Problem::BodyTooLarge { limit: server.body_limit };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > server.body_limit as u64) {
        return Err(too_large());
    }
    let read = Limited::new(body, server.body_limit).collect();
    match tokio::time::timeout(server.body_timeout, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::BodyUnreadable),
        Err(_) => Err(Problem::BodyTimeout),
    }
}

/// The body as a JSON object: exact digits, no duplicate names, bounded depth.
pub fn object(body: &[u8]) -> Result<Object, Problem> {
    match Json::parse(body) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(_) => Err(Problem::InvalidJson("an object is expected".to_owned())),
        Err(error) => Err(Problem::InvalidJson(error.to_string())),
    }
}

/// The idempotency key, where the client sent one.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::KeyTwice);
    }
    IdempotencyKey::parse(value.as_bytes()).map(Some).map_err(Problem::KeyInvalid)
}
