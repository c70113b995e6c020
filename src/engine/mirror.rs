//! Streams across processes: the one that runs it writes the chunks down while somebody elsewhere follows, the follower
//! reads them into a log of its own.
//!
//! A stream that nobody elsewhere follows costs nothing here but a look at a tiny table. What lasts is the stored
//! result; these rows are only the way to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Engine;
use super::progress::Delivered;
use super::stream_log::{LogWriter, StreamLog};
use crate::domain::ids::JobId;
use crate::store::StoreError;
use crate::store::attempts::AttemptKey;

/// Between two looks for followers, while streams run here.
const LOOK: Duration = Duration::from_millis(200);

/// The streams that run in this process, and how much of each has been written down.
#[derive(Debug, Default)]
pub struct Streams {
    by_job: Mutex<HashMap<JobId, Running>>,
}

#[derive(Debug, Clone)]
struct Running {
    key: AttemptKey,
    log: Arc<StreamLog>,
    written: usize,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Running>> {
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(&self, key: AttemptKey, log: &Arc<StreamLog>) {
        self.lock().insert(key.job, Running { key, log: Arc::clone(log), written: 0 });
    }

    pub fn close(&self, key: AttemptKey) {
        let mut streams = self.lock();
        if streams.get(&key.job).is_some_and(|running| running.key == key) {
            streams.remove(&key.job);
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn note_written(&self, key: AttemptKey, written: usize) {
        if let Some(running) = self.lock().get_mut(&key.job) {
            running.written = running.written.max(written);
        }
    }
}

impl Engine {
    pub(super) fn spawn_stream_writer(&self) {
        self.every(LOOK, "write followed streams", |engine| async move { engine.write_followed_streams().await });
    }

    async fn write_followed_streams(&self) -> Result<(), StoreError> {
        if self.inner.streams.is_empty() {
            return Ok(());
        }
        for job in self.store().followed_jobs().await? {
            let running = self.inner.streams.lock().get(&job).cloned();
            let Some(Running { key, log, written }) = running else { continue };
            let chunks = log.since(written);
            if !chunks.is_empty() {
                self.store().write_chunks(key, written, &chunks).await?;
                self.inner.streams.note_written(key, written + chunks.len());
            }
        }
        Ok(())
    }
}

/// A follower's own copy of a stream that runs elsewhere.
#[derive(Debug)]
pub struct Mirror {
    pub key: AttemptKey,
    writer: LogWriter,
    read: usize,
}

impl Mirror {
    pub fn new(key: AttemptKey, provider: String, attempts: usize, dropped: Vec<String>) -> Self {
        Mirror { key, writer: StreamLog::open(key.id, provider, attempts, dropped), read: 0 }
    }

    pub fn log(&self) -> Arc<StreamLog> {
        Arc::clone(self.writer.log())
    }

    /// Says that somebody follows, and reads on. Returns how many chunks there are by now.
    pub async fn fetch(&mut self, engine: &Engine) -> Result<usize, StoreError> {
        engine.store().follow_stream(self.key.owner, self.key.job).await?;
        for chunk in engine.store().chunks_since(self.key, self.read).await? {
            self.writer.push(chunk);
            self.read += 1;
        }
        Ok(self.read)
    }

    /// The stream has ended with this answer: what has not been read yet follows from it.
    pub fn complete(self, delivered: &Delivered) {
        if delivered.attempt != self.key.id {
            return;
        }
        let Some(stream) = &delivered.stream else { return };
        for line in stream.chunks().skip(self.read) {
            self.writer.push(line);
        }
    }
}
