//! What came of a call, written down: the one way in which an attempt's outcome reaches the database.
//!
//! An outcome is never dropped because the database is away for a while: it is written again until it is answered, or
//! until this process stops and leaves the attempt unknown.

use std::time::Duration;

use bytes::Bytes;
use providers::canonical::Usage;
use providers::failure::{Failure, Proof};
use providers::prices::Cost;

use super::call::{CallEvent, News, Outcome};
use super::certify::drift::Sample;
use super::progress::Delivered;
use super::{Engine, Phase};
use crate::domain::cost::{JobCost, Spent};
use crate::domain::ids::AttemptId;
use crate::domain::job::Snapshot;
use crate::domain::overload::Write;
use crate::domain::route::Target;
use crate::store::StoreError;
use crate::store::attempts::{AttemptKey, Completed, Completion};
use crate::store::jobs::StoredResult;
use crate::store::streams::Streamed;

/// Every adapter renders JSON; a stream is delivered as an event stream, but its whole is this too.
const CONTENT_TYPE: &str = "application/json";
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// What the job's task knew of its attempts before this outcome.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Attempts in all.
    pub attempts: usize,
    /// What those cost that were read from the database.
    pub spent: &'a [(AttemptId, Spent)],
}

/// What the settling came to, for the job's own task.
#[derive(Debug)]
pub enum Settled {
    Won(Delivered),
    /// Whatever it was, the database knows: read again and decide.
    Written,
}

impl Engine {
    /// `sample`: the answer's copy that is held against the route's contract, should it win. A whole answer is the
    /// everyday case; what the others need is kept out of the task's size.
    pub(super) async fn settle(&self, event: CallEvent, seen: Seen<'_>, sample: Option<Sample>) -> Settled {
        let CallEvent { key, target, dropped, news } = event;
        match news {
            News::Ended(Ok(outcome)) => {
                let settled = self.settle_answer(key, target, outcome, seen, sample).await;
                match settled {
                    Settled::Won(delivered) => Settled::Won(Delivered { dropped, ..delivered }),
                    Settled::Written => Settled::Written,
                }
            }
            other => {
                Box::pin(self.settle_without_answer(key, &target, other)).await;
                Settled::Written
            }
        }
    }

    async fn settle_without_answer(&self, key: AttemptKey, target: &Target, news: News) {
        match news {
            News::Silent { reason, after } => {
                let message = format!("no outcome within {after:?}; still listening");
                self.write_unknown(key, target, reason, &message).await;
            }
            News::GaveUp => {
                let stop = || self.store().stop_listening(key);
                let _ = self.persist("stop listening", stop).await;
            }
            News::CalledOff { received } => {
                self.count(target, "cancelled");
                tracing::info!(job = %key.job, attempt = %key.id, %target, discarded = received.len(), "call closed: its attempt is cancelled");
                // What it cost is not known, and somebody may pay for it: that stands in `races` too.
                let discarded = completion(key, received, None, None, None);
                self.log_race(&discarded, None).await;
            }
            News::Ended(Err(failure)) => self.settle_failure(key, target, failure).await,
            News::Content(_) | News::Ended(Ok(_)) => {}
        }
    }

    async fn settle_answer(
        &self,
        key: AttemptKey,
        target: Target,
        outcome: Outcome,
        seen: Seen<'_>,
        sample: Option<Sample>,
    ) -> Settled {
        self.inner.circuits.succeeded(&target);
        let Outcome { answer, stream } = outcome;
        let stream = stream.map(|log| Streamed { lines: log.lines(), usage: log.usage() });
        let completion =
            completion(key, answer.body, stream, answer.reply.usage, self.cost(&target, answer.reply.usage));
        let complete = || self.store().complete(&completion);
        let complete = || self.inner.gate.timed(Write::Completion, complete());
        match self.persist("complete the job", complete).await {
            Some(Ok(Completed::Won)) => {
                self.count(&target, "succeeded");
                tracing::debug!(job = %key.job, attempt = %key.id, "job completed");
                self.watch_answer(sample);
                if seen.attempts > 1 {
                    let release = || self.store().release_losers(key.owner, key.job);
                    let _ = Box::pin(self.persist("release the losers", release)).await;
                }
                // A reconciler may have brought the same attempt's answer first, in other bytes: what is stored counts.
                if self.upstreams().get(&target.provider).is_some_and(|u| u.adapter.lookup_way().is_some()) {
                    return Settled::Written;
                }
                Settled::Won(Delivered {
                    attempt: key.id,
                    provider: target.provider,
                    attempts: seen.attempts,
                    dropped: Vec::new(),
                    cost: JobCost::won(seen.spent, seen.attempts, key.id, completion.cost.as_ref()),
                    content_type: completion.content_type,
                    body: completion.body,
                    stream: completion.stream,
                })
            }
            Some(Ok(Completed::Lost { winner })) => {
                self.count(&target, "lost");
                tracing::warn!(job = %key.job, attempt = %key.id, ?winner, "late result thrown away");
                Box::pin(self.log_race(&completion, winner)).await;
                Settled::Written
            }
            // The answer is paid for and cannot be stored: nobody may take that for a failure.
            Some(Err(error)) => {
                tracing::error!(job = %key.job, attempt = %key.id, %error, "the answer could not be stored");
                let why = "an answer arrived and could not be stored";
                Box::pin(self.write_unknown(key, &target, "not_stored", why)).await;
                Settled::Written
            }
            None => Settled::Written,
        }
    }

