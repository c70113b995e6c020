//! Asks providers what became of attempts whose outcome nobody knows.
//!
//! Only providers whose settings say how (`lookup`), and only about attempts that were sent there under that setting.
//! Every instance does this; asking has no side effects. A result that is found enters by the same compare-and-swap as
//! one that arrives ([`super::settle`]); that none is known there counts as [`crate::domain::absence`] says. What was
//! asked, answered and decided is written down before anything is done about it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use providers::adapter::{CallContext, StreamPiece};
use providers::canonical::Usage;
use providers::failure::{Failure, Proof};
use providers::lookup::{Absence, LookupAnswer, LookupRequest, Way};
use providers::transport::MAX_ANSWER;
use serde_json::{Value, json};

use super::Engine;
use super::call::{CallEvent, News, Outcome};
use super::settle::Seen;
use super::stream_log::StreamLog;
use super::submit::reread;
use super::upstreams::Upstream;
use crate::config::Config;
use crate::domain::absence::Circumstances;
use crate::domain::ids::InstanceId;
use crate::store::StoreError;
use crate::store::instances::LEASE;
use crate::store::lookups::{Due, Place, Recorded};

/// Between two looks for what is to be asked.
const LOOK: Duration = Duration::from_secs(1);
/// Attempts asked about at once.
const BATCH: i64 = 32;
/// For one question; less than a claim lasts.
const PATIENCE: Duration = Duration::from_secs(15);
/// Questions about one attempt in a row.
const STEPS: usize = 3;
/// Between two questions about one attempt: doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(300);
/// A provider that cannot be reached is not asked for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The providers that can be asked, and the instance under which that was last written down.
#[derive(Debug, Default)]
pub struct Places {
    mine: Vec<Place>,
    noted: Mutex<Option<InstanceId>>,
}

impl Places {
    pub fn new(config: &Config) -> Self {
        let place = |provider: &crate::config::Provider| {
            let way = provider.adapter.lookup_way()?.as_str();
            Some(Place { provider: provider.name.clone(), way, base_url: provider.endpoint.base_url.clone() })
        };
        Places { mine: config.providers.values().filter_map(place).collect(), noted: Mutex::default() }
    }
}

/// What came of the questions.
struct Heard {
    /// The steps taken, for the evidence.
    steps: Vec<Value>,
    said: Said,
}

enum Said {
    Finished(Outcome),
    Failed(Failure),
    Running,
    Absent(Absence),
    Unreadable(String),
    Unreached(String),
    /// The provider's own id of it was not heard, and it can be asked by nothing else.
    Unnamed,
    CannotAsk(&'static str),
}

/// What is done about it.
enum Deed {
    Settle(Result<Outcome, Failure>),
    /// Only if nobody has asked anew meanwhile.
    FailAsAbsent(Failure),
    Wait,
    GiveUp,
}

impl Engine {
    pub(super) fn spawn_reconcile(&self) {
        self.every(LOOK, "reconcile", |engine| async move { engine.reconcile().await });
    }

    /// Before the first attempt under this instance: where its attempts may be asked about.
    pub(super) async fn note_places(&self) -> Result<(), StoreError> {
        let places = &self.inner.places;
        let instance = self.inner.lease.id();
        let noted = *places.noted.lock().unwrap_or_else(PoisonError::into_inner) == Some(instance);
        if !places.mine.is_empty() && !noted {
            self.store().record_lookup_places(instance, &places.mine).await?;
            *places.noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance);
        }
        Ok(())
    }

    async fn reconcile(&self) -> Result<(), StoreError> {
        let places = &self.inner.places.mine;
        if places.is_empty() {
            return Ok(());
        }
        // A lease that had ended brings a new instance.
        self.note_places().await?;
        self.store().queue_lookups(places).await?;
        let due = self.store().claim_lookups(self.inner.lease.id(), places, BATCH).await?;
        for answered in join_all(due.into_iter().map(|due| self.ask_about(due))).await {
            answered?;
        }
        Ok(())
    }

