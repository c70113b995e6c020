//! What people on call do: clear an unknown attempt, each time with a name and a reason. And what they read.

use providers::prices::Amount;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::attempts::AttemptKey;
use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::attempt::ClearedBy;
use crate::domain::ids::{AttemptId, JobId, OwnerId};

/// What an operator says of an attempt whose outcome nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clearance {
    /// It no longer blocks; if it returns first, it may still win.
    Release,
    /// It is fenced: whatever it returns is thrown away.
    Cancel,
    /// The operator knows that it failed.
    Fail,
}

impl Clearance {
    pub fn as_str(self) -> &'static str {
        match self {
            Clearance::Release => "release",
            Clearance::Cancel => "cancel",
            Clearance::Fail => "fail",
        }
    }

    pub fn parse(word: &str) -> Option<Clearance> {
        [Clearance::Release, Clearance::Cancel, Clearance::Fail]
            .into_iter()
            .find(|clearance| clearance.as_str() == word)
    }

    fn state(self) -> &'static str {
        match self {
            Clearance::Release => "released",
            Clearance::Cancel => "cancelled",
            Clearance::Fail => "failed",
        }
    }
}

/// The answer to a clearance.
#[derive(Debug, Clone, PartialEq)]
pub enum Cleared {
    Done(AttemptKey),
    /// The attempt is not unknown (any more): its state.
    NotUnknown(String),
    NoSuchAttempt,
}

/// A logged race, as listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    pub job: JobId,
    pub attempt: AttemptId,
    pub winner: Option<AttemptId>,
    pub version_seen: i64,
    pub arrived_at: Timestamp,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// With its currency; none where it is not known.
    pub cost: Option<(Amount, String)>,
    pub body_sha256: Vec<u8>,
}

const FIND_ATTEMPT: &str = "/* find_attempt */ SELECT owner_id, job_id FROM attempts WHERE id = $1";
const LOCK_JOB: &str = "/* lock_job */ SELECT 1 FROM jobs WHERE owner_id = $1 AND id = $2 FOR UPDATE";
const CLEAR_ATTEMPT: &str = "/* clear_attempt */
UPDATE attempts SET state = $4::text, cleared_by = $5, message = $6,
       reason = CASE WHEN $4 = 'failed' THEN 'operator' ELSE reason END,
       proof = CASE WHEN $4 = 'failed' THEN 'ended_without_result' ELSE proof END,
       ended_at = CASE WHEN $4 = 'released' THEN NULL ELSE now() END
WHERE owner_id = $1 AND job_id = $2 AND id = $3 AND state = 'unknown'";
const REQUEUE_JOB: &str = "/* requeue_job */
UPDATE jobs SET state = 'queued', resume_at = now(), updated_at = now()
WHERE owner_id = $1 AND id = $2 AND state = 'unknown'";
const ATTEMPT_STATE: &str =
    "/* attempt_state */ SELECT state FROM attempts WHERE owner_id = $1 AND job_id = $2 AND id = $3";
const RECORD_ACTION: &str = "/* record_action */
INSERT INTO operator_actions (id, actor, action, subject, reason) VALUES ($1, $2, $3, $4, $5)";
const LIST_RACES: &str = "/* list_races */
SELECT job_id, attempt_id, winner, version_seen, arrived_at, input_tokens, output_tokens, body_sha256,
       cost_pico, cost_currency
FROM races ORDER BY arrived_at DESC LIMIT $1";
const JOB_OWNER: &str = "/* job_owner */ SELECT owner_id FROM jobs WHERE id = $1";

impl Store {
    /// Clears an unknown attempt by name (R6). The job is queued again and any instance carries it on; the action is
    /// recorded in the same commit.
    pub async fn clear_attempt(
        &self,
        id: AttemptId,
        clearance: Clearance,
        actor: &str,
        reason: &str,
    ) -> Result<Cleared, StoreError> {
        let found: Option<(OwnerId, JobId)> =
            retrying(|| sqlx::query_as(FIND_ATTEMPT).bind(id).fetch_optional(&self.pool)).await?;
        let Some((owner, job)) = found else { return Ok(Cleared::NoSuchAttempt) };
        let mut tx = self.pool.begin().await?;
        sqlx::query(LOCK_JOB).bind(owner).bind(job).execute(&mut *tx).await?;
        let done = sqlx::query(CLEAR_ATTEMPT)
            .bind(owner)
            .bind(job)
            .bind(id)
            .bind(clearance.state())
            .bind(ClearedBy::Operator(actor.to_owned()).to_text())
            .bind(reason)
            .execute(&mut *tx)
            .await?;
        if done.rows_affected() != 1 {
            let state = sqlx::query_scalar(ATTEMPT_STATE).bind(owner).bind(job).bind(id).fetch_one(&mut *tx).await?;
            tx.rollback().await?;
            return Ok(Cleared::NotUnknown(state));
        }
        sqlx::query(REQUEUE_JOB).bind(owner).bind(job).execute(&mut *tx).await?;
        sqlx::query(RECORD_ACTION)
            .bind(Uuid::now_v7())
            .bind(actor)
            .bind(format!("attempt.{}", clearance.as_str()))
            .bind(id)
            .bind(reason)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Cleared::Done(AttemptKey { owner, job, id }))
    }

    /// Records what an operator did where the deed itself is another statement's.
    pub async fn record_action(
        &self,
        actor: &str,
        action: &str,
        subject: Uuid,
        reason: &str,
    ) -> Result<(), StoreError> {
        let id = Uuid::now_v7();
        retrying(|| {
            sqlx::query(RECORD_ACTION).bind(id).bind(actor).bind(action).bind(subject).bind(reason).execute(&self.pool)
        })
        .await?;
        Ok(())
    }

    /// Races, newest first.
    pub async fn list_races(&self, limit: i64) -> Result<Vec<Race>, StoreError> {
        let rows = retrying(|| sqlx::query(LIST_RACES).bind(limit).fetch_all(&self.pool)).await?;
        rows.iter()
            .map(|row| {
                Ok(Race {
                    job: row.try_get("job_id")?,
                    attempt: row.try_get("attempt_id")?,
                    winner: row.try_get("winner")?,
                    version_seen: row.try_get("version_seen")?,
                    arrived_at: row.try_get("arrived_at")?,
                    input_tokens: row.try_get("input_tokens")?,
                    output_tokens: row.try_get("output_tokens")?,
                    cost: amount(row)?,
                    body_sha256: row.try_get("body_sha256")?,
                })
            })
            .collect()
    }

    /// Whose job this is. For operators only: an owner's own call always names the owner.
    pub async fn job_owner(&self, id: JobId) -> Result<Option<OwnerId>, StoreError> {
        retrying(|| sqlx::query_scalar(JOB_OWNER).bind(id).fetch_optional(&self.pool)).await
    }
}

fn amount(row: &PgRow) -> Result<Option<(Amount, String)>, sqlx::Error> {
    let pico = row.try_get::<Option<i64>, _>("cost_pico")?.and_then(|pico| u64::try_from(pico).ok());
    Ok(pico.map(Amount::from_pico).zip(row.try_get("cost_currency")?))
}
