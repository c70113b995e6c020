//! Answers on their way in: one statement judges and writes many, each by its own compare-and-swap (R7).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use sqlx::Row;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use uuid::Uuid;

use super::attempts::{Completed, Completion};
use super::rows::{currency, pico, price, tokens};
use super::writer::{Rows, Ways};
use super::{StoreError, retrying};
use crate::domain::ids::AttemptId;

// A row for each answer; `n` is its place in the arrays. The jobs' rows are locked in that order, one by one, and what is
// judged is what they hold then; no job comes twice. The arrays stand in sub-selects as in `admit_job`. An attempt's
// state is compared as `state || ''`, which no partial index answers: otherwise each row may be looked for among all that
// is unsettled, an index that seems empty to statistics taken in a quiet hour.
const COMPLETE_JOB: &str = "/* complete_job */
WITH job AS MATERIALIZED (
    SELECT done.owner_id, done.job_id, done.id, done.n, locked.version, locked.completed_by, locked.state
    FROM unnest((SELECT $1::uuid[]), (SELECT $2::uuid[]), (SELECT $3::uuid[])) WITH ORDINALITY AS done (owner_id, job_id, id, n)
    CROSS JOIN LATERAL (
        SELECT version, completed_by, state FROM jobs WHERE owner_id = done.owner_id AND id = done.job_id FOR UPDATE
    ) locked
), attempt AS (
    UPDATE attempts a SET state = 'succeeded', cleared_by = NULL, input_tokens = ($4::int8[])[job.n],
           output_tokens = ($5::int8[])[job.n], cached_input_tokens = ($6::int8[])[job.n], ended_at = now(),
           cache_write_tokens = ($11::int8[])[job.n], reasoning_tokens = ($12::int8[])[job.n],
           cost_pico = ($13::int8[])[job.n], cost_currency = ($14::text[])[job.n], price = ($15::text[])[job.n]
    FROM job WHERE a.owner_id = job.owner_id AND a.job_id = job.job_id AND a.id = job.id
      AND a.state || '' IN ('started', 'unknown', 'released')
      AND a.job_version = job.version AND job.completed_by IS NULL AND job.state IN ('queued', 'running', 'unknown')
    RETURNING a.owner_id, a.job_id, a.id, job.n
), won AS (
    UPDATE jobs SET state = 'succeeded', version = jobs.version + 1, completed_by = attempt.id, error = NULL,
           resume_at = NULL, updated_at = now(), closed_at = now()
    FROM attempt WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.completed_by IS NULL
    RETURNING jobs.owner_id, jobs.id, jobs.completed_by, attempt.n
), result AS (
    INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body, stream, stream_usage)
    SELECT owner_id, id, completed_by, ($7::text[])[n], ($8::bytea[])[n], ($9::bytea[])[n], ($10::bytea[])[n] FROM won
), losers AS (
    UPDATE attempts a SET state = 'released', cleared_by = 'winner:' || won.completed_by FROM won
    WHERE a.owner_id = won.owner_id AND a.job_id = won.id AND a.id <> won.completed_by
      AND a.state || '' IN ('started', 'unknown')
)
SELECT job.n, won.n IS NOT NULL AS won, job.completed_by, job.state IN ('succeeded', 'failed', 'cancelled') AS closed,
       CASE WHEN won.n IS NULL THEN
           (SELECT a.state FROM attempts a WHERE a.owner_id = job.owner_id AND a.job_id = job.job_id AND a.id = job.id)
       END AS attempt_state
FROM job LEFT JOIN won ON won.n = job.n";

/// The rows of [`super::Store::complete`].
#[derive(Debug)]
pub(super) struct Completions;

impl Rows for Completions {
    type Row = Completion;
    /// `None`: the row was moving while we waited for it; read again and decide.
    type Answer = Option<Completed>;
    const LANES: usize = 1;

    fn name(done: &Completion) -> Option<Uuid> {
        Some(done.key.job.as_uuid())
    }

    fn order(one: &Completion, other: &Completion) -> Ordering {
        (one.key.owner, one.key.job).cmp(&(other.key.owner, other.key.job))
    }

    fn weight(done: &Completion) -> usize {
        let stream = done.stream.as_ref();
        let usage = stream.and_then(|stream| stream.usage.as_ref());
        done.body.len() + stream.map_or(0, |stream| stream.lines.len()) + usage.map_or(0, |usage| usage.len())
    }

    async fn write(ways: &Ways, rows: &[Arc<Completion>]) -> Result<Vec<Option<Completed>>, StoreError> {
        let connections = ways.for_rows(rows.len());
        let judged = retrying(|| connections.fetch_all(complete_job(rows))).await?;
        let mut by_place = HashMap::with_capacity(judged.len());
        for row in &judged {
            by_place.insert(row.try_get::<i64, _>("n")?, row);
        }
        let places = (1..).zip(rows);
        let of = |(n, done): (i64, &Arc<Completion>)| {
            let row = by_place.get(&n).ok_or(sqlx::Error::RowNotFound)?;
            judge(row, done.key.id)
        };
        Ok(places.map(of).collect::<Result<Vec<_>, sqlx::Error>>()?)
    }
}

fn complete_job(rows: &[Arc<Completion>]) -> Query<'_, sqlx::Postgres, PgArguments> {
    macro_rules! column {
        (|$row:ident| $value:expr) => {
            rows.iter().map(|$row| $value).collect::<Vec<_>>()
        };
    }
    sqlx::query(COMPLETE_JOB)
        .bind(column!(|row| row.key.owner.as_uuid()))
        .bind(column!(|row| row.key.job.as_uuid()))
        .bind(column!(|row| row.key.id.as_uuid()))
        .bind(column!(|row| tokens(row.usage.map(|usage| usage.input_tokens))))
        .bind(column!(|row| tokens(row.usage.map(|usage| usage.output_tokens))))
        .bind(column!(|row| tokens(row.usage.map(|usage| usage.cached_input_tokens))))
        .bind(column!(|row| row.content_type.as_str()))
        .bind(column!(|row| &row.body[..]))
        .bind(column!(|row| row.stream.as_ref().map(|stream| &stream.lines[..])))
        .bind(column!(|row| row.stream.as_ref().and_then(|stream| stream.usage.as_deref())))
        .bind(column!(|row| tokens(row.usage.map(|usage| usage.cache_write_tokens))))
        .bind(column!(|row| tokens(row.usage.map(|usage| usage.reasoning_tokens))))
        .bind(column!(|row| pico(row.cost.as_ref())))
        .bind(column!(|row| currency(row.cost.as_ref())))
        .bind(column!(|row| price(row.cost.as_ref())))
}

fn judge(row: &PgRow, id: AttemptId) -> Result<Option<Completed>, sqlx::Error> {
    let winner: Option<AttemptId> = row.try_get("completed_by")?;
    let state: Option<&str> = row.try_get("attempt_state")?;
    let fenced = !matches!(state, Some("started" | "unknown" | "released"));
    Ok(match (row.try_get("won")?, row.try_get("closed")?) {
        (true, _) => Some(Completed::Won),
        (false, _) if winner == Some(id) => Some(Completed::Won),
        (false, true) => Some(Completed::Lost { winner }),
        (false, false) if fenced => Some(Completed::Lost { winner: None }),
        (false, false) => None,
    })
}
