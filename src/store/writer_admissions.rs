//! Jobs on their way in: one statement writes many, each with its payload, its callback and its first attempt.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use super::days::in_day;
use super::hold::Connections;
use super::jobs::{Admitted, NewJob, StoredResult, stored_result};
use super::rows::{self, dropped_to_text, millis, snapshot_sql, tokens};
use super::writer::{Rows, Ways};
use super::{StoreError, retrying};
use crate::domain::ids::AttemptId;
use crate::domain::job::Snapshot;

// A row for each job; `n` is its place in the arrays. Inserted in that order, since an insert waits for the rival that
// holds its key. The arrays stand in sub-selects so that no plan depends on their length: otherwise Postgres holds a
// plan made for each call to be better than one for all, and planning takes longer than the insert.
const ADMIT_JOB: &str = "/* admit_job */
WITH job AS (
    INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery,
                      state, deadline_at, resume_at, reserved_tokens)
    SELECT new.owner_id, new.id, new.idempotency_key, new.key_origin, new.fingerprint, new.fingerprint_version, new.url,
           new.route, new.delivery, CASE WHEN new.first IS NULL THEN 'queued' ELSE 'running' END,
           now() + new.deadline * interval '1 millisecond',
           CASE WHEN new.first IS NULL AND new.delivery = 'async' THEN now() + interval '60 s' END, new.reserved
    FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::bytea[]),
                (SELECT $6::int2[]), (SELECT $7::text[]), (SELECT $8::text[]), (SELECT $9::text[]),
                (SELECT $12::int8[]), (SELECT $13::uuid[]), (SELECT $14::uuid[]), (SELECT $21::int8[])) WITH ORDINALITY
         AS new (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery,
                 deadline, instance_id, first, reserved, n)
    WHERE EXISTS (SELECT 1 FROM instances WHERE id = new.instance_id AND lease_until > now())
    ORDER BY new.n
    ON CONFLICT ON CONSTRAINT jobs_one_per_key DO NOTHING
    RETURNING owner_id, id, version
), admitted AS MATERIALIZED (
    SELECT owner_id, id, version, array_position($2::uuid[], id) AS n FROM job
), request AS (
    INSERT INTO job_requests (owner_id, job_id, body, metadata)
    SELECT owner_id, id, ($10::bytea[])[n], ($11::bytea[])[n] FROM admitted
), callback AS (
    INSERT INTO callbacks (owner_id, job_id, url)
    SELECT owner_id, id, ($20::text[])[n] FROM admitted WHERE ($20::text[])[n] IS NOT NULL
), attempt AS (
    INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version,
                          instance_id, job_version, deadline_at, settle_until, dropped)
    SELECT owner_id, id, ($14::uuid[])[n], 1, 1, 'started', 'primary', ($15::text[])[n], ($16::text[])[n],
           ($17::text[])[n], ($13::uuid[])[n], version, now() + ($18::int8[])[n] * interval '1 millisecond',
           now() + ($19::int8[])[n] * interval '1 millisecond', ($22::text[])[n]
    FROM admitted WHERE ($14::uuid[])[n] IS NOT NULL
)
SELECT id FROM job";

/// The rows of [`super::Store::admit`].
#[derive(Debug)]
pub(super) struct Admissions;

impl Rows for Admissions {
    type Row = NewJob;
    /// `None`: neither new nor there. Its rival has rolled back, or this process's lease has ended.
    type Answer = Option<Admitted>;
    const LANES: usize = 1;

    fn name(new: &NewJob) -> Option<Uuid> {
        Some(new.id.as_uuid())
    }

    fn order(one: &NewJob, other: &NewJob) -> Ordering {
        (one.owner, &one.idempotency_key).cmp(&(other.owner, &other.idempotency_key))
    }

    fn weight(new: &NewJob) -> usize {
        new.body.len() + new.metadata.as_ref().map_or(0, |metadata| metadata.len())
    }

    async fn write(ways: &Ways, rows: &[Arc<NewJob>]) -> Result<Vec<Option<Admitted>>, StoreError> {
        let connections = ways.for_rows(rows.len());
        let new: HashSet<Uuid> = insert_jobs(connections, rows).await?.into_iter().collect();
        let taken = rows.iter().filter(|row| !new.contains(&row.id.as_uuid()));
        let there = jobs_by_key(connections, taken).await?;
        let answer = |row: &Arc<NewJob>| match there.get(&(row.owner.as_uuid(), row.idempotency_key.as_str())) {
            _ if new.contains(&row.id.as_uuid()) => Some(Admitted::New),
            // A first try whose commit was acknowledged to nobody.
            Some((existing, _)) if existing.job.id == row.id => Some(Admitted::New),
            Some((existing, result)) => Some(Admitted::Existing(Box::new(existing.clone()), result.clone())),
            None => None,
        };
        Ok(rows.iter().map(answer).collect())
    }
}

