//! The run's own Postgres: a cluster of its own, which can be killed like a machine that loses power over its processes,
//! and started again on the same files and the same socket.
//!
//! The library starts it first. After a kill it is started again by the very command line that the first one had.
//! A small shell waits for this process to end, by `kill -9` too, and then stops what is left.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use interlock::local::postgres::PrivatePostgres;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection};
use tokio::process::Child;

/// How long crash recovery may take.
const READY_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Server {
    pub folder: PathBuf,
    pub url: String,
    recipe: Recipe,
    child: Option<Child>,
    _first: PrivatePostgres,
    /// Closed when this process ends: that is the signal to clean up.
    _lifeline: ChildStdin,
}

/// How the first server was started.
#[derive(Debug)]
struct Recipe {
    arguments: Vec<std::ffi::OsString>,
    folder: PathBuf,
    uid: u32,
    gid: u32,
}

const CLEAN_UP: &str = r#"
trap '' INT TERM HUP
read _
for pid in "$1"/pids/*; do [ -e "$pid" ] && kill -9 "$(basename "$pid")" 2>/dev/null; done
pid=$(head -n 1 "$1/postgres/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -QUIT "$pid" 2>/dev/null
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
fi
rm -rf "$1"
"#;

impl Server {
    /// Durable settings: what was committed must survive the kill.
    pub async fn start() -> Server {
        let folder = tempfile::Builder::new()
            .prefix("interlock-history-")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder for the cluster")
            .keep();
        std::fs::create_dir(folder.join("pids")).expect("a folder for process ids");
        let lifeline = watch_over(&folder);
        let first = PrivatePostgres::start(&folder).await.expect("a private Postgres");
        first.ensure_database("history").await.expect("a database");
        let recipe = Recipe::of(postmaster(&folder).expect("the server's process id"));
        let url = first.url("history");
        let mut server = Server { folder, url, recipe, child: None, _first: first, _lifeline: lifeline };
        server.kill_and_restart(Duration::ZERO).await;
        server
    }

    /// SIGKILL for the postmaster and everything that it started, then `pause`, then a new start.
    pub async fn kill_and_restart(&mut self, pause: Duration) {
        let Some(pid) = postmaster(&self.folder) else { return };
        let mut family = children(pid);
        family.insert(0, pid);
        for process in &family {
            let _ = kill(Pid::from_raw(*process), Signal::SIGKILL);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait().await;
        }
        tokio::time::sleep(pause).await;
        let until = Instant::now() + READY_LIMIT;
        while Instant::now() < until {
            self.child = Some(self.recipe.run(pid, &self.folder.join("postgres.log")));
            if self.is_ready(until).await {
                return;
            }
        }
        panic!("Postgres does not come back; its log is {}", self.folder.join("postgres.log").display());
    }

    /// Waits until it answers. False: it has ended instead, as it does while a backend of its predecessor lives.
    async fn is_ready(&mut self, until: Instant) -> bool {
        while Instant::now() < until {
            if let Some(child) = &mut self.child
                && !matches!(child.try_wait(), Ok(None))
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
                return false;
            }
            if let Ok(connection) = PgConnection::connect(&self.url).await {
                let _ = connection.close().await;
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    /// Ends a server that was started here; the library ends its own.
    pub async fn stop(&mut self) {
        if let (Some(mut child), Some(pid)) = (self.child.take(), postmaster(&self.folder)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGQUIT);
            let _ = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
        }
    }
}

impl Recipe {
    fn of(pid: i32) -> Recipe {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let line = std::fs::read(place.join("cmdline")).expect("the server's command line");
        let arguments = line.split(|b| *b == 0).filter(|part| !part.is_empty());
        let arguments = arguments.map(|part| std::ffi::OsString::from_vec(part.to_vec())).collect();
        let folder = std::fs::read_link(place.join("cwd")).expect("the server's folder");
        let owner = std::fs::metadata(&place).expect("the server's user");
        Recipe { arguments, folder, uid: owner.uid(), gid: owner.gid() }
    }

    fn run(&self, predecessor: i32, log: &Path) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(log).expect("the server's log");
        let mut command = tokio::process::Command::new(&self.arguments[0]);
        // A killed process loses nothing that it has written: only a machine that dies would, and none does here.
        // Without this, recovery first flushes every file of the cluster.
        command
            .args(&self.arguments[1..])
            .args(["-c", "fsync=off"])
            .env_clear()
            .env("LC_ALL", "C")
            .current_dir(&self.folder);
        // A predecessor that nobody has waited for is a zombie with the pid of the left-over file: not a rival.
        command.env("PG_GRANDPARENT_PID", predecessor.to_string());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log twice")).stderr(log);
        if nix::unistd::geteuid().is_root() {
            command.uid(self.uid).gid(self.gid);
        }
        command.process_group(0).kill_on_drop(true).spawn().expect("Postgres starts again")
    }
}

fn postmaster(folder: &Path) -> Option<i32> {
    let file = std::fs::read_to_string(folder.join("postgres/data/postmaster.pid")).ok()?;
    file.lines().next()?.trim().parse().ok()
}

/// The processes whose parent this is.
fn children(parent: i32) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        after_name.split_whitespace().nth(1).and_then(|ppid| ppid.parse().ok()) == Some(parent)
    };
    pids.filter(is_child).collect()
}

#[expect(clippy::zombie_processes, reason = "it outlives this process, whose end it waits for")]
fn watch_over(folder: &Path) -> ChildStdin {
    use std::os::unix::process::CommandExt;
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
