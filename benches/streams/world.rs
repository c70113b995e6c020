//! The gateway in a process of its own on a private Postgres, and a client that reads streams as they come.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use interlock::domain::api_key::FreshKey;
use interlock::domain::ids::ApiKeyId;
use interlock::local::postgres::PrivatePostgres;
use interlock::store::Store;
use providers::adapter::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::upstream::Upstream;

pub struct World {
    pub gateway: SocketAddr,
    pub upstream: SocketAddr,
    provider: Upstream,
    postgres: PrivatePostgres,
    process: Child,
    key: String,
    folder: tempfile::TempDir,
}

/// What one stream showed.
#[derive(Debug)]
pub struct Read {
    pub first_content: Duration,
    pub events: usize,
}

impl World {
    pub async fn start() -> World {
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let provider = Upstream::start().await;
        let postgres = PrivatePostgres::start(&folder.path().join("data")).await.expect("a Postgres");
        postgres.ensure_database("bench").await.expect("a database");
        let url = postgres.url("bench");
        let store = Store::connect(&Secret::new(url.clone()), 2).await.expect("a store");
        store.migrate().await.expect("a schema");
        let key = FreshKey::from_random([9; 38]);
        let owner = store.ensure_owner("bench").await.expect("an owner");
        store.create_key(ApiKeyId::fresh(), owner, &key.public_id, key.secret_sha256, None).await.expect("a key");
        store.close().await;
        let gateway = free_address();
        let settings = format!(
            "[server]\nlisten = \"{gateway}\"\noperator_listen = \"127.0.0.1:0\"\nmax_connections = 4096\n[database]\nurl = \"{url}\"\n[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://{}/v1\"\n[routes.support]\ntargets = [\"alpha/m\"]\nattempt_timeout = \"5m\"\nidle_timeout = \"5m\"\n",
            provider.address
        );
        let file = folder.path().join("interlock.toml");
        std::fs::write(&file, settings).expect("settings");
        let process = Command::new(env!("CARGO_BIN_EXE_interlock"))
            .args(["serve", "--config"])
            .arg(&file)
            .env("INTERLOCK_LOG", "error")
            .stdout(Stdio::null())
            .spawn()
            .expect("the gateway");
        let world = World {
            gateway,
            upstream: provider.address,
            provider,
            postgres,
            process,
            key: key.reveal().to_owned(),
            folder,
        };
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(gateway).await.is_err() {
            assert!(Instant::now() < until, "the gateway did not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        world
    }

    pub async fn stop(mut self) {
        self.process.kill().expect("it can be stopped");
        self.process.wait().expect("its end");
        self.postgres.stop().await.expect("Postgres stops");
        drop(self.folder);
    }

    /// A streamed chat request as bytes, good for the gateway and for the provider itself.
    pub fn call(&self, idempotency_key: &str, prompt: &str) -> String {
        let body = format!(
            "{{\"model\":\"support\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}"
        );
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: {idempotency_key}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.key,
            body.len()
        )
    }

    pub fn release(&self) {
        self.provider.release();
    }

    pub async fn wait_for_held(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.provider.held.load(Ordering::SeqCst) < count {
            assert!(
                Instant::now() < until,
                "{} of {count} streams are open",
                self.provider.held.load(Ordering::SeqCst)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The last chunk is on its way through the gateway.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    /// User and system time of the gateway so far. A tick is 10 ms on Linux.
    pub fn gateway_cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("Linux");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("ticks")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory of the gateway, kB.
    pub fn gateway_rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
        line.split_whitespace().nth(1).expect("a figure").parse().expect("kB")
    }
}

/// A port that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address")
}

/// Sends the call and reads to the end.
pub async fn stream(at: SocketAddr, call: &str) -> Read {
    let began = Instant::now();
    let mut connection = TcpStream::connect(at).await.expect("a connection");
    connection.set_nodelay(true).expect("a socket");
    connection.write_all(call.as_bytes()).await.expect("the call is sent");
    let (mut buffer, mut first, mut events, mut tail) = (vec![0; 64 << 10], None, 0, Vec::new());
    loop {
        let read = connection.read(&mut buffer).await.expect("the stream");
        if read == 0 {
            break;
        }
        tail.extend_from_slice(&buffer[..read]);
        if first.is_none() && tail.windows(6).any(|w| w == b"token ") {
            first = Some(began.elapsed());
        }
        events += count(&tail, b"data: {");
        let keep = tail.len().min(6);
        tail.drain(..tail.len() - keep);
    }
    Read { first_content: first.unwrap_or_else(|| began.elapsed()), events }
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|window| *window == what).count()
}

pub fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort();
    values[(values.len() - 1) * percent / 100]
}
