//! What follows a run: how it ends in the log, and the work that other tasks do for its session afterwards.

pub(crate) mod abort;
mod compaction;
mod ending;
pub(crate) mod ingest;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::SessionKey;
use tokio::sync::Notify;

/// How many failures are kept for whoever asks; a program may never ask.
const FAILURES_KEPT: usize = 100;

/// The sessions that are being looked at after a run.
#[derive(Debug)]
pub(crate) struct AfterRuns<E> {
    /// Whether another run ended meanwhile, so that it is to be looked again.
    sessions: Mutex<HashMap<SessionKey, bool>>,
    done: Notify,
    /// What went wrong and was not asked for yet, oldest first.
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

    /// Whether it is the caller who is to look at the session; else somebody does, and will again.
    pub(crate) fn begin(&self, key: &SessionKey) -> bool {
        let mut sessions = self.lock();
        let again = sessions.get_mut(key).map(|again| *again = true);
        if again.is_none() {
            sessions.insert(key.clone(), false);
        }
        again.is_none()
    }

    /// Whether the session is to be looked at again. If not, it is done with.
    pub(crate) fn again(&self, key: &SessionKey) -> bool {
        let mut sessions = self.lock();
        let again = sessions.get_mut(key).is_some_and(std::mem::take);
        if !again {
            sessions.remove(key);
            self.done.notify_waiters();
        }
        again
    }

    /// Keeps what went wrong for whoever asks.
    pub(crate) fn failed(&self, key: &SessionKey, error: E) {
        let failures = self.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= FAILURES_KEPT {
            failures.pop_front();
        }
        failures.push_back((key.clone(), error));
    }

    /// What went wrong since this was last asked.
    pub(crate) fn take_failures(&self) -> Vec<(SessionKey, E)> {
        let failures = self.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.drain(..).collect()
    }

    /// Lets go of a session whose work broke off.
    pub(crate) fn give_up(&self, key: &SessionKey) {
        self.lock().remove(key);
        self.done.notify_waiters();
    }

    /// Waits until no session is being looked at.
    pub(crate) async fn wait(&self) {
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
