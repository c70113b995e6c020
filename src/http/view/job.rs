//! A job with its attempts, as applications and operators see it. Its schema in `/openapi.json` is made from this.

use providers::prices::Amount;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::value;
use crate::domain::attempt::{Attempt, AttemptState};
use crate::domain::cost::JobCost;
use crate::domain::hex::hex;
use crate::domain::job::{JobError, Snapshot};
use crate::http::headers::rfc3339;
use crate::store::callbacks::Callback;
use crate::store::lookups::Lookup;
use crate::store::operators::Race;

/// One intent of one owner, from its first request to its one final answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct JobView {
    id: Uuid,
    #[schema(pattern = "^job$")]
    object: &'static str,
    /// `queued`, `running`, `unknown`, `succeeded`, `failed` or `cancelled`; the last three never change.
    state: &'static str,
    /// Rises whenever who may complete the job changes.
    version: i64,
    /// The attempt that won.
    completed_by: Option<Uuid>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// The client's, or the one that the gateway made for it.
    idempotency_key: String,
    /// The operation: `/v1/chat/completions`.
    url: String,
    /// The route, as the request's `model` named it.
    route: String,
    /// In the order in which they started.
    attempts: Vec<AttemptView>,
    /// What the attempts have cost so far, losers too.
    cost: JobCostView,
    /// Why the last round, or the job, ended without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<CallbackView>,
    /// For operators: what providers said of its attempts when they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lookups: Vec<LookupView>,
}

/// One try of a job at one provider.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
struct AttemptView {
    id: Uuid,
    /// 1 for the job's first.
    ordinal: i32,
    /// `started`, `unknown`, `succeeded`, `failed`, `released`, `cancelled` or `superseded`.
    state: &'static str,
    provider: String,
    model: String,
    /// The evidence under which a fallback was tried; none for the primary.
    permit_id: Option<Uuid>,
    /// Why it failed, or is unknown.
    reason: Option<String>,
    message: Option<String>,
    /// Who released, cancelled or failed it: `owner`, `operator:NAME`, `policy:ROUTE`, `winner:ATTEMPT`, …
    cleared_by: Option<String>,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    usage: Option<UsageView>,
    /// What that cost; null is not known, never zero.
    cost: Option<CostView>,
    /// Members of the request that this target has no place for and that the route lets fall.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<String>,
}

/// What one attempt has cost, by the price that held when it ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
struct CostView {
    /// A decimal, exact.
    amount: String,
    currency: String,
    /// `settings`, or the day and the page on which the price was read.
    price: String,
}

/// What a job has cost.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobCost)]
struct JobCostView {
    /// By currency; empty where nothing is known.
    known: Vec<AmountView>,
    /// Attempts that may have cost something on top: under way, unknown, without usage, or without a price.
    unknown_attempts: usize,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Amount)]
struct AmountView {
    /// A decimal, exact.
    amount: String,
    currency: String,
}

/// Tokens, as billed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
struct UsageView {
    /// Uncached, cache-read and cache-write tokens together.
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input_tokens: Option<u64>,
    /// Of the input, written to the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    /// Of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
}

/// Why a round ended without an answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobError)]
struct ErrorView {
    code: &'static str,
    message: String,
    param: Option<String>,
    provider_code: Option<String>,
    /// A line for each attempt of the round, and for each target that was not tried.
    attempts: Vec<String>,
}

