//! Where a notice goes and where it does not: judged by text, by resolved address, and by what a server then saw.

#![expect(clippy::disallowed_methods, reason = "a scripted server has no engine to tell its tasks' end to")]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Mutex;

use reqwest::dns::{Name, Resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Answers each question with the next of its answers, the last one for ever, and counts.
struct Told {
    answers: Vec<Vec<&'static str>>,
    asked: Mutex<usize>,
}

impl Told {
    fn new(answers: &[&[&'static str]]) -> Arc<Told> {
        Arc::new(Told { answers: answers.iter().map(|a| a.to_vec()).collect(), asked: Mutex::new(0) })
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

impl Lookup for Told {
    fn lookup(&self, _: String) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>> {
        let mut asked = self.asked.lock().unwrap();
        let answer = self.answers[(*asked).min(self.answers.len() - 1)].clone();
        *asked += 1;
        Box::pin(async move { Ok(answer.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect()) })
    }
}

/// Answers `answer` to every connection, and tells how many there were.
async fn server(answer: &'static str) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 4096];
            let read = stream.read(&mut buffer).await.unwrap_or_default();
            let _ = tell.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, seen)
}

fn guarded(told: &Arc<Told>) -> Guarded {
    Guarded { lookup: told.clone(), allow_private: false }
}

async fn resolved(guard: &Guarded) -> Result<Vec<String>, String> {
    let found = guard.resolve(Name::from_str("hooks.example.com").unwrap()).await;
    found.map(|all| all.map(|a| a.ip().to_string()).collect()).map_err(|error| error.to_string())
}

async fn post(sender: &Sender, url: &str) -> Result<u16, Missed> {
    let headers = vec![("webhook-id", "job_1".to_owned())];
    tokio::time::timeout(Duration::from_secs(20), sender.post(url, headers, Bytes::from_static(b"{}"))).await.unwrap()
}

#[test]
fn literal_addresses_of_ones_own_network_are_refused_however_they_are_written() {
    let sender = Sender::new(false).unwrap();
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "0",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[fd00::1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "１２７.0.0.1",
    ] {
        let url = format!("https://{host}:8443/hook");
        assert_eq!(sender.read(&url).map(|_| ()), Err(UrlError::Private), "{url}");
    }
    assert!(sender.read("https://8.8.8.8/hook").is_ok());
    assert!(Sender::new(true).unwrap().read("http://127.0.0.1/hook").is_ok());
}

#[test]
fn an_address_is_https_without_a_user_and_not_endless() {
    let (strict, loose) = (Sender::new(false).unwrap(), Sender::new(true).unwrap());
    for (url, why) in [
        ("http://example.com/", UrlError::NotHttps),
        ("ftp://example.com/", UrlError::NotHttps),
        ("file:///etc/passwd", UrlError::NotHttps),
        ("https://u@example.com/", UrlError::Credentials),
        ("https://u:p@example.com/", UrlError::Credentials),
        ("example.com/hook", UrlError::Unreadable),
        ("https://", UrlError::Unreadable),
        ("", UrlError::Unreadable),
        ("https://[::1/", UrlError::Unreadable),
    ] {
        assert_eq!(strict.read(url).map(|_| ()), Err(why), "{url}");
    }
    let long = format!("https://example.com/{}", "x".repeat(LONGEST_URL));
    assert_eq!(strict.read(&long).map(|_| ()), Err(UrlError::TooLong));
    assert_eq!(loose.read("gopher://example.com/").map(|_| ()), Err(UrlError::NotHttp));
    assert_eq!(strict.read("https://EXAMPLE.com/a b").unwrap().as_str(), "https://example.com/a%20b");
}

#[tokio::test]
async fn a_name_that_turns_to_a_private_address_is_refused_when_it_does() {
    let told = Told::new(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let guard = guarded(&told);
    assert_eq!(resolved(&guard).await, Ok(vec!["8.8.8.8".to_owned()]));
    assert_eq!(resolved(&guard).await, Err(Forbidden.to_string()));
}

#[tokio::test]
async fn of_several_addresses_only_the_public_ones_are_called() {
    let guard = guarded(&Told::new(&[&["10.0.0.1", "8.8.8.8", "::1", "2606:4700:4700::1111"]]));
    assert_eq!(resolved(&guard).await, Ok(vec!["8.8.8.8".to_owned(), "2606:4700:4700::1111".to_owned()]));
}

#[tokio::test]
async fn a_name_that_leads_to_loopback_is_not_even_connected_to() {
    let (port, mut seen) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let sender = Sender::with(Told::new(&[&["127.0.0.1"]]), false).unwrap();
    let missed = post(&sender, &format!("https://hooks.example.com:{port}/")).await.unwrap_err();
    assert_eq!((missed.status, missed.message), (None, Forbidden.to_string()));
    assert!(seen.try_recv().is_err(), "nothing was connected");
}

/// Each try asks once and connects to what it was told: between the look and the call there is no second answer.
#[tokio::test]
async fn the_address_that_was_judged_is_the_one_that_is_called() {
    let (port, mut seen) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let told = Told::new(&[&["127.0.0.1"], &["192.0.2.1"]]);
    let sender = Sender::with(told.clone(), true).unwrap();
    assert_eq!(post(&sender, &format!("http://hooks.example.com:{port}/a?b=c")).await, Ok(200));
    assert_eq!(told.asked(), 1);
    let request = seen.recv().await.unwrap();
    assert!(request.starts_with("POST /a?b=c HTTP/1.1\r\n") && request.contains("webhook-id: job_1"), "{request}");
    assert!(request.contains(&format!("host: hooks.example.com:{port}")), "{request}");
    let second = Sender::with(told.clone(), false).unwrap();
    let missed = post(&second, &format!("https://hooks.example.com:{port}/")).await.unwrap_err();
    assert_eq!((missed.message, told.asked()), (Forbidden.to_string(), 2));
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (target, mut followed) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let answer = format!("HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:{target}/\r\ncontent-length: 0\r\n\r\n");
    let (port, _seen) = server(answer.leak()).await;
    let missed = post(&Sender::new(true).unwrap(), &format!("http://127.0.0.1:{port}/")).await.unwrap_err();
    assert_eq!(missed.status, Some(307));
    assert!(followed.try_recv().is_err(), "nothing was connected");
}

#[tokio::test]
async fn gone_and_later_are_understood() {
    let sender = Sender::new(true).unwrap();
    let (port, _seen) = server("HTTP/1.1 410 X\r\ncontent-length: 0\r\n\r\n").await;
    assert!(post(&sender, &format!("http://127.0.0.1:{port}/")).await.unwrap_err().is_gone);
    let (port, _seen) = server("HTTP/1.1 503 X\r\nretry-after: 90\r\ncontent-length: 0\r\n\r\n").await;
    let missed = post(&sender, &format!("http://127.0.0.1:{port}/")).await.unwrap_err();
    assert_eq!((missed.is_gone, missed.retry_after), (false, Some(Duration::from_secs(90))));
    let (port, _seen) = server("nonsense").await;
    let missed = post(&sender, &format!("http://127.0.0.1:{port}/secret-path")).await.unwrap_err();
    assert_eq!(missed.status, None);
    assert!(!missed.message.contains("secret-path") && !missed.message.contains("127.0.0.1"), "{missed:?}");
}
