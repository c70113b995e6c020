//! Group commit: rows that come while others are being committed travel together, in one statement and one commit.
//!
//! No row waits for company: one that comes alone is written at once, and while it is being committed the next gather.
//! What is queued is bounded in bytes; over the bound callers wait a little and are then told to come back. A row whose
//! batch was refused, or held up by a lock, is written again alone, so that no row fails or waits for another's sake. A
//! caller that goes away changes nothing: its row is written all the same.

use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use uuid::Uuid;

use super::StoreError;
use super::hold::Connections;

#[cfg(test)]
mod tests;

/// Rows of one statement.
const MAX_ROWS: usize = 128;
/// Payload of one statement, in bytes; a larger row travels alone.
const MAX_BYTES: usize = 4 << 20;
/// What may be queued and under way for one kind of rows, in KiB of payload, and what the smallest row counts.
const ROOM: u32 = 128 << 10;
const LEAST: u32 = 16;
/// How long a row waits for room.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// A batch that takes longer is held up, by a lock or by the database: those behind it go another way.
const HELD_UP: Duration = Duration::from_millis(50);
/// Batches of one kind under way at once, those held up among them.
const MAX_LANES: usize = 8;

/// The connections that batches use.
#[derive(Debug, Clone)]
pub(super) struct Ways {
    /// For a row alone: it may wait for a lock as long as a statement may take.
    pub alone: Connections,
    /// For rows together: a lock that does not come soon ends the statement, and the rows go on alone.
    pub together: Connections,
}

impl Ways {
    pub fn for_rows(&self, count: usize) -> &Connections {
        if count == 1 { &self.alone } else { &self.together }
    }

    pub async fn close(&self) {
        self.together.close().await;
        self.alone.close().await;
    }
}

/// A kind of rows that can share a statement.
pub(super) trait Rows: Send + Sync + 'static {
    type Row: Send + Sync + 'static;
    type Answer: Send + 'static;
    /// Batches under way at once, as long as none is held up.
    const LANES: usize;

    /// Rows with the same name never share a statement.
    fn name(row: &Self::Row) -> Option<Uuid>;

    /// The order in which a statement locks: the same in every process, so that none waits in a circle.
    fn order(one: &Self::Row, other: &Self::Row) -> Ordering;

    /// Bytes of payload.
    fn weight(row: &Self::Row) -> usize;

    /// Writes all rows in one commit, repeatably; one answer for each, in their order.
    fn write(
        ways: &Ways,
        rows: &[Arc<Self::Row>],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;
}

/// The queue of one kind of rows.
pub(super) struct Writer<R: Rows> {
    inner: Arc<Inner<R>>,
}

struct Inner<R: Rows> {
    ways: Ways,
    room: Arc<Semaphore>,
    queue: Mutex<Queue<R>>,
}

struct Queue<R: Rows> {
    waiting: VecDeque<Waiting<R>>,
    /// Batches under way.
    lanes: usize,
    /// Those of them that are not held up.
    free: usize,
}

struct Waiting<R: Rows> {
    row: Arc<R::Row>,
    answer: oneshot::Sender<Result<R::Answer, StoreError>>,
    /// Given back with the answer.
    _room: OwnedSemaphorePermit,
}

impl<R: Rows> Clone for Writer<R> {
    fn clone(&self) -> Self {
        Writer { inner: Arc::clone(&self.inner) }
    }
}

impl<R: Rows> fmt::Debug for Writer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.inner.lock();
        write!(f, "Writer({} waiting, {} under way)", queue.waiting.len(), queue.lanes)
    }
}

impl<R: Rows> Writer<R> {
    pub fn new(ways: Ways) -> Self {
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), lanes: 0, free: 0 });
        Writer { inner: Arc::new(Inner { ways, room: Arc::new(Semaphore::new(ROOM as usize)), queue }) }
    }

    /// Writes the row with whatever else is there to be written. [`StoreError::Overloaded`]: it was not even queued.
    pub async fn write(&self, row: Arc<R::Row>) -> Result<R::Answer, StoreError> {
        let weight = u32::try_from(R::weight(&row) >> 10).unwrap_or(ROOM).clamp(LEAST, ROOM);
        let room = match Arc::clone(&self.inner.room).try_acquire_many_owned(weight) {
            Ok(room) => room,
            Err(_) => {
                let room = Arc::clone(&self.inner.room).acquire_many_owned(weight);
                tokio::time::timeout(PATIENCE, room).await.ok().and_then(Result::ok).ok_or(StoreError::Overloaded)?
            }
        };
        let (answer, answered) = oneshot::channel();
        self.inner.join(Waiting { row, answer, _room: room });
        // Without an answer the lane has died, and nobody knows how far it came.
        answered.await.unwrap_or(Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed)))
    }
}

