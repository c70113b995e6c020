//! From rows to the domain's types. A word that this version does not know is an error, never a guess.

use std::time::Duration;

use providers::canonical::Usage;
use providers::prices::{Amount, Cost};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::domain::Timestamp;
use crate::domain::attempt::{Attempt, AttemptState, ClearedBy, Failed, proof_from_text};
use crate::domain::ids::AttemptId;
use crate::domain::job::{Delivery, Job, JobState, KeyOrigin, Snapshot};
use crate::domain::route::Target;

/// The columns that [`snapshot`] reads: a job joined with its attempts, so that both are of one instant; and more, each
/// after a comma.
macro_rules! snapshot_sql {
    ($name:literal, $where:literal) => {
        snapshot_sql!($name, "", $where)
    };
    ($name:literal, $more:literal, $where:literal) => {
        concat!(
            "/* ", $name, " */ SELECT now() AS read_at,
             j.owner_id, j.id, j.idempotency_key, j.key_origin, j.fingerprint, j.fingerprint_version, j.url, j.route,
             j.delivery, j.state, j.version, j.round, j.completed_by, j.error, j.resume_at, j.created_at, j.updated_at,
             j.deadline_at, j.reserved_tokens,
             a.id AS a_id, a.ordinal, a.round AS a_round, a.state AS a_state, a.provider, a.model, a.adapter_version,
             a.permit_id, a.instance_id, a.job_version, a.reason, a.message, a.proof, a.status, a.provider_code,
             a.provider_type, a.provider_param, a.retry_after_ms, a.cleared_by, a.input_tokens, a.output_tokens,
             a.cached_input_tokens, a.cache_write_tokens, a.reasoning_tokens, a.cost_pico, a.cost_currency, a.price, a.dropped,
             a.started_at, a.deadline_at AS a_deadline_at, a.settle_until, a.ended_at",
            $more,
            "
             FROM jobs j LEFT JOIN attempts a ON a.owner_id = j.owner_id AND a.job_id = j.id ",
            $where,
            " ORDER BY j.id, a.ordinal"
        )
    };
}
pub(super) use snapshot_sql;

/// Reads the rows of one job. No row: no such job.
pub(super) fn snapshot(rows: &[PgRow]) -> Result<Option<Snapshot>, sqlx::Error> {
    Ok(snapshots(rows)?.into_iter().next())
}

/// Reads the rows of several jobs, in the order they come.
pub(super) fn snapshots(rows: &[PgRow]) -> Result<Vec<Snapshot>, sqlx::Error> {
    let mut out: Vec<Snapshot> = Vec::new();
    for row in rows {
        let id: Uuid = row.try_get("id")?;
        if out.last().is_none_or(|last| last.job.id.as_uuid() != id) {
            out.push(Snapshot { job: job(row)?, attempts: Vec::new(), read_at: row.try_get("read_at")? });
        }
        if row.try_get::<Option<Uuid>, _>("a_id")?.is_some()
            && let Some(last) = out.last_mut()
        {
            last.attempts.push(attempt(row)?);
        }
    }
    Ok(out)
}

fn job(row: &PgRow) -> Result<Job, sqlx::Error> {
    let error: Option<String> = row.try_get("error")?;
    let fingerprint: Vec<u8> = row.try_get("fingerprint")?;
    Ok(Job {
        owner: row.try_get("owner_id")?,
        id: row.try_get("id")?,
        idempotency_key: row.try_get("idempotency_key")?,
        key_origin: match row.try_get("key_origin")? {
            "client" => KeyOrigin::Client,
            "gateway" => KeyOrigin::Gateway,
            other => return Err(unknown_word("key_origin", other)),
        },
        fingerprint: fingerprint.try_into().map_err(|_| unknown_word("fingerprint", "of another length"))?,
        fingerprint_version: row.try_get("fingerprint_version")?,
        url: row.try_get("url")?,
        route: row.try_get("route")?,
        delivery: match row.try_get("delivery")? {
            "sync" => Delivery::Sync,
            "async" => Delivery::Async,
            other => return Err(unknown_word("delivery", other)),
        },
        state: job_state(row.try_get("state")?, row.try_get("completed_by")?)?,
        version: row.try_get("version")?,
        round: row.try_get("round")?,
        error: error
            .map(|text| serde_json::from_str(&text).map_err(|e| sqlx::Error::Decode(Box::new(e))))
            .transpose()?,
        resume_at: row.try_get("resume_at")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        deadline_at: row.try_get("deadline_at")?,
        reserved_tokens: row.try_get::<Option<i64>, _>("reserved_tokens")?.map(|n| n.unsigned_abs()),
    })
}

pub(super) fn job_state(state: &str, completed_by: Option<AttemptId>) -> Result<JobState, sqlx::Error> {
    match (state, completed_by) {
        ("queued", None) => Ok(JobState::Queued),
        ("running", None) => Ok(JobState::Running),
        ("unknown", None) => Ok(JobState::Unknown),
        ("succeeded", Some(completed_by)) => Ok(JobState::Succeeded { completed_by }),
        ("failed", None) => Ok(JobState::Failed),
        ("cancelled", None) => Ok(JobState::Cancelled),
        (other, _) => Err(unknown_word("jobs.state", other)),
    }
}

