//! The attempt's transitions: started, unknown, failed, won, released, superseded.
//!
//! Lock order everywhere: the job's row, then its attempts'. A guard stands on the row that is updated; a sub-select
//! on another table reads the statement's old snapshot and is only ever a hint.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use providers::canonical::Usage;
use providers::failure::Failure;
use providers::prices::Cost;
use sha2::{Digest, Sha256};

use super::rows::{currency, dropped_to_text, millis, pico, price, tokens};
use super::streams::Streamed;
use super::{Store, StoreError, retrying};
use crate::domain::attempt::{ClearedBy, proof_to_text};
use crate::domain::ids::{AttemptId, InstanceId, JobId, OwnerId};
use crate::domain::route::Candidate;

/// Which attempt of which job; `owner` first, as in every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptKey {
    pub owner: OwnerId,
    pub job: JobId,
    pub id: AttemptId,
}

/// An attempt about to start on a queued job. It takes a [`Candidate`], so that no fallback starts without its permit.
#[derive(Debug, Clone)]
pub struct NewAttempt {
    pub key: AttemptKey,
    /// One more than the attempts that the decision saw: a stale decision meets the unique constraint.
    pub ordinal: i32,
    pub round: i32,
    pub candidate: Candidate,
    pub instance: InstanceId,
    pub timeout: Duration,
    pub settle: Duration,
    /// What of the request falls at this target.
    pub dropped: Vec<String>,
}

/// A complete, valid answer on its way into the database.
#[derive(Debug, Clone)]
pub struct Completion {
    pub key: AttemptKey,
    pub content_type: String,
    pub body: Bytes,
    /// `None` where the answer came whole.
    pub stream: Option<Streamed>,
    pub usage: Option<Usage>,
    pub cost: Option<Cost>,
}

/// The answer of the compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// This attempt has completed the job (a repeat of the statement says so too).
    Won,
    /// The job is over, or the attempt is fenced: the result is thrown away.
    Lost { winner: Option<AttemptId> },
}

const START_ATTEMPT: &str = "/* start_attempt */
WITH job AS (
    UPDATE jobs SET state = 'running', round = $5, resume_at = NULL, updated_at = now()
    WHERE owner_id = $1 AND id = $2 AND state = 'queued' AND completed_by IS NULL AND round IN ($5, $5 - 1)
      AND EXISTS (SELECT 1 FROM instances WHERE id = $10 AND lease_until > now())
      AND ($9::uuid IS NULL OR EXISTS (
          SELECT 1 FROM permits p WHERE p.id = $9 AND p.route = jobs.route AND p.provider = $6 AND p.model = $7
             AND p.revoked_at IS NULL AND p.expires_at > now()))
    RETURNING owner_id, id, version
)
INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, permit_id,
                      instance_id, job_version, deadline_at, settle_until, dropped)
SELECT owner_id, id, $3, $4, $5, 'started', CASE WHEN $9::uuid IS NULL THEN 'primary' ELSE 'fallback' END, $6, $7, $8,
       $9, $10, version, now() + $11 * interval '1 millisecond', now() + $12 * interval '1 millisecond', $13
FROM job";

const MARK_UNKNOWN: &str = "/* mark_attempt_unknown */
WITH job AS (
    SELECT owner_id, id FROM jobs WHERE owner_id = $1 AND id = $2 FOR UPDATE
), attempt AS (
    UPDATE attempts a SET state = 'unknown', reason = $4, message = $5 FROM job
    WHERE a.owner_id = job.owner_id AND a.job_id = job.id AND a.id = $3 AND a.state = 'started'
    RETURNING a.owner_id, a.job_id
)
UPDATE jobs SET state = 'unknown', updated_at = now() FROM attempt
WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.state = 'running'";

