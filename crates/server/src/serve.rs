//! Listens, until told to stop.

use std::{future::Future, io, sync::Arc};

use tokio::net::TcpListener;

use crate::services::Server;

/// Serves until `stop` is done.
pub async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, server.router())
        .with_graceful_shutdown(stop)
        .await
}
