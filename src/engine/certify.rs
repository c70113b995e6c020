//! Contract runs and the permits that rest on them: how a fallback earns its place, and how it loses it.
//!
//! [`coverage`] says what a run's evidence covers; [`watch`] ends permits whose ground has changed, [`recheck`] runs
//! suites again on schedule, [`drift`] holds live answers against them.

pub mod coverage;
pub mod drift;
pub mod recheck;
pub mod watch;

use std::path::Path;
use std::time::Duration;

use contracts::check::Kind;
use contracts::recording::Journal;
use contracts::report::{Report, RunVerdict};
use contracts::runner::{self, Options, Progress, TargetInfo};
use contracts::suite::{Suite, SuiteError};
use contracts::upstream::{LiveUpstream, Mode, RecordingUpstream, ReplayUpstream};

use super::upstreams::Upstream;
use super::{Engine, EngineError};
use crate::config::{Config, Provider};
use crate::domain::ids::{InstanceId, PermitId, RunId};
use crate::domain::permit::Permit;
use crate::domain::route::{Evidence, Route, Target};
use crate::store::contracts::{CheckRow, NewRun, Run, RunEnd};
use crate::store::{Store, StoreError};

/// How long one call of a run may take: small models on busy machines are slow, and nobody is waiting.
const CALL_TIMEOUT: Duration = Duration::from_secs(180);

/// Where the answers of a run come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    Live,
    Replay,
    /// Live, and written down for replay.
    Record,
}

impl RunMode {
    /// The mode that the run is filed under: a recording is a live run.
    pub fn as_str(self) -> &'static str {
        match self {
            RunMode::Live | RunMode::Record => "live",
            RunMode::Replay => "replay",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CertifyError {
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error("target `{target}`: the settings define no provider `{provider}`")]
    NoProvider { target: Target, provider: String },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a permit was not granted. Each names what is missing and the cure.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error("there is no route `{0}` in the settings")]
    NoRoute(String),
    #[error("there is no contract run {0}")]
    NoRun(RunId),
    #[error("run {run} has not passed (verdict {verdict}; schema {}, tokenizer {}, round_trip {}): a permit needs all three kinds", .kinds[0], .kinds[1], .kinds[2])]
    NotPassed { run: RunId, verdict: String, kinds: [String; 3] },
    #[error("{0}")]
    DoesNotFit(String),
    #[error("a reason is needed: say why this fallback is enabled")]
    NoReason,
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run about to be made.
#[derive(Debug)]
pub struct Planned {
    pub id: RunId,
    suite: Suite,
    target: Target,
    provider: Provider,
    mode: RunMode,
}

impl Planned {
    /// Reads the suite and finds the target; nothing is written yet.
    pub fn new(config: &Config, suite: &str, target: Target, mode: RunMode) -> Result<Planned, CertifyError> {
        let suite = Suite::find(Some(&config.contracts_dir), suite)?;
        let provider = config
            .providers
            .get(&target.provider)
            .cloned()
            .ok_or_else(|| CertifyError::NoProvider { provider: target.provider.clone(), target: target.clone() })?;
        Ok(Planned { id: RunId::fresh(), suite, target, provider, mode })
    }

    /// Files the run as running.
    pub async fn begin(&self, store: &Store, instance: Option<InstanceId>) -> Result<(), CertifyError> {
        let run = NewRun {
            id: self.id,
            suite: self.suite.name().to_owned(),
            suite_digest: self.suite.digest().to_owned(),
            target: self.target.clone(),
            adapter_version: self.provider.adapter.version(),
            settings_digest: self.provider.settings_digest.clone(),
            mode: self.mode.as_str(),
            instance,
        };
        Ok(store.begin_run(&run).await?)
    }

    pub fn suite(&self) -> &Suite {
        &self.suite
    }

    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Where the run's exchanges are kept until it has ended: begun, or taken over from the run `earlier`.
    pub fn journal(&self, root: &Path, earlier: Option<RunId>) -> Result<Journal, CertifyError> {
        let adapter_version = self.provider.adapter.version();
        let facts = [
            ("suite", self.suite.name()),
            ("suite_digest", self.suite.digest()),
            ("provider", &self.target.provider),
            ("model", &self.target.model),
            ("adapter_version", &adapter_version),
            ("settings_digest", &self.provider.settings_digest),
        ];
        let run = self.id.to_string();
        Ok(match earlier {
            None => Journal::begin(root, &run, &facts)?,
            Some(earlier) => Journal::take_up(root, &earlier.to_string(), &run, &facts)?,
        })
    }

