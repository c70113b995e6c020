//! What a misbehaving provider remembers between calls, and a sound one must not.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of all calls so far.
#[derive(Debug, Default)]
pub(in crate::local::sim) struct Memory(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    calls: u64,
    bodies: HashMap<String, u64>,
    first: Option<String>,
    previous: Option<String>,
}

impl Memory {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer that was made. The first one is kept for good.
    pub(in crate::local::sim) fn note(&self, answer: &str) {
        let mut held = self.held();
        held.calls += 1;
        held.first.get_or_insert_with(|| answer.to_owned());
        held.previous = Some(answer.to_owned());
    }

    /// How often this body has come before.
    pub(in crate::local::sim) fn repetition(&self, body: &str) -> u64 {
        let mut held = self.held();
        let seen = held.bodies.entry(body.to_owned()).or_default();
        *seen += 1;
        *seen - 1
    }

    pub(super) fn calls(&self) -> u64 {
        self.held().calls
    }

    pub(super) fn first(&self) -> Option<String> {
        self.held().first.clone()
    }

    pub(super) fn previous(&self) -> Option<String> {
        self.held().previous.clone()
    }
}
