//! The private Postgres: `interlock serve` without a database URL, the demo and the tests run on it.
//!
//! It must never be reachable by anybody else on the machine, never be started twice on one cluster, never be stopped
//! while another process uses it, and never lose a commit because its owner was killed.
//!
//! Why `trust` is safe here: the server listens on no network, only on a Unix socket inside a folder that belongs to
//! the server's user with mode 0700. Whoever can open that socket is that user or root, and both can read the cluster's
//! files anyway; a password would have to be kept where the same two can read it.
//!
//! Lifetime: stopped by [`PrivatePostgres::stop`] or on drop, by whichever process leaves last. After `kill -9` the
//! server lives on; the next start finds it, uses it, and stops it in the end. One machine only: a data folder shared
//! between machines or containers is not supported.

mod account;
mod binaries;
mod cluster;
mod error;
mod lock;
mod place;
mod running;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::process::Child;

use account::Account;
use binaries::Binaries;
use cluster::Durability;
use lock::{InUse, Turn};
use place::Place;
use running::Found;

pub use error::PostgresError;

/// How long a server may take to answer, crash recovery included.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long another process may hold the turn: its own start, and a bit.
const TURN_LIMIT: Duration = Duration::from_secs(90);
/// How long a fast shutdown may take before it becomes an immediate one.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The same in `Drop`, which blocks its thread.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// How long an immediate shutdown may take.
const KILL_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// A running private server, and the right to use it.
#[derive(Debug)]
pub struct PrivatePostgres {
    place: Place,
    socket_folder: PathBuf,
    pid: i32,
    /// The server itself, where this handle started it.
    child: Option<Child>,
    /// Gone once this handle has left.
    in_use: Option<InUse>,
    /// Held from the decision to start until the server answers.
    turn: Option<Turn>,
    /// Where this start's lines begin in the log.
    log_since: u64,
}

impl PrivatePostgres {
    /// Starts the server whose cluster lives under `data_dir`, or finds it running and uses it. Commits are on the
    /// disk before they are answered.
    pub async fn start(data_dir: &Path) -> Result<PrivatePostgres, PostgresError> {
        Self::start_with(data_dir, Durability::Kept, &binaries::search_path()).await
    }

    /// For tests only: flushes nothing, so a crash of the machine costs the cluster, and lets 300 connections in.
    /// `data_dir` is not removed. As root it must be passable for the server's user, so not inside a 0700 folder.
    pub async fn start_throwaway(data_dir: &Path) -> Result<PrivatePostgres, PostgresError> {
        Self::start_with(data_dir, Durability::ThrownAway, &binaries::search_path()).await
    }

    async fn start_with(data_dir: &Path, durability: Durability, search: &[PathBuf]) -> Result<Self, PostgresError> {
        let data_dir = account::settle(data_dir)?;
        let account = Account::choose(&data_dir, &place::home(&data_dir))?;
        account.check_reach(&data_dir)?;
        let existing = binaries::cluster_major(&place::home(&data_dir).join("data"));
        let binaries = Binaries::find(search, &account, existing).await?;
        let place = Place::create(&data_dir, account)?;
        let turn = Turn::take(&place.turn(), TURN_LIMIT).await?;
        let in_use = InUse::join(&place.users(), &turn)?;
        let stale = match running::find(&place, READY_LIMIT).await? {
            Found::Answers { pid, socket_folder, fsync } => {
                if durability == Durability::Kept && !fsync {
                    return Err(PostgresError::ThrowAway { cluster: place.cluster() });
                }
                tracing::info!(pid, data_dir = %data_dir.display(), "private Postgres found running");
                let (in_use, turn) = (Some(in_use), None);
                return Ok(PrivatePostgres { place, socket_folder, pid, child: None, in_use, turn, log_since: 0 });
            }
            Found::Stale(pid) => Some(pid),
            Found::Nothing => None,
        };
        cluster::make(&place, &binaries, durability).await?;
        let socket_folder = place.socket_folder()?;
        let (child, log_since) = cluster::launch(&place, &binaries, durability, &socket_folder, stale)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
        let (child, in_use, turn) = (Some(child), Some(in_use), Some(turn));
        let mut started = PrivatePostgres { place, socket_folder, pid, child, in_use, turn, log_since };
        started.wait_until_ready().await?;
        started.turn = None;
        tracing::info!(pid, data_dir = %data_dir.display(), "private Postgres started");
        Ok(started)
    }

