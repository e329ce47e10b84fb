//! Limits on requests: sizes, rates and times.

use std::time::Duration;

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerLimits {
    /// Maximum size of a request body in bytes. Imports are streamed and unlimited.
    pub body_bytes: usize,
    /// Maximum size of the request line and headers together in bytes.
    pub header_bytes: usize,
    /// Maximum number of headers.
    pub headers: usize,
    /// Timeout for reading the headers, and idle timeout of a connection.
    pub header_timeout: Duration,
    /// Read timeout: maximum wait for the next chunk of a body.
    pub body_timeout: Duration,
    /// Write timeout: close the connection if the client reads nothing for this long.
    pub write_timeout: Duration,
    /// Maximum number of connections; more wait. A tenth is reserved for requests other than
    /// streams and runs.
    pub connections: usize,
    /// Maximum requests per second of one API key on average; bursts may have twice as many.
    pub requests_per_key: f64,
    /// Maximum number of open streams and runs of one API key.
    pub streams_per_key: usize,
    /// Maximum number of open streams of one user.
    pub streams_per_user: usize,
    /// Maximum failed attempts per second of one address on average; bursts may have twice as many.
    pub wrong_keys_per_peer: f64,
    /// Minimum bytes per second of a request body on average, after `body_timeout`.
    pub body_bytes_per_second: u64,
    /// Minimum bytes per second that a client must read on average, after `write_timeout`. Only
    /// time spent waiting for the client counts.
    pub write_bytes_per_second: u64,
    /// How long running requests may continue after the server is told to stop.
    pub shutdown_grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            // Large enough for the largest event, even if it is a file in base64.
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
