//! Runs jobs: the only place that holds a store and an adapter together. No SQL text, no HTTP status.
//!
//! The main path is [`submit`] (admit the job, or find the one that has its key) → [`run_job`] (obey
//! [`crate::domain::step::next_step`] until the job is over) → [`call`] (one attempt at one provider, with its clocks)
//! → [`settle`] (write what came of it). Beside it: [`lease`] (this process is alive), [`rescue`] (what dead processes
//! left), [`reconcile`] (asking providers about lost answers), [`call_off`] (cancelled work), [`certify`] (contract runs
//! and permits), [`notify`] (owners are told that their jobs are over); before it [`gate`], [`limits`] and [`room`] (what may
//! begin).
//!
//! No transaction is open while a provider is called, and a client that hangs up cancels nothing: each job runs in a
//! task of its own.

pub mod call;
pub mod call_off;
pub mod calls;
pub mod certify;
pub mod circuits;
pub mod count;
pub mod gate;
pub mod keys;
pub mod lease;
pub mod limits;
pub mod mirror;
pub mod notify;
pub mod progress;
pub mod reconcile;
pub mod registry;
pub mod rescue;
pub mod room;
pub mod run_job;
pub mod settle;
pub mod stream_log;
pub mod submit;
pub mod tasks;
pub mod upstreams;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::Config;
use crate::domain::Timestamp;
use crate::domain::ids::JobId;
use crate::domain::job::JobError;
use crate::domain::limits::Refusal;
use crate::domain::route::Target;
use crate::engine::calls::Calls;
use crate::engine::certify::drift::Drift;
use crate::engine::certify::watch::Watch;
use crate::engine::circuits::Circuits;
use crate::engine::gate::Gate;
use crate::engine::keys::Keys;
use crate::engine::lease::Lease;
use crate::engine::limits::Limits;
use crate::engine::mirror::Streams;
use crate::engine::notify::Notifier;
use crate::engine::reconcile::Places;
use crate::engine::registry::Registry;
use crate::engine::room::Counting;
use crate::engine::tasks::Tasks;
use crate::engine::upstreams::Upstreams;
use crate::store::drift::HeldCircuit;
use crate::store::{Store, StoreError};
use crate::telemetry::Metrics;

/// Between two words on how far a drain has come.
const DRAIN_NEWS: Duration = Duration::from_secs(2);

/// One gateway process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub store: Store,
    pub config: Arc<Config>,
    pub upstreams: Upstreams,
    pub circuits: Circuits,
    pub watch: Watch,
    pub drift: Drift,
    pub keys: Keys,
    pub registry: Registry,
    /// The streams that run here and may be followed elsewhere.
    pub streams: Streams,
    pub lease: Lease,
    pub limits: Limits,
    pub gate: Gate,
    pub counting: Counting,
    pub notifier: Arc<Notifier>,
    pub tasks: Tasks,
    pub calls: Calls,
    pub places: Places,
    pub metrics: Arc<Metrics>,
    pub phase: watch::Sender<Phase>,
}

/// How far a shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    /// Nothing new starts; what runs may end.
    Draining,
    /// What still runs is left behind as unknown.
    Stopped,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("this gateway is shutting down")]
    Draining,
    #[error("the owner's limit of {} {} is used up", .0.limit, .0.measure.as_str())]
    Limited(Refusal),
    #[error("{}", .0.message)]
    TooLong(Box<JobError>),
    #[error("limits cannot be judged while the database is away")]
    LimitsUnknown,
    #[error("as much is on its way as this gateway can carry")]
    Overloaded,
    #[error("the gateway's own task ended without an outcome")]
    Fault,
    #[error("the provider `{provider}` cannot be called: {why}")]
    Upstream { provider: String, why: String },
    #[error("callbacks cannot be sent: {0}")]
    Callbacks(String),
}

