//! Callers that skip the polite checks: another instance of the store's users, in this process, who starts blindly,
//! finishes twice, and comes late with everything. The statements' own guards are all that holds it off.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use interlock::domain::attempt::{Attempt, AttemptState};
use interlock::domain::fingerprint::fingerprint;
use interlock::domain::ids::{AttemptId, InstanceId, JobId, OwnerId};
use interlock::domain::job::{Delivery, KeyOrigin, Snapshot};
use interlock::domain::route::{Candidate, Route};
use interlock::store::attempts::{AttemptKey, Completed, Completion, NewAttempt};
use interlock::store::jobs::{FirstAttempt, NewJob};
use interlock::store::{Store, StoreError};
use providers::failure::{Failure, Proof};
use providers::json::Json;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::callers::{Intent, World};
use crate::history::{History, Kind};
use crate::rng::Rng;
use crate::wire;

/// The owner whose jobs the adversary makes; the third of the world's.
pub const OWNER: usize = 2;
const TIMEOUT: Duration = Duration::from_millis(1_500);
const SETTLE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Adversary {
    pub history: Arc<History>,
    pub world: Arc<World>,
    pub store: Store,
    pub url: String,
    pub owner: OwnerId,
    pub route: Arc<Route>,
}

impl Adversary {
    pub async fn run(self: Arc<Self>, mut rng: Rng, stop: watch::Receiver<bool>) {
        let mut instance = InstanceId::fresh();
        let mut turn = 0;
        let prefix = format!("brawl-{}", rng.below(1_000_000));
        while !*stop.borrow() {
            turn += 1;
            if self.store.renew_lease(instance).await.is_err() {
                instance = InstanceId::fresh();
                drop(self.store.register_instance(instance, "adversary", 0).await);
            }
            match rng.below(10) {
                0..4 => self.blind_start(instance, &mut rng).await,
                4..7 => self.come_late(&mut rng).await,
                _ => self.brawl(&format!("{prefix}-{turn}"), &mut rng).await,
            }
            tokio::time::sleep(rng.millis(10, 90)).await;
        }
    }

    pub fn new_job(&self, key: &str, instance: InstanceId) -> (NewJob, AttemptKey) {
        let tag = format!("<{}/{key}>", self.world.owners[OWNER].name);
        let body = wire::chat("hold", &tag, "whole").to_string();
        let print = match Json::parse(body.as_bytes()) {
            Ok(Json::Object(object)) => fingerprint("POST /v1/chat/completions", &object),
            other => panic!("a chat body is an object: {other:?}"),
        };
        self.world.remember(&Intent { owner: OWNER, key: key.to_owned(), route: "hold", tag, endpoint: "chat" });
        let key_of = AttemptKey { owner: self.owner, job: JobId::fresh(), id: AttemptId::fresh() };
        let candidate = Candidate::primary(&self.route).expect("a primary");
        let new = NewJob {
            owner: self.owner,
            id: key_of.job,
            idempotency_key: key.to_owned(),
            key_origin: KeyOrigin::Client,
            fingerprint: print,
            fingerprint_version: 1,
            url: "/v1/chat/completions".to_owned(),
            route: "hold".to_owned(),
            delivery: Delivery::Sync,
            body: Bytes::from(body),
            metadata: None,
            callback: None,
            deadline: Duration::from_secs(86_400),
            instance,
            reserved_tokens: None,
            first: Some(FirstAttempt {
                id: key_of.id,
                candidate,
                timeout: TIMEOUT,
                settle: SETTLE,
                dropped: Vec::new(),
            }),
        };
        (new, key_of)
    }

    /// Starts on whatever moves, with ordinals old and new, without looking whether it may.
    async fn blind_start(&self, instance: InstanceId, rng: &mut Rng) {
        let Ok(jobs) = self.store.list_jobs(None, None, None, 30).await else { return };
        let open: Vec<&Snapshot> = jobs.iter().filter(|s| !s.job.state.is_terminal()).collect();
        let Some(target) = (if rng.percent(80) { rng.pick(&open).copied() } else { rng.pick(&jobs) }) else { return };
        let seen = target.attempts.len() as i32;
        for ordinal in [seen + 1, seen.max(1)] {
            let key = AttemptKey { owner: target.job.owner, job: target.job.id, id: AttemptId::fresh() };
            let candidate = Candidate::primary(&self.route).expect("a primary");
            let round = target.job.round;
            let new = NewAttempt {
                key,
                ordinal,
                round,
                candidate,
                instance,
                timeout: TIMEOUT,
                settle: SETTLE,
                dropped: Vec::new(),
            };
            // Before it is known whether it stands: this one calls nobody, so the order proves nothing.
            let op = self.history.invoke("adversary", "adversary.start", named(key));
            let started = self.store.start_attempt(&new).await;
            self.history.end(&op, kind_of(&started), json!({ "outcome": word(&started) }));
            if started.is_ok() {
                self.note_work(key);
                return self.carry_on(key, rng).await;
            }
        }
    }