    async fn wait_until_ready(&mut self) -> Result<(), PostgresError> {
        let until = Instant::now() + READY_LIMIT;
        loop {
            if let Some(status) = self.ended() {
                let (log, said) = (self.place.log(), self.place.log_tail(self.log_since));
                return Err(PostgresError::EndedAtStart { status, log, said, cluster: self.place.cluster() });
            }
            let cause = match running::probe(&self.socket_folder).await {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= until {
                let (log, said) = (self.place.log(), self.place.log_tail(self.log_since));
                return Err(PostgresError::NotReady { waited: READY_LIMIT, cause, log, said });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The exit status of the server that this handle started, once it has ended.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// A URL for this database over the Unix socket, as sqlx and `psql` read it. It holds no secret.
    pub fn url(&self, database: &str) -> String {
        running::url(&self.socket_folder, database)
    }

    /// Creates the database if there is none of this name. Two callers at once are fine.
    pub async fn ensure_database(&self, name: &str) -> Result<(), PostgresError> {
        if name.is_empty() || name.len() > 63 || name.contains('\0') {
            return Err(PostgresError::DatabaseName { name: name.to_owned() });
        }
        self.create_database(name).await.map_err(|source| PostgresError::Database { name: name.to_owned(), source })
    }

    async fn create_database(&self, name: &str) -> Result<(), sqlx::Error> {
        let mut connection = PgConnection::connect(&self.url("postgres")).await?;
        let exists = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1").bind(name);
        if exists.fetch_optional(&mut connection).await?.is_none() {
            // From template0: nobody can be connected to it, which would make the copy fail.
            let create = format!("CREATE DATABASE \"{}\" TEMPLATE template0", name.replace('"', "\"\""));
            match sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(error)) if is_duplicate(error.code().as_deref()) => {}
                Err(error) => return Err(error),
            }
        }
        connection.close().await
    }

    /// True where this handle did not start the server: another process, or one that was killed, did.
    pub fn reused(&self) -> bool {
        self.child.is_none()
    }

    /// Leaves the server, and stops it if nobody else uses it: sessions end, a checkpoint is written.
    pub async fn stop(mut self) -> Result<(), PostgresError> {
        let turn = Turn::take(&self.place.turn(), TURN_LIMIT).await?;
        if !self.is_last(&turn) {
            return Ok(());
        }
        for (signal, limit) in [(Signal::SIGINT, STOP_LIMIT), (Signal::SIGQUIT, KILL_LIMIT)] {
            let until = Instant::now() + limit;
            self.ask_to_end(signal);
            while Instant::now() < until {
                if self.is_gone() {
                    return Ok(());
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Err(PostgresError::StillRunning { pid: self.pid, waited: STOP_LIMIT + KILL_LIMIT })
    }

    /// Leaves the users; true when the server is this handle's to stop.
    fn is_last(&mut self, turn: &Turn) -> bool {
        let Some(in_use) = self.in_use.take() else { return false };
        match in_use.leave(turn) {
            Ok(last) => {
                self.turn_to_current();
                last
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell who else uses the private Postgres: left running");
                false
            }
        }
    }

    /// After a crash of the server another user may have started a new one: that is the one to stop, then.
    fn turn_to_current(&mut self) {
        let cluster = self.place.cluster();
        if let Some(file) = running::read_pid_file(&cluster)
            && file.pid != self.pid
            && running::is_server_of(file.pid, &cluster)
        {
            self.pid = file.pid;
            self.child = None;
        }
    }

    /// Only ever signals the server itself: a pid that the system has given to another program is left alone.
    fn ask_to_end(&mut self, signal: Signal) {
        let ours = self.child.is_some() && self.ended().is_none();
        if ours || running::is_server_of(self.pid, &self.place.cluster()) {
            running::ask_to_end(self.pid, signal);
        }
    }

    fn is_gone(&mut self) -> bool {
        let gone = match self.child {
            Some(_) => self.ended().is_some(),
            None => running::is_gone(self.pid, &self.place.cluster()),
        };
        if gone {
            self.place.forget_socket_folder();
            tracing::info!(pid = self.pid, "private Postgres stopped");
        }
        gone
    }
}

/// For a panic, an early return, or a program that forgot to call `stop`. Blocks its thread until the server has ended,
/// commonly a tenth of a second, because a program that exits first would leave it running.
impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if self.in_use.is_none() {
            return;
        }
        let turn = match self.turn.take() {
            Some(turn) => Ok(turn),
            None => Turn::take_blocking(&self.place.turn(), DROP_LIMIT),
        };
        let Ok(turn) = turn else {
            tracing::warn!(pid = self.pid, "private Postgres left running: another process is starting or stopping it");
            return;
        };
        if !self.is_last(&turn) {
            return;
        }
        let until = Instant::now() + DROP_LIMIT;
        self.ask_to_end(Signal::SIGINT);
        while !self.is_gone() {
            if Instant::now() >= until {
                tracing::warn!(pid = self.pid, "private Postgres still ending; the next start will wait for it");
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// 42P04: the database exists. 23505: another session inserted the same name between its check and the index.
fn is_duplicate(code: Option<&str>) -> bool {
    matches!(code, Some("42P04" | "23505"))
}
