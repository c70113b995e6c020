//! Jobs and what belongs to them, as JSON.

mod evidence;

pub use evidence::{coverage, held_circuit, permit};

use serde_json::{Value, json};

use super::headers::rfc3339;
use crate::domain::attempt::{Attempt, AttemptState};
use crate::domain::hex::hex;
use crate::domain::job::{JobError, Snapshot};
use crate::store::callbacks::Callback;
use crate::store::contracts::{CheckRow, Run};
use crate::store::keys::ListedKey;
use crate::store::lookups::Lookup;
use crate::store::operators::Race;

pub fn job(snapshot: &Snapshot) -> Value {
    let job = &snapshot.job;
    let mut out = json!({
        "id": job.id,
        "object": "job",
        "state": job.state.as_str(),
        "version": job.version,
        "completed_by": job.state.completed_by(),
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
        "idempotency_key": job.idempotency_key,
        "url": job.url,
        "route": job.route,
        "attempts": snapshot.attempts.iter().map(attempt).collect::<Vec<_>>(),
    });
    if let (Some(error), Value::Object(out)) = (&job.error, &mut out) {
        out.insert("error".to_owned(), job_error(error));
    }
    out
}

/// The job and how far its callback has come, where it has one.
pub fn job_with_callback(snapshot: &Snapshot, callback: Option<&Callback>) -> Value {
    let mut out = job(snapshot);
    if let (Some(callback), Value::Object(out)) = (callback, &mut out) {
        let mut shown = json!({ "state": callback.state, "attempts": callback.attempts });
        if let (Some(error), Value::Object(shown)) = (&callback.last_error, &mut shown) {
            shown.insert("last_error".to_owned(), json!(error));
        }
        out.insert("callback".to_owned(), shown);
    }
    out
}

/// For operators: with what providers said of its attempts when they were asked.
pub fn examined_job(snapshot: &Snapshot, lookups: &[Lookup]) -> Value {
    let mut out = job(snapshot);
    if let (false, Value::Object(out)) = (lookups.is_empty(), &mut out) {
        out.insert("lookups".to_owned(), lookups.iter().map(lookup).collect());
    }
    out
}

fn lookup(lookup: &Lookup) -> Value {
    json!({
        "attempt": lookup.attempt,
        "tries": lookup.tries,
        "next_at": lookup.next_at.map(rfc3339),
        "last_answer": lookup.last_answer,
        "evidence": serde_json::from_str::<Value>(&lookup.evidence).unwrap_or_default(),
        "cancel_told_at": lookup.cancel_told_at.map(rfc3339),
    })
}

fn job_error(error: &JobError) -> Value {
    json!({
        "code": error.code.as_str(),
        "message": error.message,
        "param": error.param,
        "provider_code": error.provider_code,
        "attempts": error.details,
    })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "id": attempt.id,
        "ordinal": attempt.ordinal,
        "state": attempt.state.as_str(),
        "provider": attempt.target.provider,
        "model": attempt.target.model,
        "permit_id": attempt.permit,
        "reason": attempt.state.reason(),
        "message": message(&attempt.state),
        "cleared_by": cleared_by(&attempt.state),
        "started_at": rfc3339(attempt.started_at),
        "ended_at": attempt.ended_at.map(rfc3339),
        "usage": attempt.usage,
    })
}

fn message(state: &AttemptState) -> Option<&str> {
    match state {
        AttemptState::Unknown { message, .. } => message.as_deref(),
        AttemptState::Failed(failed) => failed.message.as_deref(),
        AttemptState::Started
        | AttemptState::Succeeded
        | AttemptState::Released { .. }
        | AttemptState::Cancelled { .. }
        | AttemptState::Superseded { .. } => None,
    }
}

fn cleared_by(state: &AttemptState) -> Option<String> {
    match state {
        AttemptState::Released { by } | AttemptState::Cancelled { by } | AttemptState::Superseded { by } => {
            Some(by.to_text())
        }
        AttemptState::Failed(failed) => failed.by.as_ref().map(|by| by.to_text()),
        AttemptState::Started | AttemptState::Unknown { .. } | AttemptState::Succeeded => None,
    }
}

/// A key without its secret.
pub fn api_key(key: &ListedKey) -> Value {
    json!({
        "id": key.id,
        "owner": key.owner,
        "public_id": key.public_id,
        "created_at": rfc3339(key.created_at),
        "revoked_at": key.revoked_at.map(rfc3339),
    })
}

pub fn race(race: &Race) -> Value {
    json!({
        "job": race.job,
        "attempt": race.attempt,
        "winner": race.winner,
        "version_seen": race.version_seen,
        "arrived_at": rfc3339(race.arrived_at),
        "usage": { "input_tokens": race.input_tokens, "output_tokens": race.output_tokens },
        "body_sha256": hex(&race.body_sha256),
    })
}

pub fn run(run: &Run) -> Value {
    json!({
        "id": run.id,
        "run_id": run.id,
        "object": "contract_run",
        "suite": run.suite,
        "suite_digest": run.suite_digest,
        "target": run.target.to_string(),
        "provider": run.target.provider,
        "model": run.target.model,
        "adapter_version": run.adapter_version,
        "mode": run.mode,
        "verdict": run.verdict,
        "kinds": { "schema": run.kinds[0], "tokenizer": run.kinds[1], "round_trip": run.kinds[2] },
        "error": run.error,
        "started_at": rfc3339(run.started_at),
        "ended_at": run.ended_at.map(rfc3339),
    })
}

pub fn check(check: &CheckRow) -> Value {
    json!({ "kind": check.kind, "name": check.name, "case": check.case, "verdict": check.verdict, "detail": check.detail })
}

/// One page of at most `size`, newest first: a full one may have another after it (`before=` its last id).
pub fn page(data: Vec<Value>, size: i64) -> Value {
    let has_more = data.len() as i64 >= size;
    json!({ "object": "list", "data": data, "has_more": has_more })
}

/// A whole list, in the words of OpenAI's API.
pub fn list(data: Vec<Value>) -> Value {
    json!({ "object": "list", "data": data, "has_more": false })
}
