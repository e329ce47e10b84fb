//! The one writer: a caller that finds it idle commits at once; queued jobs are committed together.
//!
//! A request is queued as a job. If nobody is writing, the caller takes the connection itself and
//! commits what is queued, which saves a lone caller two thread switches; else a thread takes all
//! that has gathered into one transaction and answers after COMMIT; if one of them fails half-way,
//! they are done again with a savepoint each. Nobody waits for more to gather. If the transaction itself fails, nobody is acknowledged and the connection
//! is opened anew, because after a failed sync nothing about it can be believed.

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

use retain_core::{Result, SessionError};
use rusqlite::Connection;
use tokio::{
    runtime::{self, RuntimeFlavor},
    sync::oneshot,
};

use super::{SqliteOptions, failed, open, tail::Look};

/// Jobs in one transaction. More would make the first of them wait for nothing.
const BATCH_MAX: usize = 256;

/// Work to be done on the writer's connection, and whom to tell.
trait Job: Send {
    /// Does the work; false asks for it to be rolled back. May be asked again after a rollback.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Tells the caller. `failure`: why the transaction around it came to nothing.
    fn answer(self: Box<Self>, failure: Option<&rusqlite::Error>);

    /// Whether it cannot be part of a transaction.
    fn is_alone(&self) -> bool;
}

struct Request<T, F> {
    operation: &'static str,
    work: F,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    alone: bool,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T> + Send> Job for Request<T, F> {
    fn run(&mut self, connection: &Connection) -> bool {
        let result = (self.work)(connection);
        let is_done = result.is_ok();
        self.result = Some(result);
        is_done
    }

    fn answer(self: Box<Self>, failure: Option<&rusqlite::Error>) {
        let result = match (failure, self.result) {
            (None, Some(result)) => result,
            // Its own reason says more than that of the transaction it was in, unless it rests on
            // what others wrote there, which came to nothing.
            (Some(_), Some(Err(error))) if stands_alone(&error) => Err(error),
            (Some(failure), _) => Err(failed(self.operation, clone_error(failure))),
            (None, None) => Err(stopped()),
        };
        // A caller that went away does not want to know.
        let _ = self.reply.send(result);
    }

    fn is_alone(&self) -> bool {
        self.alone
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Box<dyn Job>>,
    closed: bool,
}

struct Shared {
    options: SqliteOptions,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// `None` after a failed transaction, until it is opened anew.
    connection: Mutex<Option<Connection>>,
    /// Whether the last transaction served more than one caller.
    crowded: AtomicBool,
}

/// Sees to it that a queued job is done even if its caller goes away before it leads.
struct WakeOnDrop<'a>(Option<&'a Shared>);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.wake.notify_one();
        }
    }
}

