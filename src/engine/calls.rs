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

/// Why a call was ended before its provider ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its answer came by another way.
    NotNeeded,
    /// Its attempt was cancelled: what has come is thrown away.
    Cancelled,
}

/// Whose attempt was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fenced {
    /// The owner cancelled the job: nobody wants an answer any more.
    Job,
    /// An operator cancelled the attempt, and the job goes on.
    Attempt,
}

/// What closing a call's connection does to its provider's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// It comes in one piece; what closing does to it is not known.
    Whole,
    /// It is streamed, and stops with its connection.
    Streamed,
    /// It goes on without us, under an id that the provider has yet to say: only by that can it be stopped.
    Background,
}

#[derive(Debug)]
struct Out {
    stop: watch::Sender<Option<Stop>>,
    work: Work,
    /// Its attempt was found cancelled.
    fenced: bool,
}

/// The call's own end; it leaves when this is dropped.
#[derive(Debug)]
pub struct Seat {
    calls: Calls,
    id: AttemptId,
    stop: watch::Receiver<Option<Stop>>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptId, Out>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, id: AttemptId, work: Work) -> Seat {
        let (stop, stopped) = watch::channel(None);
        self.lock().insert(id, Out { stop, work, fenced: false });
        Seat { calls: self.clone(), id, stop: stopped }
    }

    /// Whether the attempt's call may still send or hear something.
    pub fn is_out(&self, id: AttemptId) -> bool {
        self.lock().contains_key(&id)
    }

    /// Ends the call: its connection is closed, and nobody listens any more.
    pub fn stop(&self, id: AttemptId) {
        if let Some(out) = self.lock().get(&id) {
            out.stop.send_replace(Some(Stop::NotNeeded));
        }
    }

    /// The attempt is cancelled. With its job, its connection is closed at once: most providers stop working then. So are
    /// a stream's, and one whose provider is told to stop. Any other whose job goes on is listened to: what it cost is
    /// worth knowing, and the operator may have been wrong about it. Work in the background is listened to until its
    /// provider can be told.
    pub fn fence(&self, id: AttemptId, fenced: Fenced, provider_is_told: bool) {
        if let Some(out) = self.lock().get_mut(&id) {
            out.fenced = true;
            let ends = match out.work {
                Work::Whole => fenced == Fenced::Job,
                Work::Streamed => true,
                Work::Background => false,
            };
            if ends || provider_is_told {
                out.stop.send_replace(Some(Stop::Cancelled));
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
    pub async fn attend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            stop = self.stop.wait_for(Option::is_some) => Err(stop.ok().and_then(|stop| *stop).unwrap_or(Stop::NotNeeded)),
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
    async fn what_is_cancelled_ends_unless_its_job_goes_on_and_nothing_stops_the_provider() {
        for (fenced, work, told, ends) in [
            (Fenced::Job, Work::Whole, false, true),
            (Fenced::Job, Work::Streamed, true, true),
            (Fenced::Job, Work::Background, false, false),
            (Fenced::Job, Work::Background, true, true),
            (Fenced::Attempt, Work::Streamed, false, true),
            (Fenced::Attempt, Work::Whole, true, true),
            (Fenced::Attempt, Work::Whole, false, false),
        ] {
            let calls = Calls::default();
            let id = AttemptId::fresh();
            let mut seat = calls.begin(id, work);
            assert!(calls.is_out(id));
            calls.fence(id, fenced, told);
            assert!(calls.unfenced().is_empty());
            let exchange = async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            };
            let expected = if ends { Err(Stop::Cancelled) } else { Ok(()) };
            assert_eq!(seat.attend(exchange).await, expected, "{fenced:?} {work:?} {told}");
            drop(seat);
            assert!(!calls.is_out(id));
        }
    }

    #[tokio::test]
    async fn what_has_arrived_is_not_lost_by_a_stop() {
        let calls = Calls::default();
        let id = AttemptId::fresh();
        let mut seat = calls.begin(id, Work::Streamed);
        calls.stop(id);
        assert_eq!(seat.attend(async { 7 }).await, Ok(7));
    }
}
