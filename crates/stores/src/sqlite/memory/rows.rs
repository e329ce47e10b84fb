//! Decodes the rows of memories.

use retain_core::{
    BoxError, Content, MemoryError, MemoryInfo, MemoryRecord, MemoryVector, MemoryVectors,
};
use rusqlite::Row;

use super::{Failure, Outcome, scope::seq_from_key};
use crate::sql::memory::{self as sql, Models, RawMemoryInfo, corrupt, info_columns, memory_bytes};

/// The columns of [`MemoryInfo`], in the order in which [`info`] reads them.
pub(super) const INFO_COLUMNS: &str = concat!("key, ", info_columns!());

/// The SQL expression for the bytes of a memory that count against the limit.
pub(super) const BYTES: &str = memory_bytes!();

/// Reads the columns of [`INFO_COLUMNS`], then content and vectors.
pub(super) fn record(row: &Row<'_>, models: &Models) -> Outcome<MemoryRecord> {
    charge_content(row)?;
    let info = info(row)?;
    let content = content(row).map_err(|e| corrupt(&info.id, e))?;
    let vectors = MemoryVectors {
        fixed: vector(row, 16, models).map_err(|e| corrupt(&info.id, e))?,
        embedding: vector(row, 18, models).map_err(|e| corrupt(&info.id, e))?,
    };
    Ok(MemoryRecord {
        info,
        content,
        vectors,
    })
}

/// Charges the columns of variable size to the current request.
fn charge_content(row: &Row<'_>) -> Outcome<()> {
    let text = row.get_ref(15)?.as_str().unwrap_or_default();
    let vectors = [17, 19].map(|at| row.get_ref(at).ok()?.as_blob().ok().map(<[u8]>::len));
    let vectors = vectors.into_iter().flatten().sum();
    Ok(sql::charge_record(text.as_bytes(), vectors)?)
}

/// Selects the columns of [`record`] of all memories, then their app and user.
pub(in crate::sqlite) fn all_records_sql() -> String {
    format!(
        "SELECT {INFO_COLUMNS}, content, fixed_model, fixed, embedding_model, embedding, app, user \
         FROM memories JOIN (SELECT number, app, user FROM memory_scopes) ON number = key >> 32 \
         ORDER BY key"
    )
}

/// Returns the error with which a row of [`all_records_sql`] fails to be read.
pub(in crate::sqlite) fn check_record(row: &Row<'_>) -> rusqlite::Result<Option<MemoryError>> {
    match record(row, &Models::new()) {
        Ok(_) => Ok(None),
        Err(Failure::Rejected(error)) => Ok(Some(error)),
        Err(Failure::Sql(error)) => Err(error),
    }
}

fn content(row: &Row<'_>) -> Result<Content, BoxError> {
    Ok(Content::from_json(row.get_ref(15)?.as_str()?)?)
}

fn vector(row: &Row<'_>, at: usize, models: &Models) -> rusqlite::Result<Option<MemoryVector>> {
    Ok(sql::vector(models, row.get(at)?, row.get(at + 1)?))
}

/// Reads the columns of [`INFO_COLUMNS`]. An unreadable row is an error with the memory's id; it is
/// never skipped.
pub(super) fn info(row: &Row<'_>) -> Outcome<MemoryInfo> {
    let seq = seq_from_key(row.get(0)?);
    let id = row.get::<_, String>(1);
    let id = id.map_err(|e| corrupt(&format!("number {seq}"), e))?;
    let info = read_info(row, seq, &id);
    Ok(info.map_err(|e| corrupt(&id, e))?)
}

fn read_info(row: &Row<'_>, seq: u64, id: &str) -> Result<MemoryInfo, BoxError> {
    let raw = RawMemoryInfo {
        seq,
        id: id.to_owned(),
        revision: row.get(2)?,
        kind: row.get(3)?,
        origin: row.get(4)?,
        tool: row.get(5)?,
        session: row.get(6)?,
        position: row.get(7)?,
        event_id: row.get(8)?,
        author: row.get(9)?,
        timestamp: row.get(10)?,
        created_us: row.get(11)?,
        updated_us: row.get(12)?,
        expires_us: row.get(13)?,
        custom_metadata: row.get(14)?,
    };
    raw.read()
}
