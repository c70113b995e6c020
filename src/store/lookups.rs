//! Who is asked about which attempt, when, and what the answers were.
//!
//! Every statement judges the attempt's state on its own; several instances may claim, ask and record at once, and the
//! newest claim's record stands.

use std::time::Duration;

use sqlx::Row;

use super::attempts::AttemptKey;
use super::rows::millis;
use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::ids::{AttemptId, InstanceId, JobId, OwnerId};
use crate::domain::route::Target;

/// A provider that can be asked, and how: as this process is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub provider: String,
    pub way: &'static str,
    pub base_url: String,
}

/// An attempt to be asked about now, and what was known before asking.
#[derive(Debug, Clone)]
pub struct Due {
    pub key: AttemptKey,
    pub target: Target,
    pub instance: InstanceId,
    /// This one included.
    pub tries: i32,
    /// How long ago the lease of the attempt's process ended, or that process found its call to have ended.
    pub quiet_for: Option<Duration>,
    pub started_ago: Duration,
    /// How far beyond its `settle_until` it is; `None`: not yet.
    pub past_settle: Option<Duration>,
    pub attempts: usize,
    /// The provider's own id of the work, where it was heard.
    pub reference: Option<String>,
}

/// What came of asking.
#[derive(Debug, Clone)]
pub struct Recorded<'a> {
    pub answer: &'static str,
    /// One JSON object.
    pub evidence: &'a str,
    /// When to ask again; `None`: never.
    pub again_in: Option<Duration>,
    /// The attempt's own living process says that its call has ended.
    pub quiet: bool,
}

/// What was found out about an attempt, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    pub attempt: AttemptId,
    pub tries: i32,
    pub next_at: Option<Timestamp>,
    pub last_answer: Option<String>,
    /// A JSON array.
    pub evidence: String,
    pub cancel_told_at: Option<Timestamp>,
}

const RECORD_PLACES: &str = "/* record_lookup_places */
INSERT INTO lookup_places (instance_id, provider, way, base_url)
SELECT $1, provider, way, base_url FROM unnest($2::text[], $3::text[], $4::text[]) AS mine (provider, way, base_url)
ON CONFLICT ON CONSTRAINT lookup_places_pkey DO NOTHING";

const QUEUE: &str = "/* queue_lookups */
INSERT INTO lookups (owner_id, job_id, attempt_id)
SELECT a.owner_id, a.job_id, a.id FROM attempts a
JOIN lookup_places p ON p.instance_id = a.instance_id AND p.provider = a.provider
JOIN unnest($1::text[], $2::text[], $3::text[]) AS mine (provider, way, base_url)
  ON mine.provider = p.provider AND mine.way = p.way AND mine.base_url = p.base_url
WHERE a.state = 'unknown' AND NOT EXISTS (
    SELECT 1 FROM lookups l WHERE l.owner_id = a.owner_id AND l.job_id = a.job_id AND l.attempt_id = a.id)
ORDER BY a.started_at LIMIT 500
ON CONFLICT ON CONSTRAINT lookups_pkey DO NOTHING";

// Settled meanwhile, by whatever: nobody needs to ask any more.
const CLOSE: &str = "/* close_lookups */
UPDATE lookups l SET next_at = NULL FROM attempts a
WHERE l.next_at <= now() AND a.owner_id = l.owner_id AND a.job_id = l.job_id AND a.id = l.attempt_id
  AND a.state <> 'unknown'";

