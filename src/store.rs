//! All SQL, one statement per transition, named after it. Nobody else knows that there is a database.
//!
//! Read [`jobs`] and [`attempts`] for the transitions of a job's life. The guards stand in the statements themselves
//! (expected state, version, lease); not exactly one row means that somebody else has it ([`StoreError::LostRace`] or
//! an answer that says so), never that something is broken. Behind [`Store::admit`] and [`Store::complete`] many jobs' rows
//! share one statement and one commit (`writer`).

pub mod attempts;
pub mod callbacks;
pub mod contracts;
mod days;
pub mod drift;
mod hold;
pub mod instances;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod lookups;
pub mod operators;
pub mod permits;
pub mod rechecks;
pub mod retention;
mod rows;
pub mod streams;
mod writer;
mod writer_admissions;
mod writer_completions;

use std::future::Future;
use std::str::FromStr;
use std::time::Duration;

use providers::adapter::Secret;
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use self::hold::Connections;
use self::writer::{Ways, Writer};
use self::writer_admissions::Admissions;
use self::writer_completions::Completions;

/// The oldest Postgres that the statements were tested on.
const OLDEST_SERVER: i32 = 150_000;
/// How long a call waits for a free connection before the database counts as away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How long one statement may take before the database counts as away. Also told to the server, so that a statement
/// given up here does not run on there.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a row that is written together with others waits for a lock; after that it goes on alone.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);
/// Connections for rows that are written together, at most.
const WRITERS: u32 = 4;
/// Connections that are kept for rows alone, where there are enough others.
const KEPT_FOR_ROWS_ALONE: usize = 2;
const ENOUGH_TO_KEEP: u32 = 6;
/// A connection idle for longer is asked whether it still lives before it is used.
const PING_AFTER: Duration = Duration::from_millis(250);
/// Tries of a statement that met a passing fault, and the pause before each further one.
const TRIES: u32 = 4;
/// Tries where a connection was found dead: when a server goes, all that lie idle in the pool do.
const TRIES_ON_DEAD: u32 = 16;
const PAUSE: Duration = Duration::from_millis(25);

/// The database behind everything durable.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    /// Where jobs' rows are written: alone on the same pool, together on one of their own.
    ways: Ways,
    admissions: Writer<Admissions>,
    completions: Writer<Completions>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing can be said of what was asked: the database is away or refuses to serve.
    #[error("the database does not answer: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// More waits to be written than may; nothing of this was sent.
    #[error("too much waits for the database")]
    Overloaded,
    /// A row changed under the caller's feet: read again and decide again.
    #[error("somebody else was faster")]
    LostRace,
    /// This process may start nothing: its lease has ended.
    #[error("this instance's lease has ended")]
    LeaseEnded,
    /// A named constraint refused the statement: an invariant would have been broken.
    #[error("the database refused it: constraint {constraint}")]
    Refused { constraint: String },
    /// The server cannot be trusted with the promises made here.
    #[error("{0}")]
    Unfit(String),
    #[error("migrations: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A row that this version cannot read, or a statement that is wrong: a bug, or a newer version's data.
    #[error("the database holds or said something unexpected: {0}")]
    Broken(#[source] sqlx::Error),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if is_unavailable(&error) {
            return StoreError::Unavailable(error);
        }
        let constraint = error.as_database_error().and_then(|e| e.constraint().map(|name| (name.to_owned(), e.code())));
        match constraint {
            Some((constraint, Some(_))) => StoreError::Refused { constraint },
            Some((_, None)) | None => StoreError::Broken(error),
        }
    }
}

