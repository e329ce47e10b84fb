//! Waits until a session's log grows, in this process or another.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use retain_core::{ReadDetail, SessionKey, Window, store_rules::CHANGE_POLL};

use super::{SqliteStore, read};

/// A waiter returns after this many checks, so that the caller reads again.
const LOOKS_MAX: usize = 150;

/// Counts the writes of other processes: one waiter asks SQLite for all of them.
#[derive(Debug)]
pub(super) struct ForeignWrites {
    seen: Mutex<ForeignVersion>,
}

#[derive(Debug)]
struct ForeignVersion {
    looked: Instant,
    /// SQLite's number for what others have committed, as the writer's connection sees it.
    version: Option<i64>,
    changes: u64,
}

impl Default for ForeignWrites {
    fn default() -> ForeignWrites {
        ForeignWrites {
            seen: Mutex::new(ForeignVersion {
                looked: Instant::now(),
                version: None,
                changes: 0,
            }),
        }
    }
}

/// What a look at the database gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// SQLite's number for what others have committed.
    Version(i64),
    /// Another process is writing at this moment.
    Busy,
    /// The version cannot be read.
    Unknown,
}

impl ForeignWrites {
    /// A number that goes up when another process has written. It may go up for nothing.
    pub(super) fn changes(&self, look: impl FnOnce() -> Look) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.version.is_some() && seen.looked.elapsed() < CHANGE_POLL / 2 {
            return seen.changes;
        }
        let version = match look() {
            // The next caller looks again.
            Look::Busy => return seen.changes,
            Look::Version(version) => Some(version),
            Look::Unknown => None,
        };
        seen.looked = Instant::now();
        if version.is_none() || seen.version != version {
            seen.changes += 1;
        }
        seen.version = version;
        seen.changes
    }
}

/// Returns when the session may have changed after `position`, or after a while.
pub(super) async fn changed(store: &SqliteStore, key: &SessionKey, position: u64) {
    let mut ring = store.hub.listen(key);
    let foreign = store
        .foreign_writes
        .changes(|| store.writer.look_for_foreign_writes());
    let (for_read, now_us) = (key.clone(), store.now_us());
    let read = move |connection: &rusqlite::Connection| {
        read::session(
            connection,
            &for_read,
            Window::NONE,
            ReadDetail::EventsOnly,
            now_us,
        )
    };
    let here = store.readers.read("read", read).await;
    // Gone, further on, or unreadable: the caller must read again.
    let expires = match here {
        Ok(Some(here)) if here.head.position <= position => here.head.expires_us.is_some(),
        _ => return,
    };
    // Neither an expiry nor another process sends a notification.
    let looks = if expires { 1 } else { LOOKS_MAX };
    for _ in 0..looks {
        let rang = tokio::time::timeout(CHANGE_POLL, ring.as_mut())
            .await
            .is_ok();
        if rang
            || store
                .foreign_writes
                .changes(|| store.writer.look_for_foreign_writes())
                != foreign
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_version_counts_as_a_change() {
        let elsewhere = ForeignWrites::default();
        let first = elsewhere.changes(|| Look::Version(1));
        // Just looked: not asked again.
        assert_eq!(elsewhere.changes(|| Look::Unknown), first);
        let untold = ForeignWrites::default();
        let before = untold.changes(|| Look::Busy);
        assert_eq!(untold.changes(|| Look::Busy), before);
        assert_eq!(untold.changes(|| Look::Unknown), before + 1);
        assert_eq!(untold.changes(|| Look::Unknown), before + 2);
    }
}
