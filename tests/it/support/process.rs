//! The real binary in a process of its own, for what only a process can do: die, be told to stop, share a database.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use interlock::store::Store;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use providers::adapter::Secret;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::app::make_key;
use super::client::Client;
use super::cluster::Database;
use super::settings::{OPERATOR_TOKEN, Settings};

/// How long a gateway may take to start, or to stop.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Process {
    pub application: SocketAddr,
    pub operator: SocketAddr,
    pub database: Arc<Database>,
    child: Child,
    log: PathBuf,
    _folder: TempDir,
}

impl Process {
    /// `interlock serve` on this database. It dies with this handle.
    pub async fn spawn(database: &Arc<Database>, settings: &Settings) -> Process {
        let folder = TempDir::new().expect("a folder for the settings");
        let config = folder.path().join("interlock.toml");
        std::fs::write(&config, settings.to_toml(folder.path(), &database.url)).expect("the settings are written");
        let log = folder.path().join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_interlock"))
            .arg("--config")
            .arg(&config)
            .arg("serve")
            .env("INTERLOCK_LOG", "debug,sqlx=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("a log file"))
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            match tokio::time::timeout(LIMIT, lines.next_line()).await {
                Ok(Ok(Some(line))) => {
                    addresses.extend(
                        line.split_once("http://").map(|(_, at)| at.parse::<SocketAddr>().expect("an address")),
                    );
                }
                _ => panic!("the gateway did not start:\n{}", std::fs::read_to_string(&log).unwrap_or_default()),
            }
        }
        Process {
            application: addresses[0],
            operator: addresses[1],
            database: database.clone(),
            child,
            log,
            _folder: folder,
        }
    }

    /// An application of this owner, with a fresh API key.
    pub async fn client(&self, owner: &str) -> Client {
        let store = Store::connect(&Secret::new(self.database.url.clone()), 1).await.expect("the database answers");
        let token = make_key(&store, owner, None).await;
        store.close().await;
        Client { address: self.application, token }
    }

    pub fn operator(&self) -> Client {
        Client { address: self.operator, token: OPERATOR_TOKEN.to_owned() }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().and_then(|id| i32::try_from(id).ok()).expect("it runs")
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("it can be signalled");
    }

    /// `kill -9`, and its end.
    pub async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    /// Waits, bounded, for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it still runs after {LIMIT:?}:\n{}", self.log())).expect("its end")
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
