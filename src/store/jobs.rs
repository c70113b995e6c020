//! The job's own transitions: admitted, its round ended, failed, cancelled; and how it is read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::rows::{self, millis, snapshot_sql, unknown_word};
use super::streams::Streamed;
use super::{Store, StoreError, retrying};
use crate::domain::attempt::ClearedBy;
use crate::domain::ids::{AttemptId, InstanceId, JobId, OwnerId};
use crate::domain::job::{Delivery, JobError, KeyOrigin, Snapshot};
use crate::domain::route::Candidate;

/// A job about to be written, with the attempt that is to start along with it.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub owner: OwnerId,
    pub id: JobId,
    pub idempotency_key: String,
    pub key_origin: KeyOrigin,
    pub fingerprint: [u8; 32],
    pub fingerprint_version: i16,
    pub url: String,
    pub route: String,
    pub delivery: Delivery,
    /// The request's body as the client sent it.
    pub body: Bytes,
    pub metadata: Option<Bytes>,
    /// Who is told when the job is over.
    pub callback: Option<String>,
    /// From now to the job's own deadline.
    pub deadline: Duration,
    pub instance: InstanceId,
    /// What is set aside for it of its owner's limits; `None` where there are none.
    pub reserved_tokens: Option<u64>,
    /// The primary, where it may be tried at once. A fallback never starts here: its permit is checked by
    /// [`Store::start_attempt`].
    pub first: Option<FirstAttempt>,
}

/// The primary's attempt, committed together with its job.
#[derive(Debug, Clone)]
pub struct FirstAttempt {
    pub id: AttemptId,
    pub candidate: Candidate,
    pub timeout: Duration,
    pub settle: Duration,
    /// What of the request falls at this target.
    pub dropped: Vec<String>,
}

/// What became of an admission.
#[derive(Debug, Clone, PartialEq)]
pub enum Admitted {
    /// The job is new and ours; its first attempt, where one was asked for, is committed as started.
    New,
    /// The key was taken: this is the job that has it, and its answer, where there is one and it is small.
    Existing(Box<Snapshot>, Option<StoredResult>),
}

const CANCEL_JOB: &str = "/* cancel_job */
UPDATE jobs SET state = 'cancelled', version = version + 1, resume_at = NULL, updated_at = now(), closed_at = now()
WHERE owner_id = $1 AND id = $2 AND state IN ('queued', 'running', 'unknown') AND completed_by IS NULL";

const FENCE_ATTEMPTS: &str = "/* fence_attempts */
UPDATE attempts SET state = 'cancelled', cleared_by = $3, ended_at = now()
WHERE owner_id = $1 AND job_id = $2 AND state IN ('started', 'unknown')";

const FAIL_JOB: &str = "/* fail_job */
UPDATE jobs SET state = 'failed', version = version + 1, error = $3, resume_at = NULL, updated_at = now(), closed_at = now()
WHERE owner_id = $1 AND id = $2 AND state = 'queued' AND completed_by IS NULL";

const END_ROUND: &str = "/* end_round */
UPDATE jobs SET error = $3, resume_at = now() + $4 * interval '1 millisecond', updated_at = now()
WHERE owner_id = $1 AND id = $2 AND state = 'queued'";

const HAND_OVER: &str = "/* hand_over_job */
UPDATE jobs SET resume_at = now(), updated_at = now()
WHERE owner_id = $1 AND id = $2 AND state = 'queued' AND delivery = 'async'";

const RESUMABLE_JOBS: &str = "/* resumable_jobs */
SELECT owner_id, id FROM jobs WHERE resume_at <= now() ORDER BY resume_at LIMIT $1";

const JOB_REQUEST: &str = "/* job_request */
SELECT j.url, r.body FROM job_requests r JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
WHERE r.owner_id = $1 AND r.job_id = $2";
const JOB_RESULT: &str = "/* job_result */
SELECT attempt_id, content_type, body, stream, stream_usage FROM job_results WHERE owner_id = $1 AND job_id = $2";

/// What a job was asked for: the operation and its body.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRequest {
    pub url: String,
    pub body: Bytes,
}

/// A stored answer, byte for byte.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    pub attempt: AttemptId,
    pub content_type: String,
    pub body: Bytes,
    /// `None` where the answer came whole.
    pub stream: Option<Streamed>,
}

impl Store {
    /// Writes the job, its payload and its first attempt in one commit, or finds the job that has the key (R1, R3).
    ///
    /// The insert decides, never a look-up before it. When it writes nothing, the winner's row is read in a second
    /// statement: joined in one, it would not be seen while the other insert is still committing. Jobs that come at
    /// the same time share the statement and the commit.
    pub async fn admit(&self, new: NewJob) -> Result<Admitted, StoreError> {
        let new = Arc::new(new);
        for _ in 0..5 {
            match self.admissions.write(Arc::clone(&new)).await? {
                Some(admitted) => return Ok(admitted),
                None if !self.holds_lease(new.instance).await? => return Err(StoreError::LeaseEnded),
                None => {}
            }
        }
        Err(StoreError::LostRace)
    }

    /// The owner's job with this key. Another owner's key behaves as unused (R11).
    pub async fn job_by_key(&self, owner: OwnerId, key: &str) -> Result<Option<Snapshot>, StoreError> {
        let sql = snapshot_sql!("job_by_key", "WHERE j.owner_id = $1 AND j.idempotency_key = $2");
        let found = retrying(|| sqlx::query(sql).bind(owner).bind(key).fetch_all(&self.pool)).await?;
        Ok(rows::snapshot(&found)?)
    }

