//! Listens, until told to stop.

use std::{future::Future, io, net::SocketAddr, sync::Arc};

use tokio::net::TcpListener;

use crate::services::Server;

/// Serves until `stop` is done.
pub async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = server.router();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(stop)
        .await
}
