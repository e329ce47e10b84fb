//! Reads memories: queries, and functions that decode their rows.

use retain_core::{
    BoxError, Content, ExistingMemory, MemoryChanges, MemoryInfo, MemoryMark, MemoryRecord,
    MemoryRows, MemoryScope, MemoryStatistics, MemoryTotals, MemoryVector, MemoryVectors,
    Tombstone,
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row};

use super::Outcome;
use crate::sql::memory::{
    self as sql, Models, RawMemoryInfo, ScopeRow, about_columns, corrupt, kind_or_default,
    memory_bytes,
};

/// The number of a memory is the low 32 bits of its key.
pub(super) const SEQ_MAX: u64 = u32::MAX as u64;

/// The key of a memory. The memories of a scope are adjacent, in insertion order.
pub(super) fn memory_key(scope: i64, seq: u64) -> i64 {
    scope << 32 | (seq.min(SEQ_MAX) as i64)
}

pub(super) fn seq_from_key(key: i64) -> u64 {
    key as u64 & SEQ_MAX
}

/// The columns of [`MemoryInfo`], in the order in which [`info`] reads them.
pub(super) const ABOUT: &str = concat!("key, ", about_columns!());

/// The bytes of a memory that count against the limit.
pub(super) const BYTES: &str = memory_bytes!();

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

/// The first and the last possible key of the scope's memories.
pub(super) fn key_range(row: &ScopeRow) -> (i64, i64) {
    (memory_key(row.number, 0), memory_key(row.number, SEQ_MAX))
}

/// Finds the memories with this id.
pub(super) fn find_existing(
    connection: &Connection,
    scope: i64,
    id: &str,
) -> rusqlite::Result<Vec<ExistingMemory>> {
    let sql = format!(
        "SELECT key, session, body_hash, updated_us IS NOT NULL, {BYTES}, kind, expires_us, \
         custom_metadata \
         FROM memories WHERE key >> 32 = ?1 AND id = ?2 ORDER BY key"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((scope, id), |row| {
        Ok(ExistingMemory {
            seq: seq_from_key(row.get(0)?),
            session: row.get(1)?,
            body_hash: row.get::<_, i64>(2)? as u64,
            is_edited: row.get(3)?,
            bytes: row.get(4)?,
            kind: kind_or_default(row.get(5)?),
            expires_us: row.get(6)?,
            metadata_json: row.get(7)?,
        })
    })?;
    rows.collect()
}

pub(super) fn body_hashes(
    connection: &Connection,
    scope: &MemoryScope,
    session: Option<&str>,
    ids: &[String],
) -> Outcome<Vec<Option<u64>>> {
    let Some(row) = find_scope(connection, scope)? else {
        return Ok(vec![None; ids.len()]);
    };
    let mut hashes = Vec::with_capacity(ids.len());
    for id in ids {
        let mut same_id = find_existing(connection, row.number, id)?.into_iter();
        let same_session = same_id.find(|memory| memory.session.as_deref() == session);
        hashes.push(same_session.map(|memory| memory.body_hash));
    }
    Ok(hashes)
}

pub(super) fn changes(
    connection: &Connection,
    scope: &MemoryScope,
    since: MemoryMark,
) -> Outcome<MemoryChanges> {
    let row = find_scope(connection, scope)?;
    let Some(row) = row.filter(|row| row.can_list_changes_since(since)) else {
        return Ok(MemoryChanges::Rebuild);
    };
    let sql = "SELECT DISTINCT seq FROM memory_touched \
               WHERE scope = ?1 AND revision > ?2 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    let seqs = statement.query_map((row.number, since.revision), |row| row.get(0))?;
    Ok(MemoryChanges::Touched {
        seqs: seqs.collect::<rusqlite::Result<_>>()?,
        mark: row.mark(),
    })
}

fn load_models(connection: &Connection) -> rusqlite::Result<Models> {
    let mut statement = connection.prepare_cached("SELECT number, id, dims FROM memory_models")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}

pub(super) fn rows(
    connection: &Connection,
    scope: &MemoryScope,
    rows: &MemoryRows,
    with_vectors: bool,
) -> Outcome<Vec<MemoryRecord>> {
    let Some(scope) = find_scope(connection, scope)? else {
        return Ok(Vec::new());
    };
    let (vectors, models) = if with_vectors {
        let columns = "fixed_model, fixed, embedding_model, embedding";
        (columns, load_models(connection)?)
    } else {
        ("NULL, NULL, NULL, NULL", Models::new())
    };
    let select = format!("SELECT {ABOUT}, content, {vectors} FROM memories");
    match rows {
        MemoryRows::After { seq, limit } => {
            let sql = format!("{select} WHERE key > ?1 AND key <= ?2 ORDER BY key LIMIT ?3");
            let after = memory_key(scope.number, *seq);
            let params = (after, key_range(&scope).1, signed_limit(*limit));
            records(connection, &sql, params, &models)
        }
        MemoryRows::Numbered(seqs) => {
            let sql = format!("{select} WHERE key = ?1");
            let mut found = Vec::with_capacity(seqs.len());
            for seq in seqs {
                let key = [memory_key(scope.number, *seq)];
                found.extend(records(connection, &sql, key, &models)?);
            }
            Ok(found)
        }
        MemoryRows::WithId(id) => {
            let sql = format!("{select} WHERE key >> 32 = ?1 AND id = ?2 ORDER BY key");
            records(connection, &sql, (scope.number, id), &models)
        }
    }
}

pub(super) fn without_embedding(
    connection: &Connection,
    scope: &MemoryScope,
    model: &str,
    dims: usize,
    after: u64,
    limit: usize,
) -> Outcome<Vec<MemoryRecord>> {
    let Some(scope) = find_scope(connection, scope)? else {
        return Ok(Vec::new());
    };
    let sql = format!(
        "SELECT {ABOUT}, content, NULL, NULL, NULL, NULL FROM memories \
         WHERE key > ?1 AND key <= ?2 AND (embedding_model IS NULL OR embedding_model NOT IN \
         (SELECT number FROM memory_models WHERE id = ?3 AND dims = ?4) \
         OR octet_length(embedding) IS NOT 4 * ?4) ORDER BY key LIMIT ?5"
    );
    let after = memory_key(scope.number, after);
    let params = (after, key_range(&scope).1, model, dims, signed_limit(limit));
    records(connection, &sql, params, &Models::new())
}

fn signed_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn records(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    models: &Models,
) -> Outcome<Vec<MemoryRecord>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(row, models)?);
    }
    Ok(found)
}

