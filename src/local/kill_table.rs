//! The kill table: which misbehaviour of the zoo is caught by which check of which suite.
//!
//! Every cell is a live run of a suite against a simulated provider on a socket of its own. The table judges itself
//! against the catalogue: what ought to be caught and is not, what is caught by another kind only, what is refused and
//! is harmless. It must never be told what a suite found; it reads the reports.

mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use contracts::{Kind, LiveUpstream, Report, Suite, TargetInfo, Verdict};
use futures_util::StreamExt;
use providers::compatible;
use providers::transport::{Endpoint, Transport};

use super::sim::{Expect, Misbehaviour, SimProvider, Wire};

/// A call of a run takes milliseconds here; what takes longer hangs.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// A suite that a simulated provider cannot answer soundly in these protocols, and why: it is not measured there.
#[derive(Debug)]
pub struct NotMeasured {
    pub suite: &'static str,
    pub wires: &'static [Wire],
    pub why: &'static str,
}

pub const NOT_MEASURED: [NotMeasured; 2] = [
    NotMeasured {
        suite: "small-model",
        wires: &[Wire::OpenAiChat, Wire::AnthropicMessages, Wire::Gemini],
        why: "it asks what a real model knows (the capital of France), and the simulated one knows nothing",
    },
    NotMeasured {
        suite: "draft-replies",
        wires: &[Wire::AnthropicMessages],
        why: "it uses n and seed, which this protocol does not have: the suite fails there, as it should",
    },
];

/// Whether a suite can be measured in a protocol.
pub fn is_measured(suite: &str, wire: Wire) -> bool {
    !NOT_MEASURED.iter().any(|not| not.suite == suite && not.wires.contains(&wire))
}

/// Why a provider could not be put up or asked.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error(transparent)]
    Suite(#[from] contracts::SuiteError),
    #[error("a simulated provider could not start: {0}")]
    Start(#[from] io::Error),
    #[error("{0}")]
    SetUp(String),
}

/// The checks that failed in one run.
pub type Failed = BTreeSet<(Kind, &'static str)>;

/// One row, in one protocol.
#[derive(Debug)]
pub struct Line {
    pub row: &'static Misbehaviour,
    pub wire: Wire,
    /// By suite: what failed.
    pub suites: BTreeMap<String, Failed>,
}

/// What became of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// By the kind that ought to catch it.
    Caught,
    /// By other kinds only.
    OtherKind,
    /// Not at all, and it ought to be.
    Missed,
    /// Not at all, for the reason that the catalogue gives.
    Unseen,
    /// Caught, though the catalogue says that it cannot be.
    BetterThanSaid,
    /// Harmless, and passed.
    Passed,
    /// Harmless, and refused.
    FalseRefusal,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Caught => "caught",
            Outcome::OtherKind => "other kind only",
            Outcome::Missed => "MISSED",
            Outcome::Unseen => "unseen",
            Outcome::BetterThanSaid => "caught after all",
            Outcome::Passed => "passed",
            Outcome::FalseRefusal => "FALSE REFUSAL",
        }
    }

    /// Whether the table says what the catalogue says.
    pub fn as_expected(self) -> bool {
        matches!(self, Outcome::Caught | Outcome::Unseen | Outcome::Passed)
    }
}

impl Line {
    /// The kinds of which some check of some suite failed.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.suites.values().flatten().map(|(kind, _)| *kind).collect()
    }

    pub fn outcome(&self) -> Outcome {
        let kinds = self.kinds();
        match self.row.expect {
            Expect::Caught(kind) if kinds.contains(&kind) => Outcome::Caught,
            Expect::Caught(_) if !kinds.is_empty() => Outcome::OtherKind,
            Expect::Caught(_) => Outcome::Missed,
            Expect::Unseen(..) if kinds.is_empty() => Outcome::Unseen,
            Expect::Unseen(..) => Outcome::BetterThanSaid,
            Expect::Harmless if kinds.is_empty() => Outcome::Passed,
            Expect::Harmless => Outcome::FalseRefusal,
        }
    }
}

/// The whole table.
#[derive(Debug)]
pub struct KillTable {
    pub suites: Vec<String>,
    pub lines: Vec<Line>,
}

/// The shipped suites that can be measured.
pub fn suites() -> Result<Vec<Suite>, MeasureError> {
    let wires = [Wire::OpenAiChat, Wire::AnthropicMessages];
    let names = Suite::shipped().into_iter().filter(|name| wires.iter().any(|wire| is_measured(name, *wire)));
    Ok(names.map(|name| Suite::embedded(&name)).collect::<Result<_, _>>()?)
}

