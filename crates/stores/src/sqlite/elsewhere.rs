//! Whether another process has written: asked once for all who wait, not once by each.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::window::POLL;

/// What was seen of the writes of other processes.
#[derive(Debug)]
pub(super) struct Elsewhere {
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    looked: Instant,
    /// SQLite's number for what others have committed, as the writer's connection sees it.
    version: Option<i64>,
    changes: u64,
}

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere {
            seen: Mutex::new(Seen {
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
    /// Somebody writes at this moment and is in the way.
    Busy,
    /// It cannot be told.
    Unknown,
}

impl Elsewhere {
    /// A number that goes up when another process has written. It may go up for nothing.
    pub(super) fn changes(&self, look: impl FnOnce() -> Look) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.version.is_some() && seen.looked.elapsed() < POLL / 2 {
            return seen.changes;
        }
        let version = match look() {
            // The next one who asks looks again.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_counts_as_a_change() {
        let elsewhere = Elsewhere::default();
        let first = elsewhere.changes(|| Look::Version(1));
        // Just looked: not asked again.
        assert_eq!(elsewhere.changes(|| Look::Unknown), first);
        let untold = Elsewhere::default();
        let before = untold.changes(|| Look::Busy);
        assert_eq!(untold.changes(|| Look::Busy), before);
        assert_eq!(untold.changes(|| Look::Unknown), before + 1);
        assert_eq!(untold.changes(|| Look::Unknown), before + 2);
    }
}
