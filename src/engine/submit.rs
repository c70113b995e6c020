//! From an intent to its job: admit it, or find the job that has its key and attach to it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use providers::canonical::Request;
use providers::dialects::Dialect;
use providers::failure::{Failure, Proof};
use providers::json::Json;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::gate::Entering;
use super::limits::Hold;
use super::progress::{Delivered, Progress};
use super::room::TooLong;
use super::run_job::{Order, Runner};
use super::settle::as_delivered;
use super::upstreams::Prepared;
use super::{Engine, EngineError, Phase, tasks};
use crate::domain::Timestamp;
use crate::domain::fingerprint::VERSION;
use crate::domain::ids::{AttemptId, JobId, OwnerId};
use crate::domain::job::{Delivery, JobError, JobState, KeyOrigin, Snapshot};
use crate::domain::key::IdempotencyKey;
use crate::domain::limits::{Limit, Refusal, estimate};
use crate::domain::overload::Write;
use crate::domain::route::{Candidate, Route};
use crate::store::StoreError;
use crate::store::attempts::AttemptKey;
use crate::store::jobs::{Admitted, FirstAttempt, NewJob, StoredRequest, StoredResult};

/// One client's intent, read and checked.
#[derive(Debug)]
pub struct Submission {
    pub owner: OwnerId,
    /// `None`: the gateway makes one.
    pub key: Option<IdempotencyKey>,
    /// The operation, in the words of the client's dialect.
    pub dialect: Dialect,
    /// What makes two payloads the same intent.
    pub fingerprint: [u8; 32],
    pub route: Arc<Route>,
    pub request: Arc<Request>,
    /// The same on its primary's wire.
    pub prepared: Prepared,
    /// The body as sent.
    pub body: Bytes,
    pub metadata: Option<Bytes>,
    /// As [`Engine::read_callback`] gave it.
    pub callback: Option<String>,
    pub delivery: Delivery,
    /// What its owner may use.
    pub limit: Limit,
}

/// What became of a submission.
#[derive(Debug)]
pub enum Submitted {
    /// The job is new; its task runs.
    New(Ticket),
    /// The same intent again, and its job is not over: attached.
    Attached(Ticket),
    /// The same intent again, and its job is over; with its answer, where that was at hand.
    Finished(Box<Snapshot>, Option<Delivered>),
    /// The key is taken by another payload; nothing has happened.
    Conflict { job: JobId },
}

/// A place in the queue of those who wait for one job.
#[derive(Debug)]
pub struct Ticket {
    pub job: JobId,
    pub idempotency_key: String,
    pub key_origin: KeyOrigin,
    /// How long to wait for an outcome that was unknown already.
    patience: Duration,
    known_unknown: Option<AttemptId>,
    progress: watch::Receiver<Progress>,
}

impl Ticket {
    /// Waits for an outcome, at most until `until`. An unknown outcome ends the wait at once, unless it was unknown
    /// when the caller came: then the caller has come for exactly this, and waits for it as long as one attempt may run.
    pub async fn wait(&mut self, until: Option<Instant>) -> Progress {
        self.wait_as(until, false).await
    }

    /// Like [`Ticket::wait`], and ends also when a stream's content has begun to arrive.
    pub async fn wait_for_stream(&mut self, until: Option<Instant>) -> Progress {
        self.wait_as(until, true).await
    }

