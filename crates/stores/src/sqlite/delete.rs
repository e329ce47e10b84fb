//! Deletes sessions, finds and deletes those that have expired, and purges their logs.
//!
//! A log is purged in chunks, each in its own write job, so that appends can run in between. The
//! artifacts are deleted immediately, because a new session with the same id must not see them.

use retain_core::{ExpiredSession, ExpiryReceipt, Result, SessionKey};
use rusqlite::{Connection, OptionalExtension as _};

use super::{artifacts, failed, rows::event_key};
use crate::sql::SessionRow;

/// Maximum number of rows that one write job deletes from each table.
const CHUNK: u64 = 2000;

/// Deletes a session; its log is purged later. Returns false if the session does not exist or has
/// expired.
pub(super) fn delete(connection: &Connection, key: &SessionKey, now_us: i64) -> Result<bool> {
    let row = SessionRow::find_even_expired(connection, key)
        .map_err(|e| failed("delete a session", e))?;
    let Some(row) = row else {
        return Ok(false);
    };
    detach_log(connection, row.number)?;
    Ok(row.is_alive(now_us))
}

/// Deletes a session's row and artifacts, and marks its log for purging. Returns the number of
/// artifact versions.
pub(super) fn detach_log(connection: &Connection, number: i64) -> Result<u64> {
    let detached = || -> rusqlite::Result<u64> {
        let artifacts = artifacts::delete_session_artifacts(connection, number)?;
        let sql = "DELETE FROM sessions WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([number])?;
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([number])?;
        Ok(artifacts as u64)
    };
    detached().map_err(|e| failed("delete a session", e))
}

/// Whether a log of a deleted session or an expired draft must be purged.
pub(super) fn has_purgeable_logs(connection: &Connection, now_us: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM logs WHERE purge_after_us <= ?1 LIMIT 1";
    let found = || connection.prepare_cached(sql)?.exists([now_us]);
    found().map_err(|e| failed("purge deleted sessions", e))
}

/// Deletes a chunk of a log that must be purged. Returns false if no such log is left.
pub(super) fn purge_chunk(connection: &Connection, now_us: i64) -> Result<bool> {
    let purged = || -> rusqlite::Result<bool> {
        let sql = "SELECT number FROM logs WHERE purge_after_us <= ?1 LIMIT 1";
        let log: Option<i64> = connection
            .prepare_cached(sql)?
            .query_row([now_us], |row| row.get(0))
            .optional()?;
        let Some(log) = log else {
            return Ok(false);
        };
        // Expire the draft, so that a late import cannot extend a half-purged log.
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE number = ?1 AND purge_after_us <> 0";
        connection.prepare_cached(sql)?.execute([log])?;
        let bounds = (event_key(log, 0), event_key(log, u64::MAX), CHUNK);
        let events = "DELETE FROM events WHERE key IN \
                      (SELECT key FROM events WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
        let mut deleted = connection.prepare_cached(events)?.execute(bounds)?;
        for state in [
            "DELETE FROM state WHERE log = ?1 AND key IN \
             (SELECT key FROM state WHERE log = ?1 LIMIT ?2)",
            "DELETE FROM state_past WHERE log = ?1 AND (key, position) IN \
             (SELECT key, position FROM state_past WHERE log = ?1 LIMIT ?2)",
        ] {
            deleted += connection.prepare_cached(state)?.execute((log, CHUNK))?;
        }
        if deleted < CHUNK as usize {
            connection.execute("DELETE FROM logs WHERE number = ?1", [log])?;
        }
        Ok(true)
    };
    purged().map_err(|e| failed("purge deleted sessions", e))
}

/// Returns up to `limit` expired sessions with numbers above `after`.
pub(super) fn expired(
    connection: &Connection,
    after: u64,
    limit: usize,
    now_us: i64,
) -> Result<Vec<ExpiredSession>> {
    let sql = "SELECT number, app, user, id, touched_us + ttl_us FROM sessions \
               WHERE ttl_us IS NOT NULL AND touched_us <= ?1 - ttl_us AND number > ?2 \
               ORDER BY number LIMIT ?3";
    let expired = || -> rusqlite::Result<Vec<ExpiredSession>> {
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((now_us, after, limit), |row| {
            let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(ExpiredSession {
                key: SessionKey::new(key.0, key.1, key.2),
                incarnation: row.get(0)?,
                expired_us: row.get(4)?,
            })
        })?;
        rows.collect()
    };
    expired().map_err(|e| failed("find expired sessions", e))
}

/// Deletes those of the sessions that exist and have expired.
pub(super) fn delete_expired(
    connection: &Connection,
    sessions: &[ExpiredSession],
    now_us: i64,
) -> Result<ExpiryReceipt> {
    let mut deleted = ExpiryReceipt::default();
    for session in sessions {
        let row = SessionRow::find_even_expired(connection, &session.key)
            .map_err(|e| failed("delete expired sessions", e))?;
        let is_same = |row: &SessionRow| row.number as u64 == session.incarnation;
        if let Some(row) = row.filter(|row| is_same(row) && !row.is_alive(now_us)) {
            deleted.artifacts += detach_log(connection, row.number)?;
            deleted.sessions += 1;
        }
    }
    Ok(deleted)
}

/// Whether the session has expired and is not deleted yet.
pub(super) fn is_expired(connection: &Connection, key: &SessionKey, now_us: i64) -> Result<bool> {
    let row = SessionRow::find_even_expired(connection, key);
    let row = row.map_err(|e| failed("look for an expired session", e))?;
    Ok(row.is_some_and(|row| !row.is_alive(now_us)))
}