// A living process knows best what its own call does: others leave its attempts to it for a while. Until the answer is
// recorded the row counts as taken for 20 s; if the asker dies, somebody else asks then.
const CLAIM: &str = "/* claim_lookups */
WITH due AS (
    SELECT l.owner_id, l.job_id, l.attempt_id FROM lookups l
    JOIN attempts a ON a.owner_id = l.owner_id AND a.job_id = l.job_id AND a.id = l.attempt_id
    JOIN instances i ON i.id = a.instance_id
    JOIN lookup_places p ON p.instance_id = a.instance_id AND p.provider = a.provider
    JOIN unnest($2::text[], $3::text[], $4::text[]) AS mine (provider, way, base_url)
      ON mine.provider = p.provider AND mine.way = p.way AND mine.base_url = p.base_url
    WHERE l.next_at <= now() AND a.state = 'unknown'
      AND (a.instance_id = $1 OR i.lease_until <= now() OR l.next_at <= now() - interval '10 s')
    ORDER BY l.next_at LIMIT $5
), claimed AS (
    UPDATE lookups l SET tries = l.tries + 1, next_at = now() + interval '20 s', updated_at = now() FROM due
    WHERE l.owner_id = due.owner_id AND l.job_id = due.job_id AND l.attempt_id = due.attempt_id AND l.next_at <= now()
    RETURNING l.owner_id, l.job_id, l.attempt_id, l.tries, l.quiet_since
)
SELECT c.owner_id, c.job_id, c.attempt_id, c.tries, a.provider, a.model, a.instance_id, a.reference,
       (SELECT count(*) FROM attempts n WHERE n.owner_id = c.owner_id AND n.job_id = c.job_id) AS attempts,
       (extract(epoch FROM now() - a.started_at) * 1000)::int8 AS started_ago,
       (extract(epoch FROM now() - a.settle_until) * 1000)::int8 AS past_settle,
       (extract(epoch FROM now() - CASE WHEN i.lease_until <= now() THEN i.lease_until ELSE c.quiet_since END)
           * 1000)::int8 AS quiet_for
FROM claimed c
JOIN attempts a ON a.owner_id = c.owner_id AND a.job_id = c.job_id AND a.id = c.attempt_id
JOIN instances i ON i.id = a.instance_id";

// The first sixteen entries stay, and the newest as many: a long wait cannot fill the row.
const RECORD: &str = "/* record_lookup */
UPDATE lookups SET last_answer = $5, updated_at = now(), next_at = now() + $6 * interval '1 millisecond',
       quiet_since = CASE WHEN $7 THEN COALESCE(quiet_since, now()) ELSE quiet_since END,
       evidence = CASE WHEN jsonb_array_length(evidence) >= 32 THEN evidence - 16 ELSE evidence END
                  || jsonb_build_array(jsonb_build_object('at', now(), 'try', tries) || $8::text::jsonb)
WHERE owner_id = $1 AND job_id = $2 AND attempt_id = $3 AND tries = $4";

const OF_JOB: &str = "/* lookups_of_job */
SELECT attempt_id, tries, next_at, last_answer, evidence::text AS evidence, cancel_told_at
FROM lookups WHERE owner_id = $1 AND job_id = $2 ORDER BY attempt_id";

// Whoever writes the row first tells the provider.
const CLAIM_CANCEL: &str = "/* claim_cancel */
INSERT INTO lookups (owner_id, job_id, attempt_id, next_at, cancel_told_at) VALUES ($1, $2, $3, NULL, now())
ON CONFLICT ON CONSTRAINT lookups_pkey DO UPDATE SET cancel_told_at = now(), updated_at = now()
WHERE lookups.cancel_told_at IS NULL";

const FENCED: &str = "/* fenced_attempts */
SELECT owner_id, job_id, id FROM attempts WHERE id = ANY($1) AND state = 'cancelled'";

// Whatever has become of the attempt: also what is cancelled meanwhile must be told to stop by this id.
const NOTE_REFERENCE: &str = "/* note_reference */
UPDATE attempts SET reference = $4
WHERE owner_id = $1 AND job_id = $2 AND id = $3 AND COALESCE(reference, $4) = $4
RETURNING state = 'cancelled'";

const REFERENCE: &str = "/* attempt_reference */
SELECT reference FROM attempts WHERE owner_id = $1 AND job_id = $2 AND id = $3";

type Columns = (Vec<String>, Vec<String>, Vec<String>);

fn columns(places: &[Place]) -> Columns {
    let provider = places.iter().map(|place| place.provider.clone()).collect();
    let way = places.iter().map(|place| place.way.to_owned()).collect();
    (provider, way, places.iter().map(|place| place.base_url.clone()).collect())
}

impl Store {
    /// Under this instance, attempts go to these places with what is needed to ask about them.
    pub async fn record_lookup_places(&self, instance: InstanceId, places: &[Place]) -> Result<(), StoreError> {
        let (provider, way, base_url) = columns(places);
        retrying(|| {
            let places = sqlx::query(RECORD_PLACES).bind(instance);
            places.bind(&provider).bind(&way).bind(&base_url).execute(&self.pool)
        })
        .await?;
        Ok(())
    }

    /// Unknown attempts at these places get a row, and rows of settled attempts are closed.
    pub async fn queue_lookups(&self, places: &[Place]) -> Result<(), StoreError> {
        let (provider, way, base_url) = columns(places);
        retrying(|| sqlx::query(CLOSE).execute(&self.pool)).await?;
        retrying(|| sqlx::query(QUEUE).bind(&provider).bind(&way).bind(&base_url).execute(&self.pool)).await?;
        Ok(())
    }

