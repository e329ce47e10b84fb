//! Connections, transactions and second attempts: what everything else here stands on.
//!
//! What is sent together travels together: futures of one connection that are polled at once, in
//! the order in which they stand in a `join!`, cost one round trip.

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
    connect::{Hosts, SharedHosts},
    tls,
};

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// How long somebody waits for a connection that others use.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a transient failure is retried, counted from the first failure: a dead connection is
/// noticed late, and what was sent on it must still be looked for.
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

    /// Whether connections that were made before this are worth nothing any more: the server is gone,
    /// or is not the one that writes.
    fn ends_connections(&self) -> bool {
        match self {
            Failure::Decided(_) | Failure::NoConnection(_) | Failure::Again(_) => false,
            Failure::Database(error) => match error.code() {
                Some(code) => is_of_the_line(code),
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
        // Something between us and the server, or one of many that it consists of, went away.
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    codes.contains(code) || is_of_the_line(code)
}

/// Whether the connection is to blame, or the server at its end.
fn is_of_the_line(code: &SqlState) -> bool {
    let codes = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        // Another one has taken its place, and this one only reads now.
        SqlState::READ_ONLY_SQL_TRANSACTION,
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
pub(super) struct Retry<'a> {
    database: &'a Database,
    /// When it failed for the first time.
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

    /// Waits a little, if another attempt makes sense; else gives the failure back. So there is a
    /// second attempt always, however long the first took to fail.
    pub(super) async fn again<E>(&mut self, failure: Failure<E>) -> Result<(), Failure<E>> {
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
    hosts: Arc<Hosts>,
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
        let hosts = Arc::new(Hosts::new(options, connector));
        let connect = SharedHosts(Arc::clone(&hosts));
        let manager = Manager::from_connect(options.config.clone(), connect, config);
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(hosts.limit_of_all()))
            .build()?;
        Ok(Database { pool, hosts })
    }

    /// A connection beside the pool, for work that takes long and that others shall not wait for.
    pub(super) async fn apart<E>(&self) -> Result<Client, Failure<E>> {
        match timeout(self.hosts.limit_of_all(), self.hosts.open()).await {
            Ok(opened) => Ok(opened?.0),
            Err(_) => Err(Failure::Again("the server did not answer in time")),
        }
    }

    /// Closes the connections that nobody uses. Where one of them has gone dead, most have, and each
    /// would take as long to say so.
    fn drop_idle(&self) {
        let _ = self.pool.retain(|_, _| false);
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
        // Nobody waits for it, but what was deleted since is kept for it.
        let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                   SET LOCAL idle_in_transaction_session_timeout = '60s'";
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

/// Tries something, a call whose first parameter is the database, until it succeeds, is refused, or
/// too much time has passed.
macro_rules! tried {
    ($($attempt:ident)::+ ($database:expr $(, $given:expr)* $(,)?)) => {{
        let mut retry = $crate::postgres::pool::Retry::new($database);
        loop {
            match $($attempt)::+($database $(, $given)*).await {
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
            assert_eq!(is_of_the_line(&SqlState::from_code(code)), ends, "{code}");
        }
    }

    /// However long the first attempt took to fail, there is a second one.
    #[tokio::test]
    async fn retry_time_starts_with_the_first_failure() {
        let database = database("postgresql://h/d");
        let mut retry = Retry::new(&database);
        let failure = || Failure::<SessionError>::Again("others came in between");
        assert!(retry.since.is_none());
        retry.again(failure()).await.unwrap();
        retry.again(failure()).await.unwrap();
        retry.since = retry.since.and_then(|since| since.checked_sub(RETRY_MAX));
        assert!(retry.again(failure()).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn idle_connections_can_be_dropped() {
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
