//! The gateway in a process of its own on a private Postgres, and a client that reads streams as they come.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ground::{Ground, Process, free_address};
use super::upstream::Upstream;

pub struct World {
    pub gateway: SocketAddr,
    pub upstream: SocketAddr,
    provider: Upstream,
    process: Process,
    ground: Ground,
}

/// What one stream showed.
#[derive(Debug)]
pub struct Read {
    pub first_content: Duration,
    pub events: usize,
    /// Told to come back later.
    pub is_refused: bool,
}

impl World {
    pub async fn start() -> World {
        let (ground, store, _) = Ground::start().await;
        store.close().await;
        let provider = Upstream::start().await;
        let gateway = free_address();
        let settings = format!(
            "[server]\nlisten = \"{gateway}\"\noperator_listen = \"127.0.0.1:0\"\nmax_connections = 8192\n[database]\nurl = \"{url}\"\n[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://{}/v1\"\n[routes.support]\ntargets = [\"alpha/m\"]\nattempt_timeout = \"5m\"\nidle_timeout = \"5m\"\n",
            provider.address,
            url = ground.url
        );
        let file = ground.file("interlock.toml");
        let process = Process::gateway(env!("CARGO_BIN_EXE_interlock"), &file, &settings, gateway, &[]).await;
        World { gateway, upstream: provider.address, provider, process, ground }
    }

    pub async fn stop(self) {
        drop(self.process);
        self.ground.stop().await;
    }

    /// A streamed chat request as bytes, good for the gateway and for the provider itself.
    pub fn call(&self, idempotency_key: &str, prompt: &str) -> String {
        let body = format!(
            "{{\"model\":\"support\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}"
        );
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: {idempotency_key}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.ground.key,
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
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.0.id())).expect("Linux");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("ticks")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory of the gateway, kB.
    pub fn gateway_rss(&self) -> u64 {
        self.process.rss()
    }
}

/// Sends the call and reads to the end.
pub async fn stream(at: SocketAddr, call: &str) -> Read {
    let began = Instant::now();
    let mut connection = TcpStream::connect(at).await.expect("a connection");
    connection.set_nodelay(true).expect("a socket");
    connection.write_all(call.as_bytes()).await.expect("the call is sent");
    let (mut buffer, mut first, mut events, mut tail) = (vec![0; 64 << 10], None, 0, Vec::new());
    let mut head = None;
    loop {
        let read = connection.read(&mut buffer).await.expect("the stream");
        if read == 0 {
            break;
        }
        tail.extend_from_slice(&buffer[..read]);
        head.get_or_insert_with(|| tail.starts_with(b"HTTP/1.1 503"));
        if first.is_none() && tail.windows(6).any(|w| w == b"token ") {
            first = Some(began.elapsed());
        }
        events += count(&tail, b"data: {");
        let keep = tail.len().min(6);
        tail.drain(..tail.len() - keep);
    }
    Read { first_content: first.unwrap_or_else(|| began.elapsed()), events, is_refused: head == Some(true) }
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|window| *window == what).count()
}

pub fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort();
    values[(values.len() - 1) * percent / 100]
}
