//! Payloads that have been kept long enough go: whole days at once, strays row by row. The job's row stays and goes on
//! refusing its key; that its payloads are gone is how it is known to be erased.
//!
//! Age counts from a job's end. What a day still holds of jobs that are open, or ended within the retention, is moved
//! to the default partition before the rest of the day goes: one job that nobody knows the outcome of must not keep a
//! million payloads. Every step may be repeated, and a process that dies between two leaves a table that the next one
//! finds by its name.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

use super::days::{House, Part, TABLES, bound_hold, is_put_off};
use super::rows::millis;
use super::{Store, StoreError};
use crate::domain::job::JobError;

/// Rows written or deleted by one statement, and the pause before the next.
const BATCH: i64 = 500;
const PAUSE: Duration = Duration::from_millis(20);
/// Jobs whose payloads are moved out of a day in one go, and bytes. A day with more is kept for the time being.
const MOST_KEPT: i64 = 10_000;
const MOST_BYTES: i64 = 32 << 20;

// Nobody has come back for these within their time. A call would find the same; closed at the deadline, not now, so
// that their payloads do not start another retention.
const FAIL_OVERDUE: &str = "/* fail_overdue_jobs */
WITH overdue AS (
    SELECT j.owner_id, j.id FROM job_requests r JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
    WHERE r.job_id >= $1 AND r.job_id < $2 AND j.state = 'queued' AND j.deadline_at < now() - $3 * interval '1 millisecond'
    LIMIT $5 FOR UPDATE OF j SKIP LOCKED
)
UPDATE jobs SET state = 'failed', version = version + 1, error = $4, resume_at = NULL, updated_at = now(), closed_at = deadline_at
FROM overdue WHERE jobs.owner_id = overdue.owner_id AND jobs.id = overdue.id AND jobs.state = 'queued' AND jobs.completed_by IS NULL";

const KEPT_JOBS: &str = "/* kept_jobs */
SELECT r.owner_id, r.job_id FROM job_requests r JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
WHERE r.job_id >= $1 AND r.job_id < $2 AND (j.closed_at IS NULL OR j.closed_at >= now() - $3 * interval '1 millisecond')
LIMIT $4";

const LEFT_OVER: &str = "/* days_left_over */
SELECT relname::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND NOT relispartition
  AND relname ~ '^job_(results|requests)_(before|[0-9]{8})$' ORDER BY relname DESC";

// In the statements of strays the table's name is put in place of its parent's.
const ERASE_RESULTS: &str = "/* erase_results */
WITH old AS (
    SELECT r.owner_id, r.job_id FROM job_results r JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
    WHERE r.created_at < now() - $1 * interval '1 millisecond' AND j.closed_at < now() - $1 * interval '1 millisecond' LIMIT $2
)
DELETE FROM job_results r USING old WHERE r.owner_id = old.owner_id AND r.job_id = old.job_id";
const ERASE_REQUESTS: &str = "/* erase_requests */
WITH old AS (
    SELECT r.owner_id, r.job_id FROM job_requests r JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
    WHERE r.created_at < now() - $1 * interval '1 millisecond' AND j.closed_at < now() - $1 * interval '1 millisecond' LIMIT $2
)
DELETE FROM job_requests r USING old WHERE r.owner_id = old.owner_id AND r.job_id = old.job_id";

/// What became of payloads that have been kept long enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Partitions removed, of both tables.
    pub days: u32,
    /// Rows deleted one by one, of both tables.
    pub rows: u64,
}

impl Store {
    /// Removes the payloads of jobs that ended more than `retention` ago: days as soon as they have been over for so
    /// long, strays at once. Jobs that nobody came back for until then fail with `overdue`. One process at a time; the
    /// others find nothing to do. What waits for a lock is put off.
    pub async fn remove_payloads(&self, retention: Duration, overdue: &JobError) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        let now = self.clock_ms().await?;
        let Some(house) = self.keep_house().await? else { return Ok(removed) };
        let error = serde_json::to_string(overdue).map_err(|e| StoreError::Broken(sqlx::Error::Encode(Box::new(e))))?;
        let mut round = Round { house, now, retention: millis(retention), overdue: error };
        match round.run(self.parts().await?, &mut removed).await {
            Err(error) if is_put_off(&error) => tracing::info!(%error, "the removal of payloads goes on later"),
            done => done?,
        }
        round.house.leave().await?;
        Ok(removed)
    }
}

/// One walk over the partitions.
struct Round {
    house: House,
    /// In milliseconds since 1970, as is `retention` in milliseconds.
    now: u64,
    retention: i64,
    overdue: String,
}

