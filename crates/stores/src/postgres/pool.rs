//! Connection pool, transactions and retries.
//!
//! A `join!` of futures on one connection pipelines them: their statements are sent in the order of
//! the futures, and all together cost one round trip.

use std::{
    error::Error as _,
    fmt,
    future::Future,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use retain_core::{BoxError, SessionError};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Error, Row, Statement, error::SqlState, types::ToSql};

use super::{
    NAME, PostgresOptions,
    connect::{HostList, SharedHostList},
    named_sql::NamedSql,
    tls,
};

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// Maximum time that a task waits for a free connection.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Maximum time of retries, counted from the first failure: a dead connection is noticed late, and
/// a retry must still find out whether the write was committed.
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Why an operation failed.
#[derive(Debug)]
pub(super) enum Failure<E = SessionError> {
    /// The operation was rejected; the caller gets this error.
    Rejected(E),
    /// The database returned an error, or the connection failed.
    Database(Error),
    /// No connection was available.
    NoConnection(BoxError),
    /// A concurrent change or a timeout; a retry may succeed.
    Transient(&'static str),
}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Failure<E> {
        Failure::Database(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        Failure::Rejected(error)
    }
}

impl<E> From<PoolError> for Failure<E> {
    fn from(error: PoolError) -> Failure<E> {
        match error {
            PoolError::Backend(error) => Failure::Database(error),
            PoolError::Timeout(TimeoutType::Wait) => Failure::NoConnection(
                format!(
                    "timed out after {WAIT_MAX:?} waiting for a free connection; increase pool_size"
                )
                .into(),
            ),
            PoolError::Timeout(_) => Failure::Transient("timed out waiting for PostgreSQL"),
            error => Failure::NoConnection(error.into()),
        }
    }
}

impl<E> Failure<E> {
    /// Whether a retry may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Failure::Rejected(_) | Failure::NoConnection(_) => false,
            Failure::Transient(_) => true,
            Failure::Database(error) => match error.code() {
                Some(code) => is_transient(code),
                // An error without a code does not come from the server.
                None => is_connection_lost(error),
            },
        }
    }

    /// Whether the idle connections are useless too: the server is gone or no longer the primary.
    fn ends_connections(&self) -> bool {
        match self {
            Failure::Rejected(_) | Failure::NoConnection(_) | Failure::Transient(_) => false,
            Failure::Database(error) => match error.code() {
                Some(code) => is_connection_code(code),
                None => is_connection_lost(error),
            },
        }
    }
}

impl Failure {
    /// Converts the failure into the error that a caller of the store gets.
    pub(super) fn into_session_error(self, operation: &'static str) -> SessionError {
        match self {
            Failure::Rejected(error) => error,
            Failure::Database(error) if error.code() == Some(&SqlState::DISK_FULL) => {
                SessionError::Full {
                    store: NAME,
                    operation,
                    source: Box::new(error),
                }
            }
            failure => SessionError::Store {
                store: NAME,
                operation,
                source: failure.cause(),
            },
        }
    }
}

impl<E: Into<BoxError>> Failure<E> {
    /// Returns the underlying error.
    pub(super) fn cause(self) -> BoxError {
        match self {
            Failure::Rejected(error) => error.into(),
            Failure::Database(error) => error.into(),
            Failure::NoConnection(error) => error,
            Failure::Transient(reason) => reason.into(),
        }
    }
}

fn is_transient(code: &SqlState) -> bool {
    let codes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // A proxy in front of the server, or one node of a cluster, failed.
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    codes.contains(code) || is_connection_code(code)
}

/// Whether the code means that the connection, or the server behind it, failed.
fn is_connection_code(code: &SqlState) -> bool {
    let codes = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        // After a failover, this server may be a read-only replica.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    // Class 08 has the connection exceptions. A retry does not help after a protocol violation.
    let is_connection = code.code().starts_with("08") && *code != SqlState::PROTOCOL_VIOLATION;
    codes.contains(code) || is_connection
}

fn is_connection_lost(error: &Error) -> bool {
    if error.is_closed() {
        return true;
    }
    let mut cause = error.source();
    while let Some(found) = cause {
        if let Some(error) = found.downcast_ref::<std::io::Error>() {
            // A retry does not help after a TLS error.
            let inner = error.get_ref();
            return !inner.is_some_and(|inner| inner.is::<rustls::Error>());
        }
        cause = found.source();
    }
    false
}

/// Decides whether a failed attempt is retried, and waits before the next one.
#[derive(Debug)]
pub(super) struct Retry<'a> {
    database: &'a Database,
    /// The time of the first failure.
    since: Option<Instant>,
    attempts: u32,
}

