//! Whether another process has written: asked once for all who wait, not once by each.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use super::writer::Writer;
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

impl Elsewhere {
    /// A number that goes up when another process has written. It may go up for nothing.
    pub(super) fn changes(&self, writer: &Writer) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = seen.version.is_none() || seen.looked.elapsed() >= POLL / 2;
        // Who writes at this moment is in the way; the next one who asks looks again.
        if is_due && let Some(version) = writer.data_version() {
            seen.looked = Instant::now();
            if seen.version.replace(version) != Some(version) {
                seen.changes += 1;
            }
        }
        seen.changes
    }
}
