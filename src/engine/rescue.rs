//! What dead processes left behind: their attempts become unknown, their queued jobs are carried on by whoever lives.
//!
//! Every instance does this; there is no leader. Each statement judges the state again on the row itself, so doing it
//! twice, or too late, harms nothing.

use std::time::Duration;

use super::{Engine, Phase, tasks};
use crate::domain::ids::{JobId, OwnerId};
use crate::domain::job::Delivery;
use crate::domain::step::overdue;
use crate::store::StoreError;
use crate::store::retention::Removed;

/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(2);
/// Between two looks for jobs to carry on.
const RESUME: Duration = Duration::from_secs(1);
/// Between two clean-ups.
const CLEAN: Duration = Duration::from_secs(60);
/// Between two looks for payloads that have been kept long enough. Each may read through a day's jobs.
const REMOVE: Duration = Duration::from_secs(600);
/// How long past its own deadline an attempt of a living process is left to that process.
const GRACE: Duration = Duration::from_secs(5);
/// Jobs taken up at once.
const BATCH: i64 = 64;

impl Engine {
    pub(super) fn spawn_rescue(&self) {
        self.every(SWEEP, "sweep", |engine| async move { engine.sweep().await });
        self.every(RESUME, "resume", |engine| async move { engine.resume().await });
        self.every(CLEAN, "clean up", |engine| async move { engine.clean_up().await });
        self.every(REMOVE, "remove payloads", |engine| async move { engine.remove_payloads().await });
    }

    pub(super) fn every<F, Fut>(&self, pause: Duration, what: &'static str, work: F)
    where
        F: Fn(Engine) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), StoreError>> + Send,
    {
        let engine = self.clone();
        tasks::spawn(async move {
            let mut phase = engine.inner.phase.subscribe();
            loop {
                if let Err(error) = work(engine.clone()).await {
                    tracing::warn!(%error, what, "not done this time");
                }
                tokio::select! {
                    _ = phase.wait_for(|p| *p == Phase::Stopped) => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
    }

    /// Attempts whose process has died, or which outlived their own clock, become unknown.
    async fn sweep(&self) -> Result<(), StoreError> {
        let lost = self.store().mark_lost_attempts_unknown(GRACE).await?;
        if lost > 0 {
            tracing::warn!(lost, "attempts without a living process are unknown now");
        }
        Ok(())
    }

    /// Jobs that wait for nobody in particular. The guarded start is the claim, so several instances may try.
    async fn resume(&self) -> Result<(), StoreError> {
        if !self.may_start() {
            return Ok(());
        }
        for (owner, job) in self.store().resumable_jobs(BATCH).await? {
            self.look_at(owner, job).await?;
        }
        Ok(())
    }

    /// Something about the job has changed: its task looks again, or gets one that carries it on.
    pub async fn look_at(&self, owner: OwnerId, job: JobId) -> Result<(), StoreError> {
        if self.nudge(job) {
            return Ok(());
        }
        let Some(snapshot) = self.store().job(owner, job).await? else { return Ok(()) };
        let fresh_call = snapshot.job.delivery == Delivery::Async;
        drop(self.attach(&snapshot, fresh_call));
        Ok(())
    }

    async fn clean_up(&self) -> Result<(), StoreError> {
        self.store().settle_leftovers(GRACE).await?;
        self.store().end_lost_runs().await?;
        self.store().clean_streams().await?;
        self.store().clean_drift().await?;
        self.store().forget_claims().await?;
        self.store().clean_callbacks(self.config().retention).await?;
        self.store().make_days().await
    }

    async fn remove_payloads(&self) -> Result<(), StoreError> {
        let removed = self.store().remove_payloads(self.config().retention, &overdue()).await?;
        if removed != Removed::default() {
            tracing::info!(days = removed.days, rows = removed.rows, "payloads past jobs.retention are gone");
        }
        Ok(())
    }
}