impl<R: Rows> Inner<R> {
    fn lock(&self) -> MutexGuard<'_, Queue<R>> {
        // Plain data: a panic elsewhere cannot have left it half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, waiting: Waiting<R>) {
        let mut queue = self.lock();
        queue.waiting.push_back(waiting);
        self.open_lane(queue);
    }

    /// Another batch sets out, if there are rows for it and it may.
    fn open_lane(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue<R>>) {
        if !queue.waiting.is_empty() && queue.free < R::LANES && queue.lanes < MAX_LANES {
            queue.lanes += 1;
            queue.free += 1;
            // A runtime that is shutting down drops the lane at once, which takes the lock.
            drop(queue);
            run(Lane { inner: Arc::clone(self), is_free: true, is_done: false });
        }
    }
}

impl<R: Rows> Queue<R> {
    /// The next batch, oldest first; what cannot go along keeps its place.
    fn take(&mut self) -> Vec<Waiting<R>> {
        let (mut batch, mut bytes, mut names) = (Vec::new(), 0, HashSet::new());
        let mut behind = Vec::new();
        while batch.len() < MAX_ROWS
            && let Some(next) = self.waiting.pop_front()
        {
            let weight = R::weight(&next.row);
            if !batch.is_empty() && bytes + weight > MAX_BYTES {
                behind.push(next);
                break;
            }
            if R::name(&next.row).is_some_and(|name| !names.insert(name)) {
                behind.push(next);
                continue;
            }
            bytes += weight;
            batch.push(next);
        }
        for next in behind.into_iter().rev() {
            self.waiting.push_front(next);
        }
        batch.sort_by(|one, other| R::order(&one.row, &other.row));
        batch
    }
}

/// One batch after the other, until nothing waits.
struct Lane<R: Rows> {
    inner: Arc<Inner<R>>,
    is_free: bool,
    /// It came to its end, rather than being dropped on its way.
    is_done: bool,
}

#[expect(clippy::disallowed_methods, reason = "whoever asked waits for the answer, and a dead lane is one too")]
fn run<R: Rows>(lane: Lane<R>) {
    tokio::spawn(async move {
        let mut lane = lane;
        while let Some(batch) = lane.next() {
            let inner = Arc::clone(&lane.inner);
            // A panic is told by the answers that never come; those behind it are written all the same.
            let mut written = std::pin::pin!(AssertUnwindSafe(write(&inner.ways, batch)).catch_unwind());
            if tokio::time::timeout(HELD_UP, written.as_mut()).await.is_err() {
                lane.held_up();
                let _ = written.await;
            }
        }
        lane.is_done = true;
    });
}

impl<R: Rows> Lane<R> {
    fn next(&mut self) -> Option<Vec<Waiting<R>>> {
        let mut queue = self.inner.lock();
        if !self.is_free {
            if queue.free >= R::LANES {
                return None;
            }
            queue.free += 1;
            self.is_free = true;
        }
        if queue.waiting.is_empty() {
            // Under the same lock, so that whoever comes next finds the lane gone and opens one.
            queue.free -= 1;
            self.is_free = false;
            return None;
        }
        Some(queue.take())
    }

    fn held_up(&mut self) {
        let mut queue = self.inner.lock();
        queue.free -= usize::from(self.is_free);
        self.is_free = false;
        self.inner.open_lane(queue);
    }
}

impl<R: Rows> Drop for Lane<R> {
    fn drop(&mut self) {
        let mut queue = self.inner.lock();
        queue.lanes -= 1;
        queue.free -= usize::from(self.is_free);
        if self.is_done {
            // Rows may have come in while as many were under way as may be.
            return self.inner.open_lane(queue);
        }
        // The runtime shuts down: no other lane would run. Whoever waits hears that nobody knows.
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
    }
}

/// Writes one batch and answers everybody in it.
async fn write<R: Rows>(ways: &Ways, mut batch: Vec<Waiting<R>>) {
    if batch.len() == 1
        && let Some(waiting) = batch.pop()
    {
        return alone(ways, waiting).await;
    }
    let rows: Vec<Arc<R::Row>> = batch.iter().map(|waiting| Arc::clone(&waiting.row)).collect();
    match R::write(ways, &rows).await {
        Ok(answers) => {
            for (waiting, answer) in batch.into_iter().zip(answers) {
                // Whoever asked may be gone.
                let _ = waiting.answer.send(Ok(answer));
            }
        }
        Err(StoreError::Unavailable(error)) => {
            for waiting in batch {
                let error = sqlx::Error::Io(std::io::Error::other(error.to_string()));
                let _ = waiting.answer.send(Err(StoreError::Unavailable(error)));
            }
        }
        Err(error) => {
            tracing::debug!(rows = batch.len(), %error, "a batch was refused; its rows go on alone");
            join_all(batch.into_iter().map(|waiting| alone(ways, waiting))).await;
        }
    }
}

async fn alone<R: Rows>(ways: &Ways, waiting: Waiting<R>) {
    let written = R::write(ways, &[Arc::clone(&waiting.row)]).await;
    let answer = written.and_then(|answers| answers.into_iter().next().ok_or(StoreError::LostRace));
    let _ = waiting.answer.send(answer);
}
