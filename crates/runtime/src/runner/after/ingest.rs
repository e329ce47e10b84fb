//! Ingests a session into memory after a run, in the background, or later if a process has crashed.
//!
//! The caller has already received the end of its run. The memory skips events that it has
//! ingested, so the session's next run also ingests events that were not ingested because of a
//! failure or crash.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use retain_core::{
    MemoryError, MemoryService, PendingWork, Session, SessionKey, SessionOrigin, SessionWork,
    Window,
};
use tokio::{sync::Semaphore, time::timeout};

use super::{AfterRuns, finished_work};
use crate::{error::error_kind, plugins::panic_text, runner::Inner};

type Result<T> = std::result::Result<T, MemoryError>;

/// The maximum number of concurrent ingestions. A queued task does not hold its session.
const INGESTS_MAX: usize = 8;
/// The pauses before the retries of a failed ingestion. If the last retry fails, the failure is
/// reported.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// The time limit for ingesting a session, so that nothing waits for it forever.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The sessions being ingested, and the limit on their number.
#[derive(Debug)]
pub(crate) struct Ingests {
    pub(crate) after_runs: AfterRuns<MemoryError>,
    permits: Semaphore,
}

impl Default for Ingests {
    fn default() -> Ingests {
        Ingests {
            after_runs: AfterRuns::default(),
            permits: Semaphore::new(INGESTS_MAX),
        }
    }
}

/// The work on one session. If the task is dropped, waiters no longer wait for it.
struct IngestTask {
    inner: Arc<Inner>,
    key: SessionKey,
    is_done: bool,
}

impl Drop for IngestTask {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.ingests.after_runs.remove(&self.key);
        }
    }
}

impl Inner {
    /// Starts a task that ingests the session, if the runner ingests runs. `session` is the
    /// session at the end of the run, if the run had loaded all of it.
    pub(crate) fn start_ingestion(self: &Arc<Self>, key: &SessionKey, session: Option<Session>) {
        if !self.ingests_turns || !self.ingests.after_runs.begin(key) {
            return;
        }
        let ingest = IngestTask {
            inner: Arc::clone(self),
            key: key.clone(),
            is_done: false,
        };
        let runtime = tokio::runtime::Handle::try_current();
        match runtime.or_else(|_| crate::runner::own_runtime().cloned()) {
            Ok(runtime) => drop(runtime.spawn(ingest.run(session))),
            Err(error) => ingest.record_failure(MemoryError::backend(error)),
        }
    }

    /// Ingests the session and records that this is done, unless the session was deleted.
    pub(crate) async fn ingest(&self, key: &SessionKey, session: Option<Session>) -> Result<()> {
        let memory = self.memory.as_deref().ok_or(MemoryError::NoService)?;
        let ingestion = Ingestion {
            inner: self,
            memory,
            key,
        };
        if let Some(done) = ingestion.run(session).await? {
            self.finish_work(&done).await;
        }
        Ok(())
    }
}

impl IngestTask {
    async fn run(mut self, mut session: Option<Session>) {
        loop {
            if let Err(error) = self.inner.ingest(&self.key, session.take()).await {
                self.record_failure(error);
            }
            // Another run may have ended meanwhile; its events are in the log.
            if !self.inner.ingests.after_runs.must_repeat(&self.key) {
                self.is_done = true;
                return;
            }
        }
    }

    /// Logs and records that a session was not ingested. Its work stays pending.
    fn record_failure(&self, error: MemoryError) {
        let session = &self.key;
        tracing::warn!(kind = error_kind(&error), "failed to ingest a session");
        tracing::debug!(?session, error = ?error.to_string(), "failed to ingest a session");
        self.inner
            .ingests
            .after_runs
            .record_failure(&self.key, error);
    }
}

/// The ingestion of one session.
struct Ingestion<'a> {
    inner: &'a Inner,
    memory: &'a dyn MemoryService,
    key: &'a SessionKey,
}

impl Ingestion<'_> {
    /// Waits for a permit, then ingests the session within the time limit. Returns the finished
    /// work; `None` if the session no longer exists.
    async fn run(&self, mut session: Option<Session>) -> Result<Option<SessionWork>> {
        let permits = &self.inner.ingests.permits;
        let permit = match permits.try_acquire() {
            Ok(permit) => Ok(permit),
            Err(_) => {
                // The wait may be long, so free the session and read it from the log again later.
                session = None;
                permits.acquire().await
            }
        };
        let _permit = permit.map_err(MemoryError::backend)?;
        let tries = timeout(TIME_LIMIT, self.ingest_with_retries(session)).await;
        tries.map_err(MemoryError::backend)?
    }

    /// Ingests the session. Retries transient failures.
    async fn ingest_with_retries(&self, session: Option<Session>) -> Result<Option<SessionWork>> {
        for pause in PAUSES {
            match self.ingest_once(session.clone()).await {
                Err(MemoryError::Backend(_)) => tokio::time::sleep(pause).await,
                done => return done,
            }
        }
        self.ingest_once(session).await
    }

    /// Makes one attempt. Converts a panic of the memory service to an error.
    async fn ingest_once(&self, session: Option<Session>) -> Result<Option<SessionWork>> {
        let add = AssertUnwindSafe(self.add_to_memory(session))
            .catch_unwind()
            .await;
        add.unwrap_or_else(|panic| {
            let reason = format!("panicked: {}", panic_text(&*panic));
            Err(MemoryError::backend(reason))
        })
    }

    /// Adds the session to memory, unless it was deleted, for example because its user was erased.
    async fn add_to_memory(&self, session: Option<Session>) -> Result<Option<SessionWork>> {
        let window = match &session {
            Some(_) => Window::NONE,
            None => Window::ALL,
        };
        let stored = self.inner.log.read(self.key, window).await;
        let Some(stored) = stored.map_err(MemoryError::backend)? else {
            return Ok(None);
        };
        let session = session.unwrap_or_else(|| stored.clone());
        if session.incarnation != stored.incarnation {
            return Ok(None);
        }
        let origin = SessionOrigin::new(&self.inner.log, &session);
        let bound = origin.and_then(|origin| self.memory.for_session(origin));
        let added = match &bound {
            Some(bound) => bound.add_session_to_memory(&session).await,
            None => self.memory.add_session_to_memory(&session).await,
        };
        match added {
            Err(MemoryError::SessionGone { .. }) => Ok(None),
            added => added.map(|()| Some(finished_work(&session, PendingWork::INGESTION))),
        }
    }
}
