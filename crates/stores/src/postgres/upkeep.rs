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

    /// Waits for the turn. What was asked for up to now is done by whoever has it.
    async fn begin(&self) -> MutexGuard<'_, ()> {
        let turn = self.turn.lock().await;
        self.is_due.store(false, Ordering::SeqCst);
        turn
    }

    /// Waits for the turn; none if somebody has done meanwhile what was asked for.
    async fn begin_if_due(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.turn.lock().await;
        self.is_due.swap(false, Ordering::SeqCst).then_some(turn)
    }
}

impl PostgresStore {
    /// Removes what is left of deleted sessions, a chunk at a time. It is done behind the scenes
    /// whenever something was deleted; this waits for it.
    pub async fn purge(&self) -> Result<()> {
        let _turn = self.upkeep.purge.begin().await;
        self.purge_all().await
    }

    async fn purge_all(&self) -> Result<()> {
        loop {
            let more = tried!(maintenance::purge_chunk(&self.database, self.now_us()));
            if !more.map_err(|failure: Failure| failure.told("purge"))? {
                return Ok(());
            }
        }
    }

    /// Lets [`purge`](Self::purge) be done.
    pub(super) fn purge_later(&self) {
        if !self.upkeep.purge.is_ours() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            if let Some(_turn) = store.upkeep.purge.begin_if_due().await {
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
        if !self.upkeep.vacuum.is_ours() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            let _turn = store.upkeep.vacuum.begin().await;
            let vacuumed = maintenance::vacuum(&store.database).await;
            if let Err(failure) = vacuumed {
                let error = failure.told("vacuum");
                tracing::warn!("the space of what was erased is used again later: {error}");
            }
        });
    }
}

/// What is marked stays marked: the next who purges finds it.
fn later(purged: Result<()>) {
    if let Err(error) = purged {
        tracing::warn!("what is left of deleted sessions is purged later: {error}");
    }
}