impl Engine {
    /// Registers this process and starts its heartbeat and sweeps.
    pub async fn start(store: Store, config: Arc<Config>) -> Result<Engine, EngineError> {
        let upstreams = Upstreams::new(&config)?;
        let notifier = Arc::new(Notifier::new(&config.callbacks)?);
        // Before anything is written. Without them it would be written all the same, and removed row by row.
        if let Err(error) = store.make_days().await {
            tracing::warn!(%error, "the days of the payload tables are made later");
        }
        let lease = Lease::register(&store).await?;
        let places = Places::new(&config);
        let watch = Watch::new(store.now().await?);
        let (drift, samples) = Drift::new();
        let limits = Limits::new(lease.id());
        let inner = Arc::new(Inner {
            store,
            config,
            upstreams,
            circuits: Circuits::default(),
            watch,
            drift,
            keys: Keys::default(),
            registry: Registry::default(),
            streams: Streams::default(),
            lease,
            limits,
            gate: Gate::default(),
            counting: Counting::default(),
            notifier,
            tasks: Tasks::default(),
            calls: Calls::default(),
            places,
            metrics: Arc::new(Metrics::default()),
            phase: watch::Sender::new(Phase::Serving),
        });
        let engine = Engine { inner };
        engine.spawn_heartbeat();
        engine.spawn_limits();
        engine.note_places().await?;
        engine.spawn_rescue();
        engine.spawn_reconcile();
        engine.spawn_call_off();
        engine.spawn_stream_writer();
        engine.spawn_notifier();
        engine.spawn_evidence(samples).await?;
        Ok(engine)
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn config(&self) -> &Arc<Config> {
        &self.inner.config
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Jobs at work in this process.
    pub fn jobs(&self) -> usize {
        self.inner.registry.count()
    }

    pub fn upstreams(&self) -> &Upstreams {
        &self.inner.upstreams
    }

    pub fn phase(&self) -> Phase {
        *self.inner.phase.borrow()
    }

    pub fn subscribe(&self) -> watch::Receiver<Phase> {
        self.inner.phase.subscribe()
    }

    /// Calls that somebody still waits for.
    pub fn calls(&self) -> usize {
        self.inner.tasks.calls()
    }

    /// Tells the job's task in this process, if there is one, to look at the database.
    pub fn nudge(&self, job: JobId) -> bool {
        self.inner.registry.nudge(job)
    }

    /// Every target with a circuit: since when it fails, until when it is left alone.
    pub fn circuits(&self) -> Vec<(Target, Option<Timestamp>, Option<Timestamp>)> {
        self.inner.circuits.list(self.clock())
    }

    /// The circuits that live answers have opened, as last read.
    pub fn held_circuits(&self) -> Vec<HeldCircuit> {
        self.inner.circuits.held()
    }

    /// Whether this process may start attempts: it serves, and its lease holds.
    pub fn may_start(&self) -> bool {
        self.phase() == Phase::Serving && self.inner.lease.holds()
    }

    /// Says every few seconds what is still waited for. Never ends by itself.
    async fn tell_drain(&self) {
        loop {
            tokio::time::sleep(DRAIN_NEWS).await;
            tracing::info!(running = self.inner.tasks.calls(), "draining");
        }
    }

    /// Stops as DESIGN 2 says: nothing new, wait for what runs until `hurry` completes or the drain time is over, then
    /// mark the rest unknown and end the lease. Nothing turns failed.
    pub async fn shut_down(&self, hurry: impl Future<Output = ()>) {
        self.inner.phase.send_replace(Phase::Draining);
        let running = self.inner.tasks.calls();
        tracing::info!(running, drain = ?self.inner.config.server.drain, "draining: no new attempt starts");
        tokio::select! {
            () = self.inner.tasks.calls_ended() => {}
            () = self.tell_drain() => {}
            () = tokio::time::sleep(self.inner.config.server.drain) => tracing::warn!("the drain time is over"),
            () = hurry => tracing::warn!("second signal: not waiting any longer"),
        }
        // Marked first, so that the callers whose wait now ends find `unknown` in the database, and are told so.
        match self.inner.store.mark_own_attempts_unknown(self.inner.lease.id()).await {
            Ok(left) => tracing::info!(left, "drained: attempts still running are unknown now"),
            Err(error) => tracing::error!(%error, "attempts could not be marked; another instance's sweep will do it"),
        }
        self.inner.phase.send_replace(Phase::Stopped);
        if let Err(error) = self.inner.store.end_lease(self.inner.lease.id()).await {
            tracing::error!(%error, "the lease could not be ended; it runs out by itself");
        }
    }
}