    /// Makes the run and files its verdict with every check.
    pub async fn finish(self, store: &Store, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Result<Report, CertifyError> {
        self.finish_with(store, &Options::default(), None, progress).await
    }

    /// [`Planned::finish`], with a budget, in parallel, and with a journal; a run that is incomplete leaves it behind.
    pub async fn finish_with(
        self,
        store: &Store,
        options: &Options,
        journal: Option<Journal>,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Report, CertifyError> {
        let report = match self.made(options, journal.as_ref(), progress).await {
            Ok(report) => report,
            Err(error) => {
                store.end_run(self.id, &not_run(&error.to_string())).await?;
                return Err(error);
            }
        };
        store.end_run(self.id, &end_of(&report)).await?;
        if let Some(journal) = journal.filter(|_| report.incomplete().is_none()) {
            journal.remove();
        }
        Ok(report)
    }

    async fn made(
        &self,
        options: &Options,
        journal: Option<&Journal>,
        progress: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Report, CertifyError> {
        let upstream = Upstream::new(&self.provider)?;
        let (suite, model) = (&self.suite, self.target.model.clone());
        let info = TargetInfo {
            provider: self.target.provider.clone(),
            model: model.clone(),
            adapter_version: self.provider.adapter.version(),
        };
        let live = |model| {
            LiveUpstream::new(
                upstream.adapter.clone(),
                upstream.transport.clone(),
                model,
                upstream.api_key.clone(),
                CALL_TIMEOUT,
            )
        };
        Ok(match (self.mode, journal) {
            (RunMode::Live, None) => runner::run_with(suite, &live(model), info, options, progress).await,
            (RunMode::Live, Some(journal)) => {
                runner::run_with(suite, &live(model).keeping(journal), info, options, progress).await
            }
            (RunMode::Record, _) => {
                let recording = RecordingUpstream::new(live(model), suite, &self.target.provider)?;
                runner::run_with(suite, &recording, info, options, progress).await
            }
            (RunMode::Replay, _) => {
                let replay = ReplayUpstream::new(suite, upstream.adapter.clone(), &self.target.provider, model);
                runner::run_with(suite, &replay, info, options, progress).await
            }
        })
    }
}

/// A run that was not made, and why.
pub fn not_run(error: &str) -> RunEnd {
    RunEnd { passed: false, kinds: ["missing"; 3], error: Some(error.to_owned()), checks: Vec::new() }
}

fn end_of(report: &Report) -> RunEnd {
    let kind = |kind: Kind| match report.kind_verdict(kind) {
        RunVerdict::Passed => "passed",
        RunVerdict::Failed if report.checks().iter().any(|check| check.kind == kind) => "failed",
        RunVerdict::Failed => "missing",
    };
    RunEnd {
        // The types' own word for it: no other report is evidence.
        passed: report.evidence().is_ok(),
        kinds: [kind(Kind::Schema), kind(Kind::Tokenizer), kind(Kind::RoundTrip)],
        error: report.evidence().err().map(|missing| missing.to_string()),
        checks: report
            .checks()
            .iter()
            .map(|check| CheckRow {
                kind: check.kind.as_str().to_owned(),
                name: check.name.to_string(),
                case: check.case.to_string(),
                verdict: check.verdict.as_str().to_owned(),
                detail: check.detail.to_string(),
            })
            .collect(),
    }
}

/// Enables a fallback on the evidence of a run, or says what is missing. The database checks the verdict once more.
pub async fn grant_permit(
    store: &Store,
    config: &Config,
    route: &str,
    run: RunId,
    actor: &str,
    reason: &str,
) -> Result<Permit, GrantError> {
    if reason.trim().is_empty() {
        return Err(GrantError::NoReason);
    }
    let route = config.routes.get(route).ok_or_else(|| GrantError::NoRoute(route.to_owned()))?;
    let evidence = store.run(run).await?.ok_or(GrantError::NoRun(run))?;
    if evidence.verdict != "passed" {
        return Err(GrantError::NotPassed { run, verdict: evidence.verdict, kinds: evidence.kinds });
    }
    fits(config, route, &evidence)?;
    let id = PermitId::fresh();
    match store.grant_permit(id, &route.name, run, actor, reason, route.permit_ttl).await {
        Ok(true) => {}
        Ok(false) => return Err(GrantError::DoesNotFit(drifted(store, route, &evidence).await?)),
        Err(StoreError::Refused { constraint }) => {
            return Err(GrantError::DoesNotFit(format!("the database refused the permit: {constraint}")));
        }
        Err(error) => return Err(error.into()),
    }
    let granted = store.permits(Some(&route.name)).await?.into_iter().find(|permit| permit.id() == id);
    granted.ok_or(GrantError::Store(StoreError::LostRace))
}

/// Why the database wrote no permit over a run that is there: live answers have broken the contract since it began.
async fn drifted(store: &Store, route: &Route, run: &Run) -> Result<String, StoreError> {
    let held = store.held_circuits().await?.into_iter().find(|c| c.route == route.name && c.target == run.target);
    let why = held.map_or_else(String::new, |circuit| format!(" ({})", circuit.reason));
    let again = format!("interlock contract run {} --target {}", run.suite, run.target);
    Ok(format!(
        "live answers of {} have broken the contract since run {} began{why}; run the suite again: {again}",
        run.target, run.id
    ))
}

/// Whether a passed run speaks for a fallback of this route as everything stands now.
fn fits(config: &Config, route: &Route, run: &Run) -> Result<(), GrantError> {
    let refuse = |why: String| Err(GrantError::DoesNotFit(why));
    let Some(contract) = &route.contract else {
        return refuse(format!("route `{0}` names no contract; set routes.{0}.contract", route.name));
    };
    if run.suite != *contract {
        return refuse(format!(
            "run {} is of suite `{}`, route `{}` has contract `{contract}`",
            run.id, run.suite, route.name
        ));
    }
    let position = route.targets.iter().position(|t| t.target == run.target);
    let Some(target) = position.and_then(|at| route.targets.get(at)) else {
        return refuse(format!("run {} is of {}, which is no target of route `{}`", run.id, run.target, route.name));
    };
    if position == Some(0) {
        return refuse(format!("{} is the primary of route `{}` and needs no permit", run.target, route.name));
    }
    let again = format!("run the suite again: interlock contract run {contract} --target {}", run.target);
    if Suite::find(Some(&config.contracts_dir), contract)?.digest() != run.suite_digest {
        return refuse(format!("suite `{contract}` has changed since run {}; {again}", run.id));
    }
    if target.adapter_version != run.adapter_version {
        return refuse(format!(
            "run {} was made with adapter {}, this is {}; {again}",
            run.id, run.adapter_version, target.adapter_version
        ));
    }
    if target.settings_digest != run.settings_digest {
        return refuse(format!(
            "the settings of provider `{}` have changed since run {}; {again}",
            run.target.provider, run.id
        ));
    }
    if route.evidence == Evidence::Live && run.mode != "live" {
        return refuse(format!(
            "run {} was replayed, and route `{}` wants live evidence; {again} --live",
            run.id, route.name
        ));
    }
    Ok(())
}

impl Engine {
    /// The digest that the route's suite has now; `None` where it names none or it cannot be read.
    pub(super) async fn suite_digest(&self, route: &Route) -> Option<String> {
        let digest = suite_digest(self.config(), route).await;
        self.inner.watch.saw(digest.as_deref());
        digest
    }

    /// A passed live run is a success of the kind of call that failed: it closes the target's circuit. Played back
    /// recordings say nothing of the target as it is now.
    pub fn note_passed_run(&self, target: &Target, report: &Report) {
        if report.mode() == Mode::Live {
            self.inner.circuits.succeeded(target);
        }
    }

    pub fn instance(&self) -> InstanceId {
        self.inner.lease.id()
    }
}

/// The digest of the route's suite as it stands on disk, or in the binary; `None` is told in the log.
pub async fn suite_digest(config: &Config, route: &Route) -> Option<String> {
    let contract = route.contract.clone()?;
    match read_digest(config, contract).await {
        Ok(digest) => Some(digest),
        Err(error) => {
            tracing::error!(route = route.name, error, "the route's suite cannot be read: no fallback is permitted");
            None
        }
    }
}

/// The suite's digest now, or why it cannot be read.
async fn read_digest(config: &Config, suite: String) -> Result<String, String> {
    let dir = config.contracts_dir.clone();
    let read = move || Suite::find(Some(&dir), &suite).map(|s| s.digest().to_owned()).map_err(|e| e.to_string());
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()))
}
