//! One job's task: it obeys [`next_step`] until the job is over or nothing more may be tried.
//!
//! The task is the only one in this process that decides for its job; tasks of other processes are held off by the
//! guards in the statements. After anything unexpected it reads again and decides again.

mod charge;
mod situation;
mod start;
mod streaming;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use providers::adapter::UpstreamRequest;
use providers::canonical::Request;
use providers::dropping::Reduced;
use tokio::sync::mpsc;

use super::call::{CallEvent, News};
use super::limits::Hold;
use super::mirror::Mirror;
use super::progress::Progress;
use super::registry::{Command, Entry};
use super::room::TooLong;
use super::settle::{Seen, Settled};
use super::stream_log::StreamLog;
use super::{Engine, Phase, tasks};
use crate::domain::backoff;
use crate::domain::cost::Spent;
use crate::domain::ids::{AttemptId, InstanceId, JobId, OwnerId};
use crate::domain::job::{Delivery, JobError, JobState, Snapshot};
use crate::domain::route::Route;
use crate::domain::step::{NextStep, Situation, next_step};
use crate::store::attempts::AttemptKey;
use crate::store::jobs::FirstAttempt;

/// Between two looks at a job that another process, or an operator, may move.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// What the task of a job just admitted needs of its submission.
#[derive(Debug)]
pub struct Order {
    pub route: Arc<Route>,
    pub request: Arc<Request>,
    /// On the primary's wire, under the first attempt's id.
    pub wire: Option<UpstreamRequest>,
    /// The targets that the prompt is too long for, where somebody has looked at all of them.
    pub too_long: Option<TooLong>,
}

/// One job's task.
#[derive(Debug)]
pub struct Runner {
    engine: Engine,
    owner: OwnerId,
    job: JobId,
    route_name: String,
    route: Option<Arc<Route>>,
    request: Option<Arc<Request>>,
    /// Committed with the job.
    first: Option<FirstAttempt>,
    /// The first attempt's request, where it is written already.
    wire: Option<UpstreamRequest>,
    /// The targets that the prompt is too long for, once that was judged.
    too_long: Option<TooLong>,
    entry: Entry,
    events: mpsc::UnboundedReceiver<Box<CallEvent>>,
    events_in: mpsc::UnboundedSender<Box<CallEvent>>,
    /// Calls of this task that have not ended.
    in_flight: HashSet<AttemptId>,
    fresh_call: bool,
    /// Whose lease the attempt that starts next stands under.
    instance: InstanceId,
    /// The attempt that this task started last.
    open: Option<AttemptId>,
    /// The stream that those who wait have been shown.
    shown: Option<Arc<StreamLog>>,
    mirror: Option<Mirror>,
    /// Attempts of the job that this task knows of.
    attempts: usize,
    /// What those cost that were there when the job was last read.
    spent: Vec<(AttemptId, Spent)>,
    looks: u32,
    /// What is set aside for the job of its owner's limits, and whether this task holds it.
    reserved_tokens: Option<u64>,
    hold: Option<Hold>,
}

/// What woke the task.
enum Woken {
    Event(Box<CallEvent>),
    /// Somebody says that the database has news.
    Look,
    /// The time is over.
    Over,
    Stopped,
}

/// Whether the task goes on after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Decide,
    /// The seat is given up; somebody else may already have a new one.
    Left,
    /// This process stops, or may not go on with this job.
    Stop,
}

impl Runner {
    /// The task of a job just admitted; its first attempt, where there is one, is committed.
    pub fn admitted(
        engine: Engine,
        owner: OwnerId,
        job: JobId,
        order: Order,
        first: Option<FirstAttempt>,
        entry: Entry,
    ) -> Self {
        let mut runner = Runner::resumed(engine, owner, job, order.route.name.clone(), false, entry);
        runner.route = Some(order.route);
        runner.request = Some(order.request);
        runner.wire = order.wire;
        runner.too_long = order.too_long;
        runner.attempts = usize::from(first.is_some());
        runner.first = first;
        runner
    }