impl Store {
    /// Opens `max_connections`, at least two, and refuses a server that is too old, read-only or careless with commits.
    pub async fn connect(url: &Secret, max_connections: u32) -> Result<Store, StoreError> {
        let options = PgConnectOptions::from_str(url.expose())?
            .application_name("interlock")
            .options([("statement_timeout", STATEMENT_TIMEOUT.as_millis().to_string())])
            // A process that stands still within a transaction must not hold its locks for ever.
            .options([("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT.as_millis().to_string())]);
        let writers = (max_connections / 4).clamp(1, WRITERS);
        let together = options.clone().options([("lock_timeout", LOCK_TIMEOUT.as_millis().to_string())]);
        let together = pool_of(writers).connect_lazy_with(together);
        let others = max_connections.saturating_sub(writers).max(1);
        let pool = pool_of(others).min_connections(1).connect_with(options).await?;
        // Where few connections serve everything, none of them is kept for rows alone.
        let for_rows_alone = if others < ENOUGH_TO_KEEP { 0 } else { KEPT_FOR_ROWS_ALONE };
        let ways = Ways {
            alone: Connections::new(pool.clone(), for_rows_alone),
            together: Connections::new(together, writers as usize),
        };
        let (admissions, completions) = (Writer::new(ways.clone()), Writer::new(ways.clone()));
        let store = Store { pool, ways, admissions, completions };
        store.check_server().await?;
        Ok(store)
    }

    async fn check_server(&self) -> Result<(), StoreError> {
        let (version, read_only, commits): (i32, bool, String) = sqlx::query_as(
            "/* check_server */ SELECT current_setting('server_version_num')::int4,
                    pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool,
                    current_setting('synchronous_commit')",
        )
        .fetch_one(&self.pool)
        .await?;
        if version < OLDEST_SERVER {
            return Err(StoreError::Unfit(format!("Postgres {version} is too old; 15 or newer is needed")));
        }
        if read_only {
            return Err(StoreError::Unfit(
                "this Postgres is read-only (a standby?); point database.url at the primary".into(),
            ));
        }
        if commits == "off" {
            tracing::warn!("synchronous_commit is off on this server: a crash of it can lose acknowledged jobs");
        }
        Ok(())
    }

    /// Brings the schema up to date. Safe when many processes do it at once: the first takes a lock.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        // Waiting for that lock, and a migration itself, may take longer than a statement of the request path may.
        let mut connection = self.pool.acquire().await?.detach();
        sqlx::query("/* migrate */ SET statement_timeout = 0").execute(&mut connection).await?;
        sqlx::migrate!("./migrations").run(&mut connection).await?;
        Ok(connection.close().await?)
    }

    /// Whether the schema is the one that this binary was built for.
    pub async fn is_migrated(&self) -> Result<bool, StoreError> {
        let newest = sqlx::migrate!("./migrations").iter().map(|m| m.version).max().unwrap_or_default();
        let there: Option<bool> =
            sqlx::query_scalar("/* is_migrated */ SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
                .fetch_one(&self.pool)
                .await?;
        if there != Some(true) {
            return Ok(false);
        }
        let applied: Option<i64> =
            sqlx::query_scalar("/* newest_migration */ SELECT max(version) FROM _sqlx_migrations WHERE success")
                .fetch_one(&self.pool)
                .await?;
        Ok(applied == Some(newest))
    }

    /// One round trip, bounded: does the database answer?
    pub async fn is_ready(&self) -> bool {
        let asked = sqlx::query("/* is_ready */ SELECT 1").execute(&self.pool);
        matches!(tokio::time::timeout(Duration::from_secs(1), asked).await, Ok(Ok(_)))
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.ways.close().await;
    }
}

fn pool_of(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_lifetime(Duration::from_secs(30 * 60))
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > PING_AFTER {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
}

/// Runs a statement again while it meets faults that pass: serialization, deadlock, a connection or server that went
/// away. Every statement here may be repeated, since its guard or its caller-made id tells a repeat.
async fn retrying<T, F, Fut>(mut statement: F) -> Result<T, StoreError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, sqlx::Error>>,
{
    let mut tries = 1;
    loop {
        let answered = tokio::time::timeout(STATEMENT_TIMEOUT, statement()).await;
        match answered.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))) {
            Ok(value) => return Ok(value),
            // Waited long enough: a database that says nothing is away.
            Err(sqlx::Error::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
                return Err(StoreError::Unavailable(sqlx::Error::Io(error)));
            }
            Err(error) if tries < tries_after(&error) => {
                tokio::time::sleep(PAUSE * tries.min(TRIES)).await;
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn tries_after(error: &sqlx::Error) -> u32 {
    let code = error.as_database_error().and_then(|e| e.code());
    let dead = matches!(error, sqlx::Error::Io(_)) || code.is_some_and(|code| code == "57P01");
    match (passes(error), dead) {
        (true, true) => TRIES_ON_DEAD,
        (true, false) => TRIES,
        (false, _) => 1,
    }
}

/// Faults that may be gone on the next try.
fn passes(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code());
    match code.as_deref() {
        Some("40001" | "40P01") => true,
        // On its way to the default partition while its day was being made.
        Some("23514") => error.as_database_error().is_some_and(|e| e.constraint().is_none()),
        Some(code) => is_outage(code),
        None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed),
    }
}

fn is_unavailable(error: &sqlx::Error) -> bool {
    passes(error)
        || error.as_database_error().and_then(|e| e.code()).is_some_and(|code| is_closed_door(&code))
        || matches!(
            error,
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) | sqlx::Error::Configuration(_)
        )
}

/// A new connection was not let in: the database takes none, is not there, or knows this user no more.
fn is_closed_door(code: &str) -> bool {
    code.starts_with("28") || matches!(code, "55000" | "3D000")
}

/// Connection faults, shutdowns, a full disk, a statement timed out, a server that turned read-only under a failover.
fn is_outage(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("53") || matches!(code, "57P01" | "57P02" | "57P03" | "25006" | "57014")
}
