//! The calls of this process that have not ended, by attempt: whether one is still out, and how to end it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::ids::AttemptId;

/// Every call that is out.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    out: Arc<Mutex<HashMap<AttemptId, Out>>>,
}

#[derive(Debug)]
struct Out {
    stop: watch::Sender<bool>,
    streams: bool,
    /// Its attempt was found cancelled.
    fenced: bool,
}

/// The call's own end; it leaves when this is dropped.
#[derive(Debug)]
pub struct Seat {
    calls: Calls,
    id: AttemptId,
    stop: watch::Receiver<bool>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Out>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, id: AttemptId, streams: bool) -> Seat {
        let (stop, stopped) = watch::channel(false);
        self.lock().insert(id, Out { stop, streams, fenced: false });
        Seat { calls: self.clone(), id, stop: stopped }
    }

    /// Whether the attempt's call may still send or hear something.
    pub fn is_out(&self, id: AttemptId) -> bool {
        self.lock().contains_key(&id)
    }

    /// Ends the call: its connection is closed, and nobody listens any more.
    pub fn stop(&self, id: AttemptId) {
        if let Some(out) = self.lock().get(&id) {
            out.stop.send_replace(true);
        }
    }

    /// The attempt is cancelled. A stream ends at once, and so does a call whose provider is told to stop. Any other
    /// is listened to: nothing stops the provider's work there, and what it cost is worth knowing.
    pub fn fence(&self, id: AttemptId, provider_is_told: bool) {
        if let Some(out) = self.lock().get_mut(&id) {
            out.fenced = true;
            if out.streams || provider_is_told {
                out.stop.send_replace(true);
            }
        }
    }

    /// The calls whose attempts nobody has found cancelled.
    pub fn unfenced(&self) -> Vec<AttemptId> {
        self.lock().iter().filter(|(_, out)| !out.fenced).map(|(id, _)| *id).collect()
    }
}

impl Seat {
    /// Does the work unless the call is stopped first. Work that is done counts as done.
    pub async fn attend<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = self.stop.wait_for(|stop| *stop) => None,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancelled_stream_ends_and_another_call_only_where_the_provider_is_told() {
        for (streams, told, ends) in [(true, false, true), (false, true, true), (false, false, false)] {
            let calls = Calls::default();
            let id = AttemptId::fresh();
            let mut seat = calls.begin(id, streams);
            assert!(calls.is_out(id));
            calls.fence(id, told);
            assert!(calls.unfenced().is_empty());
            let work = async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            };
            assert_eq!(seat.attend(work).await.is_none(), ends, "{streams} {told}");
            drop(seat);
            assert!(!calls.is_out(id));
        }
    }

    #[tokio::test]
    async fn what_has_arrived_is_not_lost_by_a_stop() {
        let calls = Calls::default();
        let id = AttemptId::fresh();
        let mut seat = calls.begin(id, true);
        calls.stop(id);
        assert_eq!(seat.attend(async { 7 }).await, Some(7));
    }
}
