//! A database with nothing in it but what a test puts there: through the store, or row by row in plain SQL, so that
//! states can be had that the code itself would never write.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use interlock::config::Config;
use interlock::domain::ids::{AttemptId, InstanceId, JobId, OwnerId, PermitId, RunId};
use interlock::domain::job::{Delivery, KeyOrigin};
use interlock::domain::permit::Permit;
use interlock::domain::route::{Candidate, Route, Target};
use interlock::store::Store;
use interlock::store::attempts::{AttemptKey, Completion, NewAttempt};
use interlock::store::contracts::{NewRun, RunEnd};
use interlock::store::jobs::{Admitted, FirstAttempt, NewJob};
use providers::adapter::Secret;
use sqlx::{AssertSqlSafe, PgPool};

use crate::support::cluster::Database;

pub const HOUR: Duration = Duration::from_secs(3600);

const SETTINGS: &str = r#"
[providers.alpha]
adapter = "openai"
base_url = "http://127.0.0.1:1/v1"
[providers.beta]
adapter = "openai"
base_url = "http://127.0.0.1:2/v1"
[routes.support]
contract = "support-triage"
targets = ["alpha/m", "beta/m"]
"#;

/// The digest that every run here was made under.
pub const DIGEST: &str = "digest";

pub struct Ground {
    pub store: Store,
    pub pool: PgPool,
    pub database: Arc<Database>,
    pub route: Arc<Route>,
    pub owner: OwnerId,
    pub instance: InstanceId,
}

impl Ground {
    pub async fn new() -> Ground {
        let database = Database::fresh().await;
        let store = Store::connect(&Secret::new(database.url.clone()), 40).await.expect("the database");
        let pool = PgPool::connect(&database.url).await.expect("the database");
        let config = Config::parse(SETTINGS, "guards").expect("settings");
        let owner = store.ensure_owner("guards").await.expect("an owner");
        let instance = InstanceId::fresh();
        store.register_instance(instance, "here", 1).await.expect("an instance");
        let route = config.routes["support"].clone();
        Ground { store, pool, database, route, owner, instance }
    }

    /// New connections, which see what was set for the database meanwhile.
    pub async fn reconnect(&mut self) {
        let url = &self.database.url;
        self.store = Store::connect(&Secret::new(url.clone()), 40).await.expect("the database");
        self.pool = PgPool::connect(url).await.expect("the database");
    }

    /// Runs plain SQL.
    pub async fn sql(&self, sql: impl Into<String>) {
        let sql = sql.into();
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&self.pool).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// The one value that a query gives, as text.
    pub async fn value(&self, sql: impl Into<String>) -> String {
        let sql = sql.into();
        let value: Option<String> = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
            .fetch_one(&self.pool)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        value.unwrap_or_else(|| "null".to_owned())
    }

    pub fn primary(&self) -> Candidate {
        Candidate::primary(&self.route).expect("a primary")
    }

    /// A job about to be admitted under `key`; with its first attempt, where `started`.
    pub fn new_job(&self, key: &str, started: bool) -> NewJob {
        let first = FirstAttempt {
            id: AttemptId::fresh(),
            candidate: self.primary(),
            timeout: HOUR,
            settle: HOUR,
            dropped: Vec::new(),
        };
        NewJob {
            owner: self.owner,
            id: JobId::fresh(),
            idempotency_key: key.to_owned(),
            key_origin: KeyOrigin::Client,
            fingerprint: [7; 32],
            fingerprint_version: 1,
            url: "/v1/chat/completions".to_owned(),
            route: "support".to_owned(),
            delivery: Delivery::Sync,
            body: Bytes::from_static(b"{}"),
            metadata: None,
            callback: None,
            deadline: 24 * HOUR,
            instance: self.instance,
            reserved_tokens: None,
            first: started.then_some(first),
        }
    }

    /// A job with its first attempt started, through the store.
    pub async fn running(&self, key: &str) -> AttemptKey {
        let new = self.new_job(key, true);
        let key = AttemptKey { owner: new.owner, job: new.id, id: new.first.as_ref().expect("an attempt").id };
        assert_eq!(self.store.admit(new).await.expect("admitted"), Admitted::New);
        key
    }

    /// A job without an attempt, through the store.
    pub async fn queued(&self, key: &str) -> JobId {
        let new = self.new_job(key, false);
        let id = new.id;
        assert_eq!(self.store.admit(new).await.expect("admitted"), Admitted::New);
        id
    }

    pub fn start_of(&self, job: JobId, ordinal: i32, candidate: Candidate) -> NewAttempt {
        let key = AttemptKey { owner: self.owner, job, id: AttemptId::fresh() };
        NewAttempt {
            key,
            ordinal,
            round: 1,
            candidate,
            instance: self.instance,
            timeout: HOUR,
            settle: HOUR,
            dropped: Vec::new(),
        }
    }

    /// A passed run of beta, and a permit over it.
    pub async fn permit(&self) -> Permit {
        let id = PermitId::fresh();
        let run = self.run(true, ["passed"; 3]).await;
        assert!(self.store.grant_permit(id, "support", run, "tester", "a test", HOUR).await.expect("granted"));
        let permits = self.store.permits(Some("support")).await.expect("permits");
        permits.into_iter().find(|permit| permit.id() == id).expect("the permit")
    }

    /// A run of beta that ended so.
    pub async fn run(&self, passed: bool, kinds: [&'static str; 3]) -> RunId {
        let target = &self.route.targets[1];
        let run = NewRun {
            id: RunId::fresh(),
            suite: "support-triage".to_owned(),
            suite_digest: DIGEST.to_owned(),
            target: Target { provider: "beta".to_owned(), model: "m".to_owned() },
            adapter_version: target.adapter_version.clone(),
            settings_digest: target.settings_digest.clone(),
            mode: "live",
            instance: None,
        };
        self.store.begin_run(&run).await.expect("begun");
        let end = RunEnd { passed, kinds, error: None, checks: Vec::new() };
        self.store.end_run(run.id, &end).await.expect("ended");
        run.id
    }

    /// The fallback, under this permit.
    pub fn fallback(&self, permit: &Permit) -> Candidate {
        let granted = permit.facts().granted_at;
        Candidate::fallback(&self.route, &self.route.targets[1], Some(DIGEST), permit, granted).expect("covered")
    }

    /// `job state/attempt state`, as the database holds them.
    pub async fn states(&self, key: AttemptKey) -> String {
        self.value(format!(
            "SELECT j.state || '/' || a.state FROM jobs j JOIN attempts a ON a.owner_id = j.owner_id AND a.job_id = j.id
             WHERE a.id = '{}'",
            key.id
        ))
        .await
    }
}

pub fn answer(key: AttemptKey, body: &'static str) -> Completion {
    Completion {
        key,
        content_type: "application/json".to_owned(),
        stream: None,
        body: Bytes::from_static(body.as_bytes()),
        usage: None,
        cost: None,
    }
}
