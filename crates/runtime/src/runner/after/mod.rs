//! The end of a run, and the work that must follow it.
//!
//! The appends of a run record this work in the session. A background task does it after the run;
//! if the process dies before, [`Maintenance`](crate::Maintenance) does it.

pub(crate) mod abort;
mod compaction;
mod ending;
pub(crate) mod ingest;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::{BoxError, PendingWork, Session, SessionKey, SessionWork};
use tokio::sync::Notify;

use super::Inner;
use crate::error::error_kind;

/// The maximum number of recorded failures. They need a limit, because a program might never read
/// them.
const FAILURES_MAX: usize = 100;

impl Inner {
    /// The work that must follow each run.
    pub(crate) fn work_after_runs(&self) -> PendingWork {
        let mut work = PendingWork::NONE;
        if self.ingests_turns {
            work |= PendingWork::INGESTION;
        }
        if self.compactor.is_some() {
            work |= PendingWork::COMPACTION;
        }
        work
    }

    /// Does pending work that a store has recorded. Returns false if a background task of this
    /// runner is doing some of it.
    pub(crate) async fn do_pending_work(&self, pending: &SessionWork) -> Result<bool, BoxError> {
        let (work, key) = (pending.work, &pending.key);
        let mut is_done = true;
        if work.contains(PendingWork::INGESTION) {
            match self.ingests.after_runs.is_active(key) {
                true => is_done = false,
                false => self.ingest(key, None).await?,
            }
        }
        if work.contains(PendingWork::COMPACTION) {
            match self.after_runs.is_active(key) {
                true => is_done = false,
                false => self.compact(key, None).await?,
            }
        }
        let unknown = work.without(PendingWork::INGESTION | PendingWork::COMPACTION);
        if !unknown.is_empty() {
            return Err(format!("unknown work {unknown:?}; use a newer version").into());
        }
        Ok(is_done)
    }

    /// Records that work is finished. If that fails, the work is done once more, which changes
    /// nothing.
    pub(crate) async fn finish_work(&self, done: &SessionWork) {
        let Ok(store) = self.log.maintenance() else {
            return;
        };
        if let Err(error) = store.finish_work(done).await {
            tracing::warn!(kind = error_kind(&error), "failed to record finished work");
            let (session, error) = (&done.key, error.to_string());
            tracing::debug!(?session, ?error, "failed to record finished work");
        }
    }
}

/// Work that is finished for all events of `session`.
fn finished_work(session: &Session, work: PendingWork) -> SessionWork {
    SessionWork {
        key: session.key(),
        incarnation: session.incarnation,
        position: session.position,
        work,
    }
}

/// The sessions that a background task handles after a run.
#[derive(Debug)]
pub(crate) struct AfterRuns<E> {
    /// Whether the task must repeat its work, by session: another run of that session has ended
    /// meanwhile.
    sessions: Mutex<HashMap<SessionKey, bool>>,
    done: Notify,
    /// Failures that the caller has not read yet, oldest first.
    failures: Mutex<VecDeque<(SessionKey, E)>>,
}

impl<E> Default for AfterRuns<E> {
    fn default() -> AfterRuns<E> {
        AfterRuns {
            sessions: Mutex::default(),
            done: Notify::default(),
            failures: Mutex::default(),
        }
    }
}

impl<E> AfterRuns<E> {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, bool>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a session whose run has ended. Returns whether the caller must start a task for
    /// it. If a task is already active, it repeats its work instead.
    pub(crate) fn begin(&self, key: &SessionKey) -> bool {
        let mut sessions = self.lock();
        let again = sessions.get_mut(key).map(|again| *again = true);
        if again.is_none() {
            sessions.insert(key.clone(), false);
        }
        again.is_none()
    }

    /// Whether the task must handle the session again. If not, the session is removed.
    pub(crate) fn must_repeat(&self, key: &SessionKey) -> bool {
        let mut sessions = self.lock();
        let again = sessions.get_mut(key).is_some_and(std::mem::take);
        if !again {
            sessions.remove(key);
            self.done.notify_waiters();
        }
        again
    }

    /// Whether a task handles the session.
    pub(crate) fn is_active(&self, key: &SessionKey) -> bool {
        self.lock().contains_key(key)
    }

    /// Records a failure.
    pub(crate) fn record_failure(&self, key: &SessionKey, error: E) {
        let failures = self.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= FAILURES_MAX {
            failures.pop_front();
        }
        failures.push_back((key.clone(), error));
    }

    /// Returns and clears the recorded failures.
    pub(crate) fn take_failures(&self) -> Vec<(SessionKey, E)> {
        let failures = self.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.drain(..).collect()
    }

    /// Removes a session whose task was dropped.
    pub(crate) fn remove(&self, key: &SessionKey) {
        self.lock().remove(key);
        self.done.notify_waiters();
    }

    /// Waits until no task is active.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let mut done = std::pin::pin!(self.done.notified());
            done.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            done.await;
        }
    }
}
