//! One throw-away Postgres per test run, and a fresh database per test.
//!
//! Statics are never dropped, so a small shell waits for this process to end, by `kill -9` too, and then stops the
//! server and removes its folder: its standard input is a pipe that only this process holds.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use interlock::local::postgres::PrivatePostgres;
use interlock::store::Store;
use providers::adapter::Secret;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

const TEMPLATE: &str = "template_interlock";

/// How long the last look at a test's books may take.
const LOOK_LIMIT: Duration = Duration::from_secs(20);

static CLUSTER: OnceLock<Cluster> = OnceLock::new();
static DATABASES: AtomicU64 = AtomicU64::new(1);

/// The running server. Started by the first test that needs it.
#[derive(Debug)]
struct Cluster {
    /// Of the database `postgres`; any other name may stand in its place.
    url: String,
    /// Closed when this process ends: that is the signal to clean up.
    _lifeline: ChildStdin,
}

const CLEAN_UP: &str = r#"
trap '' INT TERM HUP
read _
pid=$(head -n 1 "$1/postgres/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -INT "$pid"
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -QUIT "$pid" 2>/dev/null
fi
rm -rf "$1"
"#;

impl Cluster {
    /// Started on a thread with a runtime of its own, since each test's runtime ends with its test.
    fn start() -> Cluster {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("cluster".to_owned());
        thread.spawn(move || runtime().block_on(keep_running(tell))).expect("a thread for the cluster");
        told.recv().expect("the cluster starts")
    }

    fn url(&self, database: &str) -> String {
        self.url.replacen("/postgres?", &format!("/{database}?"), 1)
    }
}

async fn keep_running(tell: mpsc::Sender<Cluster>) {
    let folder = tempfile::Builder::new()
        .prefix("interlock-it-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("a folder for the cluster")
        .keep();
    let lifeline = watch_over(&folder);
    let postgres = PrivatePostgres::start_throwaway(&folder).await.expect("a private Postgres");
    postgres.ensure_database(TEMPLATE).await.expect("the template database");
    let store = Store::connect(&Secret::new(postgres.url(TEMPLATE)), 2).await.expect("the template database answers");
    store.migrate().await.expect("the migrations run");
    store.make_days().await.expect("the first days are made");
    // Nobody may be connected to a template while it is copied.
    store.close().await;
    tell.send(Cluster { url: postgres.url("postgres"), _lifeline: lifeline }).expect("somebody waits for the cluster");
    std::future::pending::<()>().await;
}

#[expect(clippy::zombie_processes, reason = "it outlives this process, to clean up after it")]
fn watch_over(folder: &Path) -> ChildStdin {
    let mut child = Command::new("sh")
        .args(["-c", CLEAN_UP, "sh"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("a shell that cleans up");
    child.stdin.take().expect("its standard input")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A migrated database of its own for one test; dropped, after a look at its books, when the last user leaves.
#[derive(Debug)]
pub struct Database {
    pub name: String,
    pub url: String,
}

impl Database {
    pub async fn fresh() -> Arc<Database> {
        let cluster = tokio::task::spawn_blocking(|| CLUSTER.get_or_init(Cluster::start)).await.expect("a cluster");
        let name = format!("t_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let mut admin = PgConnection::connect(&cluster.url("postgres")).await.expect("the cluster answers");
        let create = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.expect("a fresh database");
        admin.close().await.expect("the connection closes");
        let url = cluster.url(&name);
        Arc::new(Database { name, url })
    }

    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("the test's database answers")
    }

    /// An insert of this key by another gateway that is not committed yet: who wants the key waits for its end, which is
    /// `COMMIT` or `ROLLBACK` on this connection.
    pub async fn insert_key(&self, owner: &str, key: &str) -> PgConnection {
        let mut other = self.connect().await;
        let insert = format!(
            "BEGIN; INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url,
                                      route, delivery, state, deadline_at)
             SELECT id, '01890000-0000-7000-8000-0000000000aa', '{key}', 'client', sha256('another payload'), 1,
                    '/v1/chat/completions', 'support', 'sync', 'queued', now() + interval '1 day'
             FROM owners WHERE name = '{owner}'"
        );
        sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut other).await.expect("the key is free");
        other
    }

    /// How many statements of this name wait for a lock.
    pub async fn waiting(&self, statement: &str) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                       AND wait_event_type = 'Lock' AND query LIKE";
        self.count(format!("{waiting} '/* {statement} */%'")).await
    }

    /// Runs a statement; answers how many rows it touched.
    pub async fn execute(&self, sql: impl Into<String>) -> u64 {
        let mut connection = self.connect().await;
        let sql = sql.into();
        let done = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut connection).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}")).rows_affected()
    }

    /// The first column of the only row.
    pub async fn value<T>(&self, sql: impl Into<String>) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let mut connection = self.connect().await;
        let sql = sql.into();
        let row = sqlx::query(AssertSqlSafe(sql.clone())).fetch_one(&mut connection).await;
        row.and_then(|row| row.try_get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Ends what [`Database::insert_key`] and the like began.
    pub async fn end(connection: &mut PgConnection, how: &'static str) {
        sqlx::raw_sql(how).execute(connection).await.expect("the transaction ends");
    }

    pub async fn count(&self, sql: impl Into<String>) -> i64 {
        self.value(sql).await
    }
}

/// What no test may leave behind: each line is a way in which the books would not balance.
const UNBALANCED: &str = "
SELECT 'job ' || j.id || ' is ' || j.state || ' with ' || open.n || ' open attempt(s)' FROM jobs j
CROSS JOIN LATERAL (SELECT count(*) n, min(state) AS state FROM attempts a WHERE a.owner_id = j.owner_id AND a.job_id = j.id
                    AND a.state IN ('started', 'unknown')) open
WHERE CASE j.state WHEN 'running' THEN open.n <> 1 OR open.state <> 'started'
                   WHEN 'unknown' THEN open.n <> 1 OR open.state <> 'unknown' ELSE open.n <> 0 END
UNION ALL
SELECT 'job ' || j.id || ' is ' || j.state || ', has a result: ' || (r.job_id IS NOT NULL) FROM jobs j
LEFT JOIN job_results r ON r.owner_id = j.owner_id AND r.job_id = j.id
-- The answer of a job that ended a day ago may be past its retention.
WHERE CASE WHEN j.state = 'succeeded' THEN j.closed_at > now() - interval '1 d' AND r.job_id IS NULL ELSE r.job_id IS NOT NULL END
UNION ALL
SELECT 'job ' || j.id || ' is ' || j.state || ' without a request' FROM jobs j
WHERE j.closed_at IS NULL AND NOT EXISTS (SELECT FROM job_requests r WHERE r.owner_id = j.owner_id AND r.job_id = j.id)
  AND EXISTS (SELECT FROM attempts a WHERE a.owner_id = j.owner_id AND a.job_id = j.id)
UNION ALL
-- No foreign keys say so.
SELECT 'a request without job ' || r.job_id FROM job_requests r LEFT JOIN jobs j ON j.owner_id = r.owner_id AND j.id = r.job_id
WHERE j.id IS NULL
UNION ALL
SELECT 'a result of job ' || r.job_id || ' without its attempt' FROM job_results r
LEFT JOIN attempts a ON a.owner_id = r.owner_id AND a.job_id = r.job_id AND a.id = r.attempt_id WHERE a.id IS NULL
UNION ALL
SELECT 'the result of job ' || j.id || ' is not the winner''s' FROM jobs j
JOIN job_results r ON r.owner_id = j.owner_id AND r.job_id = j.id WHERE r.attempt_id IS DISTINCT FROM j.completed_by
UNION ALL
SELECT 'job ' || job_id || ' has no gapless ordinals' FROM attempts GROUP BY job_id HAVING max(ordinal) <> count(*)";

impl Drop for Database {
    /// Asserts the invariants that hold after every test, then drops the database.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let Some(cluster) = CLUSTER.get() else { return };
        let (url, name, admin) = (self.url.clone(), self.name.clone(), cluster.url("postgres"));
        let look = async { tokio::time::timeout(LOOK_LIMIT, close_books(url, name, admin)).await };
        let looked = std::thread::spawn(move || runtime().block_on(look)).join();
        let unbalanced = looked.expect("a thread that looks").expect("the database answers in time");
        assert!(unbalanced.is_empty(), "the books of {} do not balance: {unbalanced:#?}", self.name);
    }
}

async fn close_books(url: String, name: String, admin: String) -> Vec<String> {
    let mut books = PgConnection::connect(&url).await.expect("the test's database answers");
    let rows = sqlx::query_scalar(UNBALANCED).fetch_all(&mut books).await.expect("the books can be read");
    books.close().await.expect("the connection closes");
    let mut admin = PgConnection::connect(&admin).await.expect("the cluster answers");
    let dropped = format!("DROP DATABASE {name} WITH (FORCE)");
    sqlx::raw_sql(AssertSqlSafe(dropped)).execute(&mut admin).await.expect("the database is dropped");
    rows
}
