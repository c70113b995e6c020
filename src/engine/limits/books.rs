//! All ledgers of this process, who waits to be judged, and what is to be told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{FRESH, Hold, PACE};
use crate::domain::Timestamp;
use crate::domain::ids::{InstanceId, OwnerId};
use crate::domain::limits::{Claim, Held, Ledger, Limit, Refusal, Standing};
use crate::engine::EngineError;
use crate::engine::submit::wall_clock;
use crate::store::limits::{Others, REPEAT};

/// Owners of one exchange, at most.
const BATCH: usize = 128;
/// How long an owner that asks for nothing keeps what is claimed ahead for it, and its ledger.
const CLAIMS_AHEAD_FOR: Duration = Duration::from_secs(1);
const REMEMBERED: Duration = Duration::from_secs(60);

pub(super) type Verdict = Result<(), Refusal>;

/// Somebody who waits to be judged.
pub(super) struct Ask {
    pub owner: OwnerId,
    pub limit: Limit,
    pub tokens: u64,
    pub answer: oneshot::Sender<Result<Hold, EngineError>>,
}

#[derive(Debug)]
pub(super) struct Books {
    /// The name of these books in the database.
    pub id: InstanceId,
    /// Something is due sooner than it was.
    pub wake: Notify,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    accounts: HashMap<OwnerId, Account>,
    asks: Vec<Ask>,
    /// Something was given back, or used beyond what was claimed.
    changed: bool,
    closed: bool,
}

#[derive(Debug)]
struct Account {
    ledger: Ledger,
    limit: Limit,
    /// What the last request may use.
    tokens: u64,
    changed: bool,
    asked_at: Instant,
    heard_at: Option<Instant>,
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ask({}, {} tokens)", self.owner, self.tokens)
    }
}

impl Account {
    fn open() -> Account {
        let limit = Limit::default();
        Account {
            ledger: Ledger::default(),
            limit,
            tokens: 0,
            changed: false,
            asked_at: Instant::now(),
            heard_at: None,
        }
    }

    fn heard_within(&self, time: Duration) -> bool {
        self.heard_at.is_some_and(|at| at.elapsed() < time)
    }
}

impl Pages {
    fn account(&mut self, owner: OwnerId) -> &mut Account {
        self.accounts.entry(owner).or_insert_with(Account::open)
    }
}