// An async job is never left to a task that may die: after a minute any instance may carry it on.
const FAIL_ATTEMPT: &str = "/* fail_attempt */
WITH job AS (
    SELECT owner_id, id FROM jobs WHERE owner_id = $1 AND id = $2 FOR UPDATE
), before AS (
    SELECT a.owner_id, a.job_id, a.id, a.state FROM attempts a
    JOIN job ON a.owner_id = job.owner_id AND a.job_id = job.id WHERE a.id = $3 FOR UPDATE OF a
), attempt AS (
    UPDATE attempts a SET state = 'failed', reason = $4, message = $5, proof = $6, status = $7, provider_code = $8,
           provider_type = $9, provider_param = $10, retry_after_ms = $11, input_tokens = $12, output_tokens = $13,
           cached_input_tokens = $14, cleared_by = NULL, ended_at = now(), cache_write_tokens = $15, reasoning_tokens = $16,
           cost_pico = $17, cost_currency = $18, price = $19
    FROM before WHERE a.owner_id = before.owner_id AND a.job_id = before.job_id AND a.id = before.id
      AND a.state IN ('started', 'unknown', 'released')
    RETURNING a.owner_id, a.job_id, before.state AS was
), queued AS (
    UPDATE jobs SET state = 'queued', updated_at = now(),
           resume_at = CASE WHEN jobs.delivery = 'async' THEN now() + interval '60 s' END
    FROM attempt
    WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND attempt.was IN ('started', 'unknown')
      AND jobs.state IN ('running', 'unknown')
)
SELECT count(*) FROM attempt";

const LOCK_JOB: &str = "/* lock_job */ SELECT state, completed_by FROM jobs WHERE owner_id = $1 AND id = $2 FOR UPDATE";

const RELEASE_LOSERS: &str = "/* release_losers */
UPDATE attempts a SET state = CASE WHEN j.state = 'cancelled' THEN 'cancelled' ELSE 'released' END,
       ended_at = CASE WHEN j.state = 'cancelled' THEN now() END,
       cleared_by = CASE WHEN j.completed_by IS NULL THEN 'owner' ELSE 'winner:' || j.completed_by END
FROM jobs j WHERE a.owner_id = $1 AND a.job_id = $2 AND j.owner_id = a.owner_id AND j.id = a.job_id
  AND j.state IN ('succeeded', 'failed', 'cancelled') AND a.state IN ('started', 'unknown')";

// A cancelled attempt stays what it is, but somebody pays for what it brought.
const SUPERSEDE_ATTEMPT: &str = "/* supersede_attempt */
UPDATE attempts SET state = CASE WHEN state = 'released' THEN 'superseded' ELSE state END,
       ended_at = CASE WHEN state = 'released' THEN now() ELSE ended_at END, input_tokens = $4, output_tokens = $5,
       cached_input_tokens = $6, cache_write_tokens = $7, reasoning_tokens = $8, cost_pico = $9, cost_currency = $10, price = $11
WHERE owner_id = $1 AND job_id = $2 AND id = $3
  AND (state = 'released' OR state = 'cancelled' AND input_tokens IS NULL)";

const RECORD_RACE: &str = "/* record_race */
INSERT INTO races (owner_id, job_id, attempt_id, winner, version_seen, input_tokens, output_tokens, body_sha256,
                   cost_pico, cost_currency)
SELECT a.owner_id, a.job_id, a.id, $4, a.job_version, $5, $6, $7, $8, $9 FROM attempts a
WHERE a.owner_id = $1 AND a.job_id = $2 AND a.id = $3
ON CONFLICT ON CONSTRAINT races_pkey DO NOTHING";

const RELEASE_BY_POLICY: &str = "/* release_attempt_by_policy */
WITH job AS (
    SELECT owner_id, id FROM jobs WHERE owner_id = $1 AND id = $2 FOR UPDATE
), attempt AS (
    UPDATE attempts a SET state = 'released', cleared_by = $4 FROM job
    WHERE a.owner_id = job.owner_id AND a.job_id = job.id AND a.id = $3 AND a.state = 'unknown'
    RETURNING a.owner_id, a.job_id
)
UPDATE jobs SET state = 'queued', updated_at = now(),
       resume_at = CASE WHEN jobs.delivery = 'async' THEN now() + interval '60 s' END
