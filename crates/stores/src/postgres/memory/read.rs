//! Reading memories. Each question is one statement, so that all of its answer is from one moment.

use std::collections::HashMap;

use retain_core::{
    ExistingMemory, MemoryChanges, MemoryMark, MemoryRecord, MemoryRows, MemoryScope,
    MemoryStatistics,
};
use tokio::{
    join,
    runtime::{Handle, RuntimeFlavor},
};
use tokio_postgres::Row;

use super::{
    Outcome,
    rows::{
        self, bare_columns, full_columns, removed_columns, scope_columns, scope_number, signed,
        unsigned,
    },
};
use crate::{
    postgres::pool::{Database, Param},
    sql::memory::{Models, about_columns, memory_bytes},
};

/// As many memories are read before anybody would notice.
const FEW: usize = 64;

/// Whose memories: what every statement here begins its parameters with.
macro_rules! of_user {
    () => {
        "app = $1 AND user_id = $2"
    };
}

/// The memories with one of some ids, for `rows::known`.
pub(super) const KNOWN: &str = concat!(
    "SELECT ",
    removed_columns!(),
    ", body_hash, updated_us IS NOT NULL, expires_us, custom_metadata FROM retain_memories \
     WHERE scope = ",
    scope_number!(),
    " AND id = ANY($3::text[]) ORDER BY seq"
);

/// By id, the memories that have it.
pub(super) fn by_id(found: &[Row]) -> Outcome<HashMap<String, Vec<ExistingMemory>>> {
    let mut known: HashMap<String, Vec<ExistingMemory>> = HashMap::new();
    for row in found {
        let id: String = row.try_get(1)?;
        known.entry(id).or_default().push(rows::known(row)?);
    }
    Ok(known)
}

/// The ids that a memory here can have: none has a NUL character.
pub(super) fn possible<'a>(ids: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let ids = ids.into_iter().map(String::as_str);
    ids.filter(|id| !id.contains('\0')).collect()
}

