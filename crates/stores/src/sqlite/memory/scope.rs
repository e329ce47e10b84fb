//! The scope row of a user's memories: its revision, its totals, its range of keys, its tombstones.

use retain_core::{MemoryScope, MemoryTotals, Tombstone};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::sql::memory::ScopeRow;

/// Maximum sequence number of a memory, which is stored in the low 32 bits of its key.
pub(super) const SEQ_MAX: u64 = u32::MAX as u64;

/// Returns the key of a memory. The memories of a scope are adjacent, in insertion order.
pub(super) fn memory_key(scope: i64, seq: u64) -> i64 {
    scope << 32 | (seq.min(SEQ_MAX) as i64)
}

pub(in crate::sqlite) fn seq_from_key(key: i64) -> u64 {
    key as u64 & SEQ_MAX
}

/// Returns the first and the last possible key of the scope's memories.
pub(super) fn key_range(row: &ScopeRow) -> (i64, i64) {
    (memory_key(row.number, 0), memory_key(row.number, SEQ_MAX))
}

pub(super) fn find_scope(
    connection: &Connection,
    scope: &MemoryScope,
) -> rusqlite::Result<Option<ScopeRow>> {
    let sql = "SELECT number, revision, last_seq, floor, touched, tombstones, entries, bytes, \
               minute, in_minute FROM memory_scopes WHERE app = ?1 AND user = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(ScopeRow {
            number: row.get(0)?,
            revision: row.get(1)?,
            last_seq: row.get(2)?,
            floor: row.get(3)?,
            touched: row.get(4)?,
            tombstones: row.get(5)?,
            totals: MemoryTotals {
                entries: row.get(6)?,
                bytes: row.get(7)?,
                minute: row.get(8)?,
                in_minute: row.get(9)?,
            },
        })
    };
    statement
        .query_row((&scope.app, &scope.user), read)
        .optional()
}

/// Sums the counters of the scopes of an app, or reads that of one user.
pub(super) fn count_entries(
    connection: &Connection,
    app: &str,
    user: Option<&str>,
) -> rusqlite::Result<u64> {
    const SUM: &str = "SELECT ifnull(sum(entries), 0) FROM memory_scopes WHERE app = ?1";
    let read = |row: &Row<'_>| row.get(0);
    match user {
        None => connection.prepare_cached(SUM)?.query_row([app], read),
        Some(user) => {
            let sql = format!("{SUM} AND user = ?2");
            connection
                .prepare_cached(&sql)?
                .query_row([app, user], read)
        }
    }
}

pub(super) fn create_scope(
    connection: &Connection,
    scope: &MemoryScope,
) -> rusqlite::Result<ScopeRow> {
    let sql = "INSERT INTO memory_scopes (app, user) VALUES (?1, ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute((&scope.app, &scope.user))?;
    Ok(ScopeRow {
        number: connection.last_insert_rowid(),
        ..ScopeRow::default()
    })
}

/// Writes the scope row with a new revision, in which the memories `seqs` were changed or removed.
pub(super) fn touch(
    connection: &Connection,
    row: &mut ScopeRow,
    seqs: &[u64],
) -> rusqlite::Result<()> {
    if row.start_revision(seqs.len()) {
        let sql = "INSERT OR IGNORE INTO memory_touched (scope, revision, seq) \
                   VALUES (?1, ?2, ?3)";
        let mut statement = connection.prepare_cached(sql)?;
        for seq in seqs {
            statement.execute((row.number, row.revision, seq))?;
        }
    } else {
        let sql = "DELETE FROM memory_touched WHERE scope = ?1";
        connection.prepare_cached(sql)?.execute([row.number])?;
    }
    let sql = "UPDATE memory_scopes SET revision = ?2, last_seq = ?3, floor = ?4, \
               touched = ?5, tombstones = ?6, entries = ?7, bytes = ?8, minute = ?9, \
               in_minute = ?10 WHERE number = ?1";
    connection.prepare_cached(sql)?.execute(params![
        row.number,
        row.revision,
        row.last_seq,
        row.floor,
        row.touched,
        row.tombstones,
        row.totals.entries,
        row.totals.bytes,
        row.totals.minute,
        row.totals.in_minute,
    ])?;
    Ok(())
}

pub(super) fn has_tombstone(
    connection: &Connection,
    row: &ScopeRow,
    hash: Tombstone,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM memory_tombstones WHERE scope = ?1 AND hash = ?2";
    connection
        .prepare_cached(sql)?
        .exists((row.number, hash.0.as_slice()))
}

/// Inserts a tombstone; returns 1 if it is new, else 0.
pub(super) fn insert_tombstone(
    connection: &Connection,
    scope: i64,
    hash: Tombstone,
) -> rusqlite::Result<u64> {
    let sql = "INSERT OR IGNORE INTO memory_tombstones (scope, hash) VALUES (?1, ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.execute((scope, hash.0.as_slice()))? as u64)
}