/// Runs every suite against every row in every protocol of the row, `at_once` runs at a time.
pub async fn measure(
    rows: impl IntoIterator<Item = &'static Misbehaviour>,
    at_once: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<KillTable, MeasureError> {
    let suites = suites()?;
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        lines.extend(row.wires.iter().map(|wire| Line { row, wire: *wire, suites: BTreeMap::new() }));
    }
    let suites_of = &suites;
    let runs = lines.iter().enumerate().flat_map(|(at, line)| {
        let measured = suites_of.iter().filter(|suite| is_measured(suite.name(), line.wire));
        measured.map(move |suite| async move {
            let failed = run(suite, line.wire, Some(line.row), None).await.map(|report| failed(suite, &report));
            (at, suite.name(), failed)
        })
    });
    let runs: Vec<_> = runs.collect();
    let mut running = futures_util::stream::iter(runs).buffer_unordered(at_once);
    let (mut found, mut done) = (Vec::new(), 0);
    while let Some(one) = running.next().await {
        done += 1;
        progress(done);
        found.push(one);
    }
    drop(running);
    for (at, suite, failed) in found {
        if let Some(line) = lines.get_mut(at) {
            line.suites.insert(suite.to_owned(), failed?);
        }
    }
    Ok(KillTable { suites: suites.iter().map(|suite| suite.name().to_owned()).collect(), lines })
}

/// A fresh provider as a suite needs it, and the way to ask it. It ends when this is dropped.
#[derive(Debug)]
pub struct PutUp {
    pub upstream: LiveUpstream,
    pub target: TargetInfo,
    pub sim: SimProvider,
}

/// Puts up a provider that misbehaves, or is sound under noise of this seed.
pub async fn put_up(
    suite: &Suite,
    wire: Wire,
    row: Option<&'static Misbehaviour>,
    noise: Option<u64>,
) -> Result<PutUp, MeasureError> {
    let (protocol, model) = match wire {
        Wire::OpenAiChat => ("openai", "gpt-4.1"),
        Wire::AnthropicMessages => ("anthropic", "claude-sonnet-4-5"),
        Wire::Gemini => ("gemini", "gemini-2.5-flash"),
    };
    let sim = SimProvider::start("zoo", wire).await?;
    sim.set_models([model]);
    if let Some(window) = suite.window().and_then(|window| usize::try_from(window).ok()) {
        sim.set_context_window(window);
    }
    if let Some(row) = row {
        sim.misbehave(row);
    }
    if let Some(seed) = noise {
        sim.set_noise(seed);
    }
    let adapter = compatible::adapter_named(protocol)
        .ok_or_else(|| MeasureError::SetUp(format!("there is no adapter {protocol}")))?;
    let endpoint = Endpoint {
        base_url: sim.base_url(),
        connect_timeout: Duration::from_secs(5),
        pool_idle_timeout: Duration::from_secs(5),
        signing: None,
    };
    let transport = Transport::new(&endpoint).map_err(|error| MeasureError::SetUp(error.to_string()))?;
    let target =
        TargetInfo { provider: sim.name().to_owned(), model: model.to_owned(), adapter_version: adapter.version() };
    let upstream = LiveUpstream::new(adapter, transport, model, None, CALL_TIMEOUT);
    Ok(PutUp { upstream, target, sim })
}

/// One live run of a suite against a fresh provider.
pub async fn run(
    suite: &Suite,
    wire: Wire,
    row: Option<&'static Misbehaviour>,
    noise: Option<u64>,
) -> Result<Report, MeasureError> {
    let provider = put_up(suite, wire, row, noise).await?;
    Ok(contracts::run(suite, &provider.upstream, provider.target.clone(), &|_| ()).await)
}

/// What failed, and what the suite requires and was not judged where nothing of its kind failed: neither is a permit.
fn failed(suite: &Suite, report: &Report) -> Failed {
    let of = |verdict| report.checks().iter().filter(move |check| check.verdict == verdict);
    let mut failed: Failed = of(Verdict::Failed).map(|check| (check.kind, check.name)).collect();
    let kinds: BTreeSet<Kind> = failed.iter().map(|(kind, _)| *kind).collect();
    for check in of(Verdict::Skipped).filter(|check| suite.required().contains(&check.name)) {
        let judged = report.checks().iter().any(|c| c.name == check.name && c.verdict != Verdict::Skipped);
        if !judged && !kinds.contains(&check.kind) {
            failed.insert((check.kind, check.name));
        }
    }
    failed
}
