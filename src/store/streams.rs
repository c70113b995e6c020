//! Streams: how a delivered one is stored, and running ones as far as somebody in another process follows them.

use bytes::Bytes;

use super::attempts::AttemptKey;
use super::{Store, StoreError, retrying};
use crate::domain::ids::{JobId, OwnerId};

/// A stream as delivered: the chunks as JSON texts, a line each, and the usage chunk apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streamed {
    pub lines: Bytes,
    pub usage: Option<Bytes>,
}

impl Streamed {
    /// The chunks one by one, without a copy.
    pub fn chunks(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| self.lines.slice_ref(line))
    }
}

const FOLLOW: &str = "/* follow_stream */
INSERT INTO stream_followers (owner_id, job_id, until) VALUES ($1, $2, now() + interval '10 s')
ON CONFLICT ON CONSTRAINT stream_followers_pkey DO UPDATE SET until = excluded.until
WHERE stream_followers.until < now() + interval '7 s'";

const FOLLOWED: &str = "/* followed_jobs */ SELECT job_id FROM stream_followers WHERE until > now()";

const WRITE: &str = "/* write_chunks */
INSERT INTO stream_chunks (owner_id, job_id, attempt_id, seq, data)
SELECT $1, $2, $3, $4 + c.ordinality::int4 - 1, c.data FROM unnest($5::bytea[]) WITH ORDINALITY AS c (data)
ON CONFLICT ON CONSTRAINT stream_chunks_pkey DO NOTHING";

const READ: &str = "/* chunks_since */
SELECT data FROM stream_chunks WHERE owner_id = $1 AND job_id = $2 AND attempt_id = $3 AND seq >= $4 ORDER BY seq";

const CLEAN_CHUNKS: &str = "/* clean_chunks */ DELETE FROM stream_chunks WHERE written_at < now() - interval '30 min'";
const CLEAN_FOLLOWERS: &str =
    "/* clean_followers */ DELETE FROM stream_followers WHERE until < now() - interval '1 min'";

impl Store {
    /// Somebody follows this job's stream from another process, for the next ten seconds.
    pub async fn follow_stream(&self, owner: OwnerId, job: JobId) -> Result<(), StoreError> {
        retrying(|| sqlx::query(FOLLOW).bind(owner).bind(job).execute(&self.pool)).await?;
        Ok(())
    }

    /// The jobs whose streams are followed now, whoever runs them.
    pub async fn followed_jobs(&self) -> Result<Vec<JobId>, StoreError> {
        retrying(|| sqlx::query_scalar(FOLLOWED).fetch_all(&self.pool)).await
    }

    /// Writes chunks down, the first of them at position `from`. Written twice they are written once.
    pub async fn write_chunks(&self, key: AttemptKey, from: usize, chunks: &[Bytes]) -> Result<(), StoreError> {
        let from = i32::try_from(from).unwrap_or(i32::MAX);
        let data: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
        retrying(|| {
            sqlx::query(WRITE).bind(key.owner).bind(key.job).bind(key.id).bind(from).bind(&data).execute(&self.pool)
        })
        .await?;
        Ok(())
    }

    /// The chunks written down from position `from` on.
    pub async fn chunks_since(&self, key: AttemptKey, from: usize) -> Result<Vec<Bytes>, StoreError> {
        let from = i32::try_from(from).unwrap_or(i32::MAX);
        let read =
            || sqlx::query_scalar(READ).bind(key.owner).bind(key.job).bind(key.id).bind(from).fetch_all(&self.pool);
        let data: Vec<Vec<u8>> = retrying(read).await?;
        Ok(data.into_iter().map(Bytes::from).collect())
    }

    /// Removes what followers have long read, and followers that have long gone.
    pub async fn clean_streams(&self) -> Result<(), StoreError> {
        retrying(|| sqlx::query(CLEAN_CHUNKS).execute(&self.pool)).await?;
        retrying(|| sqlx::query(CLEAN_FOLLOWERS).execute(&self.pool)).await?;
        Ok(())
    }
}
