//! Restores the memories and tombstones of another store without change, for a migration.

use retain_core::{MemoryRestore, MemoryScope, Tombstone, plan_restore};
use rusqlite::Connection;

use super::{
    Outcome,
    add::insert,
    read::signed_limit,
    scope::{create_scope, find_scope, insert_tombstone, memory_key, touch},
};

/// Lists the tombstones of a scope, ascending by hash.
pub(super) fn tombstones(
    connection: &Connection,
    scope: &MemoryScope,
    after: Option<Tombstone>,
    limit: usize,
) -> Outcome<Vec<Tombstone>> {
    let Some(scope) = find_scope(connection, scope)? else {
        return Ok(Vec::new());
    };
    // The empty hash sorts before every other hash.
    let sql = "SELECT hash FROM memory_tombstones WHERE scope = ?1 AND hash > ?2 \
               ORDER BY hash LIMIT ?3";
    let after = after.map_or(Vec::new(), |after| after.0.to_vec());
    let mut statement = connection.prepare_cached(sql)?;
    let hashes = statement.query_map((scope.number, after, signed_limit(limit)), |row| {
        row.get(0).map(Tombstone)
    })?;
    Ok(hashes.collect::<rusqlite::Result<_>>()?)
}

/// Writes the memories and tombstones of another store.
pub(super) fn restore(connection: &Connection, restore: &MemoryRestore) -> Outcome<()> {
    let found = find_scope(connection, &restore.scope)?;
    let (before, last_seq) = match &found {
        Some(row) => (row.totals, row.last_seq),
        None => Default::default(),
    };
    let totals = plan_restore(before, last_seq, restore)?;
    let mut row = match found {
        Some(row) => row,
        None => create_scope(connection, &restore.scope)?,
    };
    row.totals = totals;
    let sql = "UPDATE memories SET updated_us = ?2 WHERE key = ?1";
    for restored in &restore.memories {
        row.last_seq = restored.seq;
        insert(connection, &row, &restored.memory, restored.created_us)?;
        if restored.updated_us.is_some() {
            let mut statement = connection.prepare_cached(sql)?;
            let key = memory_key(row.number, restored.seq);
            statement.execute((key, restored.updated_us))?;
        }
    }
    for hash in &restore.tombstones {
        row.tombstones += insert_tombstone(connection, row.number, *hash)?;
    }
    touch(connection, &mut row, &[])?;
    Ok(())
}
