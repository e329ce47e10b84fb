//! Writes memories: add, restore, edit, forget, expire, erase. Each function is one job of the
//! writer and rejects invalid input before it writes.

use std::collections::BTreeMap;

use retain_core::{
    ExistingMemory, Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryEdit, MemoryPlan,
    MemoryRestore, MemoryRows, MemoryScope, MemoryVector, NewEmbedding, PreparedMemory, Tombstone,
    plan_batch, plan_edit, plan_edited, plan_growth, plan_restore, store_rules::MemoryRemoval,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    Outcome,
    read::{self, ABOUT, BYTES, find_scope, key_range, memory_key, seq_from_key},
};
use crate::sql::memory::{
    ERASE_CHUNK, RemovedMemory, ScopeRow, count_plans, kind_number, origin_number, own_event_id,
};

fn create_scope(connection: &Connection, scope: &MemoryScope) -> rusqlite::Result<ScopeRow> {
    let sql = "INSERT INTO memory_scopes (app, user) VALUES (?1, ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute((&scope.app, &scope.user))?;
    Ok(ScopeRow {
        number: connection.last_insert_rowid(),
        ..ScopeRow::default()
    })
}

/// Writes the scope row with a new revision, in which the memories `seqs` were changed or removed.
fn touch(connection: &Connection, row: &mut ScopeRow, seqs: &[u64]) -> rusqlite::Result<()> {
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

fn has_tombstone(
    connection: &Connection,
    row: &ScopeRow,
    hash: Tombstone,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM memory_tombstones WHERE scope = ?1 AND hash = ?2";
    connection
        .prepare_cached(sql)?
        .exists((row.number, hash.0.as_slice()))
}

pub(super) fn add(connection: &Connection, batch: &MemoryBatch) -> Outcome<IngestReceipt> {
    let found = find_scope(connection, &batch.scope)?;
    let last_seq = found.as_ref().map_or(0, |row| row.last_seq);
    let plans = plan_batch(batch, last_seq, |memory| match &found {
        Some(row) => find_conflicts(connection, row, &batch.scope, memory),
        None => Ok((Vec::new(), false)),
    })?;
    let before = found.as_ref().map(|row| row.totals).unwrap_or_default();
    let totals = plan_growth(before, batch, &plans)?;
    let receipt = count_plans(&plans);
    if receipt.added + receipt.replaced == 0 {
        return Ok(receipt);
    }
    let mut row = match found {
        Some(row) => row,
        None => create_scope(connection, &batch.scope)?,
    };
    row.totals = totals;
    let mut touched = Vec::new();
    for (memory, plan) in batch.memories.iter().zip(plans) {
        match plan {
            MemoryPlan::Insert => {
                row.last_seq += 1;
                insert(connection, &row, memory, batch.now_us)?;
            }
            MemoryPlan::Replace { seq, .. } => {
                replace(connection, &row, seq, memory)?;
                touched.push(seq);
            }
            MemoryPlan::Known | MemoryPlan::Forgotten => {}
        }
    }
    touch(connection, &mut row, &touched)?;
    Ok(receipt)
}

/// Writes memories of another store.
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

/// Inserts a tombstone; returns 1 if it is new, else 0.
fn insert_tombstone(connection: &Connection, scope: i64, hash: Tombstone) -> rusqlite::Result<u64> {
    let sql = "INSERT OR IGNORE INTO memory_tombstones (scope, hash) VALUES (?1, ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.execute((scope, hash.0.as_slice()))? as u64)
}

/// Finds the memories with the id of a new one, and whether the new one was forgotten.
fn find_conflicts(
    connection: &Connection,
    row: &ScopeRow,
    scope: &MemoryScope,
    memory: &PreparedMemory,
) -> rusqlite::Result<(Vec<ExistingMemory>, bool)> {
    let (session, id) = (memory.new.session.as_deref(), &memory.new.id);
    let is_forgotten = row.tombstones > 0
        && (has_tombstone(connection, row, Tombstone::of_entry(scope, session, id))?
            || has_tombstone(connection, row, Tombstone::of_id(scope, id))?);
    let existing = read::find_existing(connection, row.number, id)?;
    Ok((existing, is_forgotten))
}

fn insert(
    connection: &Connection,
    row: &ScopeRow,
    memory: &PreparedMemory,
    now_us: i64,
) -> rusqlite::Result<()> {
    let new = &memory.new;
    let (fixed_model, fixed) = encode_vector(connection, new.vectors.fixed.as_ref())?;
    let (model, embedding) = encode_vector(connection, new.vectors.embedding.as_ref())?;
    let sql = "INSERT INTO memories (key, id, revision, kind, origin, tool, session, position, \
               event_id, author, timestamp, created_us, expires_us, body_hash, custom_metadata, \
               content, fixed_model, fixed, embedding_model, embedding) VALUES (?1, ?2, ?3, ?4, \
               ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
    connection.prepare_cached(sql)?.execute(params![
        memory_key(row.number, row.last_seq),
        new.id,
        row.revision + 1,
        kind_number(new.kind),
        origin_number(&new.origin),
        new.origin.tool(),
        new.session,
        new.position,
        own_event_id(memory),
        new.author,
        new.timestamp,
        now_us,
        new.expires_us,
        memory.body_hash as i64,
        memory.metadata_json,
        memory.content_json,
        fixed_model,
        fixed,
        model,
        embedding,
    ])?;
    Ok(())
}

fn replace(
    connection: &Connection,
    row: &ScopeRow,
    seq: u64,
    memory: &PreparedMemory,
) -> rusqlite::Result<()> {
    let new = &memory.new;
    let (fixed_model, fixed) = encode_vector(connection, new.vectors.fixed.as_ref())?;
    let (model, embedding) = encode_vector(connection, new.vectors.embedding.as_ref())?;
    let sql = "UPDATE memories SET revision = ?2, kind = ?3, origin = ?4, tool = ?5, \
               position = ?6, event_id = ?7, author = ?8, timestamp = ?9, expires_us = ?10, \
               body_hash = ?11, custom_metadata = ?12, content = ?13, fixed_model = ?14, \
               fixed = ?15, embedding_model = ?16, embedding = ?17, updated_us = NULL \
               WHERE key = ?1";
    connection.prepare_cached(sql)?.execute(params![
        memory_key(row.number, seq),
        row.revision + 1,
        kind_number(new.kind),
        origin_number(&new.origin),
        new.origin.tool(),
        new.position,
        own_event_id(memory),
        new.author,
        new.timestamp,
        new.expires_us,
        memory.body_hash as i64,
        memory.metadata_json,
        memory.content_json,
        fixed_model,
        fixed,
        model,
        embedding,
    ])?;
    Ok(())
}

/// Returns a vector's bytes with the number of its model, which is created if it is new.
fn encode_vector<'a>(
    connection: &Connection,
    vector: Option<&'a MemoryVector>,
) -> rusqlite::Result<(Option<i64>, Option<&'a [u8]>)> {
    let Some(vector) = vector else {
        return Ok((None, None));
    };
    let find = "SELECT number FROM memory_models WHERE id = ?1 AND dims = ?2";
    let model = (&vector.model, vector.dims);
    let mut statement = connection.prepare_cached(find)?;
    let existing: Option<i64> = statement.query_row(model, |row| row.get(0)).optional()?;
    let number = match existing {
        Some(number) => number,
        None => {
            let sql = "INSERT INTO memory_models (id, dims) VALUES (?1, ?2)";
            connection.prepare_cached(sql)?.execute(model)?;
            connection.last_insert_rowid()
        }
    };
    Ok((Some(number), Some(&vector.bytes)))
}

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
        Forget::Matching(filter) => {
            let sql = format!("SELECT {ABOUT}, {BYTES} FROM memories WHERE key BETWEEN ?1 AND ?2");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(key_range(&row))?;
            while let Some(found) = rows.next()? {
                let info = read::info(found)?;
                if filter.matches(&info.filter_fields()) {
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
    let how = match what {
        Forget::Ids(_) => MemoryRemoval::ById,
        Forget::Matching(_) => MemoryRemoval::ByAddress,
    };
    Ok(remove(connection, scope, &mut row, &removed, how)?)
}

/// Finds the memories with this id. Reads only what a removal needs, so that a corrupt memory can be
/// removed too.
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

/// Removes one chunk of a user's memories, and the scope with the last chunk; returns the number of
/// memories removed.
pub(in crate::sqlite) fn erase_chunk(
    connection: &Connection,
    app: &str,
    user: &str,
) -> rusqlite::Result<usize> {
    let scope = MemoryScope::new(app, user);
    let Some(row) = find_scope(connection, &scope)? else {
        return Ok(0);
    };
    let sql = "DELETE FROM memories WHERE key IN \
               (SELECT key FROM memories WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
    let (first, last) = key_range(&row);
    let mut statement = connection.prepare_cached(sql)?;
    let erased = statement.execute((first, last, ERASE_CHUNK as i64))?;
    if erased < ERASE_CHUNK {
        for table in ["memory_touched", "memory_tombstones"] {
            let sql = format!("DELETE FROM {table} WHERE scope = ?1");
            connection.execute(&sql, [row.number])?;
        }
        connection.execute("DELETE FROM memory_scopes WHERE number = ?1", [row.number])?;
    }
    Ok(erased)
}
