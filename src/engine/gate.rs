//! How many requests may be on their way to the database at once. Whoever finds no room is refused at the door: refusing
//! is cheap, and those let in wait about as long as ever ([`crate::domain::overload`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::EngineError;
use crate::domain::overload::{Controller, Write};

/// The door of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    controller: Mutex<Controller>,
    started: Instant,
    entering: AtomicUsize,
    limit: AtomicUsize,
}

/// A place among those on their way.
#[derive(Debug)]
pub struct Entering {
    gate: Gate,
}

impl Default for Gate {
    fn default() -> Self {
        let controller = Controller::new(std::time::Duration::ZERO);
        let limit = AtomicUsize::new(controller.limit());
        let inner =
            Inner { controller: Mutex::new(controller), started: Instant::now(), entering: AtomicUsize::new(0), limit };
        Gate { inner: Arc::new(inner) }
    }
}

impl Gate {
    /// [`EngineError::Overloaded`]: as many as may be are on their way already.
    pub fn enter(&self) -> Result<Entering, EngineError> {
        let limit = self.inner.limit.load(Ordering::Relaxed);
        let before = self.inner.entering.fetch_add(1, Ordering::Relaxed);
        // Made first, so that it is given back in either case.
        let place = Entering { gate: self.clone() };
        if before < limit { Ok(place) } else { Err(EngineError::Overloaded) }
    }

    /// How many are on their way, and how many may be.
    pub fn load(&self) -> (usize, usize) {
        (self.inner.entering.load(Ordering::Relaxed), self.inner.limit.load(Ordering::Relaxed))
    }

    /// Runs one piece of work at the database, and learns from how long it takes.
    pub async fn timed<T>(&self, write: Write, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = work.await;
        let (now, entering) = (self.inner.started.elapsed(), self.inner.entering.load(Ordering::Relaxed));
        let mut controller = self.inner.controller.lock().unwrap_or_else(PoisonError::into_inner);
        controller.heard(write, began.elapsed(), entering, now);
        self.inner.limit.store(controller.limit(), Ordering::Relaxed);
        done
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        self.gate.inner.entering.fetch_sub(1, Ordering::Relaxed);
    }
}
