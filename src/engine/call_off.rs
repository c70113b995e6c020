//! A cancelled attempt's work is called off: its call in this process ends, and its provider is told to stop, once, where
//! it can be told. Best effort: the fence in the database is what keeps its result out.

use std::time::Duration;

use providers::adapter::CallContext;
use providers::lookup::LookupRequest;

use super::calls::Fenced;
use super::upstreams::Upstream;
use super::{Engine, tasks};
use crate::domain::attempt::AttemptState;
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::JobState;
use crate::domain::route::Target;
use crate::store::StoreError;
use crate::store::attempts::AttemptKey;

/// Between two looks whether attempts of calls that are out were cancelled elsewhere.
const LOOK: Duration = Duration::from_secs(1);
/// For the order to stop.
const PATIENCE: Duration = Duration::from_secs(10);

impl Engine {
    pub(super) fn spawn_call_off(&self) {
        self.every(LOOK, "call off", |engine| async move { engine.call_off_what_was_fenced_elsewhere().await });
    }

    /// The owner has cancelled the job, or an operator one of its attempts.
    pub async fn call_off(&self, owner: OwnerId, job: JobId) {
        match self.store().job(owner, job).await {
            Ok(Some(snapshot)) => {
                let fenced = if snapshot.job.state == JobState::Cancelled { Fenced::Job } else { Fenced::Attempt };
                for attempt in &snapshot.attempts {
                    if let AttemptState::Cancelled { .. } = attempt.state {
                        self.fence(AttemptKey { owner, job, id: attempt.id }, &attempt.target, fenced).await;
                    }
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%job, %error, "cancelled work could not be called off"),
        }
    }

    async fn fence(&self, key: AttemptKey, target: &Target, fenced: Fenced) {
        let order = self.order_to_stop(key, target).await;
        self.inner.calls.fence(key.id, fenced, order.is_some());
        let Some((upstream, order)) = order else { return };
        match self.store().claim_cancel(key).await {
            Ok(true) => tasks::spawn(tell(upstream, order, key)),
            Ok(false) => {}
            Err(error) => tracing::warn!(attempt = %key.id, %error, "the provider was not told to stop"),
        }
    }

    /// `None`: the provider cannot be told, or nobody knows yet by which id. In that case the call goes on until it has
    /// heard it, and comes back here.
    async fn order_to_stop(&self, key: AttemptKey, target: &Target) -> Option<(Upstream, LookupRequest)> {
        let upstream = self.upstreams().get(&target.provider)?;
        let reference = match upstream.adapter.lookup_way()?.needs_reference() {
            false => None,
            true => self.store().reference(key).await.unwrap_or_else(|error| {
                tracing::warn!(attempt = %key.id, %error, "the provider's id of it could not be read");
                None
            }),
        };
        let id = key.id.to_string();
        let context = CallContext { model: &target.model, attempt_id: &id, api_key: upstream.api_key.as_ref() };
        Some((upstream.clone(), upstream.adapter.cancel(&context, reference.as_deref())?))
    }

    /// Another process, or the command line, may have cancelled what runs here.
    async fn call_off_what_was_fenced_elsewhere(&self) -> Result<(), StoreError> {
        let out = self.inner.calls.unfenced();
        if out.is_empty() {
            return Ok(());
        }
        for key in self.store().fenced_attempts(&out).await? {
            self.call_off(key.owner, key.job).await;
            self.nudge(key.job);
        }
        Ok(())
    }
}

async fn tell(upstream: Upstream, order: LookupRequest, key: AttemptKey) {
    let (job, attempt) = (key.job, key.id);
    match tokio::time::timeout(PATIENCE, upstream.transport.ask(&order)).await {
        Ok(Ok(answer)) => {
            tracing::info!(%job, %attempt, provider = upstream.provider, status = answer.head.status.as_u16(), "provider told to stop");
        }
        Ok(Err(failure)) => {
            tracing::warn!(%job, %attempt, provider = upstream.provider, reason = failure.reason, "the provider could not be told to stop");
        }
        Err(_) => tracing::warn!(%job, %attempt, provider = upstream.provider, "no answer to the order to stop"),
    }
}
