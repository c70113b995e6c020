//! Leases: which processes are alive, and what becomes of the attempts of those that are not.

use std::time::Duration;

use super::rows::millis;
use super::{Store, StoreError, retrying};
use crate::domain::ids::InstanceId;

/// How long a lease lasts without being renewed.
pub const LEASE: Duration = Duration::from_secs(15);
/// How often it is renewed.
pub const BEAT: Duration = Duration::from_secs(5);

const REGISTER: &str = "/* register_instance */
INSERT INTO instances (id, host, pid, lease_until) VALUES ($1, $2, $3, now() + $4 * interval '1 millisecond')
ON CONFLICT (id) DO NOTHING";

// A lease that has ended stays ended: its attempts may have been swept, so the process must come back under a new id.
const RENEW: &str = "/* renew_lease */
UPDATE instances SET lease_until = now() + $2 * interval '1 millisecond' WHERE id = $1 AND lease_until > now()";

const END: &str = "/* end_lease */ UPDATE instances SET lease_until = now() WHERE id = $1 AND lease_until > now()";

const HOLDS: &str = "/* holds_lease */
SELECT EXISTS (SELECT 1 FROM instances WHERE id = $1 AND lease_until > now())";

// Oldest first, without exemptions, so that no batch can starve the rest. The state is judged again on the row itself:
// what was settled since the snapshot stays settled.
const SWEEP: &str = "/* mark_lost_attempts_unknown */
WITH lost AS (
    SELECT a.owner_id, a.job_id, a.id,
           CASE WHEN i.lease_until <= now() THEN 'instance_lost' ELSE 'deadline_passed' END AS reason
    FROM attempts a JOIN instances i ON i.id = a.instance_id
    WHERE a.state = 'started' AND (i.lease_until <= now() OR a.deadline_at + $1 * interval '1 millisecond' < now())
    ORDER BY a.started_at LIMIT 500
), job AS (
    SELECT j.owner_id, j.id, lost.id AS attempt_id, lost.reason FROM jobs j
    JOIN lost ON lost.owner_id = j.owner_id AND lost.job_id = j.id ORDER BY j.owner_id, j.id FOR UPDATE OF j
), attempt AS (
    UPDATE attempts a SET state = 'unknown', reason = job.reason, message = 'no outcome was recorded for this attempt'
    FROM job WHERE a.owner_id = job.owner_id AND a.job_id = job.id AND a.id = job.attempt_id AND a.state = 'started'
    RETURNING a.owner_id, a.job_id, a.id
), unknown AS (
    UPDATE jobs SET state = 'unknown', updated_at = now() FROM attempt
    WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.state = 'running'
)
SELECT count(*) FROM attempt";

const SWEEP_OWN: &str = "/* mark_own_attempts_unknown */
WITH mine AS (
    SELECT owner_id, job_id, id FROM attempts WHERE state = 'started' AND instance_id = $1
), job AS (
    SELECT j.owner_id, j.id, mine.id AS attempt_id FROM jobs j
    JOIN mine ON mine.owner_id = j.owner_id AND mine.job_id = j.id ORDER BY j.owner_id, j.id FOR UPDATE OF j
), attempt AS (
    UPDATE attempts a SET state = 'unknown', reason = 'shutdown', message = 'the gateway stopped while waiting' FROM job
    WHERE a.owner_id = job.owner_id AND a.job_id = job.id AND a.id = job.attempt_id AND a.state = 'started'
    RETURNING a.owner_id, a.job_id, a.id
), unknown AS (
    UPDATE jobs SET state = 'unknown', updated_at = now() FROM attempt
    WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.state = 'running'
)
SELECT count(*) FROM attempt";

// Released attempts whose process no longer listens, and open ones of jobs that are over.
const SWEEP_RELEASED: &str = "/* stop_listening_for_lost */
UPDATE attempts a SET state = 'superseded', reason = 'settle_timeout', ended_at = now()
WHERE a.state = 'released' AND a.settle_until + $1 * interval '1 millisecond' < now()";

const SWEEP_CLOSED: &str = "/* release_attempts_of_closed_jobs */
UPDATE attempts a SET state = CASE WHEN j.state = 'cancelled' THEN 'cancelled' ELSE 'released' END,
       ended_at = CASE WHEN j.state = 'cancelled' THEN now() END,
       cleared_by = CASE WHEN j.completed_by IS NULL THEN 'owner' ELSE 'winner:' || j.completed_by END
FROM jobs j WHERE j.owner_id = a.owner_id AND j.id = a.job_id AND a.state IN ('started', 'unknown')
  AND j.state IN ('succeeded', 'failed', 'cancelled')";

impl Store {
    /// A fresh row for this process, with a running lease.
    pub async fn register_instance(&self, id: InstanceId, host: &str, pid: u32) -> Result<(), StoreError> {
        let pid = i64::from(pid);
        retrying(|| sqlx::query(REGISTER).bind(id).bind(host).bind(pid).bind(millis(LEASE)).execute(&self.pool))
            .await?;
        Ok(())
    }

    /// Renews the lease, unless it has ended ([`StoreError::LeaseEnded`]).
    pub async fn renew_lease(&self, id: InstanceId) -> Result<(), StoreError> {
        let done = sqlx::query(RENEW).bind(id).bind(millis(LEASE)).execute(&self.pool).await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LeaseEnded) }
    }

    pub async fn end_lease(&self, id: InstanceId) -> Result<(), StoreError> {
        retrying(|| sqlx::query(END).bind(id).execute(&self.pool)).await?;
        Ok(())
    }

    pub async fn holds_lease(&self, id: InstanceId) -> Result<bool, StoreError> {
        retrying(|| sqlx::query_scalar(HOLDS).bind(id).fetch_one(&self.pool)).await
    }

    /// Attempts of processes whose lease has ended, and attempts that outlived their own deadline by `grace`, become
    /// unknown (R5), never failed. Any instance may do it, twice at once too. Returns how many.
    pub async fn mark_lost_attempts_unknown(&self, grace: Duration) -> Result<i64, StoreError> {
        retrying(|| sqlx::query_scalar(SWEEP).bind(millis(grace)).fetch_one(&self.pool)).await
    }

    /// At shutdown: what this process still waits for becomes unknown. Returns how many.
    pub async fn mark_own_attempts_unknown(&self, id: InstanceId) -> Result<i64, StoreError> {
        retrying(|| sqlx::query_scalar(SWEEP_OWN).bind(id).fetch_one(&self.pool)).await
    }

    /// Released attempts that nobody listens for any more are superseded; attempts of finished jobs stop blocking.
    pub async fn settle_leftovers(&self, grace: Duration) -> Result<(), StoreError> {
        retrying(|| sqlx::query(SWEEP_CLOSED).execute(&self.pool)).await?;
        retrying(|| sqlx::query(SWEEP_RELEASED).bind(millis(grace)).execute(&self.pool)).await?;
        Ok(())
    }
}
