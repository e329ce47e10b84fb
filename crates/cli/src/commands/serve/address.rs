//! The address to listen on, and whether other machines can reach it.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::{TcpListener, lookup_host};

/// An address to listen on.
#[derive(Debug)]
pub(super) struct Address {
    host: String,
    sockets: Vec<SocketAddr>,
}

impl Address {
    /// Resolves `host`.
    pub(super) async fn resolve(host: &str, port: u16) -> anyhow::Result<Address> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = lookup_host((bare, port)).await;
        let found = found.with_context(|| format!("cannot resolve --host {host:?}"))?;
        Ok(Address {
            host: host.to_owned(),
            sockets: found.collect(),
        })
    }

    /// Whether only this machine can reach the address.
    pub(super) fn is_loopback(&self) -> bool {
        let is_loopback = |socket: &SocketAddr| socket.ip().to_canonical().is_loopback();
        !self.sockets.is_empty() && self.sockets.iter().all(is_loopback)
    }

    /// Listens on the address.
    pub(super) async fn listen(&self) -> anyhow::Result<TcpListener> {
        let listener = TcpListener::bind(&self.sockets[..]).await;
        listener.with_context(|| {
            let port = self.sockets.first().map_or(0, SocketAddr::port);
            format!(
                "cannot listen on {}, port {port}; choose another with --port",
                self.host
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loopback_addresses_are_recognized_in_any_spelling() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.3.2.1", true),
            ("localhost", true),
            ("::1", true),
            ("[::1]", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("10.0.0.1", false),
        ] {
            let address = Address::resolve(host, 1).await.unwrap();
            assert_eq!(address.is_loopback(), expected, "{host}");
        }
        assert!(Address::resolve("no such host", 1).await.is_err());
    }
}