/// Inserts those whose keys are free; their ids.
async fn insert_jobs(connections: &Connections, rows: &[Arc<NewJob>]) -> Result<Vec<Uuid>, StoreError> {
    retrying(|| async {
        let inserted: Vec<PgRow> = connections.fetch_all(admit_job(rows)).await?;
        inserted.iter().map(|row| row.try_get(0)).collect()
    })
    .await
}

fn admit_job(rows: &[Arc<NewJob>]) -> Query<'_, sqlx::Postgres, PgArguments> {
    macro_rules! column {
        (|$row:ident| $value:expr) => {
            rows.iter().map(|$row| $value).collect::<Vec<_>>()
        };
    }
    macro_rules! first {
        (|$first:ident| $value:expr) => {
            rows.iter().map(|row| row.first.as_ref().map(|$first| $value)).collect::<Vec<_>>()
        };
    }
    sqlx::query(ADMIT_JOB)
        .bind(column!(|row| row.owner.as_uuid()))
        .bind(column!(|row| row.id.as_uuid()))
        .bind(column!(|row| row.idempotency_key.as_str()))
        .bind(column!(|row| row.key_origin.as_str()))
        .bind(column!(|row| &row.fingerprint[..]))
        .bind(column!(|row| row.fingerprint_version))
        .bind(column!(|row| row.url.as_str()))
        .bind(column!(|row| row.route.as_str()))
        .bind(column!(|row| row.delivery.as_str()))
        .bind(column!(|row| &row.body[..]))
        .bind(column!(|row| row.metadata.as_deref()))
        .bind(column!(|row| millis(row.deadline)))
        .bind(column!(|row| row.instance.as_uuid()))
        .bind(first!(|first| first.id.as_uuid()))
        .bind(first!(|first| first.candidate.target().provider.as_str()))
        .bind(first!(|first| first.candidate.target().model.as_str()))
        .bind(first!(|first| first.candidate.adapter_version()))
        .bind(first!(|first| millis(first.timeout)))
        .bind(first!(|first| millis(first.settle)))
        .bind(column!(|row| row.callback.as_deref()))
        .bind(column!(|row| tokens(row.reserved_tokens)))
        .bind(column!(|row| row.first.as_ref().and_then(|first| dropped_to_text(&first.dropped))))
}

/// A job found by its key, with its answer.
type There = (Snapshot, Option<StoredResult>);

/// The jobs that have these keys. Answers of more than 64 KiB stay where they are: many may be asked for at once. So do
/// those of other days than today, the day of the ids that were not needed: all days are many to look into.
async fn jobs_by_key<'a>(
    connections: &Connections,
    taken: impl Iterator<Item = &'a Arc<NewJob>> + Clone,
) -> Result<HashMap<(Uuid, &'a str), There>, StoreError> {
    let Some(newest) = taken.clone().map(|row| row.id).max() else { return Ok(HashMap::new()) };
    let mut keys: Vec<(Uuid, &str)> = taken.map(|row| (row.owner.as_uuid(), row.idempotency_key.as_str())).collect();
    keys.sort_unstable();
    keys.dedup();
    let (owners, texts): (Vec<Uuid>, Vec<&str>) = keys.iter().copied().unzip();
    let sql = snapshot_sql!(
        "jobs_by_key",
        ", r.attempt_id, r.content_type, r.body, r.stream, r.stream_usage",
        "LEFT JOIN job_results r ON r.owner_id = j.owner_id AND r.job_id = j.id AND r.attempt_id = a.id
             AND octet_length(r.body) + coalesce(octet_length(r.stream), 0) <= 65536
         JOIN unnest((SELECT $1::uuid[]), (SELECT $2::text[])) AS asked (owner_id, idempotency_key)
         ON asked.owner_id = j.owner_id AND asked.idempotency_key = j.idempotency_key"
    );
    let (owners, texts) = (&owners, &texts);
    let read = |sql: AssertSqlSafe<String>| async move {
        retrying(|| connections.fetch_all(sqlx::query(AssertSqlSafe(sql.0.clone())).bind(owners).bind(texts))).await
    };
    let found = in_day(sql, "job_results", newest, read).await?;
    let mut results: HashMap<AttemptId, StoredResult> = HashMap::new();
    for row in &found {
        if row.try_get::<Option<AttemptId>, _>("attempt_id")?.is_some() {
            let result = stored_result(row)?;
            results.insert(result.attempt, result);
        }
    }
    let mut there: HashMap<(Uuid, String), There> = HashMap::new();
    for snapshot in rows::snapshots(&found)? {
        let result = snapshot.winner().and_then(|winner| results.remove(&winner.id));
        there.insert((snapshot.job.owner.as_uuid(), snapshot.job.idempotency_key.clone()), (snapshot, result));
    }
    let named = |(owner, key): (Uuid, &'a str)| Some(((owner, key), there.remove(&(owner, key.to_owned()))?));
    Ok(keys.into_iter().filter_map(named).collect())
}