    /// Takes what is due at these places, longest due first.
    pub async fn claim_lookups(
        &self,
        instance: InstanceId,
        places: &[Place],
        limit: i64,
    ) -> Result<Vec<Due>, StoreError> {
        let (provider, way, base_url) = columns(places);
        let claimed = sqlx::query(CLAIM).bind(instance).bind(&provider).bind(&way).bind(&base_url).bind(limit);
        let span = |ms: Option<i64>| ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        let rows = claimed.fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                Ok(Due {
                    key: AttemptKey {
                        owner: row.try_get("owner_id")?,
                        job: row.try_get("job_id")?,
                        id: row.try_get("attempt_id")?,
                    },
                    target: Target { provider: row.try_get("provider")?, model: row.try_get("model")? },
                    instance: row.try_get("instance_id")?,
                    tries: row.try_get("tries")?,
                    quiet_for: span(row.try_get("quiet_for")?),
                    started_ago: span(row.try_get("started_ago")?).unwrap_or_default(),
                    past_settle: span(row.try_get("past_settle")?),
                    attempts: usize::try_from(row.try_get::<i64, _>("attempts")?).unwrap_or_default(),
                    reference: row.try_get("reference")?,
                })
            })
            .collect()
    }

    /// Writes down what came of asking. `false`: somebody has asked anew meanwhile, and this is stale.
    pub async fn record_lookup(&self, due: &Due, recorded: &Recorded<'_>) -> Result<bool, StoreError> {
        let done = retrying(|| {
            sqlx::query(RECORD)
                .bind(due.key.owner)
                .bind(due.key.job)
                .bind(due.key.id)
                .bind(due.tries)
                .bind(recorded.answer)
                .bind(recorded.again_in.map(millis))
                .bind(recorded.quiet)
                .bind(recorded.evidence)
                .execute(&self.pool)
        })
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// What was found out about the job's attempts.
    pub async fn lookups_of_job(&self, owner: OwnerId, job: JobId) -> Result<Vec<Lookup>, StoreError> {
        let rows = retrying(|| sqlx::query(OF_JOB).bind(owner).bind(job).fetch_all(&self.pool)).await?;
        rows.iter()
            .map(|row| {
                Ok(Lookup {
                    attempt: row.try_get("attempt_id")?,
                    tries: row.try_get("tries")?,
                    next_at: row.try_get("next_at")?,
                    last_answer: row.try_get("last_answer")?,
                    evidence: row.try_get("evidence")?,
                    cancel_told_at: row.try_get("cancel_told_at")?,
                })
            })
            .collect()
    }

    /// Whether the caller is the one who tells the provider to stop: true once per attempt.
    pub async fn claim_cancel(&self, key: AttemptKey) -> Result<bool, StoreError> {
        let told = sqlx::query(CLAIM_CANCEL).bind(key.owner).bind(key.job).bind(key.id).execute(&self.pool).await?;
        Ok(told.rows_affected() == 1)
    }

    /// Writes down the provider's own id of the attempt's work. Whether the attempt is cancelled by now.
    pub async fn note_reference(&self, key: AttemptKey, reference: &str) -> Result<bool, StoreError> {
        let noted = retrying(|| {
            let note = sqlx::query_scalar(NOTE_REFERENCE).bind(key.owner).bind(key.job).bind(key.id);
            note.bind(reference).fetch_optional(&self.pool)
        });
        noted.await?.ok_or(StoreError::LostRace)
    }

    /// The provider's own id of the attempt's work, where it was heard.
    pub async fn reference(&self, key: AttemptKey) -> Result<Option<String>, StoreError> {
        let read =
            || sqlx::query_scalar(REFERENCE).bind(key.owner).bind(key.job).bind(key.id).fetch_optional(&self.pool);
        Ok(retrying(read).await?.flatten())
    }

    /// Those of these attempts that are cancelled.
    pub async fn fenced_attempts(&self, ids: &[AttemptId]) -> Result<Vec<AttemptKey>, StoreError> {
        let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let found: Vec<(OwnerId, JobId, AttemptId)> =
            retrying(|| sqlx::query_as(FENCED).bind(&ids).fetch_all(&self.pool)).await?;
        Ok(found.into_iter().map(|(owner, job, id)| AttemptKey { owner, job, id }).collect())
    }
}
