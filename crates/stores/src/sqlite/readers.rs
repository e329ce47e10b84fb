//! Connections for reading: a few, kept open, each used by one reader at a time.

use std::sync::{Arc, Mutex, PoisonError};

use retain_core::Result;
use rusqlite::Connection;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

use super::{SqliteOptions, failed, open, writer::Writer};

/// Readers at a time. More would only compete for the same cores.
const READERS: usize = 8;

/// Reads the database, each time in one snapshot.
pub(super) struct Readers {
    options: SqliteOptions,
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
    writer: Arc<Writer>,
}

impl Readers {
    pub(super) fn new(options: SqliteOptions, writer: Arc<Writer>) -> Readers {
        Readers {
            options,
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(READERS)),
            writer,
        }
    }

    /// Runs `read` on a snapshot, without blocking the executor's other tasks.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // Never closed, so the only error there is cannot come.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let readers = Arc::clone(self);
        blocking(operation, move || {
            let _place = place;
            readers.read_now(operation, read)
        })
        .await
    }

    /// As [`read`](Self::read), for the few rows that most reads are for. Where a connection is at
    /// hand they are read at once: that is microseconds, and moving the runtime's other tasks to
    /// another thread would cost several times as much.
    pub(super) async fn read_small<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let idle = self.idle().pop();
        match idle {
            Some(connection) => self.read_on(connection, operation, read),
            None => self.read(operation, read).await,
        }
    }

    fn read_now<T>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        if self.options.path.is_none() {
            // A database in memory is its connection. Nobody writes while we have it.
            return self.writer.with_connection(read);
        }
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_reader(&self.options)?,
        };
        self.read_on(connection, operation, read)
    }

    /// Reads in one snapshot and keeps the connection for the next reader.
    fn read_on<T>(
        &self,
        connection: Connection,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let step = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
        step("BEGIN").map_err(|e: rusqlite::Error| failed(operation, e))?;
        let result = read(&connection);
        // Nothing was written; a connection that cannot end its snapshot is not used again.
        if step("COMMIT").is_ok() {
            self.idle().push(connection);
        }
        result
    }

    /// Closes the connections that nobody uses.
    pub(super) fn close_idle(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs blocking work where it blocks nobody. Reads take microseconds, as a rule; handing each to
/// another thread would cost more than the read.
pub(super) async fn blocking<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        Ok(_) => match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) => Err(retain_core::SessionError::Store {
                store: super::NAME,
                operation,
                source: Box::new(error),
            }),
        },
        Err(_) => work(),
    }
}