impl Books {
    pub fn new(id: InstanceId) -> Books {
        Books { id, wake: Notify::new(), pages: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        // Numbers: a panic elsewhere cannot have left them half changed.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets in what this process has room for, and refuses what it surely has not; otherwise (`None`) the others are
    /// asked.
    pub fn take_or_ask(&self, ask: Ask) -> Option<Verdict> {
        let mut pages = self.lock();
        if pages.closed {
            return None;
        }
        let account = pages.account(ask.owner);
        account.limit = ask.limit;
        account.tokens = ask.tokens;
        account.asked_at = Instant::now();
        if account.ledger.take(&ask.limit, ask.tokens) {
            return Some(Ok(()));
        }
        match account.ledger.judge(&ask.limit, ask.tokens, wall_clock()) {
            // Too large for any moment, or the others have just been heard.
            Err(refusal) if refusal.retry_after.is_none() || account.heard_within(FRESH) => return Some(Err(refusal)),
            Ok(()) | Err(_) => {}
        }
        pages.asks.push(ask);
        drop(pages);
        self.wake.notify_one();
        None
    }

    /// Changes a ledger; the others are told before long.
    pub fn with(&self, owner: OwnerId, change: impl FnOnce(&mut Ledger, Timestamp)) {
        let mut pages = self.lock();
        let account = pages.account(owner);
        change(&mut account.ledger, wall_clock());
        account.changed = true;
        if !std::mem::replace(&mut pages.changed, true) {
            drop(pages);
            self.wake.notify_one();
        }
    }

    pub fn standing(&self, owner: OwnerId, limit: &Limit) -> Standing {
        let pages = self.lock();
        let unused = Ledger::default();
        pages.accounts.get(&owner).map_or(&unused, |account| &account.ledger).standing(limit, wall_clock())
    }

    /// How long until something is due, `since` the last exchange.
    pub fn next_exchange(&self, since: Duration) -> Duration {
        let pages = self.lock();
        match (pages.asks.is_empty(), pages.changed, pages.accounts.is_empty()) {
            (false, _, _) => Duration::ZERO,
            (true, true, _) => PACE.saturating_sub(since),
            (true, false, false) => REPEAT.saturating_sub(since),
            (true, false, true) => REPEAT,
        }
    }

    /// Whom the next exchange is about, and who waits for it.
    pub fn due(&self) -> (Vec<OwnerId>, Vec<Ask>) {
        let mut pages = self.lock();
        let mut owners = BTreeSet::new();
        let mut asks = Vec::new();
        let mut later = Vec::new();
        for ask in std::mem::take(&mut pages.asks) {
            if owners.contains(&ask.owner) || owners.len() < BATCH {
                owners.insert(ask.owner);
                asks.push(ask);
            } else {
                later.push(ask);
            }
        }
        pages.asks = later;
        let old = |account: &Account| !account.heard_within(REPEAT);
        let due = pages.accounts.iter().filter(|(_, account)| account.changed || old(account)).map(|(owner, _)| *owner);
        let due: Vec<OwnerId> = due.collect();
        pages.changed = due.len() > BATCH;
        owners.extend(due.into_iter().take(BATCH));
        (owners.into_iter().collect(), asks)
    }

    /// Under the lock on these owners: judges who waits, in the order they came, and says what is claimed from now on.
    pub fn decide(
        &self,
        owners: &[OwnerId],
        others: &BTreeMap<OwnerId, Others>,
        asks: &[Ask],
    ) -> (Vec<Verdict>, Vec<(OwnerId, Claim)>) {
        let (mut pages, now) = (self.lock(), wall_clock());
        let nobody = Others::default();
        for owner in owners {
            let heard = others.get(owner).unwrap_or(&nobody);
            pages.account(*owner).ledger.hear(&heard.claims, heard.unknown, now);
        }
        let mut judge = |ask: &Ask| {
            let account = pages.account(ask.owner);
            account.ledger.judge(&ask.limit, ask.tokens, now)?;
            account.ledger.begin(ask.tokens);
            Ok(())
        };
        let verdicts = asks.iter().map(&mut judge).collect();
        let claims = owners.iter().map(|owner| (*owner, pages.settle(*owner, now))).collect();
        (verdicts, claims)
    }

    /// An exchange came to nothing: whoever was let in is not, and nothing is claimed ahead.
    pub fn take_back(&self, owners: &[OwnerId], asks: &[Ask], verdicts: &[Verdict]) {
        let (mut pages, now) = (self.lock(), wall_clock());
        for (ask, _) in asks.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_ok()) {
            let ledger = &mut pages.account(ask.owner).ledger;
            ledger.not_admitted();
            ledger.end(ask.tokens, 0, now);
        }
        for owner in owners {
            let account = pages.account(*owner);
            account.ledger.credit = Held::default();
            account.heard_at = None;
        }
    }

    /// Nobody is judged any more, and nothing held: what this process leaves behind counts as unknown.
    pub fn close(&self) {
        let mut pages = self.lock();
        pages.closed = true;
        pages.asks.clear();
        pages.accounts.values_mut().for_each(|account| account.changed = true);
    }
}

impl Pages {
    /// What is claimed for this owner from now on; what needs no remembering is forgotten.
    fn settle(&mut self, owner: OwnerId, now: Timestamp) -> Claim {
        let closed = self.closed;
        let account = self.account(owner);
        account.changed = false;
        account.heard_at = Some(Instant::now());
        account.ledger.credit = Held::default();
        let idle = account.asked_at.elapsed();
        if idle < CLAIMS_AHEAD_FOR {
            let limit = account.limit;
            account.ledger.claim_ahead(&limit, account.tokens, now);
        }
        let mut claim = account.ledger.claim();
        if closed {
            claim.held = Held::default();
        }
        if idle > REMEMBERED && account.ledger.is_blank() {
            self.accounts.remove(&owner);
        }
        claim
    }
}