    /// The owner's job with this id.
    pub async fn job(&self, owner: OwnerId, id: JobId) -> Result<Option<Snapshot>, StoreError> {
        let sql = snapshot_sql!("job", "WHERE j.owner_id = $1 AND j.id = $2");
        let found = retrying(|| sqlx::query(sql).bind(owner).bind(id).fetch_all(&self.pool)).await?;
        Ok(rows::snapshot(&found)?)
    }

    /// What the client sent; `None` once retention has erased it.
    pub async fn job_request(&self, owner: OwnerId, id: JobId) -> Result<Option<StoredRequest>, StoreError> {
        let row = self.payload(JOB_REQUEST, "job_requests", owner, id).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(StoredRequest { url: row.try_get("url")?, body: Bytes::from(row.try_get::<Vec<u8>, _>("body")?) }))
    }

    /// The winner's answer; `None` while there is none, or once retention has erased it.
    pub async fn job_result(&self, owner: OwnerId, id: JobId) -> Result<Option<StoredResult>, StoreError> {
        let row = self.payload(JOB_RESULT, "job_results", owner, id).await?;
        Ok(row.map(|row| stored_result(&row)).transpose()?)
    }

    /// The owner cancels: the job is over, its open attempt is fenced (R9: a finished job stays finished).
    pub async fn cancel_job(&self, owner: OwnerId, id: JobId) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        // The lock comes first and alone, so that the second statement sees an attempt that started meanwhile.
        let cancelled = sqlx::query(CANCEL_JOB).bind(owner).bind(id).execute(&mut *tx).await?;
        if cancelled.rows_affected() != 1 {
            return Err(StoreError::LostRace);
        }
        let by = ClearedBy::Owner.to_text();
        sqlx::query(FENCE_ATTEMPTS).bind(owner).bind(id).bind(by).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    /// The job has failed for good.
    pub async fn fail_job(&self, owner: OwnerId, id: JobId, error: &JobError) -> Result<(), StoreError> {
        let error = error_text(error)?;
        let done = retrying(|| sqlx::query(FAIL_JOB).bind(owner).bind(id).bind(&error).execute(&self.pool)).await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// The round is over without a result; the job stays queued with its error. With `resume_in`, any instance opens
    /// the next round after that time; without, the client's next call does.
    pub async fn end_round(
        &self,
        owner: OwnerId,
        id: JobId,
        error: &JobError,
        resume_in: Option<Duration>,
    ) -> Result<(), StoreError> {
        let error = error_text(error)?;
        let resume = resume_in.map(millis);
        let done =
            retrying(|| sqlx::query(END_ROUND).bind(owner).bind(id).bind(&error).bind(resume).execute(&self.pool))
                .await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// This process may not carry the job on: where nobody waits for it, any other may, at once.
    pub async fn hand_over(&self, owner: OwnerId, id: JobId) -> Result<(), StoreError> {
        retrying(|| sqlx::query(HAND_OVER).bind(owner).bind(id).execute(&self.pool)).await?;
        Ok(())
    }

    /// Queued jobs that may be carried on now, oldest first. A hint: the guarded start is the claim.
    pub async fn resumable_jobs(&self, limit: i64) -> Result<Vec<(OwnerId, JobId)>, StoreError> {
        retrying(|| sqlx::query_as(RESUMABLE_JOBS).bind(limit).fetch_all(&self.pool)).await
    }

    /// Jobs, newest first: those in `state`, of `owner`, and older than the job `before`, where given.
    pub async fn list_jobs(
        &self,
        state: Option<&str>,
        owner: Option<OwnerId>,
        before: Option<JobId>,
        limit: i64,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let sql = snapshot_sql!(
            "list_jobs",
            "JOIN (SELECT owner_id, id FROM jobs WHERE ($1::text IS NULL OR state = $1) AND ($2::uuid IS NULL OR owner_id = $2)
             AND ($4::uuid IS NULL OR id < $4) ORDER BY id DESC LIMIT $3) newest ON newest.owner_id = j.owner_id AND newest.id = j.id"
        );
        let found = sqlx::query(sql).bind(state).bind(owner).bind(limit).bind(before).fetch_all(&self.pool).await?;
        let mut jobs = rows::snapshots(&found)?;
        jobs.reverse();
        Ok(jobs)
    }
}

/// Reads what [`JOB_RESULT`] selects.
pub(super) fn stored_result(row: &PgRow) -> Result<StoredResult, sqlx::Error> {
    let bytes = |name: &str| row.try_get::<Option<Vec<u8>>, _>(name).map(|bytes| bytes.map(Bytes::from));
    let usage = bytes("stream_usage")?;
    Ok(StoredResult {
        attempt: row.try_get("attempt_id")?,
        content_type: row.try_get("content_type")?,
        body: bytes("body")?.ok_or_else(|| unknown_word("job_results.body", "NULL"))?,
        stream: bytes("stream")?.map(|lines| Streamed { lines, usage }),
    })
}

/// Stored as text: control characters stand escaped in JSON, so `\u0000` in a provider's words does no harm.
fn error_text(error: &JobError) -> Result<String, StoreError> {
    serde_json::to_string(error).map_err(|e| StoreError::Broken(sqlx::Error::Encode(Box::new(e))))
}
