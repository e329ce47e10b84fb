//! Erases a user: deletes rows in chunks, then rewrites the file, so that no deleted byte is left.

use std::time::Duration;

use retain_core::{EraseNote, EraseReceipt, Result, SessionKey, StoreLabel};
use rusqlite::Connection;

use super::{
    NAME, artifacts, delete::detach_log, failed, keys, memory, open, readers::Readers,
    writer::Writer,
};

/// Number of attempts to empty the write-ahead log, and the pause between them.
const TRUNCATE_ATTEMPTS: usize = 200;
const TRUNCATE_PAUSE: Duration = Duration::from_millis(50);

/// Returns the label of the database at `uri`; `has_file` is false for a database in memory.
pub(super) fn label(uri: &str, has_file: bool) -> StoreLabel {
    match has_file {
        true => StoreLabel::new(NAME)
            .with_unique_address(uri)
            .with_erase_notes(&[EraseNote::FileCopies]),
        false => StoreLabel::new(NAME),
    }
}

/// Returns how often users were erased from the database.
pub(super) fn count_erasures(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT count FROM erasures";
    connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))
}

/// Counts one more erasure, so that writes that were prepared before are refused.
pub(super) fn add_erasure(connection: &Connection) -> Result<()> {
    let added = connection.execute("UPDATE erasures SET count = count + 1", []);
    added.map(drop).map_err(|e| failed("erase a user", e))
}

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
    let mut rest = || -> rusqlite::Result<usize> {
        // Mark the drafts of unfinished imports for purging.
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE app = ?1 AND user = ?2";
        connection.execute(sql, (app, user))?;
        receipt.api_keys += keys::erase(connection, app, user)? as u64;
        connection.execute(
            "DELETE FROM shared_bytes WHERE app = ?1 AND user = ?2",
            (app, user),
        )?;
        connection.execute(
            "DELETE FROM shared_state WHERE app = ?1 AND user = ?2",
            (app, user),
        )
    };
    let state_keys = rest().map_err(|e| failed("erase a user", e))?;
    receipt.state_keys += state_keys as u64;
    let memories = memory::erase_chunk(connection, app, user);
    receipt += memories.map_err(|e| failed("erase a user", e))?;
    Ok((receipt, erased))
}

/// Rewrites the file without deleted rows and empties the write-ahead log. While a reader has an old
/// snapshot, it waits and tries again, so that appends can run in between. Returns a note if the
/// reader stays.
pub(super) async fn rewrite_file(writer: &Writer, readers: &Readers) -> Result<Option<EraseNote>> {
    let operation = "erase a user";
    readers.close_idle();
    writer.run_exclusive(operation, vacuum).await?;
    for _ in 0..TRUNCATE_ATTEMPTS {
        if writer.run_exclusive(operation, truncate_wal).await? {
            return Ok(None);
        }
        tokio::time::sleep(TRUNCATE_PAUSE).await;
    }
    Ok(Some(EraseNote::NotRewritten))
}

/// Rewrites the file without its free space, in which deleted rows may still be readable. SQLite's
/// `secure_delete` is not enough: pages that were split keep copies of rows.
fn vacuum(connection: &Connection) -> Result<()> {
    connection
        .execute_batch("VACUUM")
        .map_err(|e| failed("erase a user", e))
}

/// Empties the write-ahead log. Returns false if a reader still needs it.
fn truncate_wal(connection: &Connection) -> Result<bool> {
    // Waiting for the reader here would block all writes.
    let _ = connection.busy_timeout(Duration::ZERO);
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    let _ = connection.busy_timeout(open::BUSY_TIMEOUT);
    let busy: i64 = busy.map_err(|e| failed("erase a user", e))?;
    Ok(busy == 0)
}
