//! Deletes sessions, sweeps those that have expired, and purges their logs.
//!
//! A log is purged in chunks, each in its own write job, so that appends can run in between. The
//! artifacts are deleted immediately, because a new session with the same id must not see them.

use retain_core::{Result, SessionKey};
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

/// Deletes a session's row and artifacts, and marks its log for purging.
pub(super) fn detach_log(connection: &Connection, number: i64) -> Result<()> {
    let detached = || -> rusqlite::Result<()> {
        artifacts::delete_session_artifacts(connection, number)?;
        let sql = "DELETE FROM sessions WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([number])?;
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([number])?;
        Ok(())
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

/// Deletes up to `limit` expired sessions and returns their keys.
pub(super) fn sweep(connection: &Connection, limit: usize, now_us: i64) -> Result<Vec<SessionKey>> {
    let expired = || -> rusqlite::Result<Vec<(i64, SessionKey)>> {
        let sql = "SELECT number, app, user, id FROM sessions \
                   WHERE ttl_us IS NOT NULL AND touched_us <= ?1 - ttl_us LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((now_us, limit), |row| {
            let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, SessionKey::new(key.0, key.1, key.2)))
        })?;
        rows.collect()
    };
    let expired = expired().map_err(|e| failed("sweep expired sessions", e))?;
    let mut swept = Vec::with_capacity(expired.len());
    for (number, key) in expired {
        detach_log(connection, number)?;
        swept.push(key);
    }
    Ok(swept)
}
