//! Owners' limits at work: one ledger per owner, and the claims by which processes share a limit.
//!
//! A job begins out of what this process has claimed already, or else after one exchange with the database, which all
//! who wait at that moment share: one transaction under way at most, one connection, whatever the load. Nothing is ever
//! judged by what other processes claimed a while ago, but for a refusal, and that at most `FRESH` ago. What this
//! process gives back the others see after `PACE`.

mod books;
mod hold;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::books::{Ask, Books};
pub use self::hold::Hold;
use super::{Engine, EngineError, Phase, tasks};
use crate::domain::ids::{InstanceId, OwnerId};
use crate::domain::limits::{Limit, Standing};
use crate::store::{Store, StoreError};

/// Between two exchanges that nobody waits for.
const PACE: Duration = Duration::from_millis(100);
/// How old what others claim may be for a refusal.
const FRESH: Duration = Duration::from_millis(100);
/// A connection found dead is no reason to refuse anybody.
const TRIES: u32 = 3;

/// The limits of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Limits {
    books: Arc<Books>,
}

impl Limits {
    pub(super) fn new(id: InstanceId) -> Limits {
        Limits { books: Arc::new(Books::new(id)) }
    }

    /// Room for a job that may use this many tokens, or [`EngineError::Limited`].
    pub(super) async fn reserve(&self, owner: OwnerId, limit: Limit, tokens: u64) -> Result<Hold, EngineError> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask { owner, limit, tokens, answer };
        match self.books.take_or_ask(ask) {
            Some(Ok(())) => Ok(Hold::entering(&self.books, owner, tokens)),
            Some(Err(refusal)) => Err(EngineError::Limited(refusal)),
            None => answered.await.unwrap_or(Err(EngineError::Draining)),
        }
    }

    /// A job goes on here that was admitted under limits before.
    pub(super) fn resume(&self, owner: OwnerId, tokens: u64) -> Hold {
        self.books.with(owner, |ledger, _| ledger.resume(tokens));
        Hold::running(&self.books, owner, tokens)
    }

    /// What an attempt used of which nothing is held here any more.
    pub(super) fn spend(&self, owner: OwnerId, used: u64) {
        self.books.with(owner, |ledger, now| ledger.spend_tokens(used, now));
    }

    /// How far the owner's limits are used up, as this process knows.
    pub fn standing(&self, owner: OwnerId, limit: &Limit) -> Standing {
        self.books.standing(owner, limit)
    }

    /// Exchanges what is due. A failure is told to those who wait; the claims are told again next time.
    async fn exchange(&self, store: &Store) -> Result<(), StoreError> {
        let (owners, asks) = self.books.due();
        if owners.is_empty() {
            return Ok(());
        }
        let mut tries = 1;
        let (done, verdicts) = loop {
            let mut verdicts = Vec::new();
            let told = store.exchange_claims(self.books.id, &owners, |others| {
                let (judged, claims) = self.books.decide(&owners, others, &asks);
                verdicts = judged;
                claims
            });
            match told.await {
                Err(StoreError::Unavailable(_)) if tries < TRIES => {
                    self.books.take_back(&owners, &asks, &verdicts);
                    tries += 1;
                }
                done => break (done, verdicts),
            }
        };
        if done.is_err() {
            self.books.take_back(&owners, &asks, &verdicts);
        }
        self.answer(asks, verdicts, &done);
        done
    }

    /// The last word of this process. Unsaid, what it held is believed for a while longer.
    async fn leave(&self, store: &Store) {
        self.books.close();
        if let Err(error) = self.exchange(store).await {
            tracing::debug!(%error, "the claims stay until they are too old");
        }
    }

    fn answer(&self, asks: Vec<Ask>, verdicts: Vec<books::Verdict>, done: &Result<(), StoreError>) {
        let mut verdicts = verdicts.into_iter();
        for ask in asks {
            let answer = match (done, verdicts.next()) {
                (Ok(()), Some(Ok(()))) => Ok(Hold::entering(&self.books, ask.owner, ask.tokens)),
                (Ok(()), Some(Err(refusal))) => Err(EngineError::Limited(refusal)),
                (Ok(()), None) => Err(EngineError::Fault),
                (Err(_), _) => Err(EngineError::LimitsUnknown),
            };
            // Whoever asked may be gone; then the hold goes with the answer.
            let _ = ask.answer.send(answer);
        }
    }
}

impl Engine {
    /// One exchange after the other: at once where somebody waits, otherwise now and then.
    pub(super) fn spawn_limits(&self) {
        let engine = self.clone();
        tasks::spawn(async move {
            let limits = &engine.inner.limits;
            let mut phase = engine.inner.phase.subscribe();
            let mut last = Instant::now();
            loop {
                let pause = limits.books.next_exchange(last.elapsed());
                if !pause.is_zero() {
                    let stopped = tokio::select! {
                        _ = phase.wait_for(|p| *p == Phase::Stopped) => true,
                        () = limits.books.wake.notified() => continue,
                        () = tokio::time::sleep(pause) => false,
                    };
                    if stopped {
                        return limits.leave(engine.store()).await;
                    }
                }
                if let Err(error) = limits.exchange(engine.store()).await {
                    tracing::warn!(%error, "limits could not be exchanged");
                }
                last = Instant::now();
            }
        });
    }
}
