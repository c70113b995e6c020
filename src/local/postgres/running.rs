//! Is a server running on this cluster, and is it ours?
//!
//! A pid file alone proves nothing: its process may be dead, or another program may have its number by now. What
//! counts is a server that answers and names this cluster, or a living `postgres` process that was started on it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection, Row};

use super::PostgresError;
use super::cluster::USER;
use super::place::Place;

/// How long one try to connect may take.
const PROBE: Duration = Duration::from_secs(2);
/// How often a server that is starting or stopping is looked at.
const POLL: Duration = Duration::from_millis(50);

/// What the pid file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) pid: i32,
    /// Missing while the server is still on its way up.
    pub(super) socket_folder: Option<PathBuf>,
}

/// What was found on a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A pid file whose process is another program.
    Stale(i32),
    Answers {
        pid: i32,
        socket_folder: PathBuf,
        fsync: bool,
    },
}

/// What a server says about itself.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) data_directory: PathBuf,
    pub(super) fsync: bool,
}

/// Looks for a server on the cluster of `place`; one that is on its way up or down is waited for, at most `limit`.
pub(super) async fn find(place: &Place, limit: Duration) -> Result<Found, PostgresError> {
    let cluster = place.cluster();
    let until = Instant::now() + limit;
    loop {
        let Some(file) = read_pid_file(&cluster) else { return Ok(Found::Nothing) };
        if let Some(socket_folder) = &file.socket_folder
            && let Ok(answer) = probe(socket_folder).await
            && answer.data_directory == cluster
        {
            return Ok(Found::Answers { pid: file.pid, socket_folder: socket_folder.clone(), fsync: answer.fsync });
        }
        if !is_alive(file.pid) {
            // Postgres reads such a file itself, and looks for backends left behind.
            return Ok(Found::Nothing);
        }
        if !is_server_of(file.pid, &cluster) {
            tracing::warn!(
                pid = file.pid,
                "the pid file of the private Postgres is stale: another program has its number"
            );
            return Ok(Found::Stale(file.pid));
        }
        if Instant::now() >= until {
            return Err(PostgresError::Silent { pid: file.pid, waited: limit, log: place.log() });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// One real query over a new connection.
pub(super) async fn probe(socket_folder: &Path) -> Result<Answer, sqlx::Error> {
    let url = url(socket_folder, "postgres");
    let asked = async {
        let mut connection = PgConnection::connect(&url).await?;
        let asked = sqlx::query("SELECT current_setting('data_directory'), current_setting('fsync')");
        let row = asked.fetch_one(&mut connection).await?;
        let (folder, fsync): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        connection.close().await?;
        Ok(Answer { data_directory: PathBuf::from(folder), fsync: fsync == "on" })
    };
    match tokio::time::timeout(PROBE, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

/// A URL that sqlx and libpq both read. The port is named because `PGPORT` would fill it in otherwise.
pub(super) fn url(socket_folder: &Path, database: &str) -> String {
    let host = percent(socket_folder.as_os_str().as_bytes());
    let database = percent(database.as_bytes());
    format!("postgres://{USER}@localhost:5432/{database}?host={host}&sslmode=disable")
}

fn percent(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(*byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// `postmaster.pid`: line 1 the pid, line 5 the first socket folder.
pub(super) fn read_pid_file(cluster: &Path) -> Option<PidFile> {
    let text = std::fs::read(cluster.join("postmaster.pid")).ok()?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let pid = std::str::from_utf8(lines.next()?).ok()?.trim().parse().ok()?;
    let folder = lines.nth(3).filter(|line| !line.is_empty());
    Some(PidFile { pid, socket_folder: folder.map(|line| PathBuf::from(std::ffi::OsStr::from_bytes(line))) })
}

/// A process of another user answers EPERM: alive.
pub(super) fn is_alive(pid: i32) -> bool {
    pid > 1 && !matches!(kill(Pid::from_raw(pid), None), Err(nix::errno::Errno::ESRCH))
}

/// Whether `pid` is a `postgres` that was started on this cluster. A zombie has no command line, so it is not.
pub(super) fn is_server_of(pid: i32, cluster: &Path) -> bool {
    let wanted = cluster.as_os_str().as_bytes();
    if let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) {
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().map(std::ffi::OsStr::from_bytes).map(Path::new);
        let postgres = program.and_then(Path::file_name).is_some_and(|name| name == "postgres");
        let here = std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder == cluster);
        return postgres && (here || words.any(|word| word == wanted));
    }
    if Path::new("/proc/self").exists() {
        return false;
    }
    let said = std::process::Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output();
    said.is_ok_and(|said| {
        let line = said.stdout;
        line.windows(8).any(|part| part == b"postgres") && line.windows(wanted.len()).any(|part| part == wanted)
    })
}

/// True once the server with this pid has left the cluster.
pub(super) fn is_gone(pid: i32, cluster: &Path) -> bool {
    read_pid_file(cluster).is_none_or(|file| file.pid != pid) || !is_alive(pid)
}

/// Asks the server to end: SIGINT ends sessions and writes a checkpoint, SIGQUIT ends at once and recovers next time.
pub(super) fn ask_to_end(pid: i32, signal: Signal) {
    if let Err(error) = kill(Pid::from_raw(pid), signal) {
        tracing::debug!(pid, %error, "the private Postgres was already gone");
    }
}
