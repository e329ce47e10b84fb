//! The background job that purges deleted sessions. A failure is logged and fails no caller.

use std::sync::atomic::{AtomicBool, Ordering};

use retain_core::Result;
use tokio::sync::{Mutex, MutexGuard};

use super::{
    PostgresStore, delete,
    pool::{Failure, retry},
};

/// The background jobs of one process.
#[derive(Debug, Default)]
pub(super) struct BackgroundJobs {
    purge: BackgroundJob,
}

/// A job that at most one task runs at a time. Requesting a job that is already due changes
/// nothing.
#[derive(Debug, Default)]
struct BackgroundJob {
    is_due: AtomicBool,
    running: Mutex<()>,
}

impl BackgroundJob {
    /// Requests the job; false if it is due already.
    fn request(&self) -> bool {
        !self.is_due.swap(true, Ordering::SeqCst)
    }

    /// Waits until no other task runs the job. The run that follows covers all requests so far.
    async fn begin(&self) -> MutexGuard<'_, ()> {
        let guard = self.running.lock().await;
        self.is_due.store(false, Ordering::SeqCst);
        guard
    }

    /// Waits until no other task runs the job; `None` if another run has covered the request.
    async fn begin_if_due(&self) -> Option<MutexGuard<'_, ()>> {
        let guard = self.running.lock().await;
        self.is_due.swap(false, Ordering::SeqCst).then_some(guard)
    }
}

impl PostgresStore {
    /// Deletes the logs of deleted sessions, in chunks, and returns when none is left. Each
    /// deletion of a session starts this in the background.
    pub async fn purge(&self) -> Result<()> {
        let _guard = self.background.purge.begin().await;
        self.purge_all().await
    }

    async fn purge_all(&self) -> Result<()> {
        loop {
            let more = retry!(delete::purge_chunk(&self.database, self.now_us()));
            if !more
                .map_err(|failure: Failure| failure.into_session_error("purge deleted sessions"))?
            {
                return Ok(());
            }
        }
    }

    /// Starts [`purge`](Self::purge) in the background.
    pub(super) fn purge_later(&self) {
        if !self.background.purge.request() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            if let Some(_guard) = store.background.purge.begin_if_due().await {
                log_failed_purge(store.purge_all().await);
            }
        });
    }

    /// Like [`purge`](Self::purge), but only logs a failure.
    pub(super) async fn purge_if_possible(&self) {
        log_failed_purge(self.purge().await);
    }
}

/// Writes a warning if the purge failed. The session logs stay marked, so the next purge deletes
/// them.
fn log_failed_purge(purged: Result<()>) {
    if let Err(error) = purged {
        tracing::warn!("failed to purge deleted sessions; the next purge retries: {error}");
    }
}