/// How far the notice to the job's callback has come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Callback)]
struct CallbackView {
    state: String,
    attempts: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// What a provider said of an attempt when it was asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lookup)]
struct LookupView {
    attempt: Uuid,
    tries: i32,
    #[schema(format = DateTime)]
    next_at: Option<String>,
    last_answer: Option<String>,
    /// What was asked, answered and decided, in order.
    #[schema(value_type = Vec<Object>)]
    evidence: Value,
    #[schema(format = DateTime)]
    cancel_told_at: Option<String>,
}

/// A result that was thrown away.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Race)]
pub struct RaceView {
    job: Uuid,
    attempt: Uuid,
    /// The attempt that had won; none where the loser was cancelled.
    winner: Option<Uuid>,
    version_seen: i64,
    #[schema(format = DateTime)]
    arrived_at: String,
    usage: RaceUsage,
    /// Of the bytes that were thrown away, as hexadecimal.
    body_sha256: String,
}

/// What the thrown away result cost; unknown where its call was closed.
#[derive(Debug, Serialize, ToSchema)]
struct RaceUsage {
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    cost: Option<AmountView>,
}

pub fn job(snapshot: &Snapshot) -> Value {
    value(&of(snapshot))
}

/// The job and how far its callback has come, where it has one.
pub fn job_with_callback(snapshot: &Snapshot, callback: Option<&Callback>) -> Value {
    let callback = callback.map(|callback| CallbackView {
        state: callback.state.clone(),
        attempts: callback.attempts,
        last_error: callback.last_error.clone(),
    });
    value(&JobView { callback, ..of(snapshot) })
}

/// For operators: with what providers said of its attempts when they were asked.
pub fn examined_job(snapshot: &Snapshot, lookups: &[Lookup]) -> Value {
    value(&JobView { lookups: lookups.iter().map(lookup).collect(), ..of(snapshot) })
}

pub fn race(race: &Race) -> Value {
    value(&RaceView {
        job: race.job.as_uuid(),
        attempt: race.attempt.as_uuid(),
        winner: race.winner.map(|winner| winner.as_uuid()),
        version_seen: race.version_seen,
        arrived_at: rfc3339(race.arrived_at),
        usage: RaceUsage {
            input_tokens: race.input_tokens,
            output_tokens: race.output_tokens,
            cost: race.cost.as_ref().map(|(sum, currency)| amount(*sum, currency)),
        },
        body_sha256: hex(&race.body_sha256),
    })
}

fn of(snapshot: &Snapshot) -> JobView {
    let job = &snapshot.job;
    JobView {
        id: job.id.as_uuid(),
        object: "job",
        state: job.state.as_str(),
        version: job.version,
        completed_by: job.state.completed_by().map(|id| id.as_uuid()),
        created_at: rfc3339(job.created_at),
        updated_at: rfc3339(job.updated_at),
        idempotency_key: job.idempotency_key.clone(),
        url: job.url.clone(),
        route: job.route.clone(),
        attempts: snapshot.attempts.iter().map(attempt).collect(),
        cost: cost(&JobCost::of(&snapshot.attempts)),
        error: job.error.as_ref().map(error),
        callback: None,
        lookups: Vec::new(),
    }
}

fn cost(cost: &JobCost) -> JobCostView {
    let known = cost.known.iter().map(|(currency, sum)| amount(*sum, currency)).collect();
    JobCostView { known, unknown_attempts: cost.unknown }
}

fn amount(sum: Amount, currency: &str) -> AmountView {
    AmountView { amount: sum.to_string(), currency: currency.to_owned() }
}

fn attempt(attempt: &Attempt) -> AttemptView {
    AttemptView {
        id: attempt.id.as_uuid(),
        ordinal: attempt.ordinal,
        state: attempt.state.as_str(),
        provider: attempt.target.provider.clone(),
        model: attempt.target.model.clone(),
        permit_id: attempt.permit.map(|permit| permit.as_uuid()),
        reason: attempt.state.reason().map(str::to_owned),
        message: message(&attempt.state).map(str::to_owned),
        cleared_by: cleared_by(&attempt.state),
        started_at: rfc3339(attempt.started_at),
        ended_at: attempt.ended_at.map(rfc3339),
        usage: attempt.usage.map(|usage| UsageView {
            input_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            cached_input_tokens: Some(usage.cached_input_tokens),
            cache_write_tokens: Some(usage.cache_write_tokens).filter(|tokens| *tokens > 0),
            reasoning_tokens: Some(usage.reasoning_tokens).filter(|tokens| *tokens > 0),
        }),
        cost: attempt.cost.as_ref().map(|cost| CostView {
            amount: cost.amount.to_string(),
            currency: cost.currency.to_string(),
            price: cost.price.to_string(),
        }),
        dropped: attempt.dropped.clone(),
    }
}

fn error(error: &JobError) -> ErrorView {
    ErrorView {
        code: error.code.as_str(),
        message: error.message.clone(),
        param: error.param.clone(),
        provider_code: error.provider_code.clone(),
        attempts: error.details.clone(),
    }
}

fn lookup(lookup: &Lookup) -> LookupView {
    LookupView {
        attempt: lookup.attempt.as_uuid(),
        tries: lookup.tries,
        next_at: lookup.next_at.map(rfc3339),
        last_answer: lookup.last_answer.clone(),
        evidence: serde_json::from_str(&lookup.evidence).unwrap_or_default(),
        cancel_told_at: lookup.cancel_told_at.map(rfc3339),
    }
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
