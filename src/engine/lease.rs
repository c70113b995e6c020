//! This process's lease: renewed every five seconds, worth fifteen. Without it nothing starts.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Phase, tasks};
use crate::domain::ids::InstanceId;
use crate::store::instances::{BEAT, LEASE};
use crate::store::{Store, StoreError};

/// How long before the lease's end this process stops trusting it: clocks drift, and a call takes time to leave.
const MARGIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Lease {
    held: RwLock<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    id: InstanceId,
    /// Taken *before* the statement that renewed it was sent.
    since: Instant,
}

impl Lease {
    pub async fn register(store: &Store) -> Result<Lease, StoreError> {
        Ok(Lease { held: RwLock::new(Lease::fresh(store).await?) })
    }

    async fn fresh(store: &Store) -> Result<Held, StoreError> {
        let held = Held { id: InstanceId::fresh(), since: Instant::now() };
        store.register_instance(held.id, &host(), std::process::id()).await?;
        tracing::info!(instance = %held.id, "instance registered");
        Ok(held)
    }

    fn read(&self) -> Held {
        *self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id under which this process starts attempts now.
    pub fn id(&self) -> InstanceId {
        self.read().id
    }

    /// Whether the lease surely holds for a moment longer.
    pub fn holds(&self) -> bool {
        self.read().since.elapsed() < LEASE - MARGIN
    }

    /// Whether that very lease surely holds. One that had ended comes back under another id: what was started under the
    /// old one may have been swept, asked about and replaced meanwhile, and must not be sent any more.
    pub fn holds_as(&self, id: InstanceId) -> bool {
        let held = self.read();
        held.id == id && held.since.elapsed() < LEASE - MARGIN
    }

    async fn beat(&self, store: &Store) -> Result<(), StoreError> {
        let sent = Instant::now();
        let id = self.id();
        let held = match store.renew_lease(id).await {
            Ok(()) => Held { id, since: sent },
            // Swept already: what this process started is unknown now and settles by itself. Go on under a new id.
            Err(StoreError::LeaseEnded) => Lease::fresh(store).await?,
            Err(error) => return Err(error),
        };
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }
}

impl Engine {
    pub(super) fn spawn_heartbeat(&self) {
        let engine = self.clone();
        tasks::spawn(async move {
            let mut phase = engine.inner.phase.subscribe();
            let mut pause = BEAT;
            loop {
                tokio::select! {
                    _ = phase.wait_for(|p| *p == Phase::Stopped) => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = match tokio::time::timeout(BEAT, engine.inner.lease.beat(&engine.inner.store)).await {
                    Ok(Ok(())) => BEAT,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the lease could not be renewed");
                        BEAT / 5
                    }
                    Err(_) => BEAT / 5,
                };
            }
        });
    }
}

fn host() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned())
}
