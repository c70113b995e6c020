//! The accept loop: head deadline, connection cap, no Nagle. `axum::serve` leaves hyper's header timeout off.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::config::Server;
use crate::engine::{Engine, Phase, tasks};

/// Bytes of a request's head, all headers together.
const HEAD_LIMIT: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// How long open connections may finish their answers once everything has stopped.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Serves `router` on `listener` until the engine has stopped.
pub async fn serve(listener: TcpListener, router: Router, engine: Engine) -> io::Result<()> {
    let server = engine.config().server.clone();
    let places = Arc::new(Semaphore::new(server.max_connections));
    let mut phase = engine.subscribe();
    loop {
        // A place is taken before the connection is: beyond the cap, clients wait in the kernel's queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut phase) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (router, server, engine) = (router.clone(), server.clone(), engine.clone());
        tasks::spawn(async move {
            engine.metrics().connections.inc();
            connection(stream, router, &server, engine.subscribe()).await;
            engine.metrics().connections.dec();
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(server.max_connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LAST_ANSWERS, places.acquire_many(all)).await;
    Ok(())
}

async fn connection(stream: TcpStream, router: Router, server: &Server, mut phase: watch::Receiver<Phase>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(server.header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopped(&mut phase) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        // Clients that hang up or never finish their head: everyday, and none of it is a secret.
        tracing::debug!(%error, "connection ended");
    }
}

async fn stopped(phase: &mut watch::Receiver<Phase>) {
    // An error means that the engine is gone, which is as stopped as can be.
    let _ = phase.wait_for(|p| *p == Phase::Stopped).await;
}