FROM attempt WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.state = 'unknown'";

const STOP_LISTENING: &str = "/* stop_listening */
UPDATE attempts SET state = 'superseded', reason = 'settle_timeout', ended_at = now()
WHERE owner_id = $1 AND job_id = $2 AND id = $3 AND state = 'released'";

impl Store {
    /// Commits that the attempt starts. Only after this may a byte go to the provider (R3). Guarded by the job being
    /// queued (R4, R6), this process's lease, and for a fallback by a valid permit (R8).
    pub async fn start_attempt(&self, new: &NewAttempt) -> Result<(), StoreError> {
        let target = new.candidate.target();
        let started = retrying(|| {
            sqlx::query(START_ATTEMPT)
                .bind(new.key.owner)
                .bind(new.key.job)
                .bind(new.key.id)
                .bind(new.ordinal)
                .bind(new.round)
                .bind(&target.provider)
                .bind(&target.model)
                .bind(new.candidate.adapter_version())
                .bind(new.candidate.permit())
                .bind(new.instance)
                .bind(millis(new.timeout))
                .bind(millis(new.settle))
                .bind(dropped_to_text(&new.dropped))
                .execute(&self.pool)
        })
        .await;
        match started {
            Ok(done) if done.rows_affected() == 1 => Ok(()),
            // Not this time; or a commit of ours that nobody acknowledged. The id was made here, so it tells.
            Ok(_) => self.was_it_ours(new).await,
            Err(StoreError::Refused { constraint })
                if ["attempts_one_per_ordinal", "attempts_one_open", "attempts_pkey"]
                    .contains(&constraint.as_str()) =>
            {
                self.was_it_ours(new).await
            }
            Err(error) => Err(error),
        }
    }

    async fn was_it_ours(&self, new: &NewAttempt) -> Result<(), StoreError> {
        let snapshot = self.job(new.key.owner, new.key.job).await?;
        let ours = snapshot.is_some_and(|s| s.open_attempt().is_some_and(|open| open.id == new.key.id));
        match ours {
            true => Ok(()),
            false if !self.holds_lease(new.instance).await? => Err(StoreError::LeaseEnded),
            false => Err(StoreError::LostRace),
        }
    }

