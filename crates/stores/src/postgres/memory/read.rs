//! Reads memories. Each read is one statement, so that its rows come from one snapshot.

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
    postgres::pool::{Database, Failure, Param},
    sql::memory::{Models, info_columns, memory_bytes},
};

/// Maximum number of rows to decode without `block_in_place`.
const DECODE_INLINE_MAX: usize = 64;

/// The condition that selects the scope of user $2 in app $1.
macro_rules! by_user {
    () => {
        "app = $1 AND user_id = $2"
    };
}

/// Selects the memories with one of the ids $3, for `rows::read_existing`.
pub(super) const EXISTING: &str = concat!(
    "SELECT ",
    removed_columns!(),
    ", body_hash, updated_us IS NOT NULL, expires_us, custom_metadata FROM retain_memories \
     WHERE scope = ",
    scope_number!(),
    " AND id = ANY($3::text[]) ORDER BY seq"
);

/// Groups memories by id.
pub(super) fn group_by_id(found: &[Row]) -> Outcome<HashMap<String, Vec<ExistingMemory>>> {
    let mut memories: HashMap<String, Vec<ExistingMemory>> = HashMap::new();
    for row in found {
        let id: String = row.try_get(1)?;
        let memory = rows::read_existing(row)?;
        memories.entry(id).or_default().push(memory);
    }
    Ok(memories)
}

/// Filters out ids with a NUL character, which PostgreSQL cannot store in text.
pub(super) fn storable_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let ids = ids.into_iter().map(String::as_str);
    ids.filter(|id| !id.contains('\0')).collect()
}

async fn query(database: &Database, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
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
    let storable = storable_ids(ids);
    let found = query(database, EXISTING, &[&scope.app, &scope.user, &storable]).await?;
    let memories = group_by_id(&found)?;
    let hashes = ids.iter().map(|id| {
        let mut same_id = memories.get(id)?.iter();
        let same_session = same_id.find(|memory| memory.session.as_deref() == session);
        same_session.map(|memory| memory.body_hash)
    });
    Ok(hashes.collect())
}

pub(super) async fn mark(database: &Database, scope: &MemoryScope) -> Outcome<MemoryMark> {
    const SQL: &str = concat!(
        "SELECT ",
        scope_columns!(),
        " FROM retain_memory_scopes WHERE ",
        by_user!()
    );
    let found = query(database, SQL, &[&scope.app, &scope.user]).await?;
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
        by_user!()
    );
    let revision = signed(since.revision);
    let found = query(database, SQL, &[&scope.app, &scope.user, &revision]).await?;
    let Some(found) = found.first() else {
        return Ok(MemoryChanges::Rebuild);
    };
    let row = rows::scope(found)?;
    if !row.can_list_changes_since(since) {
        return Ok(MemoryChanges::Rebuild);
    }
    let seqs: Vec<i64> = found.try_get(10)?;
    Ok(MemoryChanges::Touched {
        seqs: seqs.into_iter().map(|seq| seq as u64).collect(),
        mark: row.mark(),
    })
}

/// The statements of [`rows()`] with these columns. They select memories after a sequence number,
/// with given sequence numbers, and with an id.
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

/// Selects the memories with id $3.
pub(super) const WITH_ID: &str = BARE[2];

pub(super) async fn rows(
    database: &Database,
    scope: &MemoryScope,
    selection: &MemoryRows,
    with_vectors: bool,
) -> Outcome<Vec<MemoryRecord>> {
    let [after, numbered, with_id] = if with_vectors { FULL } else { BARE };
    let (app, user) = (&scope.app, &scope.user);
    match selection {
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
        let (sql, list_models) = join!(
            biased; client.prepare_cached(sql), client.prepare_cached(MODELS)
        );
        let (sql, list_models) = (sql?, list_models?);
        // Read the models last: each model commits before the first vector that refers to it.
        let (found, model_rows) = join!(
            biased; client.query(&sql, params), client.query(&list_models, &[])
        );
        for row in model_rows? {
            let id = String::from_utf8_lossy(row.try_get(1)?).into_owned();
            models.insert(row.try_get(0)?, (id, unsigned(&row, 2)? as usize));
        }
        found?
    } else {
        let sql = client.prepare_cached(sql).await?;
        client.query(&sql, params).await?
    };
    // Release the connection before decoding.
    drop(client);
    decode_rows(&found, &models)
}

/// Decodes rows. Many rows are decoded with `block_in_place`, so that other tasks can run.
fn decode_rows(found: &[Row], models: &Models) -> Outcome<Vec<MemoryRecord>> {
    let read = || found.iter().map(|row| rows::record(row, models)).collect();
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) if found.len() > DECODE_INLINE_MAX => {
            tokio::task::block_in_place(read)
        }
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

/// Sums the counters of the scopes of an app, or reads that of one user.
pub(super) async fn count_entries(
    database: &Database,
    app: &str,
    user: Option<&str>,
) -> Outcome<u64> {
    const SUM: &str = "SELECT coalesce(sum(entries), 0)::int8 FROM retain_memory_scopes \
                       WHERE app = $1";
    let found = match user {
        None => query(database, SUM, &[&app]).await?,
        Some(user) => {
            let sql = format!("{SUM} AND user_id = $2");
            query(database, &sql, &[&app, &user]).await?
        }
    };
    match found.first() {
        Some(row) => Ok(unsigned(row, 0)?),
        None => Err(Failure::Transient("PostgreSQL returned no sum")),
    }
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
        by_user!(),
        " GROUP BY s.number"
    );
    let found = query(database, SQL, &[&scope.app, &scope.user, &now_us]).await?;
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
