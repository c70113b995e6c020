//! The cheapest HTTP that will do: a provider that always says the same, and clients that each keep one connection and
//! ask again as soon as they are answered.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

/// A request that holds this is answered after a second.
pub const SLOW: &str = "Take your time.";
/// A client that was refused asks again.
const BACK_AFTER: Duration = Duration::from_millis(100);

/// Serves for ever, on this thread.
pub async fn mock(address: SocketAddr) {
    let words = "All work and no play makes a dull model. ".repeat(18);
    let body = format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{words}"}},"finish_reason":"stop","logprobs":null}}],"usage":{{"prompt_tokens":200,"completion_tokens":180,"total_tokens":380}}}}"#
    );
    let answer: Rc<str> =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .into();
    let listener = TcpListener::bind(address).await.expect("the address");
    LocalSet::new()
        .run_until(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let answer = Rc::clone(&answer);
                tokio::task::spawn_local(async move {
                    connection.set_nodelay(true).expect("a socket");
                    let mut buffer = Vec::with_capacity(8192);
                    while read(&mut connection, &mut buffer).await.is_some() {
                        if buffer.windows(SLOW.len()).any(|w| w == SLOW.as_bytes()) {
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                        if connection.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        })
        .await;
}

/// Reads one message; its head's first line. `None`: the other side is gone.
async fn read(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<u16> {
    buffer.clear();
    loop {
        if connection.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
        let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&buffer[..end]).ok()?;
        let header = |wanted: &str| {
            let mut headers = head.lines().filter_map(|line| line.split_once(": "));
            headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        let all = end + 4 + header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let chunked = header("transfer-encoding") == Some("chunked");
        let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        while buffer.len() < all || (chunked && !buffer.ends_with(b"0\r\n\r\n")) {
            if connection.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
        return Some(status);
    }
}

/// What one run of clients came to.
#[derive(Debug, Clone)]
pub struct Run {
    pub requests: usize,
    pub took: Duration,
    pub p50: Duration,
    pub p99: Duration,
    /// Of the fastest and the slowest.
    pub extremes: (Duration, Duration),
}

impl Run {
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

async fn ask(connection: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> Option<u16> {
    connection.write_all(request).await.expect("it is sent");
    read(connection, buffer).await
}

/// `clients` at once for `time`, each at least once; `call` makes the request that the client (first number) sends as
/// its so-manieth.
pub async fn load(
    at: SocketAddr,
    clients: usize,
    time: Duration,
    call: impl Fn(usize, usize) -> Vec<u8> + 'static,
) -> Run {
    let call = Rc::new(call);
    let mut connections = Vec::new();
    for _ in 0..clients {
        let connection = TcpStream::connect(at).await.expect("a connection");
        connection.set_nodelay(true).expect("a socket");
        connections.push(connection);
    }
    let began = Instant::now();
    let local = LocalSet::new();
    let tasks: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(client, mut connection)| {
            let call = Rc::clone(&call);
            local.spawn_local(async move {
                let (mut times, mut buffer) = (Vec::new(), Vec::with_capacity(8192));
                while times.is_empty() || began.elapsed() < time {
                    let request = call(client, times.len());
                    let sent = Instant::now();
                    let mut status = ask(&mut connection, &request, &mut buffer).await;
                    // A crowd is told to come back: it does, and the time counts.
                    while status == Some(503) {
                        tokio::time::sleep(BACK_AFTER).await;
                        status = ask(&mut connection, &request, &mut buffer).await;
                    }
                    assert_eq!(status, Some(200), "{}", String::from_utf8_lossy(&buffer));
                    times.push(sent.elapsed());
                }
                times
            })
        })
        .collect();
    local.await;
    let took = began.elapsed();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a client"));
    }
    times.sort_unstable();
    let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
    let extremes = (percentile(0), percentile(100));
    Run { requests: times.len(), took, p50: percentile(50), p99: percentile(99), extremes }
}
