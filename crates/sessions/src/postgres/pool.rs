//! Connections, transactions and second attempts: what everything else here stands on.
//!
//! What is sent together travels together: futures of one connection that are polled at once, in
//! the order in which they stand in a `join!`, cost one round trip.

use std::{
    error::Error as _,
    fmt,
    future::Future,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use retain_core::{BoxError, SessionError};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Error, Row, Statement, error::SqlState, types::ToSql};

use super::{NAME, PostgresOptions, tls};

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// How long somebody waits for a connection that others use.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long something is tried again that failed through nobody's fault.
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Why something did not happen.
#[derive(Debug)]
pub(super) enum Failure<E = SessionError> {
    /// It was decided so: the caller is told.
    Decided(E),
    /// The database said no, or is not there.
    Database(Error),
    /// There is no connection to be had.
    NoConnection(BoxError),
    /// Others came in between; nothing has happened.
    Again(&'static str),
}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Failure<E> {
        Failure::Database(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        Failure::Decided(error)
    }
}

impl<E> From<PoolError> for Failure<E> {
    fn from(error: PoolError) -> Failure<E> {
        match error {
            PoolError::Backend(error) => Failure::Database(error),
            PoolError::Timeout(TimeoutType::Wait) => Failure::NoConnection(
                format!("all connections were in use for {WAIT_MAX:?}; raise pool_size").into(),
            ),
            // The server did not answer in time. It may yet.
            PoolError::Timeout(_) => Failure::Again("the server did not answer in time"),
            error => Failure::NoConnection(error.into()),
        }
    }
}

impl<E> Failure<E> {
    /// Whether the same may succeed if it is tried again.
    fn is_transient(&self) -> bool {
        match self {
            Failure::Decided(_) | Failure::NoConnection(_) => false,
            Failure::Again(_) => true,
            Failure::Database(error) => match error.code() {
                Some(code) => is_transient(code),
                // No answer of the server's: the line is broken, or nobody listens at its end.
                None => is_broken_line(error),
            },
        }
    }
}

impl Failure {
    /// What a caller of the store is told.
    pub(super) fn told(self, operation: &'static str) -> SessionError {
        match self {
            Failure::Decided(error) => error,
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
    /// The cause from below.
    pub(super) fn cause(self) -> BoxError {
        match self {
            Failure::Decided(error) => error.into(),
            Failure::Database(error) => error.into(),
            Failure::NoConnection(error) => error,
            Failure::Again(what) => what.into(),
        }
    }
}

fn is_transient(code: &SqlState) -> bool {
    let codes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    // Class 08: the connection itself. What the server does not understand it will not understand
    // when it comes again.
    let is_connection = code.code().starts_with("08") && *code != SqlState::PROTOCOL_VIOLATION;
    codes.contains(code) || is_connection
}

fn is_broken_line(error: &Error) -> bool {
    if error.is_closed() {
        return true;
    }
    let mut cause = error.source();
    while let Some(found) = cause {
        if let Some(error) = found.downcast_ref::<std::io::Error>() {
            // That the other side is not who it should be does not pass with time.
            let inner = error.get_ref();
            return !inner.is_some_and(|inner| inner.is::<rustls::Error>());
        }
        cause = found.source();
    }
    false
}

/// Counts attempts and waits between them.
#[derive(Debug)]
pub(super) struct Retry {
    since: Instant,
    attempts: u32,
}

impl Retry {
    pub(super) fn new() -> Retry {
        Retry {
            since: Instant::now(),
            attempts: 0,
        }
    }

    /// Waits a little, if another attempt makes sense; else gives the failure back.
    pub(super) async fn again<E>(&mut self, failure: Failure<E>) -> Result<(), Failure<E>> {
        let pause = self.pause();
        if !failure.is_transient() || self.since.elapsed() + pause > RETRY_MAX {
            return Err(failure);
        }
        self.attempts += 1;
        sleep(pause).await;
        Ok(())
    }

    /// Longer with every attempt, and never the same for two that met.
    fn pause(&self) -> Duration {
        let longest = (5_u64 << self.attempts.min(6)) * 1000;
        let random = RandomState::new().hash_one(self.attempts);
        Duration::from_micros(longest / 2 + random % (longest / 2))
    }
}

/// The database, by its connections.
pub(super) struct Database {
    pool: Pool,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database")
            .field(&self.pool.status())
            .finish()
    }
}

impl Database {
    /// Makes the pool; connects to nobody yet.
    pub(super) fn new(options: &PostgresOptions) -> Result<Database, BoxError> {
        let connector = tls::connector(options.tls, options.roots.as_deref())?;
        let config = ManagerConfig {
            // One that was left in the middle of a transaction never comes back, so there is
            // nothing to clean.
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(options.config.clone(), connector, config);
        let create = options.config.get_connect_timeout().copied();
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(create)
            .build()?;
        Ok(Database { pool })
    }

    /// A connection to send single statements on.
    pub(super) async fn connection<E>(&self) -> Result<Object, Failure<E>> {
        Ok(self.pool.get().await?)
    }

    /// A connection for a transaction, which is begun by sending [`Transaction::begin`].
    pub(super) async fn transaction<E>(&self) -> Result<Transaction, Failure<E>> {
        Ok(Transaction {
            client: Some(self.pool.get().await?),
        })
    }
}

/// A connection with a transaction. If it is dropped before it has come to its end, so is the
/// connection, and the server takes everything back.
pub(super) struct Transaction {
    client: Option<Object>,
}

/// A process that was cut off without a word, or stands still, keeps nobody waiting for long: the
/// server ends its transaction, and who waits for a lock asks again.
macro_rules! patience {
    () => {
        "SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL lock_timeout = '12s'"
    };
}

impl Transaction {
    fn client(&self) -> &Object {
        let client = self.client.as_ref();
        client.expect("only what ends the transaction takes it")
    }

