//! Edits, forgets, expires and erases memories, and sets their embeddings. Each operation runs in a
//! job of the writer and rejects invalid input before the first write.

use std::collections::BTreeMap;

use retain_core::{
    EraseReceipt, Forget, ForgetReceipt, MemoryEdit, MemoryRows, MemoryScope, NewEmbedding,
    plan_edit, plan_edited, store_rules::MemoryRemoval,
};
use rusqlite::{Connection, params};

use super::{
    Outcome,
    models::encode_vector,
    read,
    rows::{self, BYTES, INFO_COLUMNS},
    scope::{find_scope, insert_tombstone, key_range, memory_key, seq_from_key, touch},
};
use crate::sql::memory::{ERASE_CHUNK, RemovedMemory, ScopeRow, kind_number};

pub(super) fn update(
    connection: &Connection,
    scope: &MemoryScope,
    id: &str,
    edit: &MemoryEdit,
) -> Outcome<bool> {
    let Some(mut row) = find_scope(connection, scope)? else {
        return Ok(false);
    };
    let same_id = MemoryRows::WithId(id.to_owned());
    let same_id = read::rows(connection, scope, &same_id, false)?;
    let Some(record) = plan_edited(id, same_id, edit)? else {
        return Ok(false);
    };
    let seq = record.info.seq;
    let key = memory_key(row.number, seq);
    let sql = format!("SELECT {BYTES} FROM memories WHERE key = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let bytes: u64 = statement.query_row([key], |row| row.get(0))?;
    let (changed, totals) = plan_edit(row.totals, &record, bytes, edit)?;
    row.totals = totals;
    let sql = "UPDATE memories SET revision = ?2, content = ?3, custom_metadata = ?4, \
               expires_us = ?5, updated_us = ?6 WHERE key = ?1";
    connection.prepare_cached(sql)?.execute(params![
        key,
        row.revision + 1,
        changed.content_json,
        changed.metadata_json,
        changed.new.expires_us,
        edit.now_us,
    ])?;
    if edit.update.content.is_some() {
        let sql = "UPDATE memories SET fixed_model = NULL, fixed = NULL, embedding_model = NULL, \
                   embedding = NULL WHERE key = ?1";
        connection.prepare_cached(sql)?.execute([key])?;
    }
    touch(connection, &mut row, &[seq])?;
    Ok(true)
}

pub(super) fn set_embeddings(
    connection: &Connection,
    scope: &MemoryScope,
    generation: u64,
    embeddings: &[NewEmbedding],
) -> Outcome<()> {
    let row = find_scope(connection, scope)?;
    let Some(mut row) = row.filter(|row| row.mark().generation == generation) else {
        return Ok(());
    };
    let sql = "UPDATE memories SET embedding_model = ?3, embedding = ?4 \
               WHERE key = ?1 AND revision = ?2";
    let mut touched = Vec::new();
    for new in embeddings {
        let (model, bytes) = encode_vector(connection, Some(&new.vector))?;
        let key = memory_key(row.number, new.seq);
        let mut statement = connection.prepare_cached(sql)?;
        if statement.execute((key, new.revision, model, bytes))? > 0 {
            touched.push(new.seq);
        }
    }
    if !touched.is_empty() {
        touch(connection, &mut row, &touched)?;
    }
    Ok(())
}

pub(super) fn forget(
    connection: &Connection,
    scope: &MemoryScope,
    what: &Forget,
) -> Outcome<ForgetReceipt> {
    let Some(mut row) = find_scope(connection, scope)? else {
        return Ok(ForgetReceipt::default());
    };
    let mut removed = Vec::new();
    match what {
        Forget::Ids(ids) => {
            for id in ids {
                removed.extend(find_removed(connection, &row, id)?);
            }
            removed.sort_unstable_by_key(|removed_memory| removed_memory.seq);
            removed.dedup_by_key(|removed_memory| removed_memory.seq);
        }
        Forget::Matching(_) | Forget::ExpiredSessions(_) => {
            let sql =
                format!("SELECT {INFO_COLUMNS}, {BYTES} FROM memories WHERE key BETWEEN ?1 AND ?2");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(key_range(&row))?;
            while let Some(found) = rows.next()? {
                let info = rows::info(found)?;
                if what.matches(&info.filter_fields()) {
                    removed.push(RemovedMemory {
                        seq: info.seq,
                        id: info.id,
                        session: info.session,
                        kind: kind_number(info.kind),
                        bytes: found.get(15)?,
                    });
                }
            }
        }
    }
    let how = MemoryRemoval::from_forget(what);
    Ok(remove(connection, scope, &mut row, &removed, how)?)
}

/// Finds the memories with this id. Reads only the columns that a removal by id needs, so that a
/// memory with other corrupt columns can be removed.
fn find_removed(
    connection: &Connection,
    row: &ScopeRow,
    id: &str,
) -> rusqlite::Result<Vec<RemovedMemory>> {
    let sql = format!("SELECT key, {BYTES} FROM memories WHERE key >> 32 = ?1 AND id = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((row.number, id), |found| {
        Ok(RemovedMemory {
            seq: seq_from_key(found.get(0)?),
            id: id.to_owned(),
            session: None,
            kind: 0,
            bytes: found.get(1)?,
        })
    })?;
    rows.collect()
}

