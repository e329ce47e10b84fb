//! Options for connecting to a PostgreSQL database.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use retain_core::{Clock, Result};
use tokio_postgres::Config;

use super::{connect, tls::TlsMode, uri};

/// Options for connecting to a PostgreSQL database.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) tls: TlsMode,
    pub(super) roots: Option<PathBuf>,
    pub(super) pool_size: usize,
    pub(super) must_exist: bool,
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresOptions").field(&self.uri()).finish()
    }
}

impl PostgresOptions {
    pub(super) fn new(mut config: Config) -> PostgresOptions {
        // Detect a dead server within seconds. The operating system's defaults take hours.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(connect::CONNECT_MAX);
        }
        // Keep this well below the time limit for retries, so that a retry can still succeed.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(8));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(Duration::from_secs(5));
            config.keepalives_interval(Duration::from_secs(2));
            config.keepalives_retries(2);
        }
        PostgresOptions {
            config,
            tls: TlsMode::Unverified,
            roots: None,
            pool_size: 20,
            must_exist: false,
            clock: None,
        }
    }

    /// Parses a URI such as `postgresql://user@host/database?sslmode=verify-full`.
    pub fn from_uri(uri: &str) -> Result<PostgresOptions> {
        uri::parse(uri)
    }

    /// Whether `uri` is a PostgreSQL URI.
    pub fn is_address(uri: &str) -> bool {
        uri::is_address(uri)
    }

    /// Sets the maximum number of connections. Default: 20.
    pub fn with_pool_size(mut self, connections: usize) -> PostgresOptions {
        self.pool_size = connections.max(1);
        self
    }

    /// Fails if the tables do not exist or have another schema version, instead of creating or
    /// migrating them.
    pub fn existing(mut self) -> PostgresOptions {
        self.must_exist = true;
        self
    }

    /// Sets the clock for leases and TTLs. Default: the clock of the database, which all replicas
    /// share.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> PostgresOptions {
        self.clock = Some(clock);
        self
    }

    /// Returns the URI without the password.
    pub fn uri(&self) -> String {
        uri::display_uri(&self.config)
    }
}
