//! `interlock serve`: the gateway, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;

use tokio::net::TcpListener;
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
        let application = bind("server.listen", server.listen).await?;
        let operator = bind("server.operator_listen", server.operator_listen).await?;
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

async fn bind(setting: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
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