fn remove(
    connection: &Connection,
    scope: &MemoryScope,
    row: &mut ScopeRow,
    removed: &[RemovedMemory],
    how: MemoryRemoval,
) -> rusqlite::Result<ForgetReceipt> {
    let mut receipt = ForgetReceipt::default();
    let mut delete = connection.prepare_cached("DELETE FROM memories WHERE key = ?1")?;
    for removed_memory in removed {
        delete.execute([memory_key(row.number, removed_memory.seq)])?;
        receipt.memories += 1;
        receipt.bytes += removed_memory.bytes;
        if let Some(hash) = removed_memory.tombstone(scope, how) {
            receipt.tombstones += insert_tombstone(connection, row.number, hash)?;
        }
    }
    if receipt.memories > 0 {
        row.subtract(&receipt);
        let seqs: Vec<u64> = removed
            .iter()
            .map(|removed_memory| removed_memory.seq)
            .collect();
        touch(connection, row, &seqs)?;
    }
    Ok(receipt)
}

pub(super) fn expire(connection: &Connection, now_us: i64, limit: usize) -> Outcome<u64> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT key, id, session, kind, {BYTES} FROM memories \
         WHERE expires_us IS NOT NULL AND expires_us <= ?1 ORDER BY expires_us LIMIT ?2"
    );
    let mut by_scope: BTreeMap<i64, Vec<RemovedMemory>> = BTreeMap::new();
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query((now_us, limit))?;
    while let Some(found) = rows.next()? {
        let key: i64 = found.get(0)?;
        by_scope.entry(key >> 32).or_default().push(RemovedMemory {
            seq: seq_from_key(key),
            id: found.get(1)?,
            session: found.get(2)?,
            kind: found.get(3)?,
            bytes: found.get(4)?,
        });
    }
    drop(rows);
    let mut count = 0;
    for (number, removed) in by_scope {
        let sql = "SELECT app, user FROM memory_scopes WHERE number = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let scope = statement.query_row([number], |row| {
            Ok(MemoryScope {
                app: row.get(0)?,
                user: row.get(1)?,
            })
        })?;
        if let Some(mut row) = find_scope(connection, &scope)? {
            count += remove(
                connection,
                &scope,
                &mut row,
                &removed,
                MemoryRemoval::Expiry,
            )?
            .memories;
        }
    }
    Ok(count)
}

/// Removes one chunk of a user's memories, and the scope with the last chunk; counts the removed
/// memories and tombstones.
pub(in crate::sqlite) fn erase_chunk(
    connection: &Connection,
    app: &str,
    user: &str,
) -> rusqlite::Result<EraseReceipt> {
    let scope = MemoryScope::new(app, user);
    let mut receipt = EraseReceipt::default();
    let Some(row) = find_scope(connection, &scope)? else {
        return Ok(receipt);
    };
    let sql = "DELETE FROM memories WHERE key IN \
               (SELECT key FROM memories WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
    let (first, last) = key_range(&row);
    let mut statement = connection.prepare_cached(sql)?;
    let erased = statement.execute((first, last, ERASE_CHUNK as i64))?;
    if erased < ERASE_CHUNK {
        let sql = "DELETE FROM memory_touched WHERE scope = ?1";
        connection.execute(sql, [row.number])?;
        let sql = "DELETE FROM memory_tombstones WHERE scope = ?1";
        receipt.tombstones = connection.execute(sql, [row.number])? as u64;
        connection.execute("DELETE FROM memory_scopes WHERE number = ?1", [row.number])?;
    }
    receipt.memories = erased as u64;
    Ok(receipt)
}