    /// Nobody knows what became of it (R5). Zero rows: it was settled meanwhile.
    pub async fn mark_attempt_unknown(&self, key: AttemptKey, reason: &str, message: &str) -> Result<(), StoreError> {
        let done = retrying(|| {
            let message = without_nul(message);
            sqlx::query(MARK_UNKNOWN)
                .bind(key.owner)
                .bind(key.job)
                .bind(key.id)
                .bind(reason)
                .bind(message)
                .execute(&self.pool)
        })
        .await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// It has provably failed, at this cost; the job is queued again unless it is over.
    pub async fn fail_attempt(
        &self,
        key: AttemptKey,
        failure: &Failure,
        cost: Option<&Cost>,
    ) -> Result<(), StoreError> {
        let usage = failure.usage;
        let failed: i64 = retrying(|| {
            sqlx::query_scalar(FAIL_ATTEMPT)
                .bind(key.owner)
                .bind(key.job)
                .bind(key.id)
                .bind(failure.reason)
                .bind(without_nul(&failure.message))
                .bind(proof_to_text(failure.proof))
                .bind(failure.status.map(i32::from))
                .bind(failure.code.as_deref().map(without_nul))
                .bind(failure.kind.as_deref().map(without_nul))
                .bind(failure.param.as_deref().map(without_nul))
                .bind(failure.retry_after.map(millis))
                .bind(tokens(usage.map(|u| u.input_tokens)))
                .bind(tokens(usage.map(|u| u.output_tokens)))
                .bind(tokens(usage.map(|u| u.cached_input_tokens)))
                .bind(tokens(usage.map(|u| u.cache_write_tokens)))
                .bind(tokens(usage.map(|u| u.reasoning_tokens)))
                .bind(pico(cost))
                .bind(currency(cost))
                .bind(price(cost))
                .fetch_one(&self.pool)
        })
        .await?;
        if failed == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// The compare-and-swap (R7): the job's version is the one that the attempt read, nobody has completed the job,
    /// and the attempt itself may still win. Everything of it is one commit, shared with whatever ends at the same time.
    pub async fn complete(&self, completion: &Completion) -> Result<Completed, StoreError> {
        let completion = Arc::new(completion.clone());
        for _ in 0..5 {
            if let Some(completed) = self.completions.write(Arc::clone(&completion)).await? {
                return Ok(completed);
            }
        }
        Err(StoreError::LostRace)
    }

    /// A result came too late: it is thrown away, and the race is logged (R7). Nothing is merged.
    pub async fn lose_race(&self, completion: &Completion, winner: Option<AttemptId>) -> Result<(), StoreError> {
        let AttemptKey { owner, job, id } = completion.key;
        let (usage, cost) = (completion.usage, completion.cost.as_ref());
        let (input, output) = (tokens(usage.map(|u| u.input_tokens)), tokens(usage.map(|u| u.output_tokens)));
        let cached = tokens(usage.map(|u| u.cached_input_tokens));
        let hash = Sha256::digest(&completion.body);
        let mut tx = self.pool.begin().await?;
        sqlx::query(LOCK_JOB).bind(owner).bind(job).execute(&mut *tx).await?;
        sqlx::query(RELEASE_LOSERS).bind(owner).bind(job).execute(&mut *tx).await?;
        sqlx::query(SUPERSEDE_ATTEMPT)
            .bind(owner)
            .bind(job)
            .bind(id)
            .bind(input)
            .bind(output)
            .bind(cached)
            .bind(tokens(usage.map(|u| u.cache_write_tokens)))
            .bind(tokens(usage.map(|u| u.reasoning_tokens)))
            .bind(pico(cost))
            .bind(currency(cost))
            .bind(price(cost))
            .execute(&mut *tx)
            .await?;
        sqlx::query(RECORD_RACE)
            .bind(owner)
            .bind(job)
            .bind(id)
            .bind(winner)
            .bind(input)
            .bind(output)
            .bind(&hash[..])
            .bind(pico(cost))
            .bind(currency(cost))
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    /// After a job is over: attempts that started while its end was being committed no longer block.
    pub async fn release_losers(&self, owner: OwnerId, job: JobId) -> Result<(), StoreError> {
        retrying(|| sqlx::query(RELEASE_LOSERS).bind(owner).bind(job).execute(&self.pool)).await?;
        Ok(())
    }

    /// The route declares its work free of side effects: the unknown attempt no longer blocks, and may still win.
    pub async fn release_attempt_by_policy(&self, key: AttemptKey, route: &str) -> Result<(), StoreError> {
        let by = ClearedBy::Policy(route.to_owned()).to_text();
        let done = retrying(|| {
            sqlx::query(RELEASE_BY_POLICY).bind(key.owner).bind(key.job).bind(key.id).bind(&by).execute(&self.pool)
        })
        .await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::LostRace) }
    }

    /// A released attempt has not returned by `settle_timeout`. Zero rows: it was settled meanwhile, or still blocks.
    pub async fn stop_listening(&self, key: AttemptKey) -> Result<(), StoreError> {
        retrying(|| sqlx::query(STOP_LISTENING).bind(key.owner).bind(key.job).bind(key.id).execute(&self.pool)).await?;
        Ok(())
    }
}

/// Text columns refuse NUL; foreign words may hold one.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\\u0000")
}
