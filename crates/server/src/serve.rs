//! Listens, until told to stop; then lets what runs come to its end.

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{guard::Guards, services::Server, shutdown::Phase, stalled::Impatient};

/// How long streams that were cut off have to say so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long turns that were cut off have to be stored as such.
const SEALING: Duration = Duration::from_secs(5);

/// How long to wait when no connection can be taken, as when too many files are open.
const OUT_OF_BREATH: Duration = Duration::from_millis(100);

/// Serves until `stop` is done, without keys and with the usual limits.
pub async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_guarded(server, listener, Arc::new(Guards::default()), stop).await
}

/// Serves until `stop` is done. Then running turns have the guards'
/// [`shutdown_grace`](crate::ServerLimits::shutdown_grace) to end, and are stored as cut off after
/// it.
pub async fn serve_guarded(
    server: Arc<Server>,
    listener: TcpListener,
    guards: Arc<Guards>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = server.guarded_router(&guards);
    let mut connections = JoinSet::new();
    accept_until(stop, &listener, &router, &guards, &mut connections).await;
    drop(listener);
    guards.shutdown.enter(Phase::Draining);
    let ended = async { while connections.join_next().await.is_some() {} };
    let is_done = timeout(guards.limits.shutdown_grace, ended).await.is_ok();
    guards.shutdown.enter(Phase::Over);
    if !is_done {
        let ended = async { while connections.join_next().await.is_some() {} };
        // Who does not listen does not hear.
        let _ = timeout(LAST_WORDS, ended).await;
        connections.shutdown().await;
    }
    server.apps.close(SEALING).await;
    Ok(())
}

/// Takes connections, each in a task of its own.
async fn accept_until(
    stop: impl Future<Output = ()>,
    listener: &TcpListener,
    router: &Router,
    guards: &Arc<Guards>,
    connections: &mut JoinSet<()>,
) {
    let places = Arc::new(Semaphore::new(guards.limits.connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            // Never closed, so there is always a place in the end.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = &mut stop => return,
            // Those that have ended are let go of.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            next = next => next,
        };
        match accepted {
            Ok((socket, peer)) => {
                let connection = Connection {
                    socket,
                    peer,
                    router: router.clone(),
                    guards: Arc::clone(guards),
                    place,
                };
                connections.spawn(connection.run());
            }
            Err(error) => {
                tracing::warn!(error = ?error.to_string(), "a connection could not be taken");
                sleep(OUT_OF_BREATH).await;
            }
        }
    }
}

/// A client's connection.
struct Connection {
    socket: TcpStream,
    peer: SocketAddr,
    router: Router,
    guards: Arc<Guards>,
    place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    async fn run(self) {
        let Connection {
            socket,
            peer,
            router,
            guards,
            place: _place,
        } = self;
        let _counted = guards.metrics.connection();
        // Events are to leave at once.
        let _ = socket.set_nodelay(true);
        let limits = guards.limits;
        let socket = TokioIo::new(Impatient::new(
            socket,
            limits.write_timeout,
            limits.write_bytes_per_second,
        ));
        let service = service_fn(move |request| answer(router.clone(), peer, request));
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_headers(limits.headers)
            .max_buf_size(limits.header_bytes.max(8192));
        let connection = builder.serve_connection(socket, service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let mut follower = guards.shutdown.follow();
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = follower.reached(Phase::Draining) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = ?error.to_string(), "a connection broke off");
        }
    }
}

async fn answer(
    router: Router,
    peer: SocketAddr,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    tower::Service::call(&mut { router }, request).await
}
