//! The clients: what they ask, of whom, and how it is written into the history.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::history::{History, Kind, Op};
use crate::http::{Ask, Outcome, Reply, send};
use crate::rng::Rng;
use crate::wire;

/// How long a caller waits who does not mean to hang up.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Keys that many ask for at once, for this long; then others take their place.
const HOT_KEYS: u64 = 4;
const HOT_FOR: u128 = 2_500;
/// The most that anything remembers to come back to.
const REMEMBERED: usize = 4_000;

/// An owner with an API key.
#[derive(Debug, Clone)]
pub struct Owner {
    pub name: String,
    pub token: String,
}

/// One intent: what its first caller meant by the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub owner: usize,
    pub key: String,
    pub route: &'static str,
    pub tag: String,
    /// `chat`, or `jobs` for `POST /v1/jobs`.
    pub endpoint: &'static str,
}

/// What all callers share.
#[derive(Debug)]
pub struct World {
    pub history: Arc<History>,
    pub fleet: Arc<Fleet>,
    pub owners: Vec<Owner>,
    began: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    intents: Vec<Intent>,
    jobs: Vec<(usize, String)>,
}

impl World {
    pub fn new(history: Arc<History>, fleet: Arc<Fleet>, owners: Vec<Owner>) -> World {
        World { history, fleet, owners, began: Instant::now(), seen: Mutex::default() }
    }

    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn remember(&self, intent: &Intent) {
        self.seen(|seen| {
            if seen.intents.len() < REMEMBERED && !seen.intents.contains(intent) {
                seen.intents.push(intent.clone());
            }
        });
    }

    pub fn intents(&self) -> Vec<Intent> {
        self.seen(|seen| seen.intents.clone())
    }

    /// Mostly one of the last few.
    pub fn some_intent(&self, rng: &mut Rng) -> Option<Intent> {
        self.seen(|seen| {
            let recent = &seen.intents[seen.intents.len().saturating_sub(40)..];
            if rng.percent(70) { rng.pick(recent) } else { rng.pick(&seen.intents) }.cloned()
        })
    }

    pub fn some_job(&self, rng: &mut Rng) -> Option<(usize, String)> {
        self.seen(|seen| rng.pick(&seen.jobs).cloned())
    }

    fn remember_job(&self, owner: usize, job: &str) {
        self.seen(|seen| {
            if seen.jobs.len() < REMEMBERED && !seen.jobs.iter().any(|(_, known)| known == job) {
                seen.jobs.push((owner, job.to_owned()));
            }
        });
    }

    /// A key that many use now, or one of one's own. Both owners use the same names: a key belongs to its owner.
    pub fn draw_intent(&self, rng: &mut Rng, own: &str) -> Intent {
        if rng.percent(35) {
            let hot = format!("hot-{}-{}", self.began.elapsed().as_millis() / HOT_FOR, rng.below(HOT_KEYS));
            self.own_intent(rng, &hot, "chat")
        } else {
            self.own_intent(rng, own, "chat")
        }
    }

    pub fn own_intent(&self, rng: &mut Rng, key: &str, endpoint: &'static str) -> Intent {
        let owner = rng.below(2) as usize;
        let route = if key.bytes().map(u64::from).sum::<u64>() % 5 < 3 { "hold" } else { "over" };
        let tag = format!("<{}/{key}>", self.owners[owner].name);
        Intent { owner, key: key.to_owned(), route, tag, endpoint }
    }

    /// Sends the intent; what came back, if all of it came.
    pub async fn submit(
        &self,
        who: &str,
        intent: &Intent,
        form: &'static str,
        gateway: usize,
        patience: Duration,
    ) -> Option<Reply> {
        self.remember(intent);
        self.call(who, intent, form, gateway, patience).await
    }

    /// For a payload that nobody comes back to.
    pub async fn submit_unremembered(
        &self,
        who: &str,
        intent: &Intent,
        form: &'static str,
        gateway: usize,
    ) -> Option<Reply> {
        self.call(who, intent, form, gateway, PATIENCE).await
    }

