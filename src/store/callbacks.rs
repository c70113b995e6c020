//! Callbacks: which notices are due, and what became of them.
//!
//! A claim is a lease on one try: `next_at` moves past it, so that no other instance sends meanwhile; when the claimer
//! dies, the notice is due again. Nothing here touches a job.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::rows::{self, millis};
use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::notice::Notice;

/// A notice that this process is to send now.
#[derive(Debug, Clone)]
pub struct DueNotice {
    pub owner: OwnerId,
    pub notice: Notice,
    pub url: String,
    /// Tries so far, this one included: the claim's number.
    pub attempts: i32,
    /// The database's clock when it was claimed.
    pub claimed_at: Timestamp,
}

/// How far the telling has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    pub state: String,
    pub attempts: i32,
    pub last_error: Option<String>,
}

/// Of a try that was not taken.
#[derive(Debug, Clone)]
pub struct LastTry {
    pub status: Option<u16>,
    pub error: String,
}

// Whether the job is over is read off the job, so that finishing it writes nothing here. What another instance claims
// at this instant is skipped.
const CLAIM: &str = "/* claim_callbacks */
WITH due AS (
    SELECT c.owner_id, c.job_id, j.state, j.completed_by, j.url AS operation, j.route, j.closed_at
    FROM callbacks c JOIN jobs j ON j.owner_id = c.owner_id AND j.id = c.job_id
    WHERE c.state = 'pending' AND c.next_at <= now() AND j.state IN ('succeeded', 'failed', 'cancelled')
      AND c.owner_id <> ALL ($3)
    ORDER BY c.next_at LIMIT $2 FOR UPDATE OF c SKIP LOCKED
)
UPDATE callbacks c SET attempts = c.attempts + 1, next_at = now() + $1 * interval '1 millisecond'
FROM due WHERE c.owner_id = due.owner_id AND c.job_id = due.job_id AND c.state = 'pending'
RETURNING c.owner_id, c.job_id, c.url, c.attempts, now() AS claimed_at,
          due.state, due.completed_by, due.operation, due.route, due.closed_at";

// Taken is taken, even if another instance has claimed it meanwhile.
const DELIVERED: &str = "/* deliver_callback */
UPDATE callbacks SET state = 'delivered', last_status = $3, last_error = NULL, ended_at = now()
WHERE owner_id = $1 AND job_id = $2 AND state = 'pending'";

const RETRY: &str = "/* retry_callback */
UPDATE callbacks SET last_status = $4, last_error = $5, next_at = now() + $6 * interval '1 millisecond'
WHERE owner_id = $1 AND job_id = $2 AND state = 'pending' AND attempts = $3";

const GIVE_UP: &str = "/* give_up_callback */
UPDATE callbacks SET state = 'given_up', last_status = $4, last_error = $5, ended_at = now()
WHERE owner_id = $1 AND job_id = $2 AND state = 'pending' AND attempts = $3";

const CALLBACK: &str = "/* callback */
SELECT state, attempts, last_error FROM callbacks WHERE owner_id = $1 AND job_id = $2";

// Addresses hold tokens, so they go when the payloads do.
const CLEAN: &str = "/* clean_callbacks */
DELETE FROM callbacks c USING (
    SELECT owner_id, job_id FROM callbacks WHERE ended_at < now() - $1 * interval '1 millisecond' ORDER BY ended_at LIMIT 1000
) old WHERE c.owner_id = old.owner_id AND c.job_id = old.job_id";

impl Store {
    /// Takes at most `limit` notices that are due, each for one try of at most `lease`, none of the owners in `except`.
    pub async fn claim_callbacks(
        &self,
        lease: Duration,
        limit: i64,
        except: &[OwnerId],
    ) -> Result<Vec<DueNotice>, StoreError> {
        // Repeated after a fault, it may leave a claim that was committed unseen: that one waits for its lease's end.
        let claim = || sqlx::query(CLAIM).bind(millis(lease)).bind(limit).bind(except).fetch_all(&self.pool);
        let found = retrying(claim).await?;
        Ok(found.iter().map(due_notice).collect::<Result<_, _>>()?)
    }

    /// The receiver took it.
    pub async fn deliver_callback(&self, due: &DueNotice, status: u16) -> Result<(), StoreError> {
        let (owner, job, status) = (due.owner, due.notice.job, i32::from(status));
        let done = retrying(|| sqlx::query(DELIVERED).bind(owner).bind(job).bind(status).execute(&self.pool)).await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// The receiver did not take it: again after this time, or, without one, never.
    pub async fn miss_callback(
        &self,
        due: &DueNotice,
        last: &LastTry,
        again_in: Option<Duration>,
    ) -> Result<(), StoreError> {
        let done = retrying(|| {
            let statement = sqlx::query(if again_in.is_some() { RETRY } else { GIVE_UP });
            let statement = statement.bind(due.owner).bind(due.notice.job).bind(due.attempts);
            let statement = statement.bind(last.status.map(i32::from)).bind(&last.error);
            match again_in {
                Some(wait) => statement.bind(millis(wait)).execute(&self.pool),
                None => statement.execute(&self.pool),
            }
        })
        .await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// How far the job's callback has come; `None` where it has none, or once it has been erased.
    pub async fn callback(&self, owner: OwnerId, job: JobId) -> Result<Option<Callback>, StoreError> {
        let row = retrying(|| sqlx::query(CALLBACK).bind(owner).bind(job).fetch_optional(&self.pool)).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Callback {
            state: row.try_get("state")?,
            attempts: row.try_get("attempts")?,
            last_error: row.try_get("last_error")?,
        }))
    }

    /// Removes callbacks that ended more than `retention` ago.
    pub async fn clean_callbacks(&self, retention: Duration) -> Result<(), StoreError> {
        retrying(|| sqlx::query(CLEAN).bind(millis(retention)).execute(&self.pool)).await?;
        Ok(())
    }
}

fn due_notice(row: &PgRow) -> Result<DueNotice, sqlx::Error> {
    Ok(DueNotice {
        owner: row.try_get("owner_id")?,
        notice: Notice {
            job: row.try_get("job_id")?,
            state: rows::job_state(row.try_get("state")?, row.try_get("completed_by")?)?,
            url: row.try_get("operation")?,
            route: row.try_get("route")?,
            closed_at: row.try_get("closed_at")?,
        },
        url: row.try_get("url")?,
        attempts: row.try_get("attempts")?,
        claimed_at: row.try_get("claimed_at")?,
    })
}
