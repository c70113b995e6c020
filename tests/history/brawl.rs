//! Everything at once on one attempt whose process counts as dead: it is finished twice, failed, given up and swept,
//! all of them waiting for the same row, so that each has judged by a state that is gone when its turn comes.

use std::sync::Arc;
use std::time::Duration;

use interlock::domain::ids::InstanceId;
use interlock::store::jobs::Admitted;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use crate::adversary::{Adversary, kind_of, named, word};
use crate::rng::Rng;

const GRACE: Duration = Duration::from_secs(5);

impl Adversary {
    pub async fn brawl(self: &Arc<Self>, key: &str, rng: &mut Rng) {
        let instance = InstanceId::fresh();
        if self.store.register_instance(instance, "adversary", 0).await.is_err() {
            return;
        }
        let (new, attempt) = self.new_job(key, instance);
        let op = self.history.invoke("adversary", "adversary.admit", named(attempt));
        let admitted = self.store.admit(new).await;
        self.history.end(&op, kind_of(&admitted), serde_json::json!({ "outcome": word(&admitted) }));
        if !matches!(admitted, Ok(Admitted::New)) {
            return;
        }
        self.note_work(attempt);
        let Ok(mut connection) = PgConnection::connect(&self.url).await else { return };
        let Ok(mut tx) = connection.begin().await else { return };
        let lapse =
            sqlx::query("UPDATE instances SET lease_until = now() - interval '1 s' WHERE id = $1").bind(instance);
        if lapse.execute(&mut *tx).await.is_err() || tx.commit().await.is_err() {
            return;
        }
        let Ok(mut tx) = connection.begin().await else { return };
        let lock = sqlx::query("SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE").bind(attempt.job);
        if lock.execute(&mut *tx).await.is_err() {
            return;
        }
        let mut rivals = JoinSet::new();
        let mut deeds = [0, 0, 1, 2, 3, 3];
        rng.shuffle(&mut deeds);
        for deed in deeds {
            // In this order at the row's queue.
            tokio::time::sleep(rng.millis(1, 8)).await;
            let me = Arc::clone(self);
            rivals.spawn(async move {
                match deed {
                    0 => drop(me.complete(attempt, "brawl").await),
                    1 => me.fail(attempt).await,
                    2 => me.mark_unknown(attempt).await,
                    _ => drop(me.store.mark_lost_attempts_unknown(GRACE).await),
                }
            });
        }
        tokio::time::sleep(rng.millis(5, 60)).await;
        drop(tx.rollback().await);
        while rivals.join_next().await.is_some() {}
        // Mostly it is brought to an end; the rest is for operators, and for the client's own retry.
        if rng.percent(60) {
            self.complete(attempt, "after the brawl").await;
        }
    }
}
