//! The single writer of a database: it batches queued jobs into one transaction.
//!
//! A caller that finds the connection idle commits the queue on its own thread, which saves two
//! thread switches. Otherwise the writer thread commits the queue. Neither waits for a batch to
//! fill. If a transaction fails, all its jobs fail and the connection is reopened.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use retain_core::{FreeSpace, Result, SessionError};
use rusqlite::Connection;
use tokio::{
    runtime::{self, RuntimeFlavor},
    sync::oneshot,
};

use super::{
    SqliteOptions, failed,
    free_space::{PAGE_BYTES, SpaceGuard, write_cost},
    open,
    tail::VersionCheck,
};

/// Maximum number of jobs in one transaction. A larger batch only delays the first job's result.
const BATCH_MAX: usize = 256;

/// Work for the writer's connection, and the channel for its result.
trait WriteJob: Send {
    /// Runs the work. Returns false if it must be rolled back. The writer may call this again after
    /// a rollback.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Sends the result to the caller. `failure` is the transaction's error, if it failed.
    fn send_result(self: Box<Self>, failure: Option<&rusqlite::Error>);

    /// Whether the job must run outside a transaction.
    fn is_exclusive(&self) -> bool;
}

struct Request<T, F> {
    operation: &'static str,
    work: F,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    exclusive: bool,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T> + Send> WriteJob for Request<T, F> {
    fn run(&mut self, connection: &Connection) -> bool {
        let result = (self.work)(connection);
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn send_result(self: Box<Self>, failure: Option<&rusqlite::Error>) {
        let result = match (failure, self.result) {
            (None, Some(result)) => result,
            // Prefer the job's own error, which is more precise, unless writes of other jobs, now
            // rolled back, may have caused it.
            (Some(_), Some(Err(error))) if is_independent(&error) => Err(error),
            (Some(failure), _) => Err(failed(self.operation, clone_error(failure))),
            (None, None) => Err(stopped_error()),
        };
        // Sending fails if the caller was cancelled.
        let _ = self.reply.send(result);
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Box<dyn WriteJob>>,
    closed: bool,
}

/// State shared by the callers and the writer thread.
struct WriterState {
    options: SqliteOptions,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// `None` after a failed transaction, until the writer reopens it.
    connection: Mutex<Option<Connection>>,
    /// Whether the last transaction had more than one job.
    last_batch_was_shared: AtomicBool,
}

/// Wakes the writer thread if the caller is cancelled after it has queued a job.
struct WakeOnDrop<'a>(Option<&'a WriterState>);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.0 {
            state.wake.notify_one();
        }
    }
}

/// Whether this thread belongs to a runtime that can move its other tasks to another thread.
fn may_block() -> bool {
    runtime::Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The writer of a database. All writes go through it.
pub(super) struct Writer {
    state: Arc<WriterState>,
    /// `None` if the database needs no free space.
    space: Option<SpaceGuard>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(options: SqliteOptions, connection: Connection) -> Result<Writer> {
        let space = SpaceGuard::new(&options);
        let state = Arc::new(WriterState {
            options,
            queue: Mutex::default(),
            wake: Condvar::new(),
            connection: Mutex::new(Some(connection)),
            last_batch_was_shared: AtomicBool::new(false),
        });
        let thread_state = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("retain-sqlite".to_owned())
            .spawn(move || thread_state.run_thread())
            .map_err(|e| SessionError::Store {
                store: super::NAME,
                operation: "start the writer thread",
                source: Box::new(e),
            })?;
        Ok(Writer {
            state,
            space,
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction and returns after the commit. If the caller is cancelled, the
    /// work is still committed as a whole.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(operation, work, false).await
    }

    /// Like [`write`](Self::write), for work that adds about `bytes` of data: fails while too little
    /// space is free. Deletions and leases use `write`, so that they succeed even then.
    pub(super) async fn add<T: Send + 'static>(
        &self,
        operation: &'static str,
        bytes: usize,
        work: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if let Some(space) = &self.space {
            space.admit(operation, write_cost(bytes), || self.reusable_bytes())?;
        }
        self.write(operation, work).await
    }

    /// Returns what is free on the file system of the database.
    pub(super) fn free_space(&self) -> Option<FreeSpace> {
        let space = self.space.as_ref()?;
        space.free_space(|| self.reusable_bytes())
    }

    /// Returns the bytes that deleted rows have left in the file; `None` if the connection is busy.
    fn reusable_bytes(&self) -> Option<u64> {
        let connection = self.state.connection.try_lock().ok()?;
        let pages = connection.as_ref()?.prepare_cached("PRAGMA freelist_count");
        let pages: rusqlite::Result<u64> =
            pages.and_then(|mut p| p.query_row([], |row| row.get(0)));
        pages.ok().map(|pages| pages * PAGE_BYTES)
    }

    /// Runs `work` outside any transaction, while no other job runs.
    pub(super) async fn run_exclusive<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(operation, work, true).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnMut(&Connection) -> Result<T> + Send + 'static,
        exclusive: bool,
    ) -> Result<T> {
        let (reply, result) = oneshot::channel();
        let request = Request {
            operation,
            work,
            result: None,
            reply,
            exclusive,
        };
        self.state.queue().jobs.push_back(Box::new(request));
        if self.state.last_batch_was_shared.load(Ordering::Relaxed) && may_block() {
            // Other tasks probably write too. Yield once, so that ready tasks can queue their jobs
            // for the same transaction.
            let mut wake_if_cancelled = WakeOnDrop(Some(&self.state));
            tokio::task::yield_now().await;
            wake_if_cancelled.0 = None;
        }
        self.state.commit_or_wake(exclusive);
        result.await.unwrap_or_else(|_| Err(stopped_error()))
    }

    /// Reads SQLite's data version, which changes when another process commits. Does not block.
    pub(super) fn check_version(&self) -> VersionCheck {
        let connection = match self.state.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return VersionCheck::Busy,
        };
        let version = |connection: &Connection| {
            let mut statement = connection.prepare_cached("PRAGMA data_version")?;
            statement.query_row([], |row| row.get(0))
        };
        match connection.as_ref().map(version) {
            Some(Ok(version)) => VersionCheck::Version(version),
            // The connection failed. The caller's next read returns the error.
            Some(Err(_)) | None => VersionCheck::Unknown,
        }
    }

    /// Runs `read` on the writer's connection, the only one that an in-memory database has.
    pub(super) fn with_connection<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let mut connection = self.state.connection();
        let connection = self.state.ensure_open(&mut connection)?;
        read(connection)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.state.queue().closed = true;
        self.state.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // Joining fails only if the thread has panicked, and drop cannot return an error.
            let _ = thread.join();
        }
    }
}

