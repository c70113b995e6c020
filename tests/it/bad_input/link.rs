//! The way to the database, which a test can freeze or cut: a Unix socket in front of the cluster's own.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::cluster::Database;

const SOCKET: &str = ".s.PGSQL.5432";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Whole,
    /// Everything hangs, nothing is refused: packets dropped.
    Frozen,
    /// Connections are closed as they come, and those that were open: a server that is gone.
    Cut,
}

/// A test's database behind a link. The database itself stays reachable for the test.
#[derive(Debug)]
pub struct Link {
    /// As a gateway should be told.
    pub database: Arc<Database>,
    /// As the test sees it.
    pub direct: Arc<Database>,
    state: watch::Sender<State>,
    _server: JoinSet<()>,
    _folder: TempDir,
}

impl Link {
    pub async fn start() -> Link {
        let direct = Database::fresh().await;
        let (before, host) = direct.url.split_once("?host=").expect("a Unix socket");
        let (host, after) = host.split_once('&').expect("more parameters");
        let server = PathBuf::from(host.replace("%2F", "/")).join(SOCKET);
        let folder = TempDir::new().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
        let ours = folder.path().display().to_string().replace('/', "%2F");
        let url = format!("{before}?host={ours}&{after}");
        let state = watch::Sender::new(State::Whole);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server, state.clone()));
        let database = Arc::new(Database { name: direct.name.clone(), url });
        // Only one of the two may drop the database in the end.
        std::mem::forget(database.clone());
        Link { database, direct, state, _server: tasks, _folder: folder }
    }

    pub fn set(&self, state: State) {
        self.state.send_replace(state);
    }
}

async fn accept(listener: UnixListener, server: PathBuf, state: watch::Sender<State>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, state) = (server.clone(), state.subscribe());
        connections.spawn(async move {
            if *state.borrow() == State::Cut {
                return;
            }
            let Ok(upstream) = UnixStream::connect(server).await else { return };
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), upstream.into_split());
            let mut cut = state.clone();
            tokio::select! {
                () = copy(from_client, to_server, state.clone()) => {}
                () = copy(from_server, to_client, state) => {}
                _ = cut.wait_for(|state| *state == State::Cut) => {}
            }
        });
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut state: watch::Receiver<State>) {
    let mut buffer = [0; 16 << 10];
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { return };
        if state.wait_for(|state| *state != State::Frozen).await.is_err() || to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