    async fn log_race(&self, discarded: &Completion, winner: Option<AttemptId>) {
        let lose = || self.store().lose_race(discarded, winner);
        if let Some(Err(error)) = self.persist("log the race", lose).await {
            let AttemptKey { job, id, .. } = discarded.key;
            tracing::error!(%job, attempt = %id, %error, "the race could not be logged");
        }
    }

    async fn settle_failure(&self, key: AttemptKey, target: &Target, failure: Failure) {
        if failure.proof == Proof::Unknown {
            return self.write_unknown(key, target, failure.reason, &failure.message).await;
        }
        self.inner.circuits.failed(target, &failure, self.clock());
        self.count(target, "failed");
        tracing::info!(job = %key.job, attempt = %key.id, %target, reason = failure.reason, proof = ?failure.proof, "attempt failed");
        let acted_on = !matches!(failure.proof, Proof::NotSent | Proof::Refused);
        let cost = if acted_on { self.cost(target, failure.usage) } else { None };
        let fail = || self.store().fail_attempt(key, &failure, cost.as_ref());
        if let Some(Err(error)) = self.persist("fail the attempt", fail).await {
            note_loss(key, &error);
        }
    }

    async fn write_unknown(&self, key: AttemptKey, target: &Target, reason: &str, message: &str) {
        self.count(target, "unknown");
        tracing::warn!(job = %key.job, attempt = %key.id, %target, reason, "attempt unknown");
        let mark = || self.store().mark_attempt_unknown(key, reason, message);
        if let Some(Err(error)) = self.persist("mark the attempt unknown", mark).await {
            note_loss(key, &error);
        }
    }

    /// What this usage cost, by the price that holds now; `None`: usage or price is not known.
    fn cost(&self, target: &Target, usage: Option<Usage>) -> Option<Cost> {
        let provider = self.config().providers.get(&target.provider)?;
        let cost = usage.and_then(|usage| provider.price(&target.model)?.cost(&usage));
        match &cost {
            Some(cost) => {
                let labels = [target.provider.as_str(), &cost.currency];
                self.metrics().cost.with_label_values(&labels).inc_by(cost.amount.approximate());
            }
            None => self.metrics().cost_unknown.with_label_values(&[target.provider.as_str()]).inc(),
        }
        cost
    }

    fn count(&self, target: &Target, outcome: &str) {
        self.metrics().attempts_ended.with_label_values(&[target.provider.as_str(), outcome]).inc();
    }

    /// Does it until the database answers. `None`: this process stopped first.
    pub(super) async fn persist<T, F, Fut>(&self, what: &str, mut statement: F) -> Option<Result<T, StoreError>>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match statement().await {
                Err(error @ (StoreError::Unavailable(_) | StoreError::Overloaded)) => {
                    tracing::warn!(%error, what, "the database is away; trying again");
                    let mut phase = self.inner.phase.subscribe();
                    tokio::select! {
                        _ = phase.wait_for(|p| *p == Phase::Stopped) => return None,
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_PAUSE),
                    }
                }
                answered => return Some(answered),
            }
        }
    }

    /// The stored answer of a job that has succeeded. It is written by the very statement that says so: where it is
    /// missing, retention has erased it.
    pub async fn delivered(&self, snapshot: &Snapshot) -> Result<Delivered, Undelivered> {
        let job = &snapshot.job;
        match self.persist("read the result", || self.store().job_result(job.owner, job.id)).await {
            Some(Ok(Some(stored))) => as_delivered(snapshot, stored).ok_or(Undelivered::Away),
            Some(Ok(None)) => Err(Undelivered::Erased),
            Some(Err(_)) | None => Err(Undelivered::Away),
        }
    }
}

/// Why there is no answer to be had of a job that has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// It was kept for `jobs.retention`, and is gone.
    Erased,
    /// This process stops, or cannot read it.
    Away,
}

/// The stored answer of a job that has succeeded, with who gave it.
pub(super) fn as_delivered(snapshot: &Snapshot, stored: StoredResult) -> Option<Delivered> {
    let winner = snapshot.winner()?;
    Some(Delivered {
        attempt: winner.id,
        provider: winner.target.provider.clone(),
        attempts: snapshot.attempts.len(),
        dropped: winner.dropped.clone(),
        cost: JobCost::of(&snapshot.attempts),
        content_type: stored.content_type,
        body: stored.body,
        stream: stored.stream,
    })
}

fn completion(
    key: AttemptKey,
    body: Bytes,
    stream: Option<Streamed>,
    usage: Option<Usage>,
    cost: Option<Cost>,
) -> Completion {
    Completion { key, content_type: CONTENT_TYPE.to_owned(), body, stream, usage, cost }
}

/// Zero rows: it was settled by somebody else. Anything else is worth waking up for.
fn note_loss(key: AttemptKey, error: &StoreError) {
    match error {
        StoreError::LostRace => tracing::debug!(job = %key.job, attempt = %key.id, "settled by somebody else"),
        other => tracing::error!(job = %key.job, attempt = %key.id, error = %other, "the outcome could not be written"),
    }
}