/// Whether this thread belongs to a runtime that can move its other tasks elsewhere.
fn may_block() -> bool {
    runtime::Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The only way to change the database.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(options: SqliteOptions, connection: Connection) -> Result<Writer> {
        let shared = Arc::new(Shared {
            options,
            queue: Mutex::default(),
            wake: Condvar::new(),
            connection: Mutex::new(Some(connection)),
            crowded: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("retain-sqlite".to_owned())
            .spawn(move || for_thread.serve())
            .map_err(|e| SessionError::Store {
                store: super::NAME,
                operation: "start its writer",
                source: Box::new(e),
            })?;
        Ok(Writer {
            shared,
            thread: Some(thread),
        })
    }

    /// Does `work` in a transaction and returns after it was committed. If the caller goes away,
    /// the work is done all the same, as a whole.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(operation, work, false).await
    }

    /// Does `work` outside any transaction, while nobody else writes.
    pub(super) async fn alone<T: Send + 'static>(
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
        alone: bool,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            operation,
            work,
            result: None,
            reply,
            alone,
        };
        self.shared.queue().jobs.push_back(Box::new(request));
        if self.shared.crowded.load(Ordering::Relaxed) && may_block() {
            // Others are about to write as well: let those that are ready queue up first, so that
            // one transaction serves them all. This waits for nobody; it only goes to the back.
            let mut fallback = WakeOnDrop(Some(&self.shared));
            tokio::task::yield_now().await;
            fallback.0 = None;
        }
        self.shared.lead_or_wake(alone);
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Looks whether somebody else, which is another process, has written. Waits for nobody.
    pub(super) fn look_for_foreign_writes(&self) -> Look {
        let connection = match self.shared.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Look::Busy,
        };
        let version = |connection: &Connection| {
            let mut statement = connection.prepare_cached("PRAGMA data_version")?;
            statement.query_row([], |row| row.get(0))
        };
        match connection.as_ref().map(version) {
            Some(Ok(version)) => Look::Version(version),
            // Closed after a failure, or failing: the waiting caller reads, and gets the error.
            Some(Err(_)) | None => Look::Unknown,
        }
    }

    /// Runs `read` on the writer's own connection: for a database that only it can see.
    pub(super) fn with_connection<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let mut connection = self.shared.connection();
        let connection = self.shared.opened(&mut connection)?;
        read(connection)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // Panics of jobs are caught there; nothing else is left to tell.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Commits what is queued if nobody else does and this thread may block; else leaves it to the
    /// writer's thread.
    fn lead_or_wake(&self, alone: bool) {
        if may_block() && !alone {
            let connection = match self.connection.try_lock() {
                Ok(connection) => Some(connection),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(connection) = connection {
                // Bounded: one transaction, and no wait for another process's lock. The runtime
                // moves its other tasks to another thread meanwhile.
                tokio::task::block_in_place(|| self.lead(connection));
            }
        }
        // Also after leading: what came in meanwhile is the thread's.
        if !self.queue().jobs.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Commits one batch on the caller's thread, unless another process is writing.
    fn lead(&self, mut connection: MutexGuard<'_, Option<Connection>>) {
        let Some(open) = connection.as_ref() else {
            return;
        };
        // The thread has the patience to wait for another process; a caller's thread must not.
        let _ = open.busy_timeout(Duration::ZERO);
        let begun = step(open, "BEGIN IMMEDIATE");
        let _ = open.busy_timeout(open::BUSY_TIMEOUT);
        if begun.is_err() {
            return;
        }
        let jobs = self.take_batch();
        self.commit(&mut connection, jobs);
    }

    /// The life of the writer's thread.
    fn serve(&self) {
        while self.wait_for_jobs() {
            let mut connection = self.connection();
            if self.front_is_alone() {
                self.run_alone(&mut connection);
                continue;
            }
            let begun = self
                .opened(&mut connection)
                .and_then(|open| step(open, "BEGIN IMMEDIATE").map_err(|e| failed("begin", e)));
            let jobs = self.take_batch();
            match begun {
                Ok(()) => self.commit(&mut connection, jobs),
                Err(error) => {
                    self.distrust(&mut connection);
                    refuse(jobs, error);
                }
            }
        }
    }

    /// Waits until there is something to do; false when there never will be.
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

    fn front_is_alone(&self) -> bool {
        self.queue().jobs.front().is_some_and(|job| job.is_alone())
    }

    /// The jobs at the front that can share a transaction.
    fn take_batch(&self) -> Vec<Box<dyn Job>> {
        let jobs = &mut self.queue().jobs;
        let together = jobs
            .iter()
            .take(BATCH_MAX)
            .take_while(|job| !job.is_alone());
        let count = together.count();
        jobs.drain(..count).collect()
    }

    fn run_alone(&self, connection: &mut Option<Connection>) {
        let Some(mut job) = self.queue().jobs.pop_front() else {
            return;
        };
        match self.opened(connection) {
            Ok(open) => {
                job.run(open);
                job.answer(None);
            }
            Err(error) => refuse(vec![job], error),
        }
    }

    /// Runs the jobs in the transaction that was begun, commits, and answers.
    fn commit(&self, connection: &mut Option<Connection>, mut jobs: Vec<Box<dyn Job>>) {
        self.crowded.store(jobs.len() > 1, Ordering::Relaxed);
        let Some(open) = connection.as_ref() else {
            return refuse(jobs, stopped());
        };
        // A panic in a job must not leave a transaction open or callers without an answer.
        let outcome = catch_unwind(AssertUnwindSafe(|| run_all(open, &mut jobs)));
        let outcome = outcome.unwrap_or_else(|_| Err(message("a job panicked".to_owned())));
        if outcome.is_err() {
            let _ = open.execute_batch("ROLLBACK");
            self.distrust(connection);
        }
        for job in jobs {
            job.answer(outcome.as_ref().err());
        }
    }

    /// Gives a connection up after a failure. A database in memory is its connection and stays.
    fn distrust(&self, connection: &mut Option<Connection>) {
        if self.options.path.is_some() {
            *connection = None;
        }
    }

    /// The connection, opened anew if a transaction failed before.
    fn opened<'a>(&self, connection: &'a mut Option<Connection>) -> Result<&'a Connection> {
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

/// Runs every job and commits. An error means that nothing of it is stored.
fn run_all(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    if let [job] = jobs {
        return match job.run(connection) {
            true => step(connection, "COMMIT"),
            false => connection.execute_batch("ROLLBACK"),
        };
    }
    // Savepoints make SQLite copy every page that a job changes. Hardly ever is one needed: a job
    // that fails has looked and not written yet. So they are tried without first.
    if !run_together(connection, jobs)? {
        connection.execute_batch("ROLLBACK")?;
        step(connection, "BEGIN IMMEDIATE")?;
        run_apart(connection, jobs)?;
    }
    step(connection, "COMMIT")
}

/// Runs the jobs one after the other; false if one failed after it had begun to write.
fn run_together(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<bool> {
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

/// Runs each job in a savepoint, so that one that fails takes nothing of the others with it.
fn run_apart(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    for job in jobs {
        step(connection, "SAVEPOINT job")?;
        if !job.run(connection) {
            check_transaction(connection)?;
            step(connection, "ROLLBACK TO job")?;
        }
        step(connection, "RELEASE job")?;
    }
    Ok(())
}

/// Fails if SQLite has given up the whole transaction, as it does when the disk is full.
fn check_transaction(connection: &Connection) -> rusqlite::Result<()> {
    if !connection.is_autocommit() {
        return Ok(());
    }
    let reason = "the transaction was rolled back".to_owned();
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    Err(rusqlite::Error::SqliteFailure(code, Some(reason)))
}

/// A statement of its own that is prepared once.
fn step(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn refuse(jobs: Vec<Box<dyn Job>>, error: SessionError) {
    let mut error = Some(error);
    for job in jobs {
        let failure = match error.take() {
            Some(SessionError::Store { source, .. } | SessionError::Full { source, .. }) => source
                .downcast::<rusqlite::Error>()
                .map_or_else(|other| message(other.to_string()), |error| *error),
            Some(other) => message(other.to_string()),
            None => message("the database cannot be written".to_owned()),
        };
        job.answer(Some(&failure));
        error = Some(failed("write", failure));
    }
}

/// Whether an error says the same whatever else was in its transaction.
fn stands_alone(error: &SessionError) -> bool {
    use SessionError::{Corrupt, Full, Invalid, Store, TooLarge};
    matches!(
        error,
        Corrupt { .. } | Full { .. } | Invalid { .. } | Store { .. } | TooLarge { .. }
    )
}

fn message(text: String) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
    rusqlite::Error::SqliteFailure(code, Some(text))
}

/// The same failure for another caller; `rusqlite::Error` itself cannot be cloned.
fn clone_error(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => message(other.to_string()),
    }
}

fn stopped() -> SessionError {
    failed("write", message("the writer has stopped".to_owned()))
}
