//! A wire to the database that can be cut and mended, and can lose the server's answers: the faults of a network and of
//! a database that goes away, for one gateway only.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::cluster::Database;

/// Stands between a gateway and its database.
#[derive(Debug)]
pub struct Outage {
    /// The database's address by way of this wire.
    pub url: String,
    here: PathBuf,
    there: PathBuf,
    mute: Arc<AtomicBool>,
    wire: Mutex<Option<JoinSet<()>>>,
    _folder: TempDir,
}

impl Outage {
    /// A sound wire, for the time being.
    pub fn between(database: &Database) -> Outage {
        let folder = TempDir::new().expect("a folder for the socket");
        let (before, after) = database.url.split_once("host=").expect("an address with a socket's folder");
        let (host, rest) = after.split_once('&').unwrap_or((after, ""));
        let there = PathBuf::from(host.replace("%2F", "/")).join(".s.PGSQL.5432");
        let url = format!("{before}host={}&{rest}", folder.path().display().to_string().replace('/', "%2F"));
        let here = folder.path().join(".s.PGSQL.5432");
        let outage = Outage { url, here, there, mute: Arc::default(), wire: Mutex::default(), _folder: folder };
        outage.mend();
        outage
    }

    /// Every connection breaks, and none can be made.
    pub fn cut(&self) {
        *self.wire.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = std::fs::remove_file(&self.here);
    }

    /// What the server says from now on is lost; what it is told still arrives.
    pub fn mute(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.cut();
        self.mute.store(false, Ordering::SeqCst);
        let listener = UnixListener::bind(&self.here).expect("the socket can be made");
        let mut wire = JoinSet::new();
        wire.spawn(accept(listener, self.there.clone(), self.mute.clone()));
        *self.wire.lock().unwrap_or_else(PoisonError::into_inner) = Some(wire);
    }
}

async fn accept(listener: UnixListener, there: PathBuf, mute: Arc<AtomicBool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if let Ok(server) = UnixStream::connect(&there).await {
            connections.spawn(carry(client, server, mute.clone()));
        }
    }
}

async fn carry(client: UnixStream, server: UnixStream, mute: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let forth = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(|_| ()) };
    let back = async {
        let mut buffer = vec![0; 8192];
        loop {
            let n = from_server.read(&mut buffer).await?;
            if n == 0 {
                return Ok(());
            }
            if !mute.load(Ordering::SeqCst) {
                to_client.write_all(&buffer[..n]).await?;
            }
        }
    };
    let _: std::io::Result<()> = tokio::select! { ended = forth => ended, ended = back => ended };
}
