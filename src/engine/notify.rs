//! Tells owners' own servers that their jobs are over: signed notices, at least once, for a day.
//!
//! Every instance does this; there is no leader. A claim in the database is the lease on one try, so two instances seldom
//! send the same notice, and one that dies between the receiver's yes and its own note makes it be sent again. Without a
//! signing key nothing is sent; what is pending then waits for one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use providers::transport::callback::{LONGEST_TRY, Missed, Sender, UrlError};
use tokio::sync::Notify;

use super::{Engine, EngineError, Phase, tasks};
use crate::config::Callbacks;
use crate::domain::ids::OwnerId;
use crate::domain::notice::SigningKey;
use crate::store::StoreError;
use crate::store::callbacks::{DueNotice, LastTry};

/// Between two looks for notices that are due.
const LOOK: Duration = Duration::from_secs(1);
/// How long a claim keeps others away: one try, and time to note what came of it.
const LEASE: Duration = LONGEST_TRY.saturating_add(Duration::from_secs(5));
/// Tries under way at once, in this process.
const AT_ONCE: usize = 64;
/// Taken at a time, and how many of one owner may be under way before it has to wait: an owner whose server is silent
/// holds up nobody else's notices.
const PER_OWNER: usize = 8;

/// Why a job's callback is refused when the job is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    #[error("cannot be used here: the operator has to set callbacks.secret, with which notices are signed")]
    NotConfigured,
    #[error(transparent)]
    Url(#[from] UrlError),
}

/// This process's sender, and what it has under way.
#[derive(Debug)]
pub struct Notifier {
    sender: Sender,
    key: Option<SigningKey>,
    under_way: Mutex<HashMap<OwnerId, usize>>,
    /// A try has ended: there is room.
    room: Notify,
}

/// One try under way; it ends when this is dropped, whatever happens to its task.
#[derive(Debug)]
struct Place {
    notifier: Arc<Notifier>,
    owner: OwnerId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.notifier.lock();
        if let Some(n) = under_way.get_mut(&self.owner) {
            *n -= 1;
            if *n == 0 {
                under_way.remove(&self.owner);
            }
        }
        self.notifier.room.notify_one();
    }
}

impl Notifier {
    pub fn new(settings: &Callbacks) -> Result<Notifier, EngineError> {
        let sender = Sender::new(settings.allow_private).map_err(|error| EngineError::Callbacks(error.to_string()))?;
        Ok(Notifier { sender, key: settings.key.clone(), under_way: Mutex::default(), room: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, usize>> {
        // Counts are plain data: a panic elsewhere cannot have left them half changed.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_place(self: &Arc<Self>, owner: OwnerId) -> Place {
        *self.lock().entry(owner).or_default() += 1;
        Place { notifier: self.clone(), owner }
    }

    /// How many more may be taken now, and the owners that have to wait.
    fn free(&self) -> (usize, Vec<OwnerId>) {
        let under_way = self.lock();
        let waiting = under_way.iter().filter(|(_, n)| **n >= PER_OWNER).map(|(owner, _)| *owner).collect();
        (AT_ONCE.saturating_sub(under_way.values().sum()).min(PER_OWNER), waiting)
    }
}

impl Engine {
    /// Reads a callback's address, as far as it can be judged before the job is over; normalised.
    pub fn read_callback(&self, text: &str) -> Result<String, CallbackError> {
        let notifier = &self.inner.notifier;
        if notifier.key.is_none() {
            return Err(CallbackError::NotConfigured);
        }
        Ok(notifier.sender.read(text)?.as_str().to_owned())
    }

    pub(super) fn spawn_notifier(&self) {
        let Some(key) = self.inner.notifier.key.clone() else { return };
        let engine = self.clone();
        tasks::spawn(async move {
            let mut phase = engine.inner.phase.subscribe();
            loop {
                let more = engine.send_due(&key).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "notices not looked for this time");
                    false
                });
                tokio::select! {
                    _ = phase.wait_for(|p| *p == Phase::Stopped) => return,
                    () = tokio::time::sleep(LOOK) => {}
                    () = engine.inner.notifier.room.notified(), if more => {}
                }
            }
        });
    }

    /// Takes what is due and sends it, each in a task of its own. Whether more may be due that has to wait for room.
    async fn send_due(&self, key: &SigningKey) -> Result<bool, StoreError> {
        loop {
            let (free, waiting) = self.inner.notifier.free();
            if free == 0 {
                return Ok(true);
            }
            let due = self.store().claim_callbacks(LEASE, free as i64, &waiting).await?;
            let was_all = due.len() < free;
            for due in due {
                let (engine, key, place) = (self.clone(), key.clone(), self.inner.notifier.take_place(due.owner));
                tasks::spawn(async move {
                    engine.send_notice(&key, due).await;
                    drop(place);
                });
            }
            if was_all {
                return Ok(!waiting.is_empty());
            }
        }
    }

    async fn send_notice(&self, key: &SigningKey, due: DueNotice) {
        let body = due.notice.body();
        let headers = due.notice.headers(key, &body, due.claimed_at);
        let outcome = match self.inner.notifier.sender.post(&due.url, headers, body.into()).await {
            Ok(status) => {
                self.count_callback("delivered");
                tracing::debug!(job = %due.notice.job, attempts = due.attempts, "callback delivered");
                self.persist("deliver the callback", || self.store().deliver_callback(&due, status)).await
            }
            Err(missed) => self.miss_notice(&due, missed).await,
        };
        match outcome {
            None | Some(Ok(())) => {}
            Some(Err(StoreError::LostRace)) => {
                tracing::debug!(job = %due.notice.job, "callback settled by another instance")
            }
            Some(Err(error)) => {
                tracing::error!(job = %due.notice.job, %error, "the callback's outcome could not be written")
            }
        }
    }

    async fn miss_notice(&self, due: &DueNotice, missed: Missed) -> Option<Result<(), StoreError>> {
        let tries = u32::try_from(due.attempts).unwrap_or(u32::MAX);
        let again_in = due.notice.next_try(tries, rand::random::<f64>(), missed.retry_after, due.claimed_at);
        let again_in = again_in.filter(|_| !missed.is_gone);
        let last = LastTry { status: missed.status, error: missed.message };
        let (job, error) = (due.notice.job, &last.error);
        match again_in {
            Some(wait) => {
                self.count_callback("missed");
                tracing::info!(%job, attempts = due.attempts, error, again_in = ?wait, "callback not taken");
            }
            None => {
                self.count_callback("given_up");
                tracing::warn!(%job, attempts = due.attempts, error, "callback given up");
            }
        }
        self.persist("note the missed callback", || self.store().miss_callback(due, &last, again_in)).await
    }

    fn count_callback(&self, outcome: &str) {
        self.metrics().callbacks.with_label_values(&[outcome]).inc();
    }
}
