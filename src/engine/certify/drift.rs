//! Holds a share of the answers that won against the schema of their route's contract, off their way to the client.
//!
//! Counted in the database for all instances together, so that a share of each process's answers is enough; judged by
//! the lower end of a Wilson interval ([`crate::domain::drift`]). Over the bound, the target's permits on the route end
//! and its circuit there opens, until a run of the suite has passed. A full queue drops samples and counts them; no
//! word of an answer is logged, labelled or stored.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contracts::live::{self, Live};
use contracts::suite::{Suite, SuiteError};
use providers::canonical::{Choice, Request};
use providers::dialects::embeddings;
use tokio::sync::mpsc;

use crate::domain::drift::DriftRule;
use crate::domain::permit::EndCause;
use crate::domain::route::{Route, Target};
use crate::engine::call::{CallEvent, News};
use crate::engine::{Engine, Phase, tasks};
use crate::store::StoreError;
use crate::store::drift::Watched;

/// Answers that wait to be judged, and the largest that is kept for it: 32 MiB at most.
const QUEUE: usize = 128;
const LARGEST: usize = 256 << 10;
/// Judged at a time, and for how long a batch gathers.
const BATCH: usize = 64;
const GATHER: Duration = Duration::from_millis(500);
/// The verdict of an answer that keeps the contract; every other is a check's name.
const KEPT: &str = "kept";

/// An answer of real traffic, and what it is to be held against.
#[derive(Debug)]
pub struct Sample {
    route: Arc<Route>,
    target: Target,
    choices: Vec<Choice>,
    /// The client's own output limit.
    limit: Option<u64>,
}

/// The way to the judge.
#[derive(Debug)]
pub struct Drift {
    queue: mpsc::Sender<Sample>,
}

impl Drift {
    pub fn new() -> (Drift, mpsc::Receiver<Sample>) {
        let (queue, samples) = mpsc::channel(QUEUE);
        (Drift { queue }, samples)
    }
}

/// What a batch has to say of one target on one route.
#[derive(Debug)]
struct Counted {
    route: Arc<Route>,
    watched: Watched,
    pass_rate: f64,
    verdicts: BTreeMap<&'static str, i64>,
}

impl Engine {
    /// A copy of the answer, where the dice say that it is to be judged.
    pub(in crate::engine) fn sample(
        &self,
        route: Option<&Arc<Route>>,
        request: Option<&Request>,
        event: &CallEvent,
    ) -> Option<Sample> {
        let (route, News::Ended(Ok(outcome))) = (route?, &event.news) else { return None };
        let rule = route.drift?;
        // Vectors say nothing that a contract could be held to.
        if request.is_some_and(embeddings::is_asked) {
            return None;
        }
        let is_primary = route.targets.first().is_some_and(|primary| primary.target == event.target);
        let share = if is_primary { rule.sample } else { rule.fallback_sample };
        if rand::random::<f64>() >= share {
            return None;
        }
        let choices = &outcome.answer.reply.choices;
        let size = |c: &Choice| c.text.as_ref().map_or(0, String::len) + calls_size(c);
        if choices.iter().map(size).sum::<usize>() > LARGEST {
            self.count_answer(&route.name, &event.target, "dropped");
            return None;
        }
        let limit = request.and_then(|request| request.max_tokens);
        Some(Sample { route: route.clone(), target: event.target.clone(), choices: choices.clone(), limit })
    }

    /// The answer has won: it is judged when there is time.
    pub(in crate::engine) fn watch_answer(&self, sample: Option<Sample>) {
        let Some(sample) = sample else { return };
        if let Err(full) = self.inner.drift.queue.try_send(sample) {
            let sample = full.into_inner();
            self.count_answer(&sample.route.name, &sample.target, "dropped");
        }
    }

    fn count_answer(&self, route: &str, target: &Target, outcome: &str) {
        self.metrics().evidence.answers.with_label_values(&[route, target.provider.as_str(), outcome]).inc();
    }

    pub(super) fn spawn_drift(&self, mut samples: mpsc::Receiver<Sample>) {
        let engine = self.clone();
        tasks::spawn(async move {
            let mut phase = engine.inner.phase.subscribe();
            loop {
                let first = tokio::select! {
                    _ = phase.wait_for(|p| *p == Phase::Stopped) => return,
                    first = samples.recv() => first,
                };
                let Some(first) = first else { return };
                // Gathering makes one write of many answers; what comes meanwhile is already waiting.
                tokio::time::sleep(GATHER).await;
                let mut batch = vec![first];
                while batch.len() < BATCH
                    && let Ok(sample) = samples.try_recv()
                {
                    batch.push(sample);
                }
                if let Err(error) = engine.judge_batch(batch).await {
                    tracing::warn!(%error, "judged answers could not be counted");
                }
            }
        });
    }