/// Reads the columns of [`ABOUT`], then content and vectors.
pub(super) fn record(row: &Row<'_>, models: &Models) -> Outcome<MemoryRecord> {
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

fn content(row: &Row<'_>) -> Result<Content, BoxError> {
    Ok(Content::from_json(row.get_ref(15)?.as_str()?)?)
}

fn vector(row: &Row<'_>, at: usize, models: &Models) -> rusqlite::Result<Option<MemoryVector>> {
    Ok(sql::vector(models, row.get(at)?, row.get(at + 1)?))
}

/// Reads the columns of [`ABOUT`]. An unreadable row is an error with the memory's id; it is never
/// skipped.
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

/// The earliest expiry time of all memories.
pub(super) fn first_expiry(connection: &Connection) -> Outcome<Option<i64>> {
    let sql = "SELECT min(expires_us) FROM memories WHERE expires_us IS NOT NULL";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

pub(super) fn statistics(
    connection: &Connection,
    scope: &MemoryScope,
    now_us: i64,
) -> Outcome<MemoryStatistics> {
    let Some(scope) = find_scope(connection, scope)? else {
        return Ok(MemoryStatistics::default());
    };
    let sql = format!(
        "SELECT count(*), ifnull(sum({BYTES}), 0), count(DISTINCT session), \
         ifnull(sum(origin = 2), 0), ifnull(sum(kind = 1), 0), count(embedding_model), \
         min(timestamp), max(timestamp) FROM memories \
         WHERE key BETWEEN ?1 AND ?2 AND (expires_us IS NULL OR expires_us > ?3)"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let (first, last) = key_range(&scope);
    let statistics = statement.query_row((first, last, now_us), |row| {
        Ok(MemoryStatistics {
            entries: row.get(0)?,
            bytes: row.get(1)?,
            sessions: row.get(2)?,
            from_tools: row.get(3)?,
            direct: row.get(4)?,
            embedded: row.get(5)?,
            tombstones: scope.tombstones,
            oldest: row.get(6)?,
            newest: row.get(7)?,
            revision: scope.revision,
        })
    })?;
    Ok(statistics)
}
