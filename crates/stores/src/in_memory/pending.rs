//! Finds sessions with work that must follow their runs, and records that it is finished.

use std::time::Duration;

use retain_core::{PendingStatistics, SessionKey, SessionWork};

use super::schema::{SessionLog, SessionTables};

/// Returns up to `limit` sessions with pending work and incarnations above `after`.
pub(super) fn find(
    tables: &SessionTables,
    after: u64,
    limit: usize,
    now_us: i64,
) -> Vec<SessionWork> {
    let found = waiting(tables, now_us).filter(|(_, log)| log.incarnation > after);
    let found = found.map(|(key, log)| SessionWork {
        key: key.clone(),
        incarnation: log.incarnation,
        position: log.pending_to,
        work: log.pending_work,
    });
    let mut found: Vec<SessionWork> = found.collect();
    found.sort_unstable_by_key(|work| work.incarnation);
    found.truncate(limit);
    found
}

/// Counts the sessions with pending work.
pub(super) fn statistics(tables: &SessionTables, now_us: i64) -> PendingStatistics {
    let oldest_us = waiting(tables, now_us).map(|(_, log)| log.touched_us).min();
    let age = |since_us: i64| now_us.saturating_sub(since_us).max(0).unsigned_abs();
    PendingStatistics {
        sessions: waiting(tables, now_us).count() as u64,
        oldest: oldest_us.map(|since_us| Duration::from_micros(age(since_us))),
    }
}

/// Records that work is finished, unless a later event needs it too.
pub(super) fn finish(tables: &mut SessionTables, done: &SessionWork) {
    let log = tables.logs.get_mut(&done.key);
    let is_same = |log: &&mut SessionLog| {
        log.incarnation == done.incarnation && log.pending_to <= done.position
    };
    if let Some(log) = log.filter(is_same) {
        log.pending_work = log.pending_work.without(done.work);
    }
}

/// The sessions with pending work that no run writes.
fn waiting(
    tables: &SessionTables,
    now_us: i64,
) -> impl Iterator<Item = (&SessionKey, &SessionLog)> {
    tables.logs.iter().filter(move |(_, log)| {
        let is_free = log.lease.until_us <= now_us;
        !log.pending_work.is_empty() && is_free && log.is_alive(now_us)
    })
}