    /// The task of a job found in the database.
    pub fn resumed(
        engine: Engine,
        owner: OwnerId,
        job: JobId,
        route_name: String,
        fresh_call: bool,
        entry: Entry,
    ) -> Self {
        let (events_in, events) = mpsc::unbounded_channel();
        let route = engine.config().routes.get(&route_name).cloned();
        let instance = engine.inner.lease.id();
        Runner {
            engine,
            owner,
            job,
            route_name,
            route,
            request: None,
            first: None,
            wire: None,
            too_long: None,
            entry,
            events,
            events_in,
            in_flight: HashSet::new(),
            fresh_call,
            instance,
            open: None,
            shown: None,
            mirror: None,
            attempts: 0,
            spent: Vec::new(),
            looks: 0,
            reserved_tokens: None,
            hold: None,
        }
    }

    /// The first attempt was committed under this instance.
    pub fn under(self, instance: InstanceId) -> Self {
        Runner { instance, ..self }
    }

    /// The job's room within its owner's limits.
    pub fn holding(self, hold: Option<Hold>) -> Self {
        Runner { reserved_tokens: hold.as_ref().map(Hold::tokens), hold, ..self }
    }

    pub fn spawn(self) {
        tasks::spawn(self.run());
    }

    pub(super) async fn run(mut self) {
        if let Some(first) = self.first.take() {
            let wire = self.wire.take();
            let written = wire.map(|wire| Reduced { wire, dropped: first.dropped.clone() });
            self.begin(first.id, &first.candidate, written);
            if self.pause(None).await == Then::Stop {
                return self.interrupt();
            }
        }
        // Most jobs are over now; what follows is kept out of their task's size.
        if self.is_over() && self.in_flight.is_empty() {
            self.engine.inner.registry.forget(self.job);
        } else {
            Box::pin(self.carry_on()).await;
        }
    }

    async fn carry_on(mut self) {
        while !self.is_over() {
            let Some(snapshot) = self.read().await else { return self.interrupt() };
            self.take_in(&snapshot);
            let Some(step) = self.decide(&snapshot).await else { return self.interrupt() };
            match self.obey(&snapshot, step).await {
                Then::Decide => {}
                Then::Left => return,
                Then::Stop => return self.interrupt(),
            }
        }
        self.linger().await;
    }

    /// Whether this task has nothing more to decide.
    fn is_over(&self) -> bool {
        match *self.entry.progress.borrow() {
            Progress::Running | Progress::Streaming(_) | Progress::Unknown { .. } | Progress::RoundOver(_) => false,
            Progress::Succeeded(_) | Progress::Failed(_) | Progress::Cancelled | Progress::Interrupted => true,
        }
    }

    /// What the job holds is given back first, so that whoever hears of its end finds room for the next.
    fn publish(&mut self, progress: Progress) {
        match progress {
            Progress::Running | Progress::Streaming(_) => {}
            Progress::Unknown { .. } => self.hold.take().into_iter().for_each(Hold::park),
            Progress::Succeeded(_)
            | Progress::RoundOver(_)
            | Progress::Failed(_)
            | Progress::Cancelled
            | Progress::Interrupted => self.hold = None,
        }
        self.entry.progress.send_replace(progress);
    }

    /// The job as the database holds it; `None` when this process stops first, or the job is not to be read.
    async fn read(&self) -> Option<Snapshot> {
        self.engine.persist("read the job", || self.engine.store().job(self.owner, self.job)).await?.ok().flatten()
    }

    /// What may be done next. The permits and the suite are read only where a fallback could come up.
    async fn decide(&mut self, snapshot: &Snapshot) -> Option<NextStep> {
        let Some(route) = self.route.clone() else {
            return Some(self.without_route(snapshot));
        };
        let fresh_call = std::mem::take(&mut self.fresh_call);
        let is_open = !snapshot.job.state.is_terminal();
        let (unable, too_long) = if is_open { self.unfit(&route).await } else { Default::default() };
        let held = self.engine.inner.circuits.held_on(&route);
        let (permits, digest) = if is_open && route.targets.len() > 1 {
            let read = || self.engine.store().permits(Some(&route.name));
            let permits = self.engine.persist("read the permits", read).await?.ok()?;
            let digest = self.engine.suite_digest(&route).await;
            self.engine.end_changed(&route, &permits, digest.as_deref()).await;
            (permits, digest)
        } else {
            (Vec::new(), None)
        };
        let cooling = self.cooling(&route, snapshot.read_at);
        let situation = Situation {
            snapshot,
            route: &route,
            permits: &permits,
            suite_digest: digest.as_deref(),
            unable: &unable,
            too_long: &too_long,
            cooling: &cooling,
            held: &held,
            now: snapshot.read_at,
            jitter: rand::random::<f64>(),
            fresh_call,
        };
        Some(next_step(&situation))
    }

