//! The gateways: the real binary in processes of their own, each on ports that it keeps over its deaths.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::history::History;
use crate::settings::Addresses;

/// How long a gateway may take to listen, database outages included.
const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Fleet {
    pub gateways: Vec<Gateway>,
}

#[derive(Debug)]
pub struct Gateway {
    pub name: String,
    pub at: Addresses,
    folder: PathBuf,
    history: Arc<History>,
    /// Held by whoever is killing, stopping or starting it.
    child: Mutex<Option<Child>>,
}

impl Fleet {
    /// `settings` writes one gateway's file.
    pub fn new(n: usize, folder: &Path, history: &Arc<History>, settings: impl Fn(Addresses) -> String) -> Fleet {
        let gateways = (0..n).map(|i| {
            let at = Addresses::free();
            let name = format!("gateway-{i}");
            std::fs::write(folder.join(format!("{name}.toml")), settings(at)).expect("the settings are written");
            Gateway { name, at, folder: folder.to_owned(), history: Arc::clone(history), child: Mutex::new(None) }
        });
        Fleet { gateways: gateways.collect() }
    }

    pub async fn start(&self) {
        for gateway in &self.gateways {
            let mut child = gateway.child.lock().await;
            gateway.launch(&mut child).await;
        }
    }

    /// A gateway that panics has a bug, whatever becomes of its jobs.
    pub fn panics(&self) -> Vec<String> {
        let logs = self.gateways.iter().map(|g| (g, std::fs::read_to_string(g.log()).unwrap_or_default()));
        let panics = logs.flat_map(|(gateway, log)| {
            let lines = log.lines().filter(|line| line.contains("panicked at")).map(str::to_owned).collect::<Vec<_>>();
            lines.into_iter().map(|line| format!("PANIC: {}: {line}", gateway.name))
        });
        panics.collect()
    }

    /// What every gateway has logged.
    pub fn keep_logs(&self, at: &Path) {
        for gateway in &self.gateways {
            let _ = std::fs::copy(gateway.log(), at.with_extension(format!("{}.log", gateway.name)));
        }
    }
}

impl Gateway {
    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// Starts it, again and again while the database is away, until it listens.
    async fn launch(&self, child: &mut Option<Child>) {
        let until = Instant::now() + START_LIMIT;
        while Instant::now() < until {
            let log = std::fs::File::options().create(true).append(true).open(self.log()).expect("a log file");
            let mut started = Command::new(env!("CARGO_BIN_EXE_interlock"))
                .args(["--config", &self.folder.join(format!("{}.toml", self.name)).display().to_string(), "serve"])
                .env("INTERLOCK_LOG", "info,sqlx=off")
                .current_dir(&self.folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                // A group of its own: a stopped member would cost the whole group a SIGHUP when its shell ends.
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
                .expect("the binary starts");
            let pid = pid_of(&started);
            let _ = std::fs::write(self.pid_file(pid), "");
            self.history.note(&self.name, "gateway.spawn", json!({ "pid": pid }));
            while Instant::now() < until && matches!(started.try_wait(), Ok(None)) {
                if TcpStream::connect(self.at.operator).await.is_ok() {
                    *child = Some(started);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            self.gone(pid, "ended");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{} does not start:\n{}", self.name, std::fs::read_to_string(self.log()).unwrap_or_default());
    }

    fn pid_file(&self, pid: i32) -> PathBuf {
        self.folder.join("pids").join(pid.to_string())
    }

    fn gone(&self, pid: i32, how: &str) {
        let _ = std::fs::remove_file(self.pid_file(pid));
        self.history.note(&self.name, "gateway.gone", json!({ "pid": pid, "how": how }));
    }

    /// `kill -9`, `pause`, and a new process.
    pub async fn kill_and_restart(&self, pause: Duration) {
        let mut child = self.child.lock().await;
        if let Some(mut old) = child.take() {
            let pid = pid_of(&old);
            self.history.note(&self.name, "gateway.kill", json!({ "pid": pid }));
            let _ = old.kill().await;
            self.gone(pid, "killed");
        }
        tokio::time::sleep(pause).await;
        self.launch(&mut child).await;
    }

    /// SIGTERM, as a rolling restart does it; SIGKILL when it does not end in time.
    pub async fn drain_and_restart(&self) {
        let mut child = self.child.lock().await;
        if let Some(mut old) = child.take() {
            let pid = pid_of(&old);
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            if tokio::time::timeout(Duration::from_secs(8), old.wait()).await.is_err() {
                let _ = old.kill().await;
            }
            self.gone(pid, "drained");
        }
        self.launch(&mut child).await;
    }

    /// SIGSTOP, `pause`, SIGCONT.
    pub async fn stop_and_continue(&self, pause: Duration) {
        let child = self.child.lock().await;
        let Some(pid) = child.as_ref().map(pid_of) else { return };
        let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
        tokio::time::sleep(pause).await;
        let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
    }

    /// Whether nobody is killing, stopping or starting it.
    pub fn is_left_alone(&self) -> bool {
        self.child.try_lock().is_ok()
    }

    /// At the end of the run.
    pub async fn end(&self) {
        if let Some(mut child) = self.child.lock().await.take() {
            let pid = pid_of(&child);
            let _ = child.kill().await;
            let _ = std::fs::remove_file(self.pid_file(pid));
        }
    }
}

fn pid_of(child: &Child) -> i32 {
    child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0)
}