    async fn judge_batch(&self, batch: Vec<Sample>) -> Result<(), StoreError> {
        let dir = self.config().contracts_dir.clone();
        let engine = self.clone();
        let judged = tokio::task::spawn_blocking(move || judge_all(&engine, &dir, batch)).await;
        for counted in judged.unwrap_or_default() {
            let Some(rule) = counted.route.drift else { continue };
            let verdicts: Vec<(&str, i64)> = counted.verdicts.iter().map(|(word, n)| (*word, *n)).collect();
            self.store().count_drift(&counted.watched, rule.window, &verdicts).await?;
            self.judge_target(&counted, &rule).await?;
        }
        Ok(())
    }

    async fn judge_target(&self, counted: &Counted, rule: &DriftRule) -> Result<(), StoreError> {
        let watched = &counted.watched;
        let tally = self.store().tally_drift(watched, rule.window).await?;
        let sum = |of: &dyn Fn(&str) -> bool| -> u64 {
            let counts = tally.iter().filter(|(word, _)| of(word)).map(|(_, n)| n.unsigned_abs());
            counts.sum()
        };
        let (answers, broken) = (sum(&|_| true), sum(&|word| word != KEPT));
        let bound = rule.bound(counted.pass_rate);
        if !rule.is_broken(broken, answers, bound) {
            return Ok(());
        }
        let checks: Vec<String> =
            tally.iter().filter(|(word, _)| word != KEPT).map(|(word, n)| format!("{word} {n}")).collect();
        let reason = format!(
            "{broken} of {answers} live answers broke the suite `{}` ({}), more than {:.1} %; only a passed run lets {} \
             back: interlock contract run {} --target {}",
            watched.suite,
            checks.join(", "),
            bound * 100.0,
            watched.target,
            watched.suite,
            watched.target
        );
        let opened = self.store().open_contract_circuit(watched, &reason).await?;
        if opened.opened {
            let (route, target) = (watched.route.as_str(), &watched.target);
            self.metrics().evidence.circuits_opened.with_label_values(&[route, &target.provider]).inc();
            self.count_ended(route, EndCause::Drift, opened.permits);
            let permits = opened.permits;
            tracing::error!(route, %target, permits, reason, "live answers broke the contract: circuit opened");
        }
        self.read_held_circuits().await
    }

    /// What is held open is read into this process.
    pub(super) async fn read_held_circuits(&self) -> Result<(), StoreError> {
        let held = self.store().held_circuits().await?;
        for closed in self.inner.circuits.hold(held) {
            tracing::info!(route = closed.route, target = %closed.target, suite = closed.suite, "circuit closed by a passed run");
        }
        Ok(())
    }
}

fn calls_size(choice: &Choice) -> usize {
    choice.tool_calls.iter().map(|call| call.arguments.len()).sum()
}

/// Judges a batch, each route's suite read once. Blocks: schemas are compiled and answers parsed.
fn judge_all(engine: &Engine, dir: &Path, batch: Vec<Sample>) -> Vec<Counted> {
    let mut suites: BTreeMap<String, Result<Suite, SuiteError>> = BTreeMap::new();
    let mut counted: BTreeMap<(String, Target), Counted> = BTreeMap::new();
    for sample in batch {
        let Some(contract) = sample.route.contract.clone() else { continue };
        let suite = suites.entry(contract).or_insert_with_key(|name| Suite::find(Some(dir), name));
        let outcome = match suite {
            Ok(suite) => live::judge(suite, &sample.choices, sample.limit),
            // A suite that cannot be read closes every fallback by itself, and is told where that happens.
            Err(_) => Live::NotJudged,
        };
        let (outcome, verdict) = match outcome {
            Live::Kept => ("kept", KEPT),
            Live::Broken(check) => ("broken", check),
            Live::NotJudged => ("not_judged", ""),
        };
        engine.count_answer(&sample.route.name, &sample.target, outcome);
        let (Ok(suite), false) = (suite, verdict.is_empty()) else { continue };
        let key = (sample.route.name.clone(), sample.target.clone());
        let entry = counted.entry(key).or_insert_with(|| Counted {
            watched: Watched {
                route: sample.route.name.clone(),
                target: sample.target.clone(),
                suite: suite.name().to_owned(),
                suite_digest: suite.digest().to_owned(),
            },
            route: sample.route,
            pass_rate: suite.pass_rate(),
            verdicts: BTreeMap::new(),
        });
        *entry.verdicts.entry(verdict).or_default() += 1;
    }
    counted.into_values().collect()
}
