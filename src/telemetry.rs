//! Logs and metrics: one list of names. No owner, key, prompt or secret ever becomes a label or a field.

use prometheus::{CounterVec, Encoder, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::environment;

/// Every metric of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Jobs admitted, attached to, replayed or refused, by `outcome`.
    pub submissions: IntCounterVec,
    /// Requests for a job refused, by `reason` (requests, tokens, jobs: the owner's limits; overloaded; context_length).
    pub refused: IntCounterVec,
    /// Prompts whose tokens had to be counted, by `verdict` (too_long: for one of the route's targets at least; fits).
    pub prompts_counted: IntCounterVec,
    /// Requests on their way to the database, and how many may be.
    pub entering: IntGauge,
    pub entering_limit: IntGauge,
    /// Jobs at work.
    pub jobs: IntGauge,
    /// Attempts started, by `provider`.
    pub attempts_started: IntCounterVec,
    /// Attempts ended, by `provider` and `outcome` (succeeded, failed, unknown, lost).
    pub attempts_ended: IntCounterVec,
    /// Fallbacks refused for want of a permit, by `route`.
    pub fallbacks_refused: IntCounterVec,
    /// Tries at a callback, by `outcome` (delivered, missed, given_up).
    pub callbacks: IntCounterVec,
    pub evidence: EvidenceMetrics,
    /// What outcomes cost, by `provider` and `currency`; a float as all metrics are, the exact amounts are the database's.
    pub cost: CounterVec,
    /// Outcomes of unknown cost, by `provider`.
    pub cost_unknown: IntCounterVec,
    /// Calls under way.
    pub calls: IntGauge,
    /// Client connections open.
    pub connections: IntGauge,
}

/// What becomes of the evidence behind fallbacks.
#[derive(Debug)]
pub struct EvidenceMetrics {
    /// Permits that the gateway itself ended, by `route` and `cause` (changed, recheck, drift, renewed).
    pub permits_ended: IntCounterVec,
    /// Scheduled re-runs of suites, by `route` and `outcome` (passed, failed, not_run).
    pub rechecks: IntCounterVec,
    /// Live answers held against a contract, by `route`, `provider` and `outcome` (kept, broken, not_judged, dropped).
    pub answers: IntCounterVec,
    /// Circuits opened since live answers broke the contract, by `route` and `provider`.
    pub circuits_opened: IntCounterVec,
}

impl EvidenceMetrics {
    fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels).expect("metric names here are valid");
            registry.register(Box::new(counter.clone())).expect("metric names here are unique");
            counter
        };
        let answers = ("interlock_drift_answers_total", "Live answers held against their route's contract");
        EvidenceMetrics {
            permits_ended: counter(
                "interlock_permits_ended_total",
                "Permits that the gateway itself ended",
                &["route", "cause"],
            ),
            rechecks: counter("interlock_rechecks_total", "Scheduled re-runs of suites", &["route", "outcome"]),
            answers: counter(answers.0, answers.1, &["route", "provider", "outcome"]),
            circuits_opened: counter(
                "interlock_drift_circuits_opened_total",
                "Targets whose live answers broke the contract",
                &["route", "provider"],
            ),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels).expect("metric names here are valid");
            registry.register(Box::new(counter.clone())).expect("metric names here are unique");
            counter
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help).expect("metric names here are valid");
            registry.register(Box::new(gauge.clone())).expect("metric names here are unique");
            gauge
        };
        Metrics {
            submissions: counter(
                "interlock_submissions_total",
                "Requests for a job, by what became of them",
                &["outcome"],
            ),
            refused: counter("interlock_refused_total", "Requests for a job refused, by what was lacking", &["reason"]),
            prompts_counted: counter(
                "interlock_prompts_counted_total",
                "Prompts whose tokens were counted, since their bytes could be too many for a window",
                &["verdict"],
            ),
            entering: gauge("interlock_entering", "Requests on their way to the database"),
            entering_limit: gauge("interlock_entering_limit", "How many may be, as learned from the database's times"),
            jobs: gauge("interlock_jobs", "Jobs at work in this process"),
            attempts_started: counter(
                "interlock_attempts_started_total",
                "Attempts committed as started",
                &["provider"],
            ),
            attempts_ended: counter("interlock_attempts_ended_total", "Outcomes of attempts", &["provider", "outcome"]),
            fallbacks_refused: counter(
                "interlock_fallbacks_refused_total",
                "Fallbacks without a valid permit",
                &["route"],
            ),
            callbacks: counter("interlock_callbacks_total", "Tries to tell owners that a job is over", &["outcome"]),
            evidence: EvidenceMetrics::new(&registry),
            cost: {
                let opts = Opts::new("interlock_cost_total", "What answers and failures cost, where that is known");
                let cost = CounterVec::new(opts, &["provider", "currency"]).expect("metric names here are valid");
                registry.register(Box::new(cost.clone())).expect("metric names here are unique");
                cost
            },
            cost_unknown: counter(
                "interlock_cost_unknown_total",
                "Answers and failures of unknown cost",
                &["provider"],
            ),
            calls: gauge("interlock_calls", "Provider calls that somebody waits for"),
            connections: gauge("interlock_connections", "Open client connections"),
            registry,
        }
    }
}

impl Metrics {
    /// Prometheus' text format.
    pub fn render(&self) -> String {
        let mut out = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut out) {
            tracing::error!(%error, "metrics could not be rendered");
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// Logs go to standard error: `INTERLOCK_LOG` filters (else `default`), `INTERLOCK_LOG_FORMAT=json` is for machines.
pub fn init_logs(default: &str) {
    let filter = environment("INTERLOCK_LOG").unwrap_or_else(|| format!("{default},sqlx=error"));
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new(default));
    let registry = tracing_subscriber::registry().with(filter);
    let json = environment("INTERLOCK_LOG_FORMAT").as_deref() == Some("json");
    let started = if json {
        registry.with(tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr)).try_init()
    } else {
        registry.with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr)).try_init()
    };
    if started.is_err() {
        tracing::debug!("logs were set up before");
    }
}
