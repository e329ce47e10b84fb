//! How much may be asked of the server, and how slowly.

use std::time::Duration;

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerLimits {
    /// Bytes of a request's body. Imports, which are read as they come, have no limit.
    pub body_bytes: usize,
    /// Bytes of a request's line and headers together.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// How long a client may take to send its headers, and a connection may wait for the next
    /// request.
    pub header_timeout: Duration,
    /// How long a client may make the server wait for the next piece of a body.
    pub body_timeout: Duration,
    /// How long a client may take nothing of what it is sent.
    pub write_timeout: Duration,
    /// Connections at a time. Who comes later waits. A tenth is kept from streams and turns.
    pub connections: usize,
    /// Requests that one key may make in a second, on average; twice as many at once.
    pub requests_per_key: f64,
    /// Streams and turns that one key may have open at a time.
    pub streams_per_key: usize,
    /// Streams that one user may have open at a time.
    pub streams_per_user: usize,
    /// Wrong keys that may come from one address in a second, on average; twice as many at once.
    pub wrong_keys_per_peer: f64,
    /// Bytes of a body that must come in a second, on average, once `body_timeout` is over.
    pub body_bytes_per_second: u64,
    /// Bytes that a client must take in a second, on average, once `write_timeout` is over. Only the
    /// time counts in which there is something that it does not take.
    pub write_bytes_per_second: u64,
    /// How long running turns may go on once the server is told to stop.
    pub shutdown_grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            // An event of the largest size fits, also if it is a file in base64.
            body_bytes: 32 * 1024 * 1024,
            header_bytes: 64 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            connections: 20_000,
            requests_per_key: 100.0,
            streams_per_key: 10_000,
            streams_per_user: 1_000,
            wrong_keys_per_peer: 10.0,
            body_bytes_per_second: 256,
            write_bytes_per_second: 256,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
