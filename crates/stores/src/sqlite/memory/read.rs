//! Reads memories.

use retain_core::{
    ExistingMemory, MemoryChanges, MemoryMark, MemoryRecord, MemoryRows, MemoryScope,
    MemoryStatistics,
};
use rusqlite::{Connection, Params};

use super::{
    Outcome,
    models::load_models,
    rows::{BYTES, INFO_COLUMNS, record},
    scope::{find_scope, key_range, memory_key, seq_from_key},
};
use crate::sql::memory::{Models, kind_or_default};

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
    let select = format!("SELECT {INFO_COLUMNS}, content, {vectors} FROM memories");
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
        "SELECT {INFO_COLUMNS}, content, NULL, NULL, NULL, NULL FROM memories \
         WHERE key > ?1 AND key <= ?2 AND (embedding_model IS NULL OR embedding_model NOT IN \
         (SELECT number FROM memory_models WHERE id = ?3 AND dims = ?4) \
         OR octet_length(embedding) IS NOT 4 * ?4) ORDER BY key LIMIT ?5"
    );
    let after = memory_key(scope.number, after);
    let params = (after, key_range(&scope).1, model, dims, signed_limit(limit));
    records(connection, &sql, params, &Models::new())
}

pub(super) fn signed_limit(limit: usize) -> i64 {
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

/// Returns the earliest expiry time of all memories.
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
