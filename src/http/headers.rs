//! The headers that carry one identity through every answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use time::format_description::well_known::Rfc3339;

use crate::domain::Timestamp;
use crate::domain::ids::{AttemptId, JobId};
use crate::engine::progress::Delivered;

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // A value that cannot stand in a header is left out: better no header than a forged one.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

pub fn job(headers: &mut HeaderMap, id: JobId) {
    put(headers, "x-interlock-job-id", &id.to_string());
}

pub fn attempt(headers: &mut HeaderMap, id: AttemptId) {
    put(headers, "x-interlock-attempt-id", &id.to_string());
}

pub fn location(headers: &mut HeaderMap, id: JobId) {
    if let Ok(value) = HeaderValue::from_str(&format!("/v1/jobs/{id}")) {
        headers.insert(header::LOCATION, value);
    }
}

/// The client's own key, or the one that the gateway made for it.
pub fn idempotency_key(headers: &mut HeaderMap, key: &str) {
    put(headers, "idempotency-key", key);
}

pub fn replayed(headers: &mut HeaderMap) {
    put(headers, "idempotent-replayed", "true");
}

/// Who answered.
pub fn delivered(headers: &mut HeaderMap, answer: &Delivered) {
    attempt(headers, answer.attempt);
    attempts(headers, answer.attempts);
    provider(headers, &answer.provider);
    dropped(headers, &answer.dropped);
    // Of a live stream nobody knows it yet.
    if let Some(cost) = answer.cost.to_text() {
        put(headers, "x-interlock-cost", &cost);
    }
}

/// What was left out of the request. A header is no place for a long list: the job has all of it.
pub fn dropped(headers: &mut HeaderMap, names: &[String]) {
    const MOST: usize = 20;
    if !names.is_empty() {
        let more = if names.len() > MOST { ", ..." } else { "" };
        put(headers, "x-interlock-dropped", &(names[..names.len().min(MOST)].join(", ") + more));
    }
}

pub fn attempts(headers: &mut HeaderMap, count: usize) {
    put(headers, "x-interlock-attempts", &count.to_string());
}

pub fn provider(headers: &mut HeaderMap, name: &str) {
    if !name.is_empty() {
        put(headers, "x-interlock-provider", name);
    }
}

pub fn rfc3339(at: Timestamp) -> String {
    at.format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}
