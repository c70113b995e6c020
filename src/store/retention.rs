//! Payloads that have been kept long enough are erased; the job's row stays and goes on refusing its key.

use std::time::Duration;

use super::rows::millis;
use super::{Store, StoreError, retrying};

/// Jobs erased in one statement: few enough never to stall the request path.
const BATCH: i64 = 200;

// Age counts from the job's end: a late retry of a long job still finds its answer.
const ERASE: &str = "/* erase_payloads */
WITH old AS (
    SELECT j.owner_id, j.id FROM job_requests r JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
    WHERE r.created_at < now() - $1 * interval '1 millisecond' AND j.closed_at < now() - $1 * interval '1 millisecond'
    ORDER BY r.created_at LIMIT $2
), job AS (
    UPDATE jobs SET erased_at = now() FROM old
    WHERE jobs.owner_id = old.owner_id AND jobs.id = old.id AND jobs.closed_at IS NOT NULL RETURNING jobs.owner_id, jobs.id
), request AS (
    DELETE FROM job_requests r USING job WHERE r.owner_id = job.owner_id AND r.job_id = job.id
), result AS (
    DELETE FROM job_results r USING job WHERE r.owner_id = job.owner_id AND r.job_id = job.id
)
SELECT count(*) FROM job";

impl Store {
    /// Erases one batch of payloads of jobs that ended more than `retention` ago. Returns how many jobs.
    pub async fn erase_payloads(&self, retention: Duration) -> Result<i64, StoreError> {
        retrying(|| sqlx::query_scalar(ERASE).bind(millis(retention)).bind(BATCH).fetch_one(&self.pool)).await
    }
}
