//! Contract runs and their checks: begun, then ended once with a verdict.

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::ids::{InstanceId, RunId};
use crate::domain::route::Target;

/// A run about to begin: everything that a permit will rest on.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    pub id: RunId,
    pub suite: String,
    pub suite_digest: String,
    pub target: Target,
    pub adapter_version: String,
    pub settings_digest: String,
    /// `live` or `replay`.
    pub mode: &'static str,
    /// The process that runs it; a run whose process has died is ended by the sweep.
    pub instance: Option<InstanceId>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    pub passed: bool,
    /// `passed`, `failed` or `missing`, for schema, tokenizer and round trip.
    pub kinds: [&'static str; 3],
    pub error: Option<String>,
    pub checks: Vec<CheckRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CheckRow {
    pub kind: String,
    pub name: String,
    pub case: String,
    pub verdict: String,
    pub detail: String,
}

/// A run as read.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub suite: String,
    pub suite_digest: String,
    pub target: Target,
    pub adapter_version: String,
    pub settings_digest: String,
    pub mode: String,
    pub verdict: String,
    pub kinds: [String; 3],
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

const BEGIN_RUN: &str = "/* begin_run */
INSERT INTO contract_runs (id, suite, suite_digest, provider, model, adapter_version, settings_digest, mode, verdict, instance_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'running', $9)";

const END_RUN: &str = "/* end_run */
WITH run AS (
    UPDATE contract_runs SET verdict = $2, schema_verdict = $3, tokenizer_verdict = $4, round_trip_verdict = $5,
           error = $6, ended_at = now()
    WHERE id = $1 AND verdict = 'running' RETURNING id
), checks AS (
    INSERT INTO contract_checks (run_id, ordinal, kind, name, case_name, verdict, detail)
    SELECT run.id, c.ordinal, c.kind, c.name, c.case_name, c.verdict, c.detail
    FROM run, unnest($7::int4[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
         AS c (ordinal, kind, name, case_name, verdict, detail)
)
SELECT count(*) FROM run";

const END_LOST_RUNS: &str = "/* end_lost_runs */
UPDATE contract_runs r SET verdict = 'failed', error = 'the process that ran it has died', ended_at = now()
FROM instances i WHERE i.id = r.instance_id AND r.verdict = 'running' AND i.lease_until <= now()";

const RUNS: &str = "/* runs */
SELECT id, suite, suite_digest, provider, model, adapter_version, settings_digest, mode, verdict, schema_verdict,
       tokenizer_verdict, round_trip_verdict, error, started_at, ended_at
FROM contract_runs WHERE $1::uuid IS NULL OR id = $1 ORDER BY id DESC LIMIT $2";

const CHECKS: &str = "/* checks */
SELECT kind, name, case_name, verdict, detail FROM contract_checks WHERE run_id = $1 ORDER BY ordinal";

impl Store {
    pub async fn begin_run(&self, run: &NewRun) -> Result<(), StoreError> {
        sqlx::query(BEGIN_RUN)
            .bind(run.id)
            .bind(&run.suite)
            .bind(&run.suite_digest)
            .bind(&run.target.provider)
            .bind(&run.target.model)
            .bind(&run.adapter_version)
            .bind(&run.settings_digest)
            .bind(run.mode)
            .bind(run.instance)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Writes the verdict and every check in one commit. A verdict of `passed` without all three kinds is refused by
    /// the database.
    pub async fn end_run(&self, id: RunId, end: &RunEnd) -> Result<(), StoreError> {
        let column = |pick: fn(&CheckRow) -> &str| -> Vec<String> {
            end.checks.iter().map(|check| pick(check).replace('\0', "\\u0000")).collect()
        };
        let ordinals: Vec<i32> = (1..).take(end.checks.len()).collect();
        let ended: i64 = sqlx::query_scalar(END_RUN)
            .bind(id)
            .bind(if end.passed { "passed" } else { "failed" })
            .bind(end.kinds[0])
            .bind(end.kinds[1])
            .bind(end.kinds[2])
            .bind(end.error.as_ref().map(|error| error.replace('\0', "\\u0000")))
            .bind(ordinals)
            .bind(column(|c| &c.kind))
            .bind(column(|c| &c.name))
            .bind(column(|c| &c.case))
            .bind(column(|c| &c.verdict))
            .bind(column(|c| &c.detail))
            .fetch_one(&self.pool)
            .await?;
        if ended == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// Runs whose process has died end as failed.
    pub async fn end_lost_runs(&self) -> Result<(), StoreError> {
        retrying(|| sqlx::query(END_LOST_RUNS).execute(&self.pool)).await?;
        Ok(())
    }

    /// Runs, newest first.
    pub async fn runs(&self, limit: i64) -> Result<Vec<Run>, StoreError> {
        self.select_runs(None, limit).await
    }

    pub async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        Ok(self.select_runs(Some(id), 1).await?.pop())
    }

    async fn select_runs(&self, id: Option<RunId>, limit: i64) -> Result<Vec<Run>, StoreError> {
        let rows = retrying(|| sqlx::query(RUNS).bind(id).bind(limit).fetch_all(&self.pool)).await?;
        Ok(rows.iter().map(run).collect::<Result<_, _>>()?)
    }

    /// A run's checks, in the order they were made.
    pub async fn checks(&self, id: RunId) -> Result<Vec<CheckRow>, StoreError> {
        let rows: Vec<(String, String, String, String, String)> =
            retrying(|| sqlx::query_as(CHECKS).bind(id).fetch_all(&self.pool)).await?;
        Ok(rows
            .into_iter()
            .map(|(kind, name, case, verdict, detail)| CheckRow { kind, name, case, verdict, detail })
            .collect())
    }
}

fn run(row: &PgRow) -> Result<Run, sqlx::Error> {
    Ok(Run {
        id: row.try_get("id")?,
        suite: row.try_get("suite")?,
        suite_digest: row.try_get("suite_digest")?,
        target: Target { provider: row.try_get("provider")?, model: row.try_get("model")? },
        adapter_version: row.try_get("adapter_version")?,
        settings_digest: row.try_get("settings_digest")?,
        mode: row.try_get("mode")?,
        verdict: row.try_get("verdict")?,
        kinds: [row.try_get("schema_verdict")?, row.try_get("tokenizer_verdict")?, row.try_get("round_trip_verdict")?],
        error: row.try_get("error")?,
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
    })
}