    /// What is done with an attempt of one's own: finished, failed, left to the sweep, or first given up and then finished.
    async fn carry_on(&self, key: AttemptKey, rng: &mut Rng) {
        tokio::time::sleep(rng.millis(0, 300)).await;
        match rng.below(5) {
            0 | 1 => drop(self.complete(key, "carried on").await),
            2 => self.fail(key).await,
            3 => {
                self.mark_unknown(key).await;
                tokio::time::sleep(rng.millis(0, 900)).await;
                self.complete(key, "late").await;
            }
            _ => {}
        }
    }

    /// For an attempt that is over: everything again, and nothing may come of it.
    async fn come_late(&self, rng: &mut Rng) {
        let Ok(jobs) = self.store.list_jobs(None, None, None, 40).await else { return };
        let released = |a: &Attempt| matches!(a.state, AttemptState::Released { .. });
        let over = |s: &Snapshot, a: &Attempt| match a.state {
            AttemptState::Started | AttemptState::Unknown { .. } => false,
            AttemptState::Released { .. } => s.job.state.is_terminal(),
            _ => true,
        };
        let all = jobs.iter().flat_map(|s| s.attempts.iter().filter(move |a| over(s, a)).map(move |a| (s, a)));
        let all: Vec<(&Snapshot, &Attempt)> = all.collect();
        // A released one that comes after the winner is the likeliest to slip in.
        let late: Vec<_> = all.iter().copied().filter(|(_, a)| released(a)).collect();
        let chosen = if rng.percent(50) && !late.is_empty() { rng.pick(&late) } else { rng.pick(&all) };
        let Some((snapshot, attempt)) = chosen.copied() else { return };
        let key = AttemptKey { owner: snapshot.job.owner, job: snapshot.job.id, id: attempt.id };
        match rng.below(3) {
            0 if !released(attempt) => self.mark_unknown(key).await,
            1 if !released(attempt) => self.fail(key).await,
            _ => drop(self.complete(key, "stale").await),
        }
    }

    /// The provider of an adversary is the adversary: it has worked as soon as it has started.
    pub fn note_work(&self, key: AttemptKey) {
        let seen = json!({ "attempt": key.id, "behaviour": "adversary", "works": true, "row": "there" });
        self.history.note("adversary", "provider.receive", seen);
    }

    /// Completes, and logs the race if it is lost.
    pub async fn complete(&self, key: AttemptKey, words: &str) -> Option<Completed> {
        let body = wire::answer("m1", &format!("{words} attempt={}", key.id));
        let completion = Completion {
            key,
            content_type: "application/json".to_owned(),
            body: Bytes::from(body),
            stream: None,
            usage: None,
            cost: None,
        };
        let op = self.history.invoke("adversary", "adversary.complete", named(key));
        let outcome = self.store.complete(&completion).await;
        let said = match &outcome {
            Ok(Completed::Won) => "won",
            Ok(Completed::Lost { .. }) => "lost",
            Err(_) => "error",
        };
        self.history.end(&op, kind_of(&outcome), json!({ "outcome": said }));
        if let Ok(Completed::Lost { winner }) = outcome {
            let op = self.history.invoke("adversary", "adversary.lose_race", named(key));
            let logged = self.store.lose_race(&completion, winner).await;
            self.history.end(&op, kind_of(&logged), json!({ "outcome": word(&logged) }));
        }
        outcome.ok()
    }

    pub async fn fail(&self, key: AttemptKey) {
        let failure = Failure::new(Proof::EndedWithoutResult, "server_error", "the adversary says so");
        let op = self.history.invoke("adversary", "adversary.fail", named(key));
        let outcome = self.store.fail_attempt(key, &failure, None).await;
        self.history.end(&op, kind_of(&outcome), json!({ "outcome": word(&outcome) }));
    }

    pub async fn mark_unknown(&self, key: AttemptKey) {
        let op = self.history.invoke("adversary", "adversary.unknown", named(key));
        let outcome = self.store.mark_attempt_unknown(key, "adversary", "it says so").await;
        self.history.end(&op, kind_of(&outcome), json!({ "outcome": word(&outcome) }));
    }
}

pub fn named(key: AttemptKey) -> Value {
    json!({ "job": key.job, "attempt": key.id })
}

pub fn kind_of<T>(outcome: &Result<T, StoreError>) -> Kind {
    match outcome {
        Ok(_) => Kind::Ok,
        Err(StoreError::Unavailable(_)) => Kind::Info,
        Err(_) => Kind::Fail,
    }
}

pub fn word<T>(outcome: &Result<T, StoreError>) -> String {
    match outcome {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    }
}
