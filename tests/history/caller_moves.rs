//! What a client does with its turn: clicks twice, hangs up and comes back, changes its mind, streams along, reads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::callers::{Intent, PATIENCE, World};
use crate::rng::Rng;

const FORMS: [&str; 4] = ["whole", "whole", "stream", "usage"];

#[derive(Debug)]
pub struct Caller {
    pub world: Arc<World>,
    pub name: String,
    pub rng: Rng,
}

impl Caller {
    pub async fn run(mut self, stop: watch::Receiver<bool>) {
        let mut turn = 0;
        while !*stop.borrow() {
            turn += 1;
            let own = format!("{}-{turn}", self.name);
            match self.rng.below(100) {
                0..18 => self.once(&own).await,
                18..40 => self.click_many_times(&own).await,
                40..52 => self.hang_up_and_retry(&own).await,
                52..60 => self.change_payload().await,
                60..72 => self.stream_along(&own).await,
                72..80 => self.create_and_watch(&own).await,
                80..88 => self.come_back().await,
                88..95 => self.look().await,
                95..98 => self.snoop().await,
                _ => self.cancel().await,
            }
            tokio::time::sleep(self.rng.millis(0, 40)).await;
        }
    }

    fn gateway(&mut self) -> usize {
        self.rng.below(self.world.fleet.gateways.len() as u64) as usize
    }

    fn form(&mut self) -> &'static str {
        self.rng.pick(&FORMS).copied().unwrap_or("whole")
    }

    /// Sends it, and as long as nobody answers at all, again, elsewhere.
    async fn persist(&mut self, intent: &Intent, form: &'static str) {
        for _ in 0..3 {
            let gateway = self.gateway();
            let reply = self.world.submit(&self.name, intent, form, gateway, PATIENCE).await;
            if reply.is_some_and(|reply| reply.status < 500) {
                return;
            }
            tokio::time::sleep(self.rng.millis(50, 400)).await;
        }
    }

    async fn once(&mut self, own: &str) {
        let intent = self.world.draw_intent(&mut self.rng, own);
        let form = self.form();
        self.persist(&intent, form).await;
    }

    async fn click_many_times(&mut self, own: &str) {
        let intent = self.world.draw_intent(&mut self.rng, own);
        let mut clicks = JoinSet::new();
        for click in 0..self.rng.between(2, 5) {
            let (gateway, form, pause) = (self.gateway(), self.form(), self.rng.millis(0, 25));
            let (world, intent, who) = (Arc::clone(&self.world), intent.clone(), format!("{}.{click}", self.name));
            clicks.spawn(async move {
                tokio::time::sleep(pause).await;
                drop(world.submit(&who, &intent, form, gateway, PATIENCE).await);
            });
        }
        while clicks.join_next().await.is_some() {}
    }

    async fn hang_up_and_retry(&mut self, own: &str) {
        let intent = self.world.draw_intent(&mut self.rng, own);
        let (gateway, form, patience) = (self.gateway(), self.form(), self.rng.millis(2, 400));
        drop(self.world.submit(&self.name, &intent, form, gateway, patience).await);
        tokio::time::sleep(self.rng.millis(0, 200)).await;
        self.persist(&intent, form).await;
    }

    /// The same key for something else: a conflict, wherever it arrives.
    async fn change_payload(&mut self) {
        let Some(mut intent) = self.world.some_intent(&mut self.rng) else { return };
        intent.tag.push_str(" or not");
        let (gateway, form) = (self.gateway(), self.form());
        let body_of_another = Intent { endpoint: "chat", ..intent };
        drop(self.world.submit_unremembered(&self.name, &body_of_another, form, gateway).await);
    }

    async fn stream_along(&mut self, own: &str) {
        let intent = self.world.draw_intent(&mut self.rng, own);
        let mut followers = JoinSet::new();
        for follower in 0..self.rng.between(2, 3) {
            let gateway = self.gateway();
            let pause = if follower == 0 { Duration::ZERO } else { self.rng.millis(40, 300) };
            // One of them may hang up in the middle.
            let patience = if self.rng.percent(20) { self.rng.millis(60, 500) } else { PATIENCE };
            let form = if self.rng.percent(30) { "usage" } else { "stream" };
            let (world, intent, who) = (Arc::clone(&self.world), intent.clone(), format!("{}.{follower}", self.name));
            followers.spawn(async move {
                tokio::time::sleep(pause).await;
                drop(world.submit(&who, &intent, form, gateway, patience).await);
            });
        }
        while followers.join_next().await.is_some() {}
    }

    async fn create_and_watch(&mut self, own: &str) {
        // A key of its own: the two endpoints read the same key as two payloads.
        let intent = self.world.own_intent(&mut self.rng, own, "jobs");
        let gateway = self.gateway();
        let Some(reply) = self.world.submit(&self.name, &intent, "whole", gateway, PATIENCE).await else { return };
        let Some(job) = reply.header("x-interlock-job-id").map(str::to_owned) else { return };
        for what in ["job.wait", "job.read", "job.result"] {
            let gateway = self.gateway();
            drop(self.world.read(&self.name, what, intent.owner, (intent.owner, &job), gateway).await);
        }
    }

    async fn come_back(&mut self) {
        let Some(intent) = self.world.some_intent(&mut self.rng) else { return };
        let (gateway, form) = (self.gateway(), self.form());
        drop(self.world.submit(&self.name, &intent, form, gateway, PATIENCE).await);
    }

    async fn look(&mut self) {
        let Some((owner, job)) = self.world.some_job(&mut self.rng) else { return };
        for what in ["job.read", "job.result"] {
            let gateway = self.gateway();
            drop(self.world.read(&self.name, what, owner, (owner, &job), gateway).await);
        }
    }

    /// Another owner's job is not there.
    async fn snoop(&mut self) {
        let Some((owner, job)) = self.world.some_job(&mut self.rng) else { return };
        for what in ["job.read", "job.result", "job.cancel"] {
            let (gateway, asker) = (self.gateway(), if owner == 0 { 1 } else { 0 });
            drop(self.world.read(&self.name, what, asker, (owner, &job), gateway).await);
        }
    }

    async fn cancel(&mut self) {
        let Some((owner, job)) = self.world.some_job(&mut self.rng) else { return };
        let gateway = self.gateway();
        drop(self.world.read(&self.name, "job.cancel", owner, (owner, &job), gateway).await);
    }
}