impl Round {
    async fn run(&mut self, parts: Vec<Part>, removed: &mut Removed) -> Result<(), StoreError> {
        removed.days += self.finish().await?;
        let (due, others): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| self.is_due(part));
        for part in &due {
            if self.set_aside(part).await? {
                removed.days += self.finish().await?;
            }
        }
        let now = self.now;
        for part in others.iter().filter(|part| part.is_stray(now)) {
            removed.rows += self.erase(part).await?;
        }
        Ok(())
    }

    /// Whatever ended in it ended so long ago, unless it took longer than its day.
    fn is_due(&self, part: &Part) -> bool {
        part.ends_at().is_some_and(|end| end.saturating_add(self.retention.cast_unsigned()) <= self.now)
    }

    /// Takes a day out of its table, and puts back what is still needed of it: one commit. `false`: too much is.
    async fn set_aside(&mut self, part: &Part) -> Result<bool, StoreError> {
        let Some(range) = part.range else { return Ok(false) };
        self.fail_overdue(FAIL_OVERDUE.to_owned(), range).await?;
        // Asked of the requests for both tables: an open job has no answer yet, and may get one any moment.
        let kept: Vec<(Uuid, Uuid)> = sqlx::query_as(KEPT_JOBS)
            .bind(range.0)
            .bind(range.1)
            .bind(self.retention)
            .bind(MOST_KEPT + 1)
            .fetch_all(&mut self.house.connection)
            .await?;
        let too_many = kept.len() as i64 > MOST_KEPT;
        let (owners, jobs): (Vec<Uuid>, Vec<Uuid>) = kept.into_iter().unzip();
        let (parent, name) = (part.parent, &part.name);
        let weight = format!(
            "/*weigh_payloads*/ SELECT coalesce(sum(octet_length(d.body)), 0)::int8 FROM {name} d
             JOIN unnest($1::uuid[], $2::uuid[]) k (owner_id, job_id) ON d.owner_id = k.owner_id AND d.job_id = k.job_id"
        );
        let weight = sqlx::query_scalar::<_, i64>(AssertSqlSafe(weight)).bind(&owners).bind(&jobs);
        if too_many || weight.fetch_one(&mut self.house.connection).await? > MOST_BYTES {
            tracing::warn!(table = name, "a day is kept beyond its time: too many of its jobs are still needed");
            return Ok(false);
        }
        let mut tx = self.house.connection.begin().await?;
        bound_hold(&mut tx).await?;
        let detach = format!("/*set_day_aside*/ ALTER TABLE {parent} DETACH PARTITION {name}");
        sqlx::raw_sql(AssertSqlSafe(detach)).execute(&mut *tx).await?;
        let keep = format!(
            "/*keep_payloads*/ INSERT INTO {parent} SELECT d.* FROM {name} d
             JOIN unnest($1::uuid[], $2::uuid[]) k (owner_id, job_id) ON d.owner_id = k.owner_id AND d.job_id = k.job_id"
        );
        sqlx::query(AssertSqlSafe(keep)).bind(&owners).bind(&jobs).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn fail_overdue(&mut self, sql: String, range: (Uuid, Uuid)) -> Result<(), StoreError> {
        loop {
            let failed = sqlx::query(AssertSqlSafe(sql.clone())).bind(range.0).bind(range.1).bind(self.retention);
            let failed =
                failed.bind(&self.overdue).bind(BATCH).execute(&mut self.house.connection).await?.rows_affected();
            if failed < BATCH.cast_unsigned() {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Drops what was set aside, by whomever. Nobody writes there any more, so a last look finds whatever came between
    /// the choice of what is kept and the setting aside: a job under an id of long ago.
    async fn finish(&mut self) -> Result<u32, StoreError> {
        let connection = &mut self.house.connection;
        let left: Vec<String> = sqlx::query_scalar(LEFT_OVER).fetch_all(&mut *connection).await?;
        let mut dropped = 0;
        for name in left {
            let Some(parent) = TABLES.into_iter().find(|parent| name.starts_with(parent)) else { continue };
            let keep = format!(
                "/*keep_late_payloads*/ INSERT INTO {parent} SELECT d.* FROM {name} d
                 JOIN jobs j ON j.owner_id = d.owner_id AND j.id = d.job_id
                 WHERE j.closed_at IS NULL OR j.closed_at >= now() - $1 * interval '1 millisecond' ON CONFLICT DO NOTHING"
            );
            sqlx::query(AssertSqlSafe(keep)).bind(self.retention).execute(&mut *connection).await?;
            sqlx::raw_sql(AssertSqlSafe(format!("/*drop_day*/ DROP TABLE {name}"))).execute(&mut *connection).await?;
            tracing::info!(table = name, "the payloads of a day are gone");
            dropped += 1;
        }
        Ok(dropped)
    }

    async fn erase(&mut self, part: &Part) -> Result<u64, StoreError> {
        if part.parent == "job_requests" {
            self.fail_overdue(FAIL_OVERDUE.replace(part.parent, &part.name), (Uuid::nil(), Uuid::max())).await?;
        }
        let sql = if part.parent == "job_results" { ERASE_RESULTS } else { ERASE_REQUESTS };
        let named = sql.replace(part.parent, &part.name);
        let mut erased = 0;
        loop {
            let batch = sqlx::query(AssertSqlSafe(named.clone())).bind(self.retention).bind(BATCH);
            let batch = batch.execute(&mut self.house.connection).await?.rows_affected();
            erased += batch;
            if batch < BATCH.cast_unsigned() {
                return Ok(erased);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
