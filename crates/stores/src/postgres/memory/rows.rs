//! Column lists of the memory tables, and functions that decode their rows.

use retain_core::{
    BoxError, Content, ExistingMemory, MemoryError, MemoryInfo, MemoryRecord, MemoryTotals,
    MemoryVectors,
};
use tokio_postgres::{Error, Row};

pub(super) use crate::postgres::rows::{signed, unsigned};

use super::Outcome;
use crate::postgres::pool::Failure;
use crate::sql::memory::{
    self as sql, Models, RawMemoryInfo, RemovedMemory, ScopeRow, corrupt, info_columns,
    kind_or_default,
};

/// The columns of a scope, in the order in which [`scope`] reads them.
macro_rules! scope_columns {
    () => {
        "number, revision, last_seq, floor, touched, tombstones, entries, bytes, minute, in_minute"
    };
}

/// A subquery for the scope number of user $2 in app $1.
macro_rules! scope_number {
    () => {
        "(SELECT number FROM retain_memory_scopes WHERE app = $1 AND user_id = $2)"
    };
}

/// The columns of a memory without vectors, in the order in which [`record`] reads them.
macro_rules! bare_columns {
    () => {
        concat!(
            "seq, ",
            info_columns!(),
            ", content, NULL::int8, NULL::bytea, NULL::int8, NULL::bytea"
        )
    };
}

/// The columns of a memory with its vectors.
macro_rules! full_columns {
    () => {
        concat!(
            "seq, ",
            info_columns!(),
            ", content, fixed_model, fixed, embedding_model, embedding"
        )
    };
}

/// The columns that [`removed_memory`] reads.
macro_rules! removed_columns {
    () => {
        concat!("seq, id, session, kind, (", memory_bytes!(), ")::int8")
    };
}

pub(super) use {bare_columns, full_columns, removed_columns, scope_columns, scope_number};

/// Reads the number of an enum variant.
fn variant_number(row: &Row, at: usize) -> Result<i64, Error> {
    Ok(i64::from(row.try_get::<_, i16>(at)?))
}

/// Reads the bytes at column `at` as UTF-8 text.
fn text(row: &Row, at: usize) -> Result<Option<String>, BoxError> {
    let bytes: Option<&[u8]> = row.try_get(at)?;
    let text = bytes.map(|bytes| std::str::from_utf8(bytes).map(str::to_owned));
    Ok(text.transpose()?)
}

/// Reads `scope_columns`.
pub(super) fn scope(row: &Row) -> Result<ScopeRow, Error> {
    Ok(ScopeRow {
        number: row.try_get(0)?,
        revision: unsigned(row, 1)?,
        last_seq: unsigned(row, 2)?,
        floor: unsigned(row, 3)?,
        touched: unsigned(row, 4)?,
        tombstones: unsigned(row, 5)?,
        totals: MemoryTotals {
            entries: unsigned(row, 6)?,
            bytes: unsigned(row, 7)?,
            minute: row.try_get(8)?,
            in_minute: unsigned(row, 9)?,
        },
    })
}

/// Reads the columns of `read::EXISTING`.
pub(super) fn read_existing(row: &Row) -> Outcome<ExistingMemory> {
    let id: String = row.try_get(1)?;
    Ok(ExistingMemory {
        seq: unsigned(row, 0)?,
        session: row.try_get(2)?,
        kind: kind_or_default(variant_number(row, 3)?),
        bytes: unsigned(row, 4)?,
        body_hash: unsigned(row, 5)?,
        is_edited: row.try_get(6)?,
        expires_us: row.try_get(7)?,
        metadata_json: text(row, 8).map_err(|e| corrupt(&id, e))?,
    })
}

/// Reads only `removed_columns`, so that a memory with other corrupt columns can be removed.
pub(super) fn removed_memory(row: &Row) -> Result<RemovedMemory, Error> {
    Ok(RemovedMemory {
        seq: unsigned(row, 0)?,
        id: row.try_get(1)?,
        session: row.try_get(2)?,
        kind: variant_number(row, 3)?,
        bytes: unsigned(row, 4)?,
    })
}

/// Reads `bare_columns` or `full_columns`.
pub(super) fn record(row: &Row, models: &Models) -> Outcome<MemoryRecord> {
    let vectors = row.try_get::<_, Option<&[u8]>>(17)?.map_or(0, <[u8]>::len)
        + row.try_get::<_, Option<&[u8]>>(19)?.map_or(0, <[u8]>::len);
    sql::charge_record(row.try_get(15)?, vectors)?;
    let info = info(row)?;
    let content = content(row).map_err(|e| corrupt(&info.id, e))?;
    let vectors = MemoryVectors {
        fixed: sql::vector(models, row.try_get(16)?, row.try_get(17)?),
        embedding: sql::vector(models, row.try_get(18)?, row.try_get(19)?),
    };
    Ok(MemoryRecord {
        info,
        content,
        vectors,
    })
}

/// Selects a page of all memories after a scope ($1) and a number ($2): the columns of [`record`],
/// then app, user and scope.
pub(in crate::postgres) const ALL_RECORDS: &str = concat!(
    "SELECT ",
    full_columns!(),
    ", app, user_id, scope FROM retain_memories \
     JOIN (SELECT number, app, user_id FROM retain_memory_scopes) s ON number = scope \
     WHERE (scope, seq) > ($1, $2) ORDER BY scope, seq LIMIT $3"
);

/// Returns the error with which a row of [`ALL_RECORDS`] fails to be read.
pub(in crate::postgres) fn check_record(row: &Row) -> Result<Option<MemoryError>, Error> {
    match record(row, &Models::new()) {
        Ok(_) => Ok(None),
        Err(Failure::Rejected(error)) => Ok(Some(error)),
        Err(Failure::Database(error)) => Err(error),
        // Cannot happen: decoding a fetched row uses no connection.
        Err(Failure::NoConnection(_) | Failure::Transient(_)) => Ok(None),
    }
}

fn content(row: &Row) -> Result<Content, BoxError> {
    Ok(Content::from_json(std::str::from_utf8(row.try_get(15)?)?)?)
}

/// Reads the sequence number and the `info_columns` of a memory. An unreadable row is an error with
/// the memory's id; it is never skipped.
pub(super) fn info(row: &Row) -> Outcome<MemoryInfo> {
    let id: String = row.try_get(1)?;
    let info = read_info(row, &id);
    Ok(info.map_err(|e| corrupt(&id, e))?)
}

fn read_info(row: &Row, id: &str) -> Result<MemoryInfo, BoxError> {
    let raw = RawMemoryInfo {
        seq: unsigned(row, 0)?,
        id: id.to_owned(),
        revision: unsigned(row, 2)?,
        kind: variant_number(row, 3)?,
        origin: variant_number(row, 4)?,
        tool: text(row, 5)?,
        session: row.try_get(6)?,
        position: unsigned(row, 7)?,
        event_id: text(row, 8)?,
        author: text(row, 9)?,
        timestamp: row.try_get(10)?,
        created_us: row.try_get(11)?,
        updated_us: row.try_get(12)?,
        expires_us: row.try_get(13)?,
        custom_metadata: text(row, 14)?,
    };
    raw.read()
}
