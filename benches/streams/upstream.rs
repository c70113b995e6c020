//! A provider that streams as the prompt says: `burst N` chunks at once, or one chunk and then `hold` until released.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const CHUNK: &str = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}]}"#;
const END: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[derive(Debug)]
pub struct Upstream {
    pub address: SocketAddr,
    pub held: Arc<AtomicUsize>,
    release: watch::Sender<u64>,
    _server: JoinSet<()>,
}

impl Upstream {
    pub async fn start() -> Upstream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (release, released) = watch::channel(0);
        let held = Arc::new(AtomicUsize::new(0));
        let counter = held.clone();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, released.clone(), counter.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Upstream { address, held, release, _server: server }
    }

    pub fn release(&self) {
        self.release.send_modify(|n| *n += 1);
    }
}

async fn serve(mut connection: TcpStream, mut released: watch::Receiver<u64>, held: Arc<AtomicUsize>) -> Option<()> {
    connection.set_nodelay(true).ok()?;
    released.mark_unchanged();
    let request = read(&mut connection).await?;
    connection.write_all(HEAD.as_bytes()).await.ok()?;
    let chunk = format!("{CHUNK}\n\n");
    if let Some(at) = request.find("burst ") {
        let count: usize =
            request[at + 6..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()?;
        connection.write_all(chunk.as_bytes()).await.ok()?;
        for _ in 1..count {
            connection.write_all(chunk.as_bytes()).await.ok()?;
        }
    } else {
        connection.write_all(chunk.as_bytes()).await.ok()?;
        held.fetch_add(1, Ordering::SeqCst);
        released.changed().await.ok()?;
        held.fetch_sub(1, Ordering::SeqCst);
    }
    connection.write_all(END.as_bytes()).await.ok()
}

async fn read(connection: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = connection.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(text.into_owned());
        }
    }
}
