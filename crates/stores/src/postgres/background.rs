//! Background jobs: purge and vacuum. No caller waits for them or fails because of them.

use std::sync::atomic::{AtomicBool, Ordering};

use retain_core::Result;
use tokio::sync::{Mutex, MutexGuard};

use super::{
    PostgresStore, delete, erase,
    pool::{Failure, tried},
};

/// The background jobs of one process.
#[derive(Debug, Default)]
pub(super) struct BackgroundJobs {
    purge: BackgroundJob,
    vacuum: BackgroundJob,
}

/// A job that one task at a time runs. A request while one is already due adds nothing.
#[derive(Debug, Default)]
struct BackgroundJob {
    is_due: AtomicBool,
    turn: Mutex<()>,
}

impl BackgroundJob {
    /// Whether no other task has requested the job.
    fn is_ours(&self) -> bool {
        !self.is_due.swap(true, Ordering::SeqCst)
    }

    /// Waits until the job may run. This run covers all requests so far.
    async fn begin(&self) -> MutexGuard<'_, ()> {
        let turn = self.turn.lock().await;
        self.is_due.store(false, Ordering::SeqCst);
        turn
    }

    /// Waits until the job may run; `None` if another run has covered the request.
    async fn begin_if_due(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.turn.lock().await;
        self.is_due.swap(false, Ordering::SeqCst).then_some(turn)
    }
}

impl PostgresStore {
    /// Removes what is left of deleted sessions, a chunk at a time. It is done behind the scenes
    /// whenever something was deleted; this waits for it.
    pub async fn purge(&self) -> Result<()> {
        let _turn = self.background.purge.begin().await;
        self.purge_all().await
    }

    async fn purge_all(&self) -> Result<()> {
        loop {
            let more = tried!(delete::purge_chunk(&self.database, self.now_us()));
            if !more.map_err(|failure: Failure| failure.told("purge"))? {
                return Ok(());
            }
        }
    }

    /// Lets [`purge`](Self::purge) be done.
    pub(super) fn purge_later(&self) {
        if !self.background.purge.is_ours() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            if let Some(_turn) = store.background.purge.begin_if_due().await {
                later(store.purge_all().await);
            }
        });
    }

    /// As [`purge`](Self::purge), as far as it is possible now.
    pub(super) async fn purge_if_possible(&self) {
        later(self.purge().await);
    }

    /// Lets the space of what was erased be used again.
    pub(super) fn vacuum_later(&self) {
        if !self.background.vacuum.is_ours() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            let _turn = store.background.vacuum.begin().await;
            let vacuumed = erase::vacuum(&store.database).await;
            if let Err(failure) = vacuumed {
                let error = failure.told("vacuum");
                tracing::warn!("the space of what was erased is used again later: {error}");
            }
        });
    }
}

/// Marked logs stay marked: the next purge finds them.
fn later(purged: Result<()>) {
    if let Err(error) = purged {
        tracing::warn!("what is left of deleted sessions is purged later: {error}");
    }
}
