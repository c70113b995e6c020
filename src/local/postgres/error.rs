//! What can go wrong with the private Postgres. Every message names the thing and the cure.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Why there is no private Postgres, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    #[error(
        "no `postgres` and `initdb` that user `{account}` can run in {searched}: install them (`apt-get install postgresql`, or `brew install postgresql@17`), or set database.url"
    )]
    NoBinaries { searched: String, account: String },
    #[error(
        "Postgres {found} is installed, {oldest} or newer is needed: install a newer one (`apt-get install postgresql`, or `brew install postgresql@17`), or set database.url"
    )]
    TooOld { found: String, oldest: u32 },
    #[error(
        "the private cluster was made by Postgres {wanted}, installed is {found}: install postgresql-{wanted}, or set database.data_dir to another folder"
    )]
    OtherMajor { wanted: u32, found: String },
    #[error(
        "Postgres refuses to run as root and would run as `{account}`, who cannot reach {}: {} has mode {mode:03o}. Set database.data_dir to a folder that user can reach, for example /var/lib/interlock (or /tmp/interlock-data to try things out), or run interlock as an ordinary user. Nothing was created", .data_dir.display(), .folder.display()
    )]
    Blocked { data_dir: PathBuf, folder: PathBuf, mode: u32, account: String },
    #[error(
        "Postgres refuses to run as root, and there is neither a user `postgres` nor `nobody` to lend it: add one (`useradd --system postgres`), or run interlock as an ordinary user"
    )]
    NoAccount,
    #[error(
        "uid {uid} has no entry among the system's users, and initdb refuses to run without: run interlock as a user that has one, or set database.url"
    )]
    Nameless { uid: u32 },
    #[error(
        "{} belongs to {owner}, and this is {me}: run as {owner}, or set database.data_dir to another folder", .folder.display()
    )]
    Foreign { folder: PathBuf, owner: String, me: String },
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io { doing: &'static str, path: PathBuf, source: std::io::Error },
    #[error("initdb could not make a cluster in {} ({status}): {said}. Cure what it names, or set database.data_dir to another folder", .folder.display())]
    InitFailed { folder: PathBuf, status: ExitStatus, said: String },
    #[error(
        "Postgres ended at its start ({status}). Its log {} says:\n{said}\nCure what it names; if the cluster is damaged, move {} away and start again with an empty one", .log.display(), .cluster.display()
    )]
    EndedAtStart { status: ExitStatus, log: PathBuf, said: String, cluster: PathBuf },
    #[error("Postgres gave no answer for {} s ({cause}). Its log {} says:\n{said}\nA long recovery after a crash may need another start", .waited.as_secs(), .log.display())]
    NotReady { waited: Duration, cause: String, log: PathBuf, said: String },
    #[error("a Postgres runs on the private cluster (pid {pid}) and gave no answer for {} s: read {}, and end it with `kill -INT {pid}`", .waited.as_secs(), .log.display())]
    Silent { pid: i32, waited: Duration, log: PathBuf },
    #[error("another process has held {} for {} s: find it with `fuser {}`", .lock.display(), .waited.as_secs(), .lock.display())]
    Busy { lock: PathBuf, waited: Duration },
    #[error("the server on {} runs as a throw-away one for tests (fsync off): stop its owner first, or use another folder", .cluster.display())]
    ThrowAway { cluster: PathBuf },
    #[error("`{name}` is no database name: 1 to 63 bytes, without NUL")]
    DatabaseName { name: String },
    #[error("cannot create database `{name}` in the private Postgres: {source}")]
    Database { name: String, source: sqlx::Error },
    #[error("Postgres (pid {pid}) did not end within {} s: end it with `kill -QUIT {pid}`, nothing is lost by that", .waited.as_secs())]
    StillRunning { pid: i32, waited: Duration },
}

impl PostgresError {
    pub(super) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> PostgresError {
        PostgresError::Io { doing, path: path.to_owned(), source }
    }
}