    /// The statement that `sql` is, prepared once for each connection.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.client().prepare_cached(sql).await
    }

    /// Begins it. To be sent before everything else.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        const SQL: &str = concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ",
            patience!()
        );
        self.client().batch_execute(SQL).await
    }

    /// Begins one that writes, and reads all from one snapshot.
    pub(super) async fn begin_repeatable(&self) -> Result<(), Error> {
        const SQL: &str = concat!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; ",
            patience!()
        );
        self.client().batch_execute(SQL).await
    }

    /// Begins one that only reads, all of it from one snapshot.
    pub(super) async fn begin_snapshot(&self) -> Result<(), Error> {
        let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.client().batch_execute(sql).await
    }

    /// Rows. The parameters go with the future, so that it can wait for others.
    pub(super) async fn query<const N: usize>(
        &self,
        statement: &Statement,
        params: [Param<'_>; N],
    ) -> Result<Vec<Row>, Error> {
        self.client().query(statement, &params).await
    }

    /// The same, for as many parameters as there are.
    pub(super) async fn query_all(
        &self,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.client().query(statement, params).await
    }

    /// How many rows were touched.
    pub(super) async fn execute<const N: usize>(
        &self,
        statement: &Statement,
        params: [Param<'_>; N],
    ) -> Result<u64, Error> {
        self.client().execute(statement, &params).await
    }

    /// Asks for the end of it; what was sent before has failed if this does.
    pub(super) async fn commit(&self) -> Result<(), Error> {
        self.client().batch_execute("COMMIT").await
    }

    /// The server has confirmed the end: the connection is free for others.
    pub(super) fn ended(mut self) {
        drop(self.client.take());
    }

    /// Takes everything back.
    pub(super) async fn roll_back(self) -> Result<(), Error> {
        self.client().batch_execute("ROLLBACK").await?;
        self.ended();
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // Not back into the pool: nobody knows what is open in it.
            drop(Object::take(client));
        }
    }
}

/// Statements that are used together, prepared together: in one round trip, once for each
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

/// Tries something until it succeeds, is refused, or too much time has passed.
macro_rules! tried {
    ($attempt:expr) => {{
        let mut retry = $crate::postgres::pool::Retry::new();
        loop {
            match $attempt.await {
                Ok(done) => break Ok(done),
                Err(failure) => {
                    if let Err(failure) = retry.again(failure).await {
                        break Err(failure);
                    }
                }
            }
        }
    }};
}

pub(super) use tried;

/// `Ok` of an optional future: what need not be asked costs nothing.
pub(super) async fn if_some<T, F>(future: Option<F>) -> Result<Option<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    match future {
        Some(future) => future.await.map(Some),
        None => Ok(None),
    }
}
