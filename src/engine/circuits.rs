//! One circuit per target, in this process. Other instances learn for themselves, within as many calls of their own.
//!
//! Beside them the circuits that live answers have opened: those stand in the database, hold a target on one route for
//! every instance, and are only read here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use providers::failure::Failure;

use crate::domain::Timestamp;
use crate::domain::circuit::Circuit;
use crate::domain::route::{Route, Target};
use crate::store::drift::HeldCircuit;

#[derive(Debug, Default)]
pub struct Circuits {
    by_target: Mutex<HashMap<Target, Circuit>>,
    held: Mutex<Vec<HeldCircuit>>,
}

impl Circuits {
    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Circuit>> {
        // A circuit is plain data: a panic elsewhere cannot have left it half changed.
        self.by_target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The targets of this route that are to be left alone now, and until when.
    pub fn cooling(&self, route: &Route, now: Timestamp) -> HashMap<Target, Timestamp> {
        let circuits = self.lock();
        route
            .targets
            .iter()
            .filter_map(|t| Some((t.target.clone(), circuits.get(&t.target)?.closed_until(now)?)))
            .collect()
    }

    /// Whether calls to this target go out freely. After a pause they do not: each has to ask [`Circuits::begin`].
    pub fn is_free(&self, target: &Target) -> bool {
        self.lock().get(target).is_none_or(Circuit::is_free)
    }

    /// Whether a call to this target may begin now; after a pause it is then the one probe.
    pub fn begin(&self, target: &Target, now: Timestamp, timeout: Duration) -> bool {
        self.lock().get_mut(target).is_none_or(|circuit| circuit.begin(now, timeout))
    }

    /// The call that was to begin did not.
    pub fn give_up(&self, target: &Target) {
        if let Some(circuit) = self.lock().get_mut(target) {
            circuit.give_up();
        }
    }

    /// What the database holds open, as just read; what was closed since the last time is returned.
    pub fn hold(&self, held: Vec<HeldCircuit>) -> Vec<HeldCircuit> {
        let mut before = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = before.iter().filter(|old| !held.contains(old)).cloned().collect();
        *before = held;
        closed
    }

    /// The circuits that only a passed run closes.
    pub fn held(&self) -> Vec<HeldCircuit> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The targets of this route that are held under its contract, and why.
    pub fn held_on(&self, route: &Route) -> HashMap<Target, String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let here = held.iter().filter(|c| c.route == route.name && Some(&c.suite) == route.contract.as_ref());
        here.map(|c| (c.target.clone(), c.reason.clone())).collect()
    }

    pub fn succeeded(&self, target: &Target) {
        if let Some(circuit) = self.lock().get_mut(target) {
            circuit.succeeded();
        }
    }

    pub fn failed(&self, target: &Target, failure: &Failure, now: Timestamp) {
        self.lock().entry(target.clone()).or_default().failed(failure.proof, failure.retry_after, now);
    }

    /// Every circuit that is not plainly closed: the target, since when it fails, until when it is left alone.
    pub fn list(&self, now: Timestamp) -> Vec<(Target, Option<Timestamp>, Option<Timestamp>)> {
        let circuits = self.lock();
        circuits.iter().map(|(target, c)| (target.clone(), c.failing_since, c.closed_until(now))).collect()
    }
}