impl<'a> Retry<'a> {
    pub(super) fn new(database: &'a Database) -> Retry<'a> {
        Retry {
            database,
            since: None,
            attempts: 0,
        }
    }

    /// Waits before the next attempt, or returns the failure if it is not transient or the time for
    /// retries, which starts with the first failure, has passed.
    pub(super) async fn wait_or_fail<E>(&mut self, failure: Failure<E>) -> Result<(), Failure<E>> {
        if failure.ends_connections() {
            self.database.drop_idle();
        }
        let pause = self.pause();
        let since = self.since.get_or_insert_with(Instant::now);
        if !failure.is_transient() || since.elapsed() + pause > RETRY_MAX {
            return Err(failure);
        }
        self.attempts += 1;
        sleep(pause).await;
        Ok(())
    }

    /// Returns the pause before the next attempt: exponential backoff with jitter.
    fn pause(&self) -> Duration {
        let longest = (5_u64 << self.attempts.min(6)) * 1000;
        let random = RandomState::new().hash_one(self.attempts);
        Duration::from_micros(longest / 2 + random % (longest / 2))
    }
}

/// A database and its connections.
pub(super) struct Database {
    pool: Pool,
    hosts: Arc<HostList>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database")
            .field(&self.pool.status())
            .finish()
    }
}

impl Database {
    /// Creates the pool without connecting.
    pub(super) fn new(options: &PostgresOptions) -> Result<Database, BoxError> {
        let connector = tls::connector(options.tls, options.roots.as_deref())?;
        let config = ManagerConfig {
            // A connection with an open transaction never returns to the pool, so pooled
            // connections need no reset.
            recycling_method: RecyclingMethod::Fast,
        };
        let hosts = Arc::new(HostList::new(options, connector));
        let connect = SharedHostList(Arc::clone(&hosts));
        let manager = Manager::from_connect(options.config.clone(), connect, config);
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(hosts.total_limit()))
            .build()?;
        Ok(Database { pool, hosts })
    }

    /// Opens a connection outside the pool, for long work that must not occupy a pooled connection.
    pub(super) async fn dedicated_connection<E>(&self) -> Result<Client, Failure<E>> {
        match timeout(self.hosts.total_limit(), self.hosts.open()).await {
            Ok(opened) => Ok(opened?.0),
            Err(_) => Err(Failure::Transient("timed out waiting for PostgreSQL")),
        }
    }

    /// Closes the idle connections. If one is dead, the others probably are too, and each would
    /// fail only after a timeout.
    fn drop_idle(&self) {
        let _ = self.pool.retain(|_, _| false);
    }

    /// Takes a connection from the pool, for single statements.
    pub(super) async fn connection<E>(&self) -> Result<Object, Failure<E>> {
        Ok(self.pool.get().await?)
    }

    /// Takes a connection for a transaction, which starts with [`Transaction::begin`].
    pub(super) async fn transaction<E>(&self) -> Result<Transaction, Failure<E>> {
        Ok(Transaction {
            client: Some(self.pool.get().await?),
        })
    }
}

/// A connection with a transaction. Dropping it before the transaction ends closes the connection,
/// so that the server rolls back.
pub(super) struct Transaction {
    client: Option<Object>,
}

/// Limits how long a process that hangs or has lost its network blocks others: the server aborts
/// its transaction, and transactions that wait for its locks time out and are retried.
macro_rules! transaction_timeouts {
    () => {
        "SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL lock_timeout = '12s'"
    };
}

impl Transaction {
    fn client(&self) -> &Object {
        let client = self.client.as_ref();
        client.expect("the client is taken only at the end of the transaction")
    }

