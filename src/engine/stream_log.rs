//! What one attempt has streamed so far: written by its call, read by any number of followers, each at its own pace.
//!
//! The log holds the stream once, whatever the number of followers, and at most as much as an answer may be long. A
//! slow follower costs nothing but its position, and holds up nobody: the call never waits for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::domain::ids::AttemptId;

#[derive(Debug)]
pub struct StreamLog {
    pub attempt: AttemptId,
    pub provider: String,
    /// Attempts of the job up to this one.
    pub attempts: usize,
    /// What of the request was left out for this target.
    pub dropped: Vec<String>,
    written: Mutex<Written>,
    /// Chunks so far. Its sender lies in the writer, so that followers see the end.
    length: watch::Receiver<usize>,
}

#[derive(Debug, Default)]
struct Written {
    chunks: Vec<Bytes>,
    usage: Option<Bytes>,
}

/// The call's end of the log.
#[derive(Debug)]
pub struct LogWriter {
    log: Arc<StreamLog>,
    length: watch::Sender<usize>,
}

/// One reader's position.
#[derive(Debug, Clone)]
pub struct Follower {
    log: Arc<StreamLog>,
    length: watch::Receiver<usize>,
    next: usize,
}

impl StreamLog {
    pub fn open(attempt: AttemptId, provider: String, attempts: usize, dropped: Vec<String>) -> LogWriter {
        let (sender, length) = watch::channel(0);
        let log = StreamLog { attempt, provider, attempts, dropped, written: Mutex::default(), length };
        LogWriter { log: Arc::new(log), length: sender }
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every chunk so far, as one text with a line each.
    pub fn lines(&self) -> Bytes {
        Bytes::from(self.lock().chunks.join(&b'\n'))
    }

    pub fn usage(&self) -> Option<Bytes> {
        self.lock().usage.clone()
    }

    /// The chunks from `from` on.
    pub fn since(&self, from: usize) -> Vec<Bytes> {
        self.lock().chunks.get(from..).unwrap_or_default().to_vec()
    }

    /// From the first chunk, whenever the follower comes.
    pub fn follow(self: &Arc<Self>) -> Follower {
        self.follow_from(0)
    }

    /// From the chunk at this position.
    pub fn follow_from(self: &Arc<Self>, next: usize) -> Follower {
        Follower { log: Arc::clone(self), length: self.length.clone(), next }
    }
}

impl LogWriter {
    pub fn log(&self) -> &Arc<StreamLog> {
        &self.log
    }

    pub fn push(&self, chunk: Bytes) {
        self.log.lock().chunks.push(chunk);
        self.length.send_modify(|length| *length += 1);
    }

    pub fn set_usage(&self, usage: Bytes) {
        self.log.lock().usage = Some(usage);
    }
}

impl Follower {
    pub fn attempt(&self) -> AttemptId {
        self.log.attempt
    }

    /// The next chunk; `None` once the call has written its last.
    pub async fn next(&mut self) -> Option<Bytes> {
        // An error means that the writer is gone: what is there is all there will be.
        let _ = self.length.wait_for(|length| *length > self.next).await;
        let chunk = self.log.lock().chunks.get(self.next).cloned()?;
        self.next += 1;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_follower_sees_everything_from_the_first_chunk_whenever_it_comes() {
        let writer = StreamLog::open(AttemptId::fresh(), "a".to_owned(), 1, Vec::new());
        let mut early = writer.log().follow();
        writer.push(Bytes::from_static(b"1"));
        assert_eq!(early.next().await.as_deref(), Some(&b"1"[..]));
        writer.push(Bytes::from_static(b"2"));
        let mut late = writer.log().follow();
        drop(writer);
        assert_eq!(early.next().await.as_deref(), Some(&b"2"[..]));
        assert_eq!(early.next().await, None);
        assert_eq!(late.next().await.as_deref(), Some(&b"1"[..]));
        assert_eq!(late.next().await.as_deref(), Some(&b"2"[..]));
        assert_eq!(late.next().await, None);
    }
}