    async fn obey(&mut self, snapshot: &Snapshot, step: NextStep) -> Then {
        // Once content has reached a client, this call has no second answer: its stream ends with an error, and the
        // client's next call goes on with the job.
        let step = match step {
            NextStep::Start { .. } if self.has_delivered() => NextStep::RoundOver(self.broken_stream(snapshot)),
            NextStep::Release { attempt } if self.has_delivered() => NextStep::Wait { attempt },
            step => step,
        };
        match step {
            NextStep::Finished => self.publish_end(snapshot).await,
            NextStep::Wait { attempt } => return self.wait(snapshot, attempt).await,
            NextStep::Release { attempt } => self.release(attempt).await,
            NextStep::Start { candidate, round, at } => return self.start(snapshot, candidate, round, at).await,
            NextStep::RoundOver(error) => return self.end_round(snapshot, error).await,
            NextStep::Fail(error) => {
                let fail = || self.engine.store().fail_job(self.owner, self.job, &error);
                if let Some(Ok(())) = self.engine.persist("fail the job", fail).await {
                    tracing::info!(job = %self.job, code = error.code.as_str(), "job failed");
                    self.publish(Progress::Failed(error));
                }
            }
        }
        Then::Decide
    }

    /// An attempt is open. Its outcome comes from our own call, from another process, or from an operator.
    async fn wait(&mut self, snapshot: &Snapshot, attempt: AttemptId) -> Then {
        let ours = self.in_flight.contains(&attempt);
        let unknown = snapshot.unknown_attempt();
        match unknown {
            Some(open) => self.publish(Progress::Unknown { attempt: open.id, since: snapshot.job.updated_at }),
            None => match self.showing(attempt) {
                Some(log) => self.publish(Progress::Streaming(log)),
                None => self.publish(Progress::Running),
            },
        }
        // Nobody waits and nothing of ours is out: whoever comes next reads the database.
        if self.in_flight.is_empty() && self.entry.progress.receiver_count() == 0 {
            return self.leave();
        }
        if ours && unknown.is_none() {
            return self.pause(None).await;
        }
        if !ours && unknown.is_none() {
            self.mirror(snapshot, attempt).await;
        }
        let look = self.next_look();
        self.pause(Some(look)).await
    }

    async fn release(&mut self, attempt: AttemptId) {
        let key = self.key(attempt);
        let release = || self.engine.store().release_attempt_by_policy(key, &self.route_name);
        if let Some(Ok(())) = self.engine.persist("release the attempt", release).await {
            tracing::info!(job = %self.job, %attempt, route = self.route_name, "unknown attempt released by the route's policy");
        }
    }

    async fn end_round(&mut self, snapshot: &Snapshot, error: JobError) -> Then {
        let asked = error.retry_after_ms.map(Duration::from_millis);
        let resume = match snapshot.job.delivery {
            Delivery::Async => Some(backoff::before_round(snapshot.job.round.unsigned_abs(), asked)),
            Delivery::Sync => None,
        };
        let end = || self.engine.store().end_round(self.owner, self.job, &error, resume);
        match self.engine.persist("end the round", end).await {
            Some(Ok(())) => {}
            Some(Err(_)) => return Then::Decide,
            None => return Then::Stop,
        }
        if error.unpermitted {
            self.engine.metrics().fallbacks_refused.with_label_values(&[&self.route_name]).inc();
        }
        tracing::info!(job = %self.job, round = snapshot.job.round, details = ?error.details, "round over");
        self.publish(Progress::RoundOver(error));
        // Calls that were released may still win; a fresh call opens the next round.
        while !self.in_flight.is_empty() {
            if self.pause(None).await == Then::Stop {
                return Then::Stop;
            }
            if self.is_over() || self.fresh_call {
                return Then::Decide;
            }
        }
        self.leave()
    }

