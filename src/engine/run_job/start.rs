//! How the job's task starts an attempt: the commit first, then a last look at the lease, then the call (R3).

use std::sync::Arc;
use std::time::Duration;

use providers::canonical::Request;
use providers::dropping::Reduced;
use providers::failure::{Failure, Proof};
use tokio::time::Instant;

use super::{LAST_LOOK, Runner, Then, Woken};
use crate::domain::Timestamp;
use crate::domain::ids::AttemptId;
use crate::domain::job::Snapshot;
use crate::domain::route::{Candidate, Route, Target};
use crate::engine::call::{CallEvent, Clocks, News, Outgoing, Teller, call};
use crate::engine::calls::Work;
use crate::engine::progress::Progress;
use crate::engine::submit::reread;
use crate::engine::{Phase, tasks};
use crate::store::StoreError;
use crate::store::attempts::NewAttempt;

impl Runner {
    /// Commits the start, then calls. Somebody else's start, or a stale decision, is no error: read again.
    pub(super) async fn start(&mut self, snapshot: &Snapshot, candidate: Candidate, round: i32, at: Timestamp) -> Then {
        self.publish(Progress::Running);
        if let (None, Some(tokens)) = (&self.hold, self.reserved_tokens) {
            self.hold = Some(self.engine.inner.limits.resume(self.owner, tokens));
        }
        let pause = Duration::try_from(at - snapshot.read_at).unwrap_or_default();
        if !pause.is_zero() {
            match self.sleep(Some(pause)).await {
                Woken::Event(event) => {
                    self.on_event(event).await;
                    return Then::Decide;
                }
                Woken::Look => return Then::Decide,
                Woken::Over => {}
                Woken::Stopped => return self.hand_over().await,
            }
        }
        if !self.engine.may_start() || self.request().await.is_none() {
            return self.hand_over().await;
        }
        let Some(route) = self.route.clone() else { return Then::Decide };
        let circuits = &self.engine.inner.circuits;
        if !circuits.begin(candidate.target(), self.engine.clock(), route.attempt_timeout) {
            return Then::Decide;
        }
        let id = AttemptId::fresh();
        // Before the commit, since it says what is left out. What cannot be written fails as ever, when it is begun.
        let written = self.written(&route, candidate.target(), id);
        let new = NewAttempt {
            key: self.key(id),
            ordinal: snapshot.attempts.len() as i32 + 1,
            round,
            candidate,
            instance: self.engine.inner.lease.id(),
            timeout: route.attempt_timeout,
            settle: route.settle_timeout.max(route.attempt_timeout),
            dropped: written.as_ref().map(|written| written.dropped.clone()).unwrap_or_default(),
        };
        match self.engine.store().start_attempt(&new).await {
            Ok(()) => {
                self.instance = new.instance;
                self.attempts = snapshot.attempts.len() + 1;
                self.begin(id, &new.candidate, written);
            }
            Err(StoreError::LostRace) => {
                self.engine.inner.circuits.give_up(new.candidate.target());
                tokio::time::sleep(self.next_look()).await;
            }
            Err(error) => {
                self.engine.inner.circuits.give_up(new.candidate.target());
                tracing::warn!(job = %self.job, %error, "the attempt could not be started");
                if let StoreError::Unavailable(_) = error {
                    self.engine.disown(new.key);
                }
                tokio::time::sleep(LAST_LOOK).await;
            }
        }
        Then::Decide
    }

    /// A process that may start nothing leaves its queued job to the others; otherwise an async one would wait until
    /// its task counts as dead.
    async fn hand_over(&self) -> Then {
        if let Err(error) = self.engine.store().hand_over(self.owner, self.job).await {
            tracing::debug!(job = %self.job, %error, "not handed over; another instance takes it up later");
        }
        Then::Stop
    }

    /// Makes the call of an attempt whose start is committed (R3). `written`: the request, where it is written already.
    pub(super) fn begin(&mut self, id: AttemptId, candidate: &Candidate, written: Option<Reduced>) {
        let (Some(route), Some(request)) = (&self.route, &self.request) else { return };
        let target = candidate.target().clone();
        self.in_flight.insert(id);
        self.open = Some(id);
        self.engine.metrics().attempts_started.with_label_values(&[&target.provider]).inc();
        let refuse = |failure: Failure| {
            let event = CallEvent {
                key: self.key(id),
                target: target.clone(),
                dropped: Vec::new(),
                news: News::Ended(Err(failure)),
            };
            let _ = self.events_in.send(Box::new(event));
        };
        let Some(upstream) = self.engine.upstreams().get(&target.provider).cloned() else {
            return refuse(Failure::new(Proof::NotSent, "provider_gone", "the settings do not define this provider"));
        };
        let write = || upstream.for_attempt(request, &target.model, id, &route.drop_unsupported);
        let Reduced { wire, dropped } = match written.map_or_else(write, Ok) {
            Ok(written) => written,
            Err(unsupported) => return refuse(Failure::new(Proof::NotSent, "unsupported", unsupported.to_string())),
        };
        // The last look before connecting: a process that slept through its lease, or has marked what it leaves behind,
        // must not send (R3, R6).
        if !self.engine.inner.lease.holds_as(self.instance) || self.engine.phase() == Phase::Stopped {
            return refuse(Failure::new(Proof::NotSent, "lease_ended", "this instance's lease ended before sending"));
        }
        tracing::debug!(job = %self.job, attempt = %id, target = %target, "attempt started");
        let teller = Teller::new(self.key(id), target.clone(), self.attempts, dropped, self.events_in.clone());
        let clocks = Clocks::start(route, request.stream, Instant::now());
        let guard = self.engine.inner.tasks.begin_call();
        let work = match upstream.adapter.lookup_way() {
            Some(way) if way.needs_reference() => Work::Background,
            _ if request.stream => Work::Streamed,
            _ => Work::Whole,
        };
        let seat = self.engine.inner.calls.begin(id, work);
        let outgoing = Outgoing { upstream, request: Arc::clone(request), wire };
        tasks::spawn(call(self.engine.clone(), outgoing, clocks, teller, guard, seat));
    }

    fn written(&self, route: &Route, target: &Target, id: AttemptId) -> Option<Reduced> {
        let (upstream, request) = (self.engine.upstreams().get(&target.provider)?, self.request.as_ref()?);
        upstream.for_attempt(request, &target.model, id, &route.drop_unsupported).ok()
    }

    /// The client's request, read again where this task was not there when it came.
    pub(super) async fn request(&mut self) -> Option<Arc<Request>> {
        if self.request.is_none() {
            let read = || self.engine.store().job_request(self.owner, self.job);
            if let Some(Ok(Some(stored))) = self.engine.persist("read the request", read).await {
                self.request = reread(&stored);
            }
        }
        self.request.clone()
    }
}
