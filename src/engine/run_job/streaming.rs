//! What the job's task does about streams: which one is shown to those who follow, and what a broken one forbids.

use std::sync::Arc;

use super::Runner;
use crate::domain::ids::AttemptId;
use crate::domain::job::{JobError, JobErrorCode, Snapshot};
use crate::domain::route::StreamDelivery;
use crate::domain::step::describe;
use crate::engine::mirror::Mirror;
use crate::engine::progress::Progress;
use crate::engine::stream_log::StreamLog;
use crate::store::attempts::AttemptKey;

impl Runner {
    /// The log that those who stream are shown, if it is this attempt's.
    pub(super) fn showing(&self, attempt: AttemptId) -> Option<Arc<StreamLog>> {
        self.shown.clone().filter(|log| log.attempt == attempt)
    }

    /// Another process streams this attempt: what it has written down goes into a log of ours.
    pub(super) async fn mirror(&mut self, snapshot: &Snapshot, attempt: AttemptId) {
        let wanted = self.entry.progress.receiver_count() > 0;
        let live = self.route.as_ref().is_some_and(|route| route.stream == StreamDelivery::Live);
        if !wanted || !live {
            return;
        }
        let key = AttemptKey { owner: self.owner, job: self.job, id: attempt };
        let open = snapshot.open_attempt().map(|open| (open.target.provider.clone(), open.dropped.clone()));
        let (provider, dropped) = open.unwrap_or_default();
        let fresh = || Mirror::new(key, provider, snapshot.attempts.len(), dropped);
        let mirror = match self.mirror.take().filter(|mirror| mirror.key == key) {
            Some(mirror) => self.mirror.insert(mirror),
            None => self.mirror.insert(fresh()),
        };
        match mirror.fetch(&self.engine).await {
            Ok(0) => {}
            Ok(_) => {
                let log = mirror.log();
                self.looks = 0;
                self.shown = Some(Arc::clone(&log));
                self.publish(Progress::Streaming(log));
            }
            Err(error) => tracing::debug!(job = %self.job, %error, "the stream could not be followed"),
        }
    }

    /// Whether somebody was shown content of a stream that has not become the job's answer.
    pub(super) fn has_delivered(&self) -> bool {
        self.shown.is_some() && self.entry.progress.receiver_count() > 0
    }

    pub(super) fn broken_stream(&self, snapshot: &Snapshot) -> JobError {
        let why = "the stream broke off after content was delivered; the same key starts the answer anew";
        JobError::new(JobErrorCode::AllTargetsFailed, why, snapshot.attempts.iter().map(describe).collect())
    }

    /// A stream's first content. Shown only if nothing is shown yet, and only of the attempt that is open: a released
    /// one that comes late may still win, but its stream is nobody's.
    pub(super) fn on_content(&mut self, key: AttemptKey, log: &Arc<StreamLog>) {
        let live = self.route.as_ref().is_some_and(|route| route.stream == StreamDelivery::Live);
        if live && self.open == Some(key.id) && matches!(*self.entry.progress.borrow(), Progress::Running) {
            self.shown = Some(Arc::clone(log));
            self.engine.inner.streams.open(key, log);
            self.publish(Progress::Streaming(Arc::clone(log)));
        }
    }
}
