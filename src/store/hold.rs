//! Connections that are kept between the statements of one kind.
//!
//! The pool asks a connection whether it is sound each time that it gets one back: a message there and back, and a task
//! for it, after every statement. Batches follow each other on the same few connections; those that answered well are
//! kept instead, and go back to the pool when something was wrong with them, and from time to time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgPool, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, Postgres};

use super::PING_AFTER;

/// The pool renews connections that have grown old; it sees only those that come back.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// A pool, and a few of its connections that are at hand.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    pool: PgPool,
    kept: Arc<Mutex<Vec<Kept>>>,
    /// Others want connections of this pool, too.
    most: usize,
}

#[derive(Debug)]
struct Kept {
    connection: PoolConnection<Postgres>,
    since: Instant,
    used: Instant,
}

impl Connections {
    /// Keeps no more than `most` of the pool's connections from it.
    pub fn new(pool: PgPool, most: usize) -> Connections {
        Connections { pool, kept: Arc::default(), most }
    }

    /// # Errors
    ///
    /// The statement's own, and those of a connection that cannot be had. Whether a statement whose connection broke
    /// has been carried out, nobody knows.
    pub async fn fetch_all(&self, query: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut kept = self.take().await?;
        // Dropped on its way, or after an error, it goes back to the pool, which looks at it.
        let rows = query.fetch_all(&mut *kept.connection).await?;
        kept.used = Instant::now();
        self.keep(kept);
        Ok(rows)
    }

    /// Closes the pool and what was kept from it.
    pub async fn close(&self) {
        // Marked as closed by the call already: from now on nothing is kept.
        let closed = self.pool.close();
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
        closed.await;
    }

    async fn take(&self) -> Result<Kept, sqlx::Error> {
        let kept = self.lock().pop();
        if let Some(mut kept) = kept
            && (kept.used.elapsed() < PING_AFTER || kept.connection.ping().await.is_ok())
        {
            return Ok(kept);
        }
        let (connection, now) = (self.pool.acquire().await?, Instant::now());
        Ok(Kept { connection, since: now, used: now })
    }

    fn keep(&self, one: Kept) {
        let mut kept = self.lock();
        if one.since.elapsed() < KEPT_FOR && kept.len() < self.most && !self.pool.is_closed() {
            kept.push(one);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        // Plain data: a panic elsewhere cannot have left it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
