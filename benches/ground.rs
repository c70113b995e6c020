//! What every benchmark stands on: a folder, a private Postgres with the schema and one owner's key, and programs that
//! end with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use interlock::domain::api_key::FreshKey;
use interlock::domain::ids::{ApiKeyId, OwnerId};
use interlock::local::postgres::PrivatePostgres;
use interlock::store::Store;
use providers::adapter::Secret;
use tokio::net::TcpStream;

pub struct Ground {
    /// The database's address.
    pub url: String,
    /// The owner's key.
    pub key: String,
    postgres: PrivatePostgres,
    folder: tempfile::TempDir,
}

impl Ground {
    /// With the store that made it, and the owner; whoever needs no store closes it.
    pub async fn start() -> (Ground, Store, OwnerId) {
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let postgres = PrivatePostgres::start(&folder.path().join("data")).await.expect("a Postgres");
        postgres.ensure_database("bench").await.expect("a database");
        let url = postgres.url("bench");
        let store = Store::connect(&Secret::new(url.clone()), 2).await.expect("a store");
        store.migrate().await.expect("a schema");
        let key = FreshKey::from_random([9; 38]);
        let owner = store.ensure_owner("bench").await.expect("an owner");
        store.create_key(ApiKeyId::fresh(), owner, &key.public_id, key.secret_sha256, None).await.expect("a key");
        (Ground { url, key: key.reveal().to_owned(), postgres, folder }, store, owner)
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub async fn stop(self) {
        self.postgres.stop().await.expect("Postgres stops");
        drop(self.folder);
    }
}

/// A child that does not outlive this program, however it ends.
pub struct Process(pub Child);

impl Process {
    pub fn spawn(command: &mut Command) -> Process {
        Process(command.spawn().expect("it starts"))
    }

    /// `program serve` under these settings, once it answers at `address`.
    pub async fn gateway(
        program: &str,
        file: &Path,
        settings: &str,
        address: SocketAddr,
        environment: &[(&str, String)],
    ) -> Process {
        std::fs::write(file, settings).expect("settings");
        let mut command = Command::new(program);
        command.args(["serve", "--config"]).arg(file).env("INTERLOCK_LOG", "error").stdout(Stdio::null());
        let process = Process::spawn(command.envs(environment.iter().map(|(name, value)| (name, value))));
        answers(address).await;
        process
    }

    /// Resident memory, kB.
    #[allow(dead_code, reason = "not every benchmark asks")]
    pub fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
        line.split_whitespace().nth(1).expect("a figure").parse().expect("kB")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until somebody listens there.
pub async fn answers(address: SocketAddr) {
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).await.is_err() {
        assert!(Instant::now() < until, "{address} does not answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A port that was free a moment ago.
pub fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address")
}
