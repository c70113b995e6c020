//! Making a cluster and starting a server on it: the programs, their environment, the settings.
//!
//! Settings go on the command line, so that they are those of this program and not those of the day the cluster was
//! made. The server must never see this program's environment: that is where the provider keys are.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::PostgresError;
use super::account::Account;
use super::binaries::Binaries;
use super::place::Place;

/// The superuser inside the private server.
pub(super) const USER: &str = "interlock";

/// All that a child inherits: where programs, libraries, locales and time zones are.
const KEPT_ENVIRONMENT: [&str; 6] =
    ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "LOCALE_ARCHIVE", "TZDIR"];

/// What the server promises about a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// A commit is on the disk before it is answered.
    Kept,
    /// For tests: nothing is flushed, and a crash of the machine costs the cluster.
    ThrownAway,
}

impl Durability {
    fn settings(self) -> [&'static str; 4] {
        match self {
            Durability::Kept => ["fsync=on", "full_page_writes=on", "synchronous_commit=on", "max_connections=100"],
            Durability::ThrownAway => {
                ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=300"]
            }
        }
    }
}

/// The same for every server.
const SETTINGS: [&str; 12] = [
    // Other machines, and other users of this one, have no way in: see `super`.
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "port=5432",
    "shared_buffers=128MB",
    "timezone=UTC",
    "log_timezone=UTC",
    "max_wal_size=2GB",
    // Short statements only: compiling one costs more than running it.
    "jit=off",
    "logging_collector=off",
    "log_line_prefix=%m [%p] ",
    // The details of an error repeat the row's values, and those are prompts and keys.
    "log_error_verbosity=terse",
    "cluster_name=interlock",
];

/// `program` as the server's user with a bare environment, in a process group of its own: a Ctrl-C in the terminal
/// must reach this program first, which drains and then stops the server.
pub(super) fn command(program: &Path, account: &Account, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").current_dir(folder).stdin(Stdio::null()).process_group(0);
    for name in KEPT_ENVIRONMENT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    account.apply(&mut command);
    command
}

/// Makes the cluster if there is none. It is made under another name and moved into place: half a cluster is never
/// taken for a whole one.
pub(super) async fn make(place: &Place, binaries: &Binaries, durability: Durability) -> Result<(), PostgresError> {
    let cluster = place.cluster();
    if cluster.join("PG_VERSION").exists() {
        return Ok(());
    }
    let half = place.home.join("data.new");
    if half.exists() {
        std::fs::remove_dir_all(&half).map_err(|source| PostgresError::io("remove", &half, source))?;
    }
    let mut initdb = command(&binaries.initdb, &place.account, &place.home);
    // `trust` is safe here because of who can reach the socket: see `super`.
    initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions", "--username", USER, "-D"]);
    initdb.arg(&half).kill_on_drop(true);
    if durability == Durability::ThrownAway {
        initdb.arg("--no-sync");
    }
    let failed = |source| PostgresError::io("run", &binaries.initdb, source);
    let said = initdb.output().await.map_err(failed)?;
    if !said.status.success() {
        let stderr = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        return Err(PostgresError::InitFailed { folder: half, status: said.status, said: stderr });
    }
    std::fs::rename(&half, &cluster).map_err(|source| PostgresError::io("move into place", &half, source))?;
    tracing::info!(cluster = %cluster.display(), major = binaries.major, "private Postgres created");
    Ok(())
}

/// Starts the server. `stale` is the process id in a left-over pid file that belongs to another program.
pub(super) fn launch(
    place: &Place,
    binaries: &Binaries,
    durability: Durability,
    socket_folder: &Path,
    stale: Option<i32>,
) -> Result<(Child, u64), PostgresError> {
    let (log, since) = place.open_log()?;
    let again = log.try_clone().map_err(|source| PostgresError::io("open", &place.log(), source))?;
    let mut postgres = command(&binaries.postgres, &place.account, &place.home);
    postgres.arg("-D").arg(place.cluster());
    for setting in SETTINGS.iter().chain(&durability.settings()) {
        postgres.args(["-c", setting]);
    }
    postgres.arg("-c").arg(socket_setting(socket_folder));
    if let Some(pid) = stale {
        // Postgres takes a live process with the pid of its left-over file for a second server, unless it is told that
        // this is its own ancestor. Deleting the file instead would also delete the key of the shared memory, by which
        // it notices backends that outlived their postmaster.
        postgres.env("PG_GRANDPARENT_PID", pid.to_string());
    }
    let child = postgres.stdout(log).stderr(again).spawn();
    let child = child.map_err(|source| PostgresError::io("run", &binaries.postgres, source))?;
    Ok((child, since))
}

/// The setting is a list with quoting of its own: quoted, so that a comma or a space stays part of the name.
fn socket_setting(folder: &Path) -> std::ffi::OsString {
    let mut setting = b"unix_socket_directories=\"".to_vec();
    for byte in folder.as_os_str().as_bytes() {
        if *byte == b'"' {
            setting.push(b'"');
        }
        setting.push(*byte);
    }
    setting.push(b'"');
    std::os::unix::ffi::OsStringExt::from_vec(setting)
}