    /// Prepares a statement, or returns the prepared one of this connection.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.client().prepare_cached(sql).await
    }

    /// Begins the transaction. Must be the first statement.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        const SQL: &str = concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ",
            transaction_timeouts!()
        );
        self.client().batch_execute(SQL).await
    }

    /// Begins a transaction that writes and reads from one snapshot.
    pub(super) async fn begin_repeatable(&self) -> Result<(), Error> {
        const SQL: &str = concat!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; ",
            transaction_timeouts!()
        );
        self.client().batch_execute(SQL).await
    }

    /// Begins a transaction that only reads, from one snapshot.
    pub(super) async fn begin_snapshot(&self) -> Result<(), Error> {
        // The transaction holds no locks, but while it is open, the server cannot vacuum the rows
        // that it may read. So limit how long it may be idle.
        let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                   SET LOCAL idle_in_transaction_session_timeout = '60s'";
        self.client().batch_execute(sql).await
    }

    /// Queries rows. The future owns the parameters, so that it can be built before a `join!`.
    pub(super) async fn query<const N: usize>(
        &self,
        statement: &Statement,
        params: [Param<'_>; N],
    ) -> Result<Vec<Row>, Error> {
        self.client().query(statement, &params).await
    }

    /// Like [`query`](Self::query), with any number of parameters.
    pub(super) async fn query_all(
        &self,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.client().query(statement, params).await
    }

    /// Runs a statement with named parameters.
    pub(super) async fn run(&self, sql: &NamedSql<'_>) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql.text()).await?;
        self.query_all(&statement, sql.params()).await
    }

    /// Executes a statement and returns the number of affected rows.
    pub(super) async fn execute<const N: usize>(
        &self,
        statement: &Statement,
        params: [Param<'_>; N],
    ) -> Result<u64, Error> {
        self.client().execute(statement, &params).await
    }

    /// Commits. The caller must also check the results of the statements sent before: if one has
    /// failed, PostgreSQL rolls back and `COMMIT` still returns no error.
    pub(super) async fn commit(&self) -> Result<(), Error> {
        self.client().batch_execute("COMMIT").await
    }

    /// Returns the connection to the pool. Call this only after the server has confirmed the end of
    /// the transaction.
    pub(super) fn release(mut self) {
        drop(self.client.take());
    }

    /// Rolls back and returns the connection to the pool.
    pub(super) async fn roll_back(self) -> Result<(), Error> {
        self.client().batch_execute("ROLLBACK").await?;
        self.release();
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // Do not return the connection to the pool: its transaction may be open.
            drop(Object::take(client));
        }
    }
}

/// Defines a set of statements that are prepared together: in one round trip, once for each
/// connection.
macro_rules! statements {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $sql:expr,)* }) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $field: tokio_postgres::Statement,)*
        }

        impl $name {
            pub(super) async fn prepare(
                transaction: &$crate::postgres::pool::Transaction,
            ) -> Result<$name, tokio_postgres::Error> {
                let ($($field,)*) = tokio::join!(biased; $(transaction.prepare($sql),)*);
                Ok($name { $($field: $field?,)* })
            }
        }
    };
}

pub(super) use statements;

/// Retries a call until it succeeds, fails with a failure that is not transient, or `RETRY_MAX` has
/// passed. The first argument of the call is the database.
macro_rules! retry {
    ($($attempt:ident)::+ ($database:expr $(, $given:expr)* $(,)?)) => {{
        let mut retry = $crate::postgres::pool::Retry::new($database);
        loop {
            match $($attempt)::+($database $(, $given)*).await {
                Ok(done) => break Ok(done),
                Err(failure) => {
                    if let Err(failure) = retry.wait_or_fail(failure).await {
                        break Err(failure);
                    }
                }
            }
        }
    }};
}

pub(super) use retry;

/// Awaits an optional future, so that a `join!` can skip a statement.
pub(super) async fn if_some<T, F>(future: Option<F>) -> Result<Option<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    match future {
        Some(future) => future.await.map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;

    fn database(uri: &str) -> Database {
        Database::new(&PostgresOptions::from_uri(uri).unwrap()).unwrap()
    }

    #[test]
    fn transient_failure_is_recognized_by_its_code() {
        for code in [
            "40001", "40P01", "40003", "55P03", "25006", "57P01", "57P03", "08006",
        ] {
            assert!(is_transient(&SqlState::from_code(code)), "{code}");
        }
        for code in ["23505", "42601", "08P01", "28P01", "53100"] {
            assert!(!is_transient(&SqlState::from_code(code)), "{code}");
        }
        for (code, ends) in [
            ("25006", true),
            ("08006", true),
            ("40003", false),
            ("40001", false),
        ] {
            assert_eq!(
                is_connection_code(&SqlState::from_code(code)),
                ends,
                "{code}"
            );
        }
    }

    /// The time before the first failure does not count, so a slow first attempt is retried too.
    #[tokio::test]
    async fn retry_time_starts_with_the_first_failure() {
        let database = database("postgresql://h/d");
        let mut retry = Retry::new(&database);
        let failure = || Failure::<SessionError>::Transient("a concurrent change");
        assert!(retry.since.is_none());
        retry.wait_or_fail(failure()).await.unwrap();
        retry.wait_or_fail(failure()).await.unwrap();
        retry.since = retry.since.and_then(|since| since.checked_sub(RETRY_MAX));
        assert!(retry.wait_or_fail(failure()).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn drop_idle_closes_only_idle_connections() {
        if !is_there() {
            return;
        }
        let test = TestDatabase::new().await;
        let database = database(&test.uri());
        let first = database.connection::<SessionError>().await.unwrap();
        drop(database.connection::<SessionError>().await.unwrap());
        assert_eq!(database.pool.status().size, 2);
        database.drop_idle();
        assert_eq!(database.pool.status().size, 1);
        first.batch_execute("SELECT 1").await.unwrap();
        drop(first);
        assert_eq!(database.pool.status().available, 1);
    }
}
