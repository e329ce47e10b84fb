//! Limits on requests: sizes, rates and times.

use std::time::Duration;

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
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
    /// Maximum number of connections; further ones wait. A tenth is reserved for requests other
    /// than streams and runs.
    pub connections: usize,
    /// Maximum requests per second of one API key on average; bursts may have twice as many.
    pub requests_per_key: f64,
    /// Maximum number of open streams and runs of one API key.
    pub streams_per_key: usize,
    /// Maximum number of open streams of one user.
    pub streams_per_user: usize,
    /// Maximum failed authentications per second of one address on average; bursts may have twice
    /// as many.
    pub wrong_keys_per_peer: f64,
    /// Minimum bytes per second of a request body on average, after `body_timeout`.
    pub body_bytes_per_second: u64,
    /// Minimum bytes per second that a client must read on average, after `write_timeout`. Only
    /// time spent waiting for the client counts.
    pub write_bytes_per_second: u64,
    /// How long running requests may continue after the shutdown begins.
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

impl ServerLimits {
    /// Sets the maximum size of a request body in bytes.
    pub fn with_body_bytes(mut self, body_bytes: usize) -> ServerLimits {
        self.body_bytes = body_bytes;
        self
    }

    /// Sets the maximum size of the request line and headers together in bytes.
    pub fn with_header_bytes(mut self, header_bytes: usize) -> ServerLimits {
        self.header_bytes = header_bytes;
        self
    }

    /// Sets the maximum number of headers.
    pub fn with_headers(mut self, headers: usize) -> ServerLimits {
        self.headers = headers;
        self
    }

    /// Sets the timeout for reading the headers, and the idle timeout of a connection.
    pub fn with_header_timeout(mut self, header_timeout: Duration) -> ServerLimits {
        self.header_timeout = header_timeout;
        self
    }

    /// Sets the read timeout.
    pub fn with_body_timeout(mut self, body_timeout: Duration) -> ServerLimits {
        self.body_timeout = body_timeout;
        self
    }

    /// Sets the write timeout.
    pub fn with_write_timeout(mut self, write_timeout: Duration) -> ServerLimits {
        self.write_timeout = write_timeout;
        self
    }

    /// Sets the maximum number of connections.
    pub fn with_connections(mut self, connections: usize) -> ServerLimits {
        self.connections = connections;
        self
    }

    /// Sets the maximum requests per second of one API key.
    pub fn with_requests_per_key(mut self, requests_per_key: f64) -> ServerLimits {
        self.requests_per_key = requests_per_key;
        self
    }

    /// Sets the maximum number of open streams and runs of one API key.
    pub fn with_streams_per_key(mut self, streams_per_key: usize) -> ServerLimits {
        self.streams_per_key = streams_per_key;
        self
    }

    /// Sets the maximum number of open streams of one user.
    pub fn with_streams_per_user(mut self, streams_per_user: usize) -> ServerLimits {
        self.streams_per_user = streams_per_user;
        self
    }

    /// Sets the maximum failed authentications per second of one address.
    pub fn with_wrong_keys_per_peer(mut self, wrong_keys_per_peer: f64) -> ServerLimits {
        self.wrong_keys_per_peer = wrong_keys_per_peer;
        self
    }

    /// Sets the minimum bytes per second of a request body.
    pub fn with_body_bytes_per_second(mut self, body_bytes_per_second: u64) -> ServerLimits {
        self.body_bytes_per_second = body_bytes_per_second;
        self
    }

    /// Sets the minimum bytes per second that a client must read.
    pub fn with_write_bytes_per_second(mut self, write_bytes_per_second: u64) -> ServerLimits {
        self.write_bytes_per_second = write_bytes_per_second;
        self
    }

    /// Sets how long running requests may continue after the server is told to stop.
    pub fn with_shutdown_grace(mut self, shutdown_grace: Duration) -> ServerLimits {
        self.shutdown_grace = shutdown_grace;
        self
    }
}
