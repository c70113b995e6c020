//! Somebody on call: reads the list of unknown attempts and clears them by name, not always wisely.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fleet::Fleet;
use crate::history::{History, Kind};
use crate::http::{Ask, Outcome, send};
use crate::rng::{Deck, Rng};
use crate::settings::OPERATOR_TOKEN;

const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub struct Operator {
    pub history: Arc<History>,
    pub fleet: Arc<Fleet>,
}

impl Operator {
    pub async fn run(self: Arc<Self>, mut rng: Rng, mut stop: watch::Receiver<bool>) {
        let mut deeds = Deck::new(&["release", "cancel", "fail"], rng.fork("deeds"));
        while !*stop.borrow() {
            let pause = rng.millis(50, 300);
            let _ = tokio::time::timeout(pause, stop.wait_for(|stop| *stop)).await;
            let which = rng.below(self.fleet.gateways.len() as u64) as usize;
            let Some(listed) = self.unknown_jobs(which).await else { continue };
            // Some are left for their late answer.
            if rng.percent(25) {
                continue;
            }
            let attempts: Vec<&str> = listed.iter().filter_map(unknown_attempt).collect();
            let Some(attempt) = rng.pick(&attempts) else { continue };
            self.clear(which, attempt, deeds.deal()).await;
        }
    }

    /// As that gateway lists them.
    pub async fn unknown_jobs(&self, gateway: usize) -> Option<Vec<Value>> {
        let reply = send(&self.ask(gateway, "GET", "/admin/v1/jobs?state=unknown", "")).await.whole()?;
        reply.json()["data"].as_array().cloned()
    }

    async fn clear(&self, gateway: usize, attempt: &str, how: &'static str) {
        let what = match how {
            "release" => "operator.release",
            "cancel" => "operator.cancel",
            _ => "operator.fail",
        };
        let op = self.history.invoke("operator", what, json!({ "attempt": attempt, "gateway": gateway }));
        let deed = json!({ "reason": "the history test says so", "actor": "ann" }).to_string();
        let outcome = send(&self.ask(gateway, "POST", &format!("/admin/v1/attempts/{attempt}/{how}"), &deed)).await;
        match outcome {
            Outcome::Whole(reply) if reply.status == 200 => self.history.end(&op, Kind::Ok, json!({ "status": 200 })),
            Outcome::Whole(reply) if reply.status < 500 => {
                self.history.end(&op, Kind::Fail, json!({ "status": reply.status }));
            }
            other => self.history.end(&op, Kind::Info, json!({ "outcome": format!("{other:.120?}") })),
        }
    }

    pub fn ask(&self, gateway: usize, method: &'static str, path: &str, body: &str) -> Ask {
        Ask {
            address: self.fleet.gateways[gateway].at.operator,
            method,
            path: path.to_owned(),
            token: OPERATOR_TOKEN.to_owned(),
            headers: Vec::new(),
            body: body.to_owned(),
            patience: PATIENCE,
        }
    }
}

fn unknown_attempt(job: &Value) -> Option<&str> {
    let attempts = job["attempts"].as_array()?;
    attempts.iter().find(|a| a["state"] == "unknown")?["id"].as_str()
}
