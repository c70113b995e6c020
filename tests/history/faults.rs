//! The fault controller: by seed, one fault after another, each kind once before any comes again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::counts::Counts;
use crate::fleet::Fleet;
use crate::history::History;
use crate::plan::Plan;
use crate::postgres::Server;
use crate::provider::Providers;
use crate::rng::{Deck, Rng};

/// How much longer faults are made for what has not happened yet.
const EXTRA: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    KillGateway,
    StopGateway,
    /// Beyond the lease of 15 s, in long runs.
    StopPastLease,
    DrainGateway,
    /// As if a living process had not renewed in time: what it started is swept while it still works on it.
    LapseLease,
    TerminateSessions,
    KillPostgres,
    /// A stranger holds the rows of jobs that are moving.
    LockRows,
    CutProviders,
    RefuseProviders,
}

use Fault::{
    CutProviders, DrainGateway, KillGateway, KillPostgres, LapseLease, LockRows, RefuseProviders, StopGateway,
    StopPastLease, TerminateSessions,
};

impl Fault {
    pub fn as_str(self) -> &'static str {
        match self {
            KillGateway => "kill_gateway",
            StopGateway => "stop_gateway",
            StopPastLease => "stop_past_lease",
            DrainGateway => "drain_gateway",
            LapseLease => "lapse_lease",
            TerminateSessions => "terminate_sessions",
            KillPostgres => "kill_postgres",
            LockRows => "lock_rows",
            CutProviders => "cut_providers",
            RefuseProviders => "refuse_providers",
        }
    }

    /// The kinds that this plan enables; the ones that matter most stand in the deck twice.
    pub fn enabled(plan: &Plan) -> Vec<Fault> {
        let mut faults = vec![
            KillGateway,
            KillGateway,
            StopGateway,
            DrainGateway,
            LapseLease,
            LapseLease,
            TerminateSessions,
            KillPostgres,
            LockRows,
            LockRows,
            CutProviders,
            RefuseProviders,
        ];
        if plan.is_long() {
            faults.push(StopPastLease);
        }
        faults
    }
}

#[derive(Debug)]
pub struct Controller {
    pub history: Arc<History>,
    pub fleet: Arc<Fleet>,
    pub server: Arc<Mutex<Server>>,
    pub providers: Arc<Providers>,
    pub url: String,
}

impl Controller {
    /// Makes faults for the plan's time, then waits until everything is up again.
    pub async fn run(self: Arc<Self>, plan: &Plan, rng: &Rng) {
        let enabled = Fault::enabled(plan);
        let mut deck = Deck::new(&enabled, rng.fork("faults"));
        let until = Instant::now() + plan.faulting;
        let latest = until + EXTRA;
        // Every kind fits into the time, and once through the deck leaves room for chance.
        let step = plan.faulting.as_millis() as u64 / (enabled.len() as u64 + 1);
        let mut under_way = JoinSet::new();
        while Instant::now() < until || (Instant::now() < latest && self.has_missed(&enabled)) {
            let pause = deck.rng().millis((step / 2).min(700), step.min(1_500));
            tokio::time::sleep(pause).await;
            let (fault, rng) = (deck.deal(), Rng::new(deck.rng().next()));
            let me = Arc::clone(&self);
            under_way.spawn(async move { me.make(fault, rng).await });
            while under_way.try_join_next().is_some() {}
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Whether something that is enabled has not happened yet: a slow machine gets more time.
    fn has_missed(&self, enabled: &[Fault]) -> bool {
        !Counts::of_events(&self.history.events()).missing_events(enabled).is_empty()
    }

    async fn make(&self, fault: Fault, mut rng: Rng) {
        let victim = rng.below(self.fleet.gateways.len() as u64) as usize;
        // A victim that is down or stopped already gives way to another.
        let order =
            (0..self.fleet.gateways.len()).map(|i| &self.fleet.gateways[(victim + i) % self.fleet.gateways.len()]);
        let gateway = order.clone().find(|g| g.is_left_alone()).unwrap_or(&self.fleet.gateways[victim]);
        let op = self.history.invoke("faults", fault.as_str(), json!({ "gateway": gateway.name }));
        let mut hit = true;
        match fault {
            KillGateway => gateway.kill_and_restart(rng.millis(50, 1_500)).await,
            StopGateway => gateway.stop_and_continue(rng.millis(300, 3_500)).await,
            StopPastLease => gateway.stop_and_continue(rng.millis(15_500, 19_000)).await,
            DrainGateway => gateway.drain_and_restart().await,
            KillPostgres => self.server.lock().await.kill_and_restart(rng.millis(0, 900)).await,
            CutProviders => self.providers.cut(),
            RefuseProviders => {
                let pause = rng.millis(200, 900);
                self.providers.refuse(pause);
                tokio::time::sleep(pause).await;
            }
            LapseLease => hit = self.execute(LAPSE).await,
            TerminateSessions => hit = self.execute(TERMINATE).await,
            LockRows => hit = self.lock_rows(rng.millis(100, 1_500)).await,
        }
        let kind = if hit { crate::history::Kind::Ok } else { crate::history::Kind::Info };
        self.history.end(&op, kind, json!({ "gateway": gateway.name }));
    }

    /// Who kills the server holds it until it answers again.
    async fn wait_for_server(&self) {
        drop(self.server.lock().await);
    }

    /// Whether the statement was answered and touched something. Tried a few times: the database may just be down.
    async fn execute(&self, sql: &str) -> bool {
        for _ in 0..20 {
            self.wait_for_server().await;
            if let Ok(mut connection) = PgConnection::connect(&self.url).await
                && let Ok(done) = sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await
                && done.rows_affected() > 0
            {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        false
    }

    async fn lock_rows(&self, pause: Duration) -> bool {
        for _ in 0..20 {
            self.wait_for_server().await;
            if self.try_lock_rows(pause).await.unwrap_or(false) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        false
    }

    async fn try_lock_rows(&self, pause: Duration) -> Result<bool, sqlx::Error> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let mut tx = connection.begin().await?;
        let locked = sqlx::query(LOCK).execute(&mut *tx).await?.rows_affected();
        tokio::time::sleep(pause).await;
        tx.rollback().await?;
        Ok(locked > 0)
    }
}

const LAPSE: &str = "UPDATE instances SET lease_until = now() - interval '1 s' WHERE id = (
    SELECT id FROM instances WHERE lease_until > now() AND host <> 'adversary' ORDER BY random() LIMIT 1)";
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM pg_stat_activity WHERE application_name = 'interlock' AND datname = current_database()
    ORDER BY random() LIMIT 6) victims";
const LOCK: &str = "SELECT 1 FROM jobs WHERE state IN ('queued', 'running', 'unknown') ORDER BY random() LIMIT 6 FOR UPDATE SKIP LOCKED";