    async fn ask_about(&self, due: Due) -> Result<(), StoreError> {
        // Looked at before the question: what ends during it proves nothing about the time before.
        let quiet = due.instance == self.inner.lease.id() && !self.inner.calls.is_out(due.key.id);
        let Heard { steps, said } = self.hear(&due).await?;
        let answer = word(&said);
        let reached = !matches!(said, Said::Unreached(_));
        let (decision, because, deed) = self.judge(&due, said);
        let mut evidence = json!({ "asked": steps, "answer": answer, "decision": decision, "because": because });
        if let Some(reference) = &due.reference {
            evidence["reference"] = reference.as_str().into();
        }
        let again_in = match deed {
            Deed::GiveUp => None,
            Deed::Settle(_) | Deed::FailAsAbsent(_) => Some(backoff(due.tries)),
            Deed::Wait => self.again(&due, reached),
        };
        let recorded = Recorded { answer, evidence: &evidence.to_string(), again_in, quiet };
        let newest = self.store().record_lookup(&due, &recorded).await?;
        let (job, attempt) = (due.key.job, due.key.id);
        tracing::info!(%job, %attempt, target = %due.target, tries = due.tries, answer, decision, because, "provider asked");
        match deed {
            Deed::Settle(news) => self.settle_found(&due, news).await,
            Deed::FailAsAbsent(failure) if newest => {
                // Not by `settle`: that a request was lost on our side says nothing about the target.
                match self.store().fail_attempt(due.key, &failure, None).await {
                    Ok(()) | Err(StoreError::LostRace) => {}
                    Err(error) => return Err(error),
                }
                self.look_at(due.key.owner, due.key.job).await
            }
            Deed::FailAsAbsent(_) | Deed::Wait | Deed::GiveUp => Ok(()),
        }
    }

    /// The outcome goes the way of every outcome; then nobody needs to listen for it, and the job is carried on.
    async fn settle_found(&self, due: &Due, outcome: Result<Outcome, Failure>) -> Result<(), StoreError> {
        if let Some(usage) = outcome.as_ref().map_or_else(|failure| failure.usage, |found| found.answer.reply.usage) {
            self.charge_found(due, usage).await?;
        }
        let event =
            CallEvent { key: due.key, target: due.target.clone(), dropped: Vec::new(), news: News::Ended(outcome) };
        drop(self.settle(event, Seen { attempts: due.attempts, spent: &[] }, None).await);
        self.inner.calls.stop(due.key.id);
        self.look_at(due.key.owner, due.key.job).await
    }

    /// What was found has cost its owner's limits something, where there are any.
    async fn charge_found(&self, due: &Due, usage: Usage) -> Result<(), StoreError> {
        let job = self.store().job(due.key.owner, due.key.job).await?.map(|snapshot| snapshot.job);
        if job.is_some_and(|job| job.reserved_tokens.is_some() && !job.state.is_terminal()) {
            self.inner.limits.spend(due.key.owner, usage.total());
        }
        Ok(())
    }

    async fn hear(&self, due: &Due) -> Result<Heard, StoreError> {
        let mut steps = Vec::new();
        let said = self.question(due, &mut steps).await?;
        Ok(Heard { steps, said })
    }

    async fn question(&self, due: &Due, steps: &mut Vec<Value>) -> Result<Said, StoreError> {
        let Some(upstream) = self.upstreams().get(&due.target.provider) else {
            return Ok(Said::CannotAsk("the settings do not define this provider"));
        };
        if upstream.adapter.lookup_way().is_some_and(Way::needs_reference) && due.reference.is_none() {
            return Ok(Said::Unnamed);
        }
        let stored = self.store().job_request(due.key.owner, due.key.job).await?;
        let Some(request) = stored.and_then(|stored| reread(&stored)) else {
            return Ok(Said::CannotAsk("the request is not stored any more"));
        };
        let id = due.key.id.to_string();
        let context = CallContext { model: &due.target.model, attempt_id: &id, api_key: upstream.api_key.as_ref() };
        let Some(mut asked) = upstream.adapter.lookup(&request, &context, due.reference.as_deref()) else {
            return Ok(Said::CannotAsk("this provider keeps nothing of such a request"));
        };
        for _ in 0..STEPS {
            let answered = tokio::time::timeout(PATIENCE, exchange(upstream, &asked)).await;
            let (head, body) = match answered {
                Ok(Ok(answer)) => answer,
                Ok(Err(failure)) => return Ok(Said::Unreached(failure.masked(upstream.api_key.as_ref()).message)),
                Err(_) => return Ok(Said::Unreached(format!("no answer within {PATIENCE:?}"))),
            };
            steps.push(json!({ "step": asked.step, "status": head.status.as_u16() }));
            match upstream.adapter.from_lookup(&request, &context, &asked, &head, &body) {
                LookupAnswer::Ask(next) => asked = next,
                LookupAnswer::Finished { answer, pieces } => {
                    return Ok(Said::Finished(Outcome { answer, stream: log(due, pieces) }));
                }
                LookupAnswer::Failed(failure) => return Ok(Said::Failed(failure.masked(upstream.api_key.as_ref()))),
                LookupAnswer::Running => return Ok(Said::Running),
                LookupAnswer::Absent(absence) => return Ok(Said::Absent(absence)),
                LookupAnswer::Unreadable(why) => {
                    let why = upstream.api_key.as_ref().map_or(why.clone(), |key| key.mask(&why));
                    return Ok(Said::Unreadable(why));
                }
            }
        }
        Ok(Said::Unreadable("the provider asks for ever more questions".to_owned()))
    }

