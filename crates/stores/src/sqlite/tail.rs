//! Waits until a session's log grows, in this process or another.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use retain_core::{ReadDetail, SessionKey, Window, store_rules::CHANGE_POLL};

use super::{SqliteStore, read};

/// Maximum number of version checks per waiter. The waiter then returns, so that the caller reads
/// again.
const CHECKS_MAX: usize = 150;

/// Counts the commits of other processes. All waiters share one version check per interval.
#[derive(Debug)]
pub(super) struct ForeignWrites {
    last_check: Mutex<ForeignVersion>,
}

#[derive(Debug)]
struct ForeignVersion {
    checked_at: Instant,
    /// `PRAGMA data_version` of the writer's connection. Changes when another process commits.
    version: Option<i64>,
    changes: u64,
}

impl Default for ForeignWrites {
    fn default() -> ForeignWrites {
        ForeignWrites {
            last_check: Mutex::new(ForeignVersion {
                checked_at: Instant::now(),
                version: None,
                changes: 0,
            }),
        }
    }
}

/// The result of reading SQLite's data version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionCheck {
    /// `PRAGMA data_version`.
    Version(i64),
    /// The writer's connection is in use.
    Busy,
    /// The version cannot be read.
    Unknown,
}

impl ForeignWrites {
    /// Returns a counter that increases when another process commits. It may also increase when
    /// nothing has changed.
    pub(super) fn count_changes(&self, check: impl FnOnce() -> VersionCheck) -> u64 {
        let last = self.last_check.lock();
        let mut last = last.unwrap_or_else(PoisonError::into_inner);
        if last.version.is_some() && last.checked_at.elapsed() < CHANGE_POLL / 2 {
            return last.changes;
        }
        let version = match check() {
            // The next caller checks again.
            VersionCheck::Busy => return last.changes,
            VersionCheck::Version(version) => Some(version),
            VersionCheck::Unknown => None,
        };
        last.checked_at = Instant::now();
        if version.is_none() || last.version != version {
            last.changes += 1;
        }
        last.version = version;
        last.changes
    }
}

/// Waits until the session may have events after `position`, or until a time limit.
pub(super) async fn changed(store: &SqliteStore, key: &SessionKey, position: u64) {
    let mut notification = store.hub.listen(key);
    let count_changes = || {
        let writes = &store.foreign_writes;
        writes.count_changes(|| store.writer.check_version())
    };
    let changes_before = count_changes();
    let (key, now_us) = (key.clone(), store.now_us());
    let read = move |connection: &rusqlite::Connection| {
        read::session(
            connection,
            &key,
            Window::NONE,
            ReadDetail::EventsOnly,
            now_us,
        )
    };
    let current = store.readers.read("read a session", read).await;
    // The caller must read again if the session was deleted, has grown or is unreadable.
    let expires = match current {
        Ok(Some(current)) if current.head.position <= position => current.head.expires_us.is_some(),
        _ => return,
    };
    // An expiry or a commit of another process sends no notification, so wake up and check.
    let checks = if expires { 1 } else { CHECKS_MAX };
    for _ in 0..checks {
        let notified = tokio::time::timeout(CHANGE_POLL, notification.as_mut())
            .await
            .is_ok();
        if notified || count_changes() != changes_before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_version_counts_as_a_change() {
        let known = ForeignWrites::default();
        let first = known.count_changes(|| VersionCheck::Version(1));
        // The last check is recent, so this one is skipped.
        assert_eq!(known.count_changes(|| VersionCheck::Unknown), first);
        let unknown = ForeignWrites::default();
        let before = unknown.count_changes(|| VersionCheck::Busy);
        assert_eq!(unknown.count_changes(|| VersionCheck::Busy), before);
        assert_eq!(unknown.count_changes(|| VersionCheck::Unknown), before + 1);
        assert_eq!(unknown.count_changes(|| VersionCheck::Unknown), before + 2);
    }
}
