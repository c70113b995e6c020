//! Ends permits whose ground has changed: the suite, the adapter, the model or the provider's settings.
//!
//! Every instance does this; the first to say so ends the permit for all, for good and with the reason. During a roll-out
//! old and new settings serve side by side, and a permit earned under the new ones must survive the old: only a process
//! that has itself had what the permit was earned under, or that began after it was granted, may call it a change.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use super::drift::Sample;
use crate::domain::Timestamp;
use crate::domain::permit::{Change, EndCause, Permit};
use crate::domain::route::Route;
use crate::engine::Engine;
use crate::store::StoreError;

/// Between two looks. What a call meets in between is judged by the call itself.
const LOOK: Duration = Duration::from_secs(2);
/// Between two looks for evidence that has grown too old.
const RECHECK: Duration = Duration::from_secs(1);
/// Who ends a permit when nobody does it by name.
const ACTOR: &str = "gateway";

/// What this process has seen of the ground that permits stand on.
#[derive(Debug)]
pub struct Watch {
    /// The database's time when this process began.
    began: Timestamp,
    /// Digests of suites that this process has had before it.
    seen: Mutex<HashSet<String>>,
}

impl Watch {
    pub fn new(began: Timestamp) -> Watch {
        Watch { began, seen: Mutex::default() }
    }

    /// The suite has this digest now.
    pub fn saw(&self, digest: Option<&str>) {
        let Some(digest) = digest else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains(digest) {
            seen.insert(digest.to_owned());
        }
    }

    /// Whether a difference from this permit is a change, and not the other half of a roll-out. Only suites change
    /// while a process runs; its settings are those that it began with.
    fn may_end(&self, permit: &Permit, change: &Change) -> bool {
        let facts = permit.facts();
        match change {
            _ if facts.granted_at < self.began => true,
            Change::Suite { .. } => {
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(&facts.suite_digest)
            }
            Change::Contract { .. } | Change::Model { .. } | Change::Adapter { .. } | Change::Settings { .. } => false,
        }
    }
}

impl Engine {
    pub(in crate::engine) async fn spawn_evidence(&self, samples: mpsc::Receiver<Sample>) -> Result<(), StoreError> {
        // Before the first call: what was open when this process began is open for it too.
        self.read_held_circuits().await?;
        self.every(LOOK, "watch the evidence", |engine| async move { engine.watch_evidence().await });
        self.every(RECHECK, "recheck", |engine| async move { engine.recheck().await });
        self.spawn_drift(samples);
        Ok(())
    }

    async fn watch_evidence(&self) -> Result<(), StoreError> {
        self.read_held_circuits().await?;
        let live: Vec<Permit> = self.store().live_permits().await?.into_iter().map(|listed| listed.permit).collect();
        for route in self.config().routes.values().filter(|route| route.targets.len() > 1) {
            let digest = self.quiet_digest(route).await;
            self.end_changed(route, &live, digest.as_deref()).await;
        }
        Ok(())
    }

    /// The digest of the route's suite. That it cannot be read is told by the calls that need it; here it would be told
    /// every other second.
    pub(super) async fn quiet_digest(&self, route: &Route) -> Option<String> {
        let digest = super::read_digest(self.config(), route.contract.clone()?).await.ok();
        self.inner.watch.saw(digest.as_deref());
        digest
    }

    /// Ends the live permits of this route that no longer fit it, with the reason.
    pub(in crate::engine) async fn end_changed(&self, route: &Route, permits: &[Permit], digest: Option<&str>) {
        let live = permits.iter().filter(|p| p.facts().route == route.name && p.facts().revoked.is_none());
        for permit in live {
            let change = permit.change_on(route, digest);
            let Some(change) = change.filter(|change| self.inner.watch.may_end(permit, change)) else { continue };
            let (id, target, reason) = (permit.id(), &permit.facts().target, change.to_string());
            match self.store().end_permit(id, EndCause::Changed, ACTOR, &reason).await {
                Ok(true) => {
                    self.count_ended(&route.name, EndCause::Changed, 1);
                    tracing::warn!(permit = %id, route = route.name, %target, reason, "permit ended");
                }
                Ok(false) => {}
                // It does not cover the target all the same; the next look writes it down.
                Err(error) => tracing::warn!(permit = %id, %error, "the permit's end could not be written"),
            }
        }
    }

    pub(super) fn count_ended(&self, route: &str, cause: EndCause, permits: i64) {
        let ended = self.metrics().evidence.permits_ended.with_label_values(&[route, cause.as_str()]);
        ended.inc_by(u64::try_from(permits).unwrap_or_default());
    }
}
