//! Accepts connections until the server is told to stop, then waits for running requests.

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

use crate::{
    guard::{Guards, count_connection},
    services::Server,
    shutdown::Phase,
    timed_socket::TimedSocket,
};

/// How long to wait until interrupted streams have sent their last frame.
const LAST_FRAME_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait until interrupted runs are stored as interrupted.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before accepting again after an error, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves until `stop` completes, without API keys and with default limits.
pub async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_guarded(server, listener, Arc::new(Guards::default()), stop).await
}

/// Serves until `stop` completes. Running requests then have the guards'
/// [`shutdown_grace`](crate::ServerLimits::shutdown_grace) to finish; the server interrupts those
/// that do not, and stores them as interrupted.
pub async fn serve_guarded(
    server: Arc<Server>,
    listener: TcpListener,
    guards: Arc<Guards>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = server.guarded_router(&guards);
    let maintenance = server.start_maintenance();
    let mut connections = JoinSet::new();
    accept_until(stop, &listener, &router, &guards, &mut connections).await;
    drop(listener);
    guards.shutdown.enter(Phase::Draining);
    let ended = async { while connections.join_next().await.is_some() {} };
    let is_done = timeout(guards.limits.shutdown_grace, ended).await.is_ok();
    guards.shutdown.enter(Phase::Over);
    if !is_done {
        let ended = async { while connections.join_next().await.is_some() {} };
        // A client that does not read in time misses the last frame.
        let _ = timeout(LAST_FRAME_TIMEOUT, ended).await;
        connections.shutdown().await;
    }
    drop(maintenance);
    server.apps.close(RECORD_TIMEOUT).await;
    Ok(())
}

/// Accepts connections until `stop` completes. Each connection has its own task.
async fn accept_until(
    stop: impl Future<Output = ()>,
    listener: &TcpListener,
    router: &Router,
    guards: &Arc<Guards>,
    connections: &mut JoinSet<()>,
) {
    let permits = Arc::new(Semaphore::new(guards.limits.connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let next = async {
            // The semaphore is never closed, so a permit always arrives.
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            biased;
            () = &mut stop => return,
            // Remove the tasks of closed connections.
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
                    permit,
                };
                connections.spawn(connection.run());
            }
            Err(error) => {
                tracing::warn!(error = ?error.to_string(), "failed to accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
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
    permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    async fn run(self) {
        let Connection {
            socket,
            peer,
            router,
            guards,
            permit: _permit,
        } = self;
        let _counted = (guards.metrics.connection(), count_connection(&guards));
        // Disable Nagle's algorithm, which would delay events.
        let _ = socket.set_nodelay(true);
        let limits = guards.limits;
        let socket = TokioIo::new(TimedSocket::new(
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
            tracing::debug!(error = ?error.to_string(), "connection closed with an error");
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