    /// The decision in one word, why, and the deed.
    fn judge(&self, due: &Due, said: Said) -> (&'static str, String, Deed) {
        match said {
            Said::Finished(outcome) => {
                ("complete", "the provider has the whole answer".to_owned(), Deed::Settle(Ok(outcome)))
            }
            Said::Failed(failure) if failure.proof != Proof::Unknown => {
                ("fail", format!("{}: {}", failure.reason, failure.message), Deed::Settle(Err(failure)))
            }
            Said::Failed(failure) => ("wait", failure.message, Deed::Wait),
            Said::Running => ("wait", "the provider works on it".to_owned(), Deed::Wait),
            Said::Unreadable(why) | Said::Unreached(why) => ("wait", why, Deed::Wait),
            Said::CannotAsk(why) => ("give_up", why.to_owned(), Deed::GiveUp),
            Said::Unnamed if due.quiet_for.is_some_and(|quiet| quiet > self.grace(due)) => {
                let why = "the provider's own id of it was never heard: an operator must clear it";
                ("give_up", why.to_owned(), Deed::GiveUp)
            }
            Said::Unnamed => ("wait", "the provider's own id of it may still be heard".to_owned(), Deed::Wait),
            Said::Absent(absence) => match self.circumstances(due, absence).judge() {
                Ok(()) => {
                    let failure = absent(due);
                    ("fail", failure.message.clone(), Deed::FailAsAbsent(failure))
                }
                Err(why) => ("wait", why.to_owned(), Deed::Wait),
            },
        }
    }

    fn circumstances(&self, due: &Due, absence: Absence) -> Circumstances {
        Circumstances {
            quiet_for: due.quiet_for,
            started_ago: due.started_ago,
            past_settle: due.past_settle.is_some(),
            grace: self.grace(due),
            shows_running: absence.shows_running,
            remembered_for: absence.remembered_for,
        }
    }

    /// Longer than a request that a stalled process sends at the last moment can take to be seen at the provider.
    fn grace(&self, due: &Due) -> Duration {
        let provider = self.config().providers.get(&due.target.provider);
        provider.map_or(LONGEST, |provider| {
            let computed = (provider.endpoint.connect_timeout + Duration::from_secs(30)).max(2 * LEASE);
            provider.lookup_grace.unwrap_or(computed)
        })
    }

    /// Until `settle_timeout` is over; after it, once more when absence could have counted. A provider that was not
    /// reached has said nothing and is asked longer. Then it is an operator's to decide.
    fn again(&self, due: &Due, reached: bool) -> Option<Duration> {
        let grace = self.grace(due);
        let last = due.past_settle.is_some_and(|past| past > grace) && due.quiet_for.is_some_and(|quiet| quiet > grace);
        let over = (reached && last) || due.past_settle.is_some_and(|past| past > LONGEST);
        (!over).then(|| backoff(due.tries))
    }
}

/// A request that the provider had named was there once, and may have cost something.
fn absent(due: &Due) -> Failure {
    let quiet = due.quiet_for.unwrap_or_default().as_secs();
    let (proof, has) = match due.reference {
        None => (Proof::NotSent, "has no such request"),
        Some(_) => (Proof::EndedWithoutResult, "does not have it any more"),
    };
    let why = format!("the provider {has}, and nobody can have sent it for {quiet} s");
    Failure::new(proof, "absent_at_provider", why)
}

fn word(said: &Said) -> &'static str {
    match said {
        Said::Finished(_) => "finished",
        Said::Failed(_) => "failed",
        Said::Running => "running",
        Said::Absent(_) => "absent",
        Said::Unreadable(_) => "unreadable",
        Said::Unreached(_) => "unreached",
        Said::Unnamed | Said::CannotAsk(_) => "cannot_ask",
    }
}

fn backoff(tries: i32) -> Duration {
    let doublings = tries.clamp(1, 16).unsigned_abs() - 1;
    FIRST_PAUSE.saturating_mul(1 << doublings).min(LAST_PAUSE)
}

async fn exchange(
    upstream: &Upstream,
    asked: &LookupRequest,
) -> Result<(providers::adapter::Head, bytes::Bytes), Failure> {
    upstream.transport.ask(asked).await?.whole(MAX_ANSWER).await
}

/// The stream as the call would have logged it.
fn log(due: &Due, pieces: Vec<StreamPiece>) -> Option<std::sync::Arc<StreamLog>> {
    if pieces.is_empty() {
        return None;
    }
    // Nobody follows this log: only its lines are stored.
    let writer = StreamLog::open(due.key.id, due.target.provider.clone(), 1, Vec::new());
    for piece in pieces {
        match piece {
            StreamPiece::Chunk { data, .. } => writer.push(data),
            StreamPiece::Usage { data } => writer.set_usage(data),
        }
    }
    Some(writer.log().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_double_from_a_second_to_five_minutes() {
        let pauses: Vec<u64> = [1, 2, 3, 8, 9, 10, i32::MAX].map(|tries| backoff(tries).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 128, 256, 300, 300]);
    }
}
