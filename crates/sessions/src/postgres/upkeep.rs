//! What is done behind the scenes: nobody waits for it, and nobody is refused because it failed.

use std::sync::atomic::{AtomicBool, Ordering};

use retain_core::Result;
use tokio::sync::{Mutex, MutexGuard};

use super::{
    PostgresStore, maintenance,
    pool::{Failure, tried},
};

/// The chores of one process.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    purge: Chore,
    vacuum: Chore,
}

/// Something that is done by one at a time. Who asks for it while it is due anyway need not.
#[derive(Debug, Default)]
struct Chore {
    is_due: AtomicBool,
    turn: Mutex<()>,
}

impl Chore {
    /// Whether nobody else is about to begin.
    fn is_ours(&self) -> bool {
        !self.is_due.swap(true, Ordering::SeqCst)
    }

    async fn begin(&self) -> MutexGuard<'_, ()> {
        let turn = self.turn.lock().await;
        // What is asked for from now on may be more than what is found now.
        self.is_due.store(false, Ordering::SeqCst);
        turn
    }
}

impl PostgresStore {
    /// Removes what is left of deleted sessions, a chunk at a time. It is done behind the scenes
    /// whenever something was deleted; this waits for it.
    pub async fn purge(&self) -> Result<()> {
        let _turn = self.upkeep.purge.begin().await;
        loop {
            let more = tried!(maintenance::purge_chunk(&self.database, self.now_us()));
            if !more.map_err(|failure: Failure| failure.told("purge"))? {
                return Ok(());
            }
        }
    }

    /// Lets [`purge`](Self::purge) be done.
    pub(super) fn purge_later(&self) {
        if self.upkeep.purge.is_ours() {
            let store = self.clone();
            tokio::spawn(async move { store.purge_if_possible().await });
        }
    }

    /// As [`purge`](Self::purge). What is marked stays marked: the next one finds it.
    pub(super) async fn purge_if_possible(&self) {
        if let Err(error) = self.purge().await {
            tracing::warn!("what is left of deleted sessions is purged later: {error}");
        }
    }

    /// Lets the space of what was erased be used again.
    pub(super) fn vacuum_later(&self) {
        if !self.upkeep.vacuum.is_ours() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            let _turn = store.upkeep.vacuum.begin().await;
            if let Err(failure) = maintenance::vacuum(&store.database).await {
                let error = failure.told("vacuum");
                tracing::warn!("the space of what was erased is used again later: {error}");
            }
        });
    }
}
