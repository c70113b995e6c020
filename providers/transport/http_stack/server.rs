//! A scripted provider on a raw socket: it does to each connection what the script says, and counts what it read.

#![expect(clippy::disallowed_methods, reason = "a scripted server has no engine to tell its tasks' end to")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One thing to do to a connection.
#[derive(Debug, Clone)]
pub enum Step {
    /// Read one whole request: its head, and as much body as its `content-length` says.
    ReadRequest,
    /// Read this many bytes, of whatever.
    ReadBytes(usize),
    Write(Vec<u8>),
    /// Say nothing for so long.
    Pause(Duration),
    /// Read and forget until the client goes.
    Drain,
    /// Close with a reset instead of a FIN.
    Reset,
}

#[derive(Debug, Default)]
pub struct Seen {
    pub connections: AtomicUsize,
    pub bytes: AtomicUsize,
    /// Whole requests.
    pub requests: AtomicUsize,
}

#[derive(Debug)]
pub struct Server {
    pub port: u16,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// The n-th connection gets the n-th script; the last one serves all that follow.
    pub async fn start(scripts: Vec<Vec<Step>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        let counted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let n = counted.connections.fetch_add(1, SeqCst);
                let script = scripts[n.min(scripts.len() - 1)].clone();
                tokio::spawn(play(stream, script, Arc::clone(&counted)));
            }
        });
        Server { port, seen, task }
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    pub fn bytes(&self) -> usize {
        self.seen.bytes.load(SeqCst)
    }

    pub fn requests(&self) -> usize {
        self.seen.requests.load(SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn play(mut stream: TcpStream, script: Vec<Step>, seen: Arc<Seen>) {
    for step in script {
        match step {
            Step::ReadRequest => {
                if read_request(&mut stream, &seen).await.is_none() {
                    return;
                }
                seen.requests.fetch_add(1, SeqCst);
            }
            Step::ReadBytes(count) => {
                let mut left = count;
                while left > 0 {
                    let Some(read) = read(&mut stream, left, &seen).await else { return };
                    left -= read.len();
                }
            }
            Step::Write(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Drain => while read(&mut stream, 65_536, &seen).await.is_some() {},
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream, most: usize, seen: &Seen) -> Option<Vec<u8>> {
    let mut buffer = vec![0; most.min(65_536)];
    let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
    seen.bytes.fetch_add(count, SeqCst);
    buffer.truncate(count);
    Some(buffer)
}

async fn read_request(stream: &mut TcpStream, seen: &Seen) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        bytes.extend(read(stream, 65_536, seen).await?);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        if bytes.len() >= end + 4 + length {
            return Some(());
        }
    }
}
