//! What a run has said goes into the memory when the run is over, beside whatever comes next.
//!
//! The caller has the end of his run already. The memory takes up what it does not know yet, so what
//! was lost to a failure or a crash is taken up with the next run of the session.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use retain_core::{MemoryError, MemoryService, Session, SessionKey, Window};
use tokio::{sync::Semaphore, time::timeout};

use super::AfterRuns;
use crate::{error::error_kind, plugins::panic_text, runner::Inner};

type Result<T> = std::result::Result<T, MemoryError>;

/// How many sessions are taken up at once. Others wait, and hold nothing meanwhile.
const AT_ONCE: usize = 8;
/// How long is waited before a failure is tried again. Behind the last, it is told.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// How long a memory may take for a session: whoever waits for it is to come to an end.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The sessions that are being taken up, and how many may be.
#[derive(Debug)]
pub(crate) struct Ingests {
    pub(crate) after_runs: AfterRuns<MemoryError>,
    places: Semaphore,
}

impl Default for Ingests {
    fn default() -> Ingests {
        Ingests {
            after_runs: AfterRuns::default(),
            places: Semaphore::new(AT_ONCE),
        }
    }
}

/// The work on one session. If it breaks off, nobody waits for it any more.
struct Ingest {
    inner: Arc<Inner>,
    memory: Arc<dyn MemoryService>,
    key: SessionKey,
    is_done: bool,
}

impl Drop for Ingest {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.ingests.after_runs.give_up(&self.key);
        }
    }
}

impl Inner {
    /// Adds the session to the memory later, if the runner is to. `session` is as the run left it,
    /// if the run had all of it.
    pub(crate) fn ingest_later(self: &Arc<Self>, key: &SessionKey, session: Option<Session>) {
        let Some(memory) = self.memory.as_ref().filter(|_| self.ingests_turns) else {
            return;
        };
        if !self.ingests.after_runs.begin(key) {
            return;
        }
        let ingest = Ingest {
            inner: Arc::clone(self),
            memory: Arc::clone(memory),
            key: key.clone(),
            is_done: false,
        };
        let runtime = tokio::runtime::Handle::try_current();
        match runtime.or_else(|_| crate::runner::own_runtime().cloned()) {
            Ok(runtime) => drop(runtime.spawn(ingest.work(session))),
            Err(error) => ingest.failed(MemoryError::backend(error)),
        }
    }
}

impl Ingest {
    async fn work(mut self, mut session: Option<Session>) {
        loop {
            if let Err(error) = self.take_up(session.take()).await {
                self.failed(error);
            }
            // Another run may have ended meanwhile; what it said is in the log.
            if !self.inner.ingests.after_runs.again(&self.key) {
                self.is_done = true;
                return;
            }
        }
    }

    /// Tells of a session that was not taken up.
    fn failed(&self, error: MemoryError) {
        let session = &self.key;
        tracing::warn!(
            kind = error_kind(&error),
            "a session could not be remembered"
        );
        tracing::debug!(?session, error = ?error.to_string(), "a session could not be remembered");
        self.inner.ingests.after_runs.failed(&self.key, error);
    }

    /// Takes up the session when it is its turn, and in a time that is given.
    async fn take_up(&self, mut session: Option<Session>) -> Result<()> {
        let places = &self.inner.ingests.places;
        let place = match places.try_acquire() {
            Ok(place) => Ok(place),
            Err(_) => {
                // It may be long until its turn; the log has it then.
                session = None;
                places.acquire().await
            }
        };
        let _place = place.map_err(MemoryError::backend)?;
        let tries = timeout(TIME_LIMIT, self.tries(session)).await;
        tries.map_err(MemoryError::backend)?
    }

    /// What fails in passing is tried again.
    async fn tries(&self, session: Option<Session>) -> Result<()> {
        for pause in PAUSES {
            match self.guarded(session.clone()).await {
                Err(MemoryError::Backend(_)) => tokio::time::sleep(pause).await,
                done => return done,
            }
        }
        self.guarded(session).await
    }

    /// One try. A panic in the memory is a failure like others.
    async fn guarded(&self, session: Option<Session>) -> Result<()> {
        let add = AssertUnwindSafe(self.add(session)).catch_unwind().await;
        add.unwrap_or_else(|panic| {
            let reason = format!("panicked: {}", panic_text(&*panic));
            Err(MemoryError::backend(reason))
        })
    }

    /// A session that is gone, for instance because its user was erased, is not remembered.
    async fn add(&self, session: Option<Session>) -> Result<()> {
        let window = match &session {
            Some(_) => Window::NONE,
            None => Window::ALL,
        };
        let stored = self.inner.log.read(&self.key, window).await;
        let stored = stored.map_err(MemoryError::backend)?;
        match stored {
            Some(stored) => {
                let session = session.unwrap_or(stored);
                self.memory.add_session_to_memory(&session).await
            }
            None => Ok(()),
        }
    }
}
