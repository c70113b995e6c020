//! HTTP/1.1 by hand, so that the client takes as little of the shared cores as can be; and the provider, which answers
//! every request at once with the same sound completion.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A kept-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(at: SocketAddr) -> Connection {
        let stream = TcpStream::connect(at).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Connection { stream, buffer: Vec::with_capacity(8 << 10) }
    }

    /// Sends a request and reads its whole answer; its status.
    pub async fn call(&mut self, request: &str) -> u16 {
        self.stream.write_all(request.as_bytes()).await.expect("the call is sent");
        let head = message(&mut self.stream, &mut self.buffer).await.expect("an answer");
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }
}

/// Reads one message with a `content-length` and forgets its body; its head. `None`: the peer has closed.
async fn message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next()?.parse().ok());
            let length: usize = length.unwrap_or(0);
            while buffer.len() < end + 4 + length {
                more(stream, buffer).await?;
            }
            buffer.drain(..end + 4 + length);
            return Some(head);
        }
        more(stream, buffer).await?;
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(buffer).await.ok()? > 0).then_some(())
}

#[derive(Debug)]
pub struct Provider {
    pub address: SocketAddr,
    _server: JoinSet<()>,
}

const ANSWER: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"The refund is on its way."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27}}"#;

impl Provider {
    pub async fn start() -> Provider {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}",
                        ANSWER.len()
                    );
                    let mut buffer = Vec::with_capacity(4 << 10);
                    while message(&mut stream, &mut buffer).await.is_some() {
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Provider { address, _server: server }
    }
}