fn attempt(row: &PgRow) -> Result<Attempt, sqlx::Error> {
    Ok(Attempt {
        id: row.try_get("a_id")?,
        ordinal: row.try_get("ordinal")?,
        round: row.try_get("a_round")?,
        target: Target { provider: row.try_get("provider")?, model: row.try_get("model")? },
        adapter_version: row.try_get("adapter_version")?,
        permit: row.try_get("permit_id")?,
        instance: row.try_get("instance_id")?,
        job_version: row.try_get("job_version")?,
        state: attempt_state(row)?,
        usage: usage(row)?,
        cost: cost(row)?,
        dropped: dropped_from_text(row.try_get("dropped")?),
        started_at: row.try_get("started_at")?,
        deadline_at: row.try_get("a_deadline_at")?,
        settle_until: row.try_get("settle_until")?,
        ended_at: row.try_get::<Option<Timestamp>, _>("ended_at")?,
    })
}

fn attempt_state(row: &PgRow) -> Result<AttemptState, sqlx::Error> {
    let by = row.try_get::<Option<&str>, _>("cleared_by")?.and_then(ClearedBy::from_text);
    let cleared = || by.clone().ok_or_else(|| unknown_word("attempts.cleared_by", "unreadable"));
    let reason = || row.try_get::<Option<String>, _>("reason").map(Option::unwrap_or_default);
    match row.try_get::<&str, _>("a_state")? {
        "started" => Ok(AttemptState::Started),
        "unknown" => Ok(AttemptState::Unknown { reason: reason()?, message: row.try_get("message")? }),
        "succeeded" => Ok(AttemptState::Succeeded),
        "failed" => Ok(AttemptState::Failed(Failed {
            proof: proof_from_text(row.try_get::<Option<&str>, _>("proof")?.unwrap_or_default()),
            reason: reason()?,
            message: row.try_get("message")?,
            retry_after: row
                .try_get::<Option<i64>, _>("retry_after_ms")?
                .and_then(|ms| u64::try_from(ms).ok())
                .map(Duration::from_millis),
            status: row.try_get::<Option<i32>, _>("status")?.and_then(|s| u16::try_from(s).ok()),
            code: row.try_get("provider_code")?,
            kind: row.try_get("provider_type")?,
            param: row.try_get("provider_param")?,
            by,
        })),
        "released" => Ok(AttemptState::Released { by: cleared()? }),
        "cancelled" => Ok(AttemptState::Cancelled { by: cleared()? }),
        "superseded" => Ok(AttemptState::Superseded { by: cleared()? }),
        other => Err(unknown_word("attempts.state", other)),
    }
}

fn usage(row: &PgRow) -> Result<Option<Usage>, sqlx::Error> {
    let tokens = |name: &str| -> Result<Option<u64>, sqlx::Error> {
        Ok(row.try_get::<Option<i64>, _>(name)?.and_then(|n| u64::try_from(n).ok()))
    };
    Ok(match (tokens("input_tokens")?, tokens("output_tokens")?) {
        (Some(input_tokens), Some(output_tokens)) => Some(Usage {
            input_tokens,
            output_tokens,
            cached_input_tokens: tokens("cached_input_tokens")?.unwrap_or_default(),
            cache_write_tokens: tokens("cache_write_tokens")?.unwrap_or_default(),
            reasoning_tokens: tokens("reasoning_tokens")?.unwrap_or_default(),
            ..Usage::default()
        }),
        (None, _) | (_, None) => None,
    })
}

fn cost(row: &PgRow) -> Result<Option<Cost>, sqlx::Error> {
    let pico = row.try_get::<Option<i64>, _>("cost_pico")?.and_then(|pico| u64::try_from(pico).ok());
    let text = |name: &str| row.try_get::<Option<&str>, _>(name);
    Ok(match (pico, text("cost_currency")?, text("price")?) {
        (Some(pico), Some(currency), Some(price)) => {
            Some(Cost { amount: Amount::from_pico(pico), currency: currency.into(), price: price.into() })
        }
        (None, ..) | (_, None, _) | (.., None) => None,
    })
}

/// An amount as the database holds it: no price computes one that does not fit.
pub(super) fn pico(cost: Option<&Cost>) -> Option<i64> {
    cost.and_then(|cost| i64::try_from(cost.amount.pico()).ok())
}

pub(super) fn currency(cost: Option<&Cost>) -> Option<&str> {
    cost.map(|cost| &*cost.currency)
}

pub(super) fn price(cost: Option<&Cost>) -> Option<&str> {
    cost.map(|cost| &*cost.price)
}

/// None is NULL. No name holds a comma: `providers::dropping` sees to that.
pub(super) fn dropped_to_text(dropped: &[String]) -> Option<String> {
    (!dropped.is_empty()).then(|| dropped.join(","))
}

fn dropped_from_text(text: Option<&str>) -> Vec<String> {
    text.into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
}

/// Tokens as the database holds them. A provider's absurd figure is kept as the largest that fits.
pub(super) fn tokens(count: Option<u64>) -> Option<i64> {
    count.map(|n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// A whole number of milliseconds, the largest where it does not fit.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn unknown_word(what: &str, word: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{what} holds `{word}`, which this version does not know").into())
}
