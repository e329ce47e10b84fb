//! Adds memories, in one job of the writer. Invalid input is rejected before the first write.

use retain_core::{
    ExistingMemory, IngestReceipt, MemoryBatch, MemoryPlan, MemoryScope, PreparedMemory, Tombstone,
    plan_batch, plan_growth,
};
use rusqlite::{Connection, named_params};

use super::{
    Outcome,
    models::encode_vector,
    read::find_existing,
    scope::{create_scope, find_scope, has_tombstone, memory_key, touch},
};
use crate::sql::memory::{ScopeRow, count_plans, kind_number, origin_number, own_event_id};

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
            MemoryPlan::Unchanged | MemoryPlan::Forgotten => {}
        }
    }
    touch(connection, &mut row, &touched)?;
    Ok(receipt)
}

/// Finds the memories with the id of a new memory, and whether the new memory was forgotten before.
fn find_conflicts(
    connection: &Connection,
    row: &ScopeRow,
    scope: &MemoryScope,
    memory: &PreparedMemory,
) -> rusqlite::Result<(Vec<ExistingMemory>, bool)> {
    let (session, id) = (memory.new.session.as_deref(), &memory.new.id);
    let mut is_forgotten = false;
    if row.tombstones > 0 {
        for hash in Tombstone::excluding(scope, session, id) {
            is_forgotten |= has_tombstone(connection, row, hash)?;
        }
    }
    let existing = find_existing(connection, row.number, id)?;
    Ok((existing, is_forgotten))
}

pub(super) fn insert(
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
               content, fixed_model, fixed, embedding_model, embedding) VALUES (:key, :id, \
               :revision, :kind, :origin, :tool, :session, :position, :event_id, :author, \
               :timestamp, :created_us, :expires_us, :body_hash, :custom_metadata, :content, \
               :fixed_model, :fixed, :embedding_model, :embedding)";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":key": memory_key(row.number, row.last_seq),
        ":id": new.id,
        ":revision": row.revision + 1,
        ":kind": kind_number(new.kind),
        ":origin": origin_number(&new.origin),
        ":tool": new.origin.tool(),
        ":session": new.session,
        ":position": new.position,
        ":event_id": own_event_id(memory),
        ":author": new.author,
        ":timestamp": new.timestamp,
        ":created_us": now_us,
        ":expires_us": new.expires_us,
        ":body_hash": memory.body_hash as i64,
        ":custom_metadata": memory.metadata_json,
        ":content": memory.content_json,
        ":fixed_model": fixed_model,
        ":fixed": fixed,
        ":embedding_model": model,
        ":embedding": embedding,
    })?;
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
    let sql = "UPDATE memories SET revision = :revision, kind = :kind, origin = :origin, \
               tool = :tool, position = :position, event_id = :event_id, author = :author, \
               timestamp = :timestamp, expires_us = :expires_us, body_hash = :body_hash, \
               custom_metadata = :custom_metadata, content = :content, \
               fixed_model = :fixed_model, fixed = :fixed, embedding_model = :embedding_model, \
               embedding = :embedding, updated_us = NULL WHERE key = :key";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":key": memory_key(row.number, seq),
        ":revision": row.revision + 1,
        ":kind": kind_number(new.kind),
        ":origin": origin_number(&new.origin),
        ":tool": new.origin.tool(),
        ":position": new.position,
        ":event_id": own_event_id(memory),
        ":author": new.author,
        ":timestamp": new.timestamp,
        ":expires_us": new.expires_us,
        ":body_hash": memory.body_hash as i64,
        ":custom_metadata": memory.metadata_json,
        ":content": memory.content_json,
        ":fixed_model": fixed_model,
        ":fixed": fixed,
        ":embedding_model": model,
        ":embedding": embedding,
    })?;
    Ok(())
}
