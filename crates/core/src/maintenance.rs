//! `MaintenanceStore`: the operations of a store for work that no caller waits for: work that must
//! follow runs, leases of periodic tasks, and expired sessions.

use std::{
    fmt,
    ops::{BitOr, BitOrAssign},
    time::Duration,
};

use async_trait::async_trait;

use crate::{error::Result, session::SessionKey};

/// Kinds of work that must follow a run. Its appends record them in the session, so that any
/// process can finish the work after a crash.
///
/// ```
/// use retain_core::PendingWork;
/// let work = PendingWork::INGESTION | PendingWork::COMPACTION;
/// assert!(work.contains(PendingWork::INGESTION));
/// assert_eq!(work.without(PendingWork::COMPACTION), PendingWork::INGESTION);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PendingWork(u8);

impl PendingWork {
    /// No work.
    pub const NONE: PendingWork = PendingWork(0);
    /// Ingesting the session into memory.
    pub const INGESTION: PendingWork = PendingWork(1);
    /// Summarizing the session if a summary is due.
    pub const COMPACTION: PendingWork = PendingWork(2);

    /// Reads the kinds from bits. Keeps bits that only newer programs know.
    pub fn from_bits(bits: u8) -> PendingWork {
        PendingWork(bits)
    }

    /// Returns one bit per kind.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is no work.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all kinds of `work` are included.
    pub fn contains(self, work: PendingWork) -> bool {
        self.0 & work.0 == work.0
    }

    /// Returns the kinds that are not in `done`.
    pub fn without(self, done: PendingWork) -> PendingWork {
        PendingWork(self.0 & !done.0)
    }
}

impl BitOr for PendingWork {
    type Output = PendingWork;

    fn bitor(self, other: PendingWork) -> PendingWork {
        PendingWork(self.0 | other.0)
    }
}

impl BitOrAssign for PendingWork {
    fn bitor_assign(&mut self, other: PendingWork) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for PendingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (PendingWork::INGESTION, "ingestion"),
            (PendingWork::COMPACTION, "compaction"),
        ];
        let known = kinds
            .iter()
            .fold(PendingWork::NONE, |all, (kind, _)| all | *kind);
        let mut set = f.debug_set();
        set.entries(
            kinds
                .iter()
                .filter(|(kind, _)| self.contains(*kind))
                .map(|(_, name)| name),
        );
        let unknown = self.without(known);
        if !unknown.is_empty() {
            set.entry(&unknown.0);
        }
        set.finish()
    }
}

/// Work on a session's log up to a position: pending if a store returns it, finished if a store
/// receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionWork {
    /// The session.
    pub key: SessionKey,
    /// The number that distinguishes the session from others with the same id.
    pub incarnation: u64,
    /// The last event that needs the work.
    pub position: u64,
    /// The kinds of work.
    pub work: PendingWork,
}

/// How much work is pending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingStatistics {
    /// Number of sessions with pending work whose lease is free.
    pub sessions: u64,
    /// Time since the last write to the session that has waited the longest.
    pub oldest: Option<Duration>,
}

/// The lease of a periodic task, which one process at a time holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLease {
    /// The name of the task.
    pub task: String,
    /// The id of the process that wants the lease or holds it.
    pub holder: String,
    /// How long the lease lasts from now; `None` releases it.
    pub ttl: Option<Duration>,
}

/// A session whose time to live has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredSession {
    /// Its address.
    pub key: SessionKey,
    /// The number that distinguishes the session from others with the same id.
    pub incarnation: u64,
    /// When it expired, in microseconds by the store's clock.
    pub expired_us: i64,
}

/// What a deletion of expired sessions has deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryReceipt {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of artifact versions, if the store has artifacts.
    pub artifacts: u64,
}

/// Operations of a store for periodic tasks, in addition to [`SessionStore`]. Every method is
/// atomic.
///
/// [`SessionStore`]: crate::SessionStore
#[async_trait]
pub trait MaintenanceStore: fmt::Debug + Send + Sync {
    /// Returns up to `limit` sessions with pending work, without those whose lease is held and
    /// those that have expired. Ordered by incarnation, starting after `after` (0: at the first).
    async fn pending_work(&self, after: u64, limit: usize) -> Result<Vec<SessionWork>>;

    /// Counts the sessions that [`pending_work`](Self::pending_work) returns.
    async fn pending_statistics(&self) -> Result<PendingStatistics>;

    /// Records that work on a session is finished, unless an append at a later position needs it
    /// too. Succeeds if the session no longer exists.
    async fn finish_work(&self, done: &SessionWork) -> Result<()>;

    /// Takes, renews or releases the lease of a task. Returns false and changes nothing if another
    /// process holds it. A lease that its holder does not renew expires.
    async fn update_task_lease(&self, lease: &TaskLease) -> Result<bool>;

    /// Returns up to `limit` expired sessions ordered by incarnation, starting after `after` (0: at
    /// the first).
    async fn expired(&self, after: u64, limit: usize) -> Result<Vec<ExpiredSession>>;

    /// Deletes those of the sessions that exist and have expired, with their artifacts in the same
    /// database.
    async fn delete_expired(&self, sessions: &[ExpiredSession]) -> Result<ExpiryReceipt>;

    /// Whether the session has expired and is not deleted yet.
    async fn is_expired(&self, key: &SessionKey) -> Result<bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_work_prints_its_kinds_and_unknown_bits() {
        let work = PendingWork::INGESTION | PendingWork::from_bits(8);
        assert_eq!(format!("{work:?}"), r#"{"ingestion", 8}"#);
        assert_eq!(format!("{:?}", PendingWork::NONE), "{}");
    }
}