    async fn call(
        &self,
        who: &str,
        intent: &Intent,
        form: &'static str,
        gateway: usize,
        patience: Duration,
    ) -> Option<Reply> {
        let body = wire::chat(intent.route, &intent.tag, form);
        let (path, body) = match intent.endpoint {
            "chat" => ("/v1/chat/completions", body),
            _ => ("/v1/jobs", json!({ "url": "/v1/chat/completions", "body": body })),
        };
        let what = if intent.endpoint == "chat" { "chat" } else { "job.create" };
        let args =
            json!({ "owner": intent.owner, "key": intent.key, "tag": intent.tag, "form": form, "gateway": gateway });
        let op = self.history.invoke(who, what, args);
        let mut ask = self.ask(intent.owner, gateway, "POST", path, patience);
        ask.headers.push(("idempotency-key", intent.key.clone()));
        ask.body = body.to_string();
        let outcome = send(&ask).await;
        if let Outcome::Whole(reply) | Outcome::HungUp(Some(reply)) = &outcome
            && let Some(job) = reply.header("x-interlock-job-id")
            && reply.status < 300
        {
            self.remember_job(intent.owner, job);
        }
        self.finish(&op, outcome)
    }

    /// Reads something as this owner.
    pub async fn read(
        &self,
        who: &str,
        what: &'static str,
        asker: usize,
        job: (usize, &str),
        gateway: usize,
    ) -> Option<Reply> {
        let path = match what {
            "job.read" => format!("/v1/jobs/{}", job.1),
            "job.wait" => format!("/v1/jobs/{}?wait=3s", job.1),
            "job.result" => format!("/v1/jobs/{}/result", job.1),
            _ => format!("/v1/jobs/{}/cancel", job.1),
        };
        let method = if what == "job.cancel" { "POST" } else { "GET" };
        let args = json!({ "asker": asker, "owner": job.0, "job": job.1, "gateway": gateway });
        let op = self.history.invoke(who, what, args);
        let outcome = send(&self.ask(asker, gateway, method, &path, PATIENCE)).await;
        self.finish(&op, outcome)
    }

    fn ask(&self, owner: usize, gateway: usize, method: &'static str, path: &str, patience: Duration) -> Ask {
        Ask {
            address: self.fleet.gateways[gateway].at.application,
            method,
            path: path.to_owned(),
            token: self.owners[owner].token.clone(),
            headers: Vec::new(),
            body: String::new(),
            patience,
        }
    }

    fn finish(&self, op: &Op, outcome: Outcome) -> Option<Reply> {
        match outcome {
            Outcome::Whole(reply) => {
                let kind = match reply.status {
                    200..=299 => Kind::Ok,
                    400..=499 => Kind::Fail,
                    _ => Kind::Info,
                };
                self.history.end(op, kind, describe(&reply, "whole"));
                Some(reply)
            }
            Outcome::HungUp(part) => {
                self.history.end(op, Kind::Info, part.map_or(json!({ "end": "hung_up" }), |p| describe(&p, "hung_up")));
                None
            }
            Outcome::Broken(why, part) => {
                let mut result = part.map_or(json!({}), |p| describe(&p, "broken"));
                result["end"] = json!("broken");
                result["why"] = json!(why);
                self.history.end(op, Kind::Info, result);
                None
            }
        }
    }
}

/// A reply as the history keeps it.
fn describe(reply: &Reply, end: &str) -> Value {
    let body = reply.text();
    let streams = reply.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
    let json = if streams { Value::Null } else { reply.json() };
    json!({
        "end": end,
        "status": reply.status,
        "job": reply.header("x-interlock-job-id"),
        "attempt": reply.header("x-interlock-attempt-id"),
        "replayed": reply.header("idempotent-replayed").is_some(),
        "stream": streams,
        "done": streams && body.ends_with("data: [DONE]\n\n"),
        "code": json["error"]["code"].as_str().or_else(|| json["code"].as_str()),
        "named_job": json["error"]["job_id"].as_str().or_else(|| json["job_id"].as_str()),
        "body": body,
    })
}