impl WriterState {
    /// Commits a batch on this thread if it may block and the connection is idle. Wakes the writer
    /// thread for the remaining jobs.
    fn commit_or_wake(&self, exclusive: bool) {
        if may_block() && !exclusive {
            let connection = match self.connection.try_lock() {
                Ok(connection) => Some(connection),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(connection) = connection {
                // This blocks for at most one transaction, and never waits for another process.
                tokio::task::block_in_place(|| self.commit_batch_here(connection));
            }
        }
        // Other callers may have queued jobs during the commit.
        if !self.queue().jobs.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Commits one batch on the caller's thread, unless another process is writing.
    fn commit_batch_here(&self, mut connection: MutexGuard<'_, Option<Connection>>) {
        let Some(open) = connection.as_ref() else {
            return;
        };
        // Only the writer thread may wait for another process; it commits the queue if this fails.
        let _ = open.busy_timeout(Duration::ZERO);
        let transaction = execute(open, "BEGIN IMMEDIATE");
        let _ = open.busy_timeout(open::BUSY_TIMEOUT);
        if transaction.is_err() {
            return;
        }
        let jobs = self.take_batch();
        self.commit(&mut connection, jobs);
    }

    /// Runs jobs on the writer thread until the writer is dropped and the queue is empty.
    fn run_thread(&self) {
        while self.wait_for_jobs() {
            let mut connection = self.connection();
            if self.front_is_exclusive() {
                self.run_exclusive_job(&mut connection);
                continue;
            }
            let transaction = self.ensure_open(&mut connection).and_then(|open| {
                execute(open, "BEGIN IMMEDIATE").map_err(|e| failed("begin a transaction", e))
            });
            let jobs = self.take_batch();
            match transaction {
                Ok(()) => self.commit(&mut connection, jobs),
                Err(error) => {
                    self.discard_connection(&mut connection);
                    fail_all(jobs, error);
                }
            }
        }
    }

    /// Waits for a job. Returns false when the writer is dropped and the queue is empty.
    fn wait_for_jobs(&self) -> bool {
        let mut queue = self.queue();
        while queue.jobs.is_empty() && !queue.closed {
            queue = self
                .wake
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !queue.jobs.is_empty()
    }

    fn front_is_exclusive(&self) -> bool {
        let queue = self.queue();
        queue.jobs.front().is_some_and(|job| job.is_exclusive())
    }

    /// Removes the jobs at the front of the queue that can share a transaction.
    fn take_batch(&self) -> Vec<Box<dyn WriteJob>> {
        let jobs = &mut self.queue().jobs;
        let batch = jobs
            .iter()
            .take(BATCH_MAX)
            .take_while(|job| !job.is_exclusive());
        let count = batch.count();
        jobs.drain(..count).collect()
    }

    fn run_exclusive_job(&self, connection: &mut Option<Connection>) {
        let Some(mut job) = self.queue().jobs.pop_front() else {
            return;
        };
        match self.ensure_open(connection) {
            Ok(open) => {
                job.run(open);
                job.send_result(None);
            }
            Err(error) => fail_all(vec![job], error),
        }
    }

    /// Runs the jobs in the open transaction, commits it, and sends the results.
    fn commit(&self, connection: &mut Option<Connection>, mut jobs: Vec<Box<dyn WriteJob>>) {
        let is_shared = jobs.len() > 1;
        self.last_batch_was_shared
            .store(is_shared, Ordering::Relaxed);
        let Some(open) = connection.as_ref() else {
            return fail_all(jobs, stopped_error());
        };
        // A panic in a job must not leave the transaction open or callers waiting.
        let outcome = catch_unwind(AssertUnwindSafe(|| run_all(open, &mut jobs)));
        let outcome = outcome.unwrap_or_else(|_| Err(error_with_text("a write job panicked")));
        if outcome.is_err() {
            let _ = open.execute_batch("ROLLBACK");
            self.discard_connection(connection);
        }
        for job in jobs {
            job.send_result(outcome.as_ref().err());
        }
    }

    /// Closes the connection after a failure, because after a failed sync its cached pages may
    /// differ from the file. An in-memory database would be lost, so its connection stays open.
    fn discard_connection(&self, connection: &mut Option<Connection>) {
        if self.options.path.is_some() {
            *connection = None;
        }
    }

    /// Returns the connection; reopens it if a failure has closed it.
    fn ensure_open<'a>(&self, connection: &'a mut Option<Connection>) -> Result<&'a Connection> {
        let open = match connection.take() {
            Some(open) => open,
            None => open::open_writer(&self.options)?,
        };
        Ok(connection.insert(open))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs every job and commits. If it returns an error, no job is stored.
fn run_all(connection: &Connection, jobs: &mut [Box<dyn WriteJob>]) -> rusqlite::Result<()> {
    if let [job] = jobs {
        return if job.run(connection) {
            execute(connection, "COMMIT")
        } else {
            connection.execute_batch("ROLLBACK")
        };
    }
    // Savepoints make SQLite copy every page that a job changes, and most failing jobs fail before
    // their first write. So the first attempt runs without savepoints.
    if !run_without_savepoints(connection, jobs)? {
        connection.execute_batch("ROLLBACK")?;
        execute(connection, "BEGIN IMMEDIATE")?;
        run_with_savepoints(connection, jobs)?;
    }
    execute(connection, "COMMIT")
}

/// Runs the jobs in order. Returns false if one failed after its first write.
fn run_without_savepoints(
    connection: &Connection,
    jobs: &mut [Box<dyn WriteJob>],
) -> rusqlite::Result<bool> {
    for job in jobs {
        let before = connection.total_changes();
        if !job.run(connection) {
            check_transaction(connection)?;
            if connection.total_changes() != before {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Runs each job in a savepoint, so that a failed job is rolled back without the others.
fn run_with_savepoints(
    connection: &Connection,
    jobs: &mut [Box<dyn WriteJob>],
) -> rusqlite::Result<()> {
    for job in jobs {
        execute(connection, "SAVEPOINT job")?;
        if !job.run(connection) {
            check_transaction(connection)?;
            execute(connection, "ROLLBACK TO job")?;
        }
        execute(connection, "RELEASE job")?;
    }
    Ok(())
}

/// Fails if SQLite has rolled back the whole transaction, as it does when the disk is full.
fn check_transaction(connection: &Connection) -> rusqlite::Result<()> {
    if !connection.is_autocommit() {
        return Ok(());
    }
    let reason = "the transaction was rolled back".to_owned();
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    Err(rusqlite::Error::SqliteFailure(code, Some(reason)))
}

/// Executes a statement without parameters, from the statement cache.
fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Sends the error to the callers of all jobs.
fn fail_all(jobs: Vec<Box<dyn WriteJob>>, error: SessionError) {
    let mut error = Some(error);
    for job in jobs {
        let failure = match error.take() {
            Some(SessionError::Store { source, .. } | SessionError::Full { source, .. }) => source
                .downcast::<rusqlite::Error>()
                .map_or_else(|other| error_with_text(other.to_string()), |error| *error),
            Some(other) => error_with_text(other.to_string()),
            None => error_with_text("the database cannot be written"),
        };
        job.send_result(Some(&failure));
        error = Some(failed("write to the database", failure));
    }
}

/// Whether an error cannot have been caused by the other jobs in the transaction.
fn is_independent(error: &SessionError) -> bool {
    use SessionError::{Corrupt, Full, Invalid, Store, TooLarge};
    matches!(
        error,
        Corrupt { .. } | Full { .. } | Invalid { .. } | Store { .. } | TooLarge { .. }
    )
}

fn error_with_text(text: impl Into<String>) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
    rusqlite::Error::SqliteFailure(code, Some(text.into()))
}

/// Copies an error for another caller, because `rusqlite::Error` is not `Clone`.
fn clone_error(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => error_with_text(other.to_string()),
    }
}

fn stopped_error() -> SessionError {
    failed(
        "write to the database",
        error_with_text("the writer has stopped"),
    )
}
