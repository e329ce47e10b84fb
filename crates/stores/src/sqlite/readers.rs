//! A pool of connections for reading.

use std::sync::{Arc, Mutex, PoisonError};

use retain_core::{Result, budget::Meter};
use rusqlite::Connection;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

use super::{SqliteOptions, failed, open, writer::Writer};

/// Maximum number of concurrent readers. More readers would only compete for the CPU.
const READERS: usize = 8;

/// The pool of reading connections. Each read sees one snapshot.
pub(super) struct Readers {
    options: SqliteOptions,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    writer: Arc<Writer>,
}

impl Readers {
    pub(super) fn new(options: SqliteOptions, writer: Arc<Writer>) -> Readers {
        Readers {
            options,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS)),
            writer,
        }
    }

    /// Runs `read` on a snapshot, without blocking the executor's other tasks.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // Acquiring fails only if the semaphore is closed, which never happens.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let readers = Arc::clone(self);
        blocking(operation, move || {
            let _permit = permit;
            readers.read_now(operation, read)
        })
        .await
    }

    /// Like [`read`](Self::read), for a few rows. With an idle connection, it reads on this thread:
    /// that takes microseconds, and moving the runtime's other tasks to another thread costs
    /// several times as much.
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
            // An in-memory database has one connection. Its lock excludes writes during the read.
            return self.writer.with_connection(read);
        }
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::open_reader(&self.options)?,
        };
        self.read_on(connection, operation, read)
    }

    /// Reads in one snapshot and returns the connection to the pool.
    fn read_on<T>(
        &self,
        connection: Connection,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let step = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
        step("BEGIN").map_err(|e: rusqlite::Error| failed(operation, e))?;
        let result = read(&connection);
        // Drop a connection that cannot end its snapshot. The read has written nothing.
        if step("COMMIT").is_ok() {
            self.idle().push(connection);
        }
        result
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs blocking work without blocking the runtime's other tasks. Stays on this thread if possible,
/// because sending a short read to another thread costs more than the read.
pub(super) async fn blocking<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let meter = Meter::current();
    let work = move || match meter {
        Some(meter) => meter.sync_scope(work),
        None => work(),
    };
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
