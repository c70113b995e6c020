//! `interlock serve`: the gateway, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::open::Opened;
use super::{Answer, Context, Failure};
use crate::console;
use crate::engine::Engine;
use crate::http;

/// A gateway that listens.
#[derive(Debug)]
pub struct Serving {
    pub engine: Engine,
    pub application: SocketAddr,
    pub operator: SocketAddr,
    listeners: Vec<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl Serving {
    /// Binds both listeners, then starts the engine: a port in use is found before anything else happens.
    pub async fn start(opened: &Opened) -> Result<Serving, Failure> {
        let server = &opened.config.server;
        let application = bind("server.listen", server.listen)?;
        let operator = bind("server.operator_listen", server.operator_listen)?;
        let addresses = (application.local_addr()?, operator.local_addr()?);
        let engine = Engine::start(opened.store.clone(), opened.config.clone()).await?;
        let listeners = vec![
            listen(http::serve::serve(application, http::application(engine.clone()), engine.clone())),
            listen(http::serve::serve(operator, console::operator(engine.clone()), engine.clone())),
        ];
        Ok(Serving { engine, application: addresses.0, operator: addresses.1, listeners })
    }

    /// Drains, marks what is left unknown, and lets the last answers out.
    pub async fn stop(self, hurry: impl Future<Output = ()>) {
        self.engine.shut_down(hurry).await;
        for listener in self.listeners {
            if let Ok(Err(error)) = listener.await {
                tracing::warn!(%error, "a listener ended badly");
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the listeners' ends are awaited")]
fn listen<F>(serve: F) -> tokio::task::JoinHandle<std::io::Result<()>>
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    tokio::spawn(serve)
}

/// Connections that wait to be taken in. With the usual 128 a burst of 200 was measured to leave some out, whose clients
/// try again after a second; the system's own bound (`net.core.somaxconn`) holds besides.
const BACKLOG: u32 = 4096;

fn listen_at(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart need not wait for the last process's connections to fade.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind(setting: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    listen_at(address).map_err(|error| {
        format!("{setting}: {address} cannot be listened on: {error}; is another gateway running?").into()
    })
}

/// Says where to connect. In one write, and nothing follows from its failure: whoever started this may have gone.
fn announce(serving: &Serving, psql_url: Option<String>) {
    let (application, operator) = (serving.application, serving.operator);
    let mut said = format!("interlock listens on http://{application}\noperators connect to http://{operator}\n");
    said += &format!("people on call open http://{operator}/console\n");
    if let Some(url) = psql_url {
        said += &format!("private Postgres: psql '{url}'\n");
    }
    let _ = std::io::stdout().write_all(said.as_bytes());
}

pub async fn run(context: &Context) -> Result<Answer, Failure> {
    // Before anything starts, so that no signal finds the default action.
    let mut signals = Signals::new()?;
    let opened = Opened::open(context).await?;
    let serving = Serving::start(&opened).await?;
    announce(&serving, opened.psql_url());
    signals.next().await;
    serving.stop(async move { signals.next().await }).await;
    opened.close().await?;
    Ok(Answer::Yes)
}

/// SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn new() -> Result<Signals, Failure> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_burst_of_clients_is_let_in_before_any_of_them_is_taken() {
        let listener = listen_at(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let mut connected = Vec::new();
        for n in 0..300 {
            let connection = tokio::time::timeout(Duration::from_secs(30), TcpStream::connect(address)).await;
            connected.push(connection.unwrap_or_else(|_| panic!("client {n} waits outside")).expect("a connection"));
        }
    }
}
