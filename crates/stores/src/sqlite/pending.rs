//! Finds sessions with work that must follow their runs, and records that it is finished.
//!
//! A search reads the whole table of sessions, which takes 21 ms for 300,000 of them. An index would
//! slow down every append.

use std::time::Duration;

use retain_core::{PendingStatistics, Result, SessionKey, SessionWork};
use rusqlite::Connection;

use super::failed;
use crate::sql::pending::{kept_kinds, remove_pending_work, session_work};

/// The condition that selects sessions with pending work that no run writes, at the time ?1.
macro_rules! is_waiting {
    () => {
        "pending_work <> 0 AND lease_until_us <= ?1 \
         AND (ttl_us IS NULL OR touched_us > ?1 - ttl_us)"
    };
}

/// Returns up to `limit` sessions with pending work and numbers above `after`.
pub(super) fn find(
    connection: &Connection,
    after: u64,
    limit: usize,
    now_us: i64,
) -> Result<Vec<SessionWork>> {
    let sql = concat!(
        "SELECT number, app, user, id, pending_work FROM sessions WHERE ",
        is_waiting!(),
        " AND number > ?2 ORDER BY number LIMIT ?3"
    );
    let found = || -> rusqlite::Result<Vec<SessionWork>> {
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((now_us, after, limit), |row| {
            let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            let key = SessionKey::new(key.0, key.1, key.2);
            Ok(session_work(key, row.get(0)?, row.get(4)?))
        })?;
        rows.collect()
    };
    found().map_err(|e| failed("find pending work", e))
}

/// Counts the sessions with pending work.
pub(super) fn statistics(connection: &Connection, now_us: i64) -> Result<PendingStatistics> {
    let sql = concat!(
        "SELECT count(*), ?1 - min(touched_us) FROM sessions WHERE ",
        is_waiting!()
    );
    let counted = || -> rusqlite::Result<PendingStatistics> {
        connection.prepare_cached(sql)?.query_row([now_us], |row| {
            let age: Option<i64> = row.get(1)?;
            Ok(PendingStatistics {
                sessions: row.get(0)?,
                oldest: age.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
            })
        })
    };
    counted().map_err(|e| failed("count pending work", e))
}

/// Records that work is finished, unless a later event needs it too.
pub(super) fn finish(connection: &Connection, done: &SessionWork) -> Result<()> {
    let sql = concat!(
        "UPDATE sessions SET ",
        remove_pending_work!("?2"),
        " WHERE number = ?1 AND pending_work <> 0 AND (pending_work >> 8) <= ?3"
    );
    let params = (
        done.incarnation as i64,
        kept_kinds(done.work),
        done.position,
    );
    let updated = connection
        .prepare_cached(sql)
        .and_then(|mut update| update.execute(params));
    updated
        .map(drop)
        .map_err(|e| failed("finish pending work", e))
}