async fn ask(database: &Database, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

pub(super) async fn body_hashes(
    database: &Database,
    scope: &MemoryScope,
    session: Option<&str>,
    ids: &[String],
) -> Outcome<Vec<Option<u64>>> {
    let asked = possible(ids);
    let found = ask(database, KNOWN, &[&scope.app, &scope.user, &asked]).await?;
    let known = by_id(&found)?;
    let hashes = ids.iter().map(|id| {
        let mut same_id = known.get(id)?.iter();
        let here = same_id.find(|known| known.session.as_deref() == session);
        here.map(|known| known.body_hash)
    });
    Ok(hashes.collect())
}

pub(super) async fn mark(database: &Database, scope: &MemoryScope) -> Outcome<MemoryMark> {
    const SQL: &str = concat!(
        "SELECT ",
        scope_columns!(),
        " FROM retain_memory_scopes WHERE ",
        of_user!()
    );
    let found = ask(database, SQL, &[&scope.app, &scope.user]).await?;
    let row = found.first().map(rows::scope).transpose()?;
    Ok(row.map(|row| row.mark()).unwrap_or_default())
}

pub(super) async fn changes(
    database: &Database,
    scope: &MemoryScope,
    since: MemoryMark,
) -> Outcome<MemoryChanges> {
    const SQL: &str = concat!(
        "SELECT ",
        scope_columns!(),
        ", ARRAY(SELECT DISTINCT t.seq FROM retain_memory_touched t \
         WHERE t.scope = s.number AND t.revision > $3 ORDER BY t.seq) \
         FROM retain_memory_scopes s WHERE ",
        of_user!()
    );
    let revision = signed(since.revision);
    let found = ask(database, SQL, &[&scope.app, &scope.user, &revision]).await?;
    let Some(found) = found.first() else {
        return Ok(MemoryChanges::Rebuild);
    };
    let row = rows::scope(found)?;
    if !row.is_known_since(since) {
        return Ok(MemoryChanges::Rebuild);
    }
    let seqs: Vec<i64> = found.try_get(10)?;
    Ok(MemoryChanges::Touched {
        seqs: seqs.into_iter().map(|seq| seq as u64).collect(),
        mark: row.mark(),
    })
}

/// The statements of [`rows()`] with these columns: those behind a number, those with these numbers,
/// those with this id.
macro_rules! row_statements {
    ($columns:expr) => {
        [
            concat!(
                "SELECT ",
                $columns,
                " FROM retain_memories WHERE scope = ",
                scope_number!(),
                " AND seq > $3 ORDER BY seq LIMIT $4"
            ),
            concat!(
                "SELECT ",
                $columns,
                " FROM unnest($3::int8[]) WITH ORDINALITY AS asked (number, place) \
                 JOIN retain_memories ON scope = ",
                scope_number!(),
                " AND seq = asked.number ORDER BY asked.place"
            ),
            concat!(
                "SELECT ",
                $columns,
                " FROM retain_memories WHERE scope = ",
                scope_number!(),
                " AND id = $3 ORDER BY seq"
            ),
        ]
    };
}

const BARE: [&str; 3] = row_statements!(bare_columns!());
const FULL: [&str; 3] = row_statements!(full_columns!());

/// The memories with this id; the caller holds the lock.
pub(super) const WITH_ID: &str = BARE[2];

pub(super) async fn rows(
    database: &Database,
    scope: &MemoryScope,
    asked: &MemoryRows,
    with_vectors: bool,
) -> Outcome<Vec<MemoryRecord>> {
    let [after, numbered, with_id] = if with_vectors { FULL } else { BARE };
    let (app, user) = (&scope.app, &scope.user);
    match asked {
        MemoryRows::After { seq, limit } => {
            let (seq, limit) = (signed(*seq), signed(*limit as u64));
            let params: &[Param<'_>] = &[app, user, &seq, &limit];
            records(database, after, params, with_vectors).await
        }
        MemoryRows::Numbered(seqs) => {
            let seqs: Vec<i64> = seqs.iter().map(|seq| signed(*seq)).collect();
            records(database, numbered, &[app, user, &seqs], with_vectors).await
        }
        MemoryRows::WithId(id) if id.contains('\0') => Ok(Vec::new()),
        MemoryRows::WithId(id) => records(database, with_id, &[app, user, id], with_vectors).await,
    }
}

async fn records(
    database: &Database,
    sql: &str,
    params: &[Param<'_>],
    with_vectors: bool,
) -> Outcome<Vec<MemoryRecord>> {
    const MODELS: &str = "SELECT number, id, dims FROM retain_memory_models";
    let mut models = Models::new();
    let client = database.connection().await?;
    let found = if with_vectors {
        let (sql, known) = join!(
            biased; client.prepare_cached(sql), client.prepare_cached(MODELS)
        );
        let (sql, known) = (sql?, known?);
        // In this order: what made a vector was there before it.
        let (found, known) = join!(
            biased; client.query(&sql, params), client.query(&known, &[])
        );
        for row in known? {
            let id = String::from_utf8_lossy(row.try_get(1)?).into_owned();
            models.insert(row.try_get(0)?, (id, unsigned(&row, 2)? as usize));
        }
        found?
    } else {
        let sql = client.prepare_cached(sql).await?;
        client.query(&sql, params).await?
    };
    // Others may use the connection while this is read.
    drop(client);
    decoded(&found, &models)
}

/// Reads rows; where there are many, not on a thread that others wait for.
fn decoded(found: &[Row], models: &Models) -> Outcome<Vec<MemoryRecord>> {
    let read = || found.iter().map(|row| rows::record(row, models)).collect();
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) if found.len() > FEW => tokio::task::block_in_place(read),
        _ => read(),
    }
}

pub(super) async fn without_embedding(
    database: &Database,
    scope: &MemoryScope,
    model: &str,
    dims: usize,
    after: u64,
    limit: usize,
) -> Outcome<Vec<MemoryRecord>> {
    const SQL: &str = concat!(
        "SELECT ",
        bare_columns!(),
        " FROM retain_memories WHERE scope = ",
        scope_number!(),
        " AND seq > $3 AND (embedding_model IS NULL OR embedding_model NOT IN \
         (SELECT number FROM retain_memory_models WHERE id = $4 AND dims = $5) \
         OR octet_length(embedding) IS DISTINCT FROM 4 * $5) ORDER BY seq LIMIT $6"
    );
    let (model, dims) = (model.as_bytes(), signed(dims as u64));
    let (after, limit) = (signed(after), signed(limit as u64));
    let params: &[Param<'_>] = &[&scope.app, &scope.user, &after, &model, &dims, &limit];
    records(database, SQL, params, false).await
}

pub(super) async fn statistics(
    database: &Database,
    scope: &MemoryScope,
    now_us: i64,
) -> Outcome<MemoryStatistics> {
    const SQL: &str = concat!(
        "SELECT count(m.seq), coalesce(sum(",
        memory_bytes!(),
        "), 0)::int8, count(DISTINCT m.session), count(*) FILTER (WHERE m.origin = 2), \
         count(*) FILTER (WHERE m.kind = 1), count(m.embedding_model), s.tombstones, \
         min(m.timestamp), max(m.timestamp), s.revision \
         FROM retain_memory_scopes s LEFT JOIN retain_memories m ON m.scope = s.number \
         AND (m.expires_us IS NULL OR m.expires_us > $3) WHERE ",
        of_user!(),
        " GROUP BY s.number"
    );
    let found = ask(database, SQL, &[&scope.app, &scope.user, &now_us]).await?;
    let Some(row) = found.first() else {
        return Ok(MemoryStatistics::default());
    };
    Ok(MemoryStatistics {
        entries: unsigned(row, 0)?,
        bytes: unsigned(row, 1)?,
        sessions: unsigned(row, 2)?,
        from_tools: unsigned(row, 3)?,
        direct: unsigned(row, 4)?,
        embedded: unsigned(row, 5)?,
        tombstones: unsigned(row, 6)?,
        oldest: row.try_get(7)?,
        newest: row.try_get(8)?,
        revision: unsigned(row, 9)?,
    })
}
