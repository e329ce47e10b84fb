//! Erases a user: deletes rows in chunks, then rewrites the file, so that no deleted byte is left.

use std::time::Duration;

use retain_core::{EraseReceipt, Result, SessionKey};
use rusqlite::Connection;

use super::{artifacts, delete::detach_log, failed, keys, memory, open};

/// Deletes a chunk of a user's records and counts them. Returns zeros when nothing is left.
pub(super) fn erase_chunk(
    connection: &Connection,
    app: &str,
    user: &str,
) -> Result<(EraseReceipt, Vec<SessionKey>)> {
    let mut receipt = EraseReceipt::default();
    let mut erased = Vec::new();
    // Erase artifacts first: deleting a session deletes its artifacts without counting them.
    let artifacts = artifacts::erase_chunk(connection, app, user);
    receipt.artifacts = artifacts.map_err(|e| failed("erase a user", e))? as u64;
    if receipt.artifacts > 0 {
        return Ok((receipt, erased));
    }
    let found = || -> rusqlite::Result<Vec<(i64, String, u64, u64)>> {
        let sql = "SELECT number, id, position, (SELECT count(*) FROM state \
                   WHERE log = number AND value IS NOT NULL) \
                   FROM sessions WHERE app = ?1 AND user = ?2 LIMIT 64";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map((app, user), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.collect()
    };
    for (number, id, events, keys) in found().map_err(|e| failed("erase a user", e))? {
        detach_log(connection, number)?;
        receipt.sessions += 1;
        receipt.events += events;
        receipt.state_keys += keys;
        erased.push(SessionKey::new(app, user, id));
    }
    let rest = || -> rusqlite::Result<usize> {
        // Mark the drafts of unfinished imports for purging.
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE app = ?1 AND user = ?2";
        connection.execute(sql, (app, user))?;
        keys::erase(connection, app, user)?;
        connection.execute(
            "DELETE FROM shared_bytes WHERE app = ?1 AND user = ?2",
            (app, user),
        )?;
        connection.execute(
            "DELETE FROM shared_state WHERE app = ?1 AND user = ?2",
            (app, user),
        )
    };
    receipt.state_keys += rest().map_err(|e| failed("erase a user", e))? as u64;
    let memories = memory::erase_chunk(connection, app, user);
    receipt.memories = memories.map_err(|e| failed("erase a user", e))? as u64;
    Ok((receipt, erased))
}

/// Rewrites the file without its free space, in which deleted rows may still be readable. SQLite's
/// `secure_delete` is not enough: pages that were split keep copies of rows.
pub(super) fn vacuum(connection: &Connection) -> Result<()> {
    connection
        .execute_batch("VACUUM")
        .map_err(|e| failed("erase a user", e))
}

/// Empties the write-ahead log. Returns false if a reader still needs it.
pub(super) fn truncate_wal(connection: &Connection) -> Result<bool> {
    // Waiting for the reader here would block all writes.
    let _ = connection.busy_timeout(Duration::ZERO);
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    let _ = connection.busy_timeout(open::BUSY_TIMEOUT);
    let busy: i64 = busy.map_err(|e| failed("erase a user", e))?;
    Ok(busy == 0)
}