    /// Ends when the stream that is being shown has come to trouble: its outcome is not known, or the job is over
    /// without it. Never ends while it goes on.
    pub async fn trouble(&mut self) {
        loop {
            match *self.progress.borrow_and_update() {
                Progress::Running | Progress::Streaming(_) | Progress::Succeeded(_) => {}
                Progress::Unknown { .. }
                | Progress::RoundOver(_)
                | Progress::Failed(_)
                | Progress::Cancelled
                | Progress::Interrupted => return,
            }
            if self.progress.changed().await.is_err() {
                // The job's task is gone, and with it the log's writer: the follower sees the end by itself.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn wait_as(&mut self, until: Option<Instant>, streams: bool) -> Progress {
        let patience = Instant::now() + self.patience;
        loop {
            let now = self.progress.borrow_and_update().clone();
            let wait_until = match now {
                Progress::Streaming(_) if streams => return now,
                Progress::Running | Progress::Streaming(_) => until,
                Progress::Unknown { attempt, .. } if self.known_unknown == Some(attempt) => {
                    Some(until.map_or(patience, |until| until.min(patience)))
                }
                Progress::Unknown { .. }
                | Progress::Succeeded(_)
                | Progress::RoundOver(_)
                | Progress::Failed(_)
                | Progress::Cancelled
                | Progress::Interrupted => return now,
            };
            let changed = async {
                match wait_until {
                    Some(at) => tokio::time::timeout_at(at, self.progress.changed()).await.ok(),
                    None => Some(self.progress.changed().await),
                }
            };
            match changed.await {
                Some(Ok(())) => {}
                // The job's task has ended without a last word.
                Some(Err(_)) => return Progress::Interrupted,
                None => return now,
            }
        }
    }
}

impl Engine {
    /// Admits the job and runs it, or attaches to the one that has the key (R1, R2). Two commits a job at most: this
    /// one and the finish. A client that hangs up meanwhile cancels nothing: an admitted job always gets its task,
    /// which is the one that admitted it.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, EngineError> {
        let engine = self.clone();
        let (tell, told) = oneshot::channel();
        tasks::spawn(async move {
            // Whoever asked may be gone.
            match engine.admit(submission).await {
                Ok((submitted, runner)) => {
                    let _ = tell.send(Ok(submitted));
                    if let Some(runner) = runner {
                        runner.run().await;
                    }
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        });
        told.await.unwrap_or(Err(EngineError::Fault))
    }

    /// With the task of a job that is new.
    async fn admit(&self, submission: Submission) -> Result<(Submitted, Option<Runner>), EngineError> {
        if self.phase() != Phase::Serving {
            return Err(EngineError::Draining);
        }
        let _entering = self.enter()?;
        let mut hold = match self.reserve(&submission).await {
            Ok(hold) => hold,
            Err(EngineError::Limited(refusal)) => {
                return Ok((self.found_or_limited(&submission, refusal).await?, None));
            }
            Err(error) => return Err(error),
        };
        let Submission { route, request, body, .. } = &submission;
        let too_long = self.too_long_for_primary(route, request, body.len()).await;
        if let Some(too_long) = &too_long
            && let Some(refusal) = self.no_room(route, request, too_long).await?
        {
            return Ok((self.found_or_too_long(&submission, refusal).await?, None));
        }
        let id = JobId::fresh();
        let (new, order) = self.new_job(id, submission, too_long, hold.as_ref());
        let (owner, asked, instance, first) = (new.owner, new.fingerprint, new.instance, new.first.clone());
        // Before the commit, so that a second click never finds the job without its task.
        let (entry, progress) = self.inner.registry.enter(id);
        let ticket = Ticket {
            job: id,
            idempotency_key: new.idempotency_key.clone(),
            key_origin: new.key_origin,
            patience: order.route.attempt_timeout,
            known_unknown: None,
            progress,
        };
        match self.inner.gate.timed(Write::Admission, self.inner.store.admit(new)).await {
            Ok(Admitted::New) => {
                self.inner.metrics.submissions.with_label_values(&["new"]).inc();
                hold.iter_mut().for_each(Hold::admitted);
                let runner = Runner::admitted(self.clone(), owner, id, order, first, entry);
                Ok((Submitted::New(ticket), Some(runner.under(instance).holding(hold))))
            }
            Ok(Admitted::Existing(snapshot, result)) => {
                self.inner.registry.forget(id);
                if self.opens_a_round(&snapshot) {
                    hold.iter_mut().for_each(Hold::admitted);
                }
                Ok((self.found(snapshot, result, asked), None))
            }
            Err(error) => {
                self.inner.registry.forget(id);
                if let (StoreError::Unavailable(_), Some(first)) = (&error, first) {
                    self.disown(AttemptKey { owner, job: id, id: first.id });
                }
                Err(error.into())
            }
        }
    }

    /// The rows of a submission, and what its task needs of it.
    fn new_job(
        &self,
        id: JobId,
        submission: Submission,
        too_long: Option<TooLong>,
        hold: Option<&Hold>,
    ) -> (NewJob, Order) {
        let Submission { owner, key, dialect, fingerprint, route, body, metadata, callback, delivery, .. } = submission;
        let key_origin = if key.is_some() { KeyOrigin::Client } else { KeyOrigin::Gateway };
        let new = NewJob {
            owner,
            id,
            idempotency_key: key.unwrap_or_else(|| IdempotencyKey::generated(id)).into_text(),
            key_origin,
            fingerprint,
            fingerprint_version: VERSION,
            url: dialect.url().to_owned(),
            route: route.name.clone(),
            delivery,
            body,
            metadata,
            callback,
            deadline: route.job_deadline,
            instance: self.inner.lease.id(),
            reserved_tokens: hold.map(Hold::tokens),
            first: self.first_attempt(&route, &submission.prepared, too_long.as_ref()),
        };
        (new, Order { route, request: submission.request, wire: submission.prepared.wire, too_long })
    }

    /// A place at the door, as long as this process can carry more.
    fn enter(&self) -> Result<Entering, EngineError> {
        let entered = self.inner.gate.enter();
        if entered.is_err() || self.inner.registry.count() >= self.config().server.max_jobs {
            self.inner.metrics.refused.with_label_values(&["overloaded"]).inc();
            return Err(EngineError::Overloaded);
        }
        entered
    }

    /// Room within the owner's limits; `None` where there are none.
    async fn reserve(&self, submission: &Submission) -> Result<Option<Hold>, EngineError> {
        let Submission { owner, limit, request, .. } = submission;
        if limit.is_unlimited() {
            return Ok(None);
        }
        self.inner.limits.reserve(*owner, *limit, estimate(request)).await.map(Some)
    }

    /// There is no room for a new job; but a repeated request makes none, and is answered as ever.
    async fn found_or_limited(&self, submission: &Submission, refusal: Refusal) -> Result<Submitted, EngineError> {
        if let Some(key) = &submission.key
            && let Some(snapshot) = self.store().job_by_key(submission.owner, key.as_str()).await?
            && (snapshot.job.fingerprint != submission.fingerprint || !self.opens_a_round(&snapshot))
        {
            return Ok(self.found(Box::new(snapshot), None, submission.fingerprint));
        }
        self.inner.metrics.refused.with_label_values(&[refusal.measure.as_str()]).inc();
        Err(EngineError::Limited(refusal))
    }

    /// There is no room for this prompt now; but a job that has its key is what it was, and goes on as it would.
    async fn found_or_too_long(&self, submission: &Submission, refusal: JobError) -> Result<Submitted, EngineError> {
        if let Some(key) = &submission.key
            && let Some(snapshot) = self.store().job_by_key(submission.owner, key.as_str()).await?
        {
            return Ok(self.found(Box::new(snapshot), None, submission.fingerprint));
        }
        self.inner.metrics.refused.with_label_values(&["context_length"]).inc();
        tracing::info!(route = submission.route.name, details = ?refusal.details, "refused: the prompt is too long");
        Err(EngineError::TooLong(Box::new(refusal)))
    }

    /// Whether attaching to this job means trying its targets anew.
    fn opens_a_round(&self, snapshot: &Snapshot) -> bool {
        snapshot.job.state == JobState::Queued && !self.inner.registry.is_at_work(snapshot.job.id)
    }

    /// A start whose commit was not acknowledged may stand in the database, and nothing was sent under it: as soon as
    /// the database answers it is written down as not sent, so that it does not block.
    pub(super) fn disown(&self, key: AttemptKey) {
        let engine = self.clone();
        tasks::spawn(async move {
            let why = "the start was not acknowledged by the database, so nothing was sent";
            let failure = Failure::new(Proof::NotSent, "not_acknowledged", why);
            let written =
                engine.persist("disown the attempt", || engine.store().fail_attempt(key, &failure, None)).await;
            tracing::warn!(job = %key.job, attempt = %key.id, stood = matches!(written, Some(Ok(()))), "start disowned");
        });
    }

    /// The primary's attempt, where it may start at once.
    fn first_attempt(&self, route: &Route, prepared: &Prepared, too_long: Option<&TooLong>) -> Option<FirstAttempt> {
        let candidate = Candidate::primary(route)?;
        if too_long.is_some_and(|too_long| too_long.contains_key(candidate.target())) {
            return None;
        }
        let held = self.inner.circuits.held_on(route).contains_key(candidate.target());
        let free = self.may_start() && self.inner.circuits.is_free(candidate.target()) && !held;
        free.then(|| FirstAttempt {
            id: prepared.id,
            candidate,
            dropped: prepared.dropped.clone(),
            timeout: route.attempt_timeout,
            settle: route.settle_timeout.max(route.attempt_timeout),
        })
    }

    fn found(&self, snapshot: Box<Snapshot>, result: Option<StoredResult>, asked: [u8; 32]) -> Submitted {
        let count = |outcome: &str| self.inner.metrics.submissions.with_label_values(&[outcome]).inc();
        if snapshot.job.fingerprint != asked {
            count("conflict");
            return Submitted::Conflict { job: snapshot.job.id };
        }
        if snapshot.job.state.is_terminal() {
            count("replayed");
            let delivered = result.and_then(|result| as_delivered(&snapshot, result));
            return Submitted::Finished(snapshot, delivered);
        }
        count("attached");
        Submitted::Attached(self.attach(&snapshot, true))
    }

    /// Joins the job's task in this process, or starts one. With `fresh_call`, a round that is over is followed by the
    /// next.
    pub fn attach(&self, snapshot: &Snapshot, fresh_call: bool) -> Ticket {
        let job = &snapshot.job;
        let progress = match self.inner.registry.join(job.id, fresh_call) {
            Ok(progress) => progress,
            Err((entry, progress)) => {
                Runner::resumed(self.clone(), job.owner, job.id, job.route.clone(), fresh_call, entry).spawn();
                progress
            }
        };
        Ticket {
            job: job.id,
            idempotency_key: job.idempotency_key.clone(),
            key_origin: job.key_origin,
            patience: self.config().routes.get(&job.route).map_or(Duration::ZERO, |route| route.attempt_timeout),
            known_unknown: snapshot.unknown_attempt().map(|attempt| attempt.id),
            progress,
        }
    }

    /// This process's clock. Only for circuits, limits and the console's sessions; leases and deadlines are the
    /// database's.
    pub fn clock(&self) -> Timestamp {
        wall_clock()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of the engine")]
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::now_utc()
}

/// Reads a stored request again.
pub(super) fn reread(stored: &StoredRequest) -> Option<Arc<Request>> {
    let Ok(Json::Object(object)) = Json::parse(&stored.body) else { return None };
    Dialect::of_url(&stored.url)?.parse(object).ok().map(Arc::new)
}