    /// Ends the task, unless somebody has just come in.
    fn leave(&mut self) -> Then {
        match self.engine.inner.registry.retire(self.job, &mut self.entry) {
            Ok(()) => Then::Left,
            Err(command) => {
                if command == Some(Command::FreshCall) {
                    self.fresh_call = true;
                    self.shown = None;
                }
                Then::Decide
            }
        }
    }

    async fn publish_end(&mut self, snapshot: &Snapshot) {
        let progress = match snapshot.job.state {
            JobState::Succeeded { .. } => match self.engine.delivered(snapshot).await {
                Ok(delivered) => {
                    if let Some(mirror) = self.mirror.take() {
                        mirror.complete(&delivered);
                    }
                    Progress::Succeeded(delivered)
                }
                Err(_) => Progress::Interrupted,
            },
            JobState::Cancelled => Progress::Cancelled,
            JobState::Failed => snapshot.job.error.clone().map_or(Progress::Interrupted, Progress::Failed),
            JobState::Queued | JobState::Running | JobState::Unknown => Progress::Running,
        };
        self.publish(progress);
    }

    async fn on_event(&mut self, event: Box<CallEvent>) {
        match &event.news {
            News::Content(log) => return self.on_content(event.key, log),
            News::Silent { .. } => {}
            News::Ended(_) | News::GaveUp | News::CalledOff { .. } => {
                self.in_flight.remove(&event.key.id);
                self.engine.inner.streams.close(event.key);
            }
        }
        self.charge(&event.news);
        let sample = self.engine.sample(self.route.as_ref(), self.request.as_deref(), &event);
        let seen = Seen { attempts: self.attempts, spent: &self.spent };
        if let Settled::Won(delivered) = self.engine.settle(*event, seen, sample).await {
            self.publish(Progress::Succeeded(delivered));
        }
    }

    /// The job is over; calls still out are listened to, so that each late result is judged and logged.
    async fn linger(mut self) {
        self.engine.inner.registry.forget(self.job);
        while !self.in_flight.is_empty() {
            if self.pause(None).await == Then::Stop {
                return;
            }
        }
    }

    fn interrupt(mut self) {
        if !matches!(*self.entry.progress.borrow(), Progress::RoundOver(_)) {
            self.publish(Progress::Interrupted);
        }
        self.engine.inner.registry.forget(self.job);
    }

    /// Waits, and deals with what came: then it is time to decide again.
    async fn pause(&mut self, at_most: Option<Duration>) -> Then {
        match self.sleep(at_most).await {
            Woken::Event(event) => {
                self.on_event(event).await;
                Then::Decide
            }
            Woken::Look | Woken::Over => Then::Decide,
            Woken::Stopped => Then::Stop,
        }
    }

    /// Sleeps until a call has news, somebody says so, `at_most` is over, or the process stops.
    async fn sleep(&mut self, at_most: Option<Duration>) -> Woken {
        let mut phase = self.engine.inner.phase.subscribe();
        let over = async {
            match at_most {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => Woken::Event(event),
            Some(command) = self.entry.commands.recv() => {
                if command == Command::FreshCall {
                    // Whoever was shown a broken stream has been told; the newcomer has seen nothing.
                    self.fresh_call = true;
                    self.shown = None;
                }
                self.looks = 0;
                Woken::Look
            }
            _ = phase.wait_for(|p| *p == Phase::Stopped) => Woken::Stopped,
            () = over => Woken::Over,
        }
    }

    /// 100 ms doubling to 1 s, with jitter.
    fn next_look(&mut self) -> Duration {
        let doubled = FIRST_LOOK.saturating_mul(1 << self.looks.min(6)).min(LAST_LOOK);
        self.looks += 1;
        doubled.mul_f64(0.75 + 0.25 * rand::random::<f64>())
    }

    fn key(&self, id: AttemptId) -> AttemptKey {
        AttemptKey { owner: self.owner, job: self.job, id }
    }
}
