//! Edits, forgets, expires and erases memories, and sets their embeddings.

use std::collections::BTreeMap;

use retain_core::{
    EraseReceipt, Forget, ForgetReceipt, MemoryEdit, MemoryScope, NewEmbedding, plan_edit,
    plan_edited, store_rules::MemoryRemoval,
};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    Outcome,
    models::ModelNumbers,
    or_roll_back, read,
    rows::{self, removed_columns, scope_columns, scope_number, signed, unsigned},
    scope::{self, ScopeStatements},
};
use crate::{
    postgres::pool::{Database, Param, Transaction, statements},
    sql::memory::{
        ERASE_CHUNK, Models, RemovedMemory, ScopeRow, info_columns, kind_number, memory_bytes,
    },
};

/// Maximum number of memories that one query of `forget` reads to apply a filter.
const PAGE: i64 = 2000;

statements! {
    EditStatements {
        same_id: read::WITH_ID,
        bytes: concat!(
            "SELECT seq, (", memory_bytes!(), ")::int8 FROM retain_memories WHERE scope = ",
            scope_number!(), " AND id = $3"
        ),
        // $8 is true for new content: the vectors of the old content are removed.
        edit: "UPDATE retain_memories SET revision = $3, content = $4, custom_metadata = $5, \
               expires_us = $6, updated_us = $7, \
               fixed_model = CASE WHEN $8 THEN NULL ELSE fixed_model END, \
               fixed = CASE WHEN $8 THEN NULL ELSE fixed END, \
               embedding_model = CASE WHEN $8 THEN NULL ELSE embedding_model END, \
               embedding = CASE WHEN $8 THEN NULL ELSE embedding END \
               WHERE scope = $1 AND seq = $2",
    }
}

pub(super) async fn update(
    database: &Database,
    scope: &MemoryScope,
    id: &str,
    edit: &MemoryEdit,
) -> Outcome<bool> {
    if id.contains('\0') {
        return Ok(false);
    }
    let transaction = database.transaction().await?;
    let (scopes, statements) = join!(
        biased; ScopeStatements::prepare(&transaction), EditStatements::prepare(&transaction)
    );
    let (scopes, statements) = (scopes?, statements?);
    let owner: [Param<'_>; _] = [&scope.app, &scope.user];
    let selection: [Param<'_>; _] = [&scope.app, &scope.user, &id];
    let (begun, row, same_id, bytes) = join!(
        biased;
        transaction.begin(),
        transaction.query(&scopes.lock, owner),
        transaction.query(&statements.same_id, selection),
        transaction.query(&statements.bytes, selection),
    );
    begun?;
    let (row, same_id, bytes) = (scope::read_locked(&row?)?, same_id?, bytes?);
    let planned = plan_update(id, edit, row, &same_id, &bytes);
    let (transaction, planned) = or_roll_back(transaction, planned).await?;
    let Some((mut row, edited)) = planned else {
        transaction.roll_back().await?;
        return Ok(false);
    };
    let (number, seq, revision) = (row.number, signed(edited.seq), signed(row.revision + 1));
    let changed = &edited.changed;
    let params: [Param<'_>; _] = [
        &number,
        &seq,
        &revision,
        &changed.content_json.as_bytes(),
        &changed.metadata_json.as_ref().map(String::as_bytes),
        &changed.new.expires_us,
        &edit.now_us,
        &edit.update.content.is_some(),
    ];
    let touched = [edited.seq];
    let (written, touched, committed) = join!(
        biased;
        transaction.execute(&statements.edit, params),
        scope::touch(&transaction, &scopes, &mut row, &touched),
        transaction.commit(),
    );
    written?;
    touched?;
    committed?;
    transaction.release();
    Ok(true)
}

/// A memory after an edit.
struct EditedMemory {
    seq: u64,
    changed: retain_core::PreparedMemory,
}

fn plan_update(
    id: &str,
    edit: &MemoryEdit,
    row: Option<ScopeRow>,
    same_id: &[Row],
    bytes: &[Row],
) -> Outcome<Option<(ScopeRow, EditedMemory)>> {
    let Some(mut row) = row else {
        return Ok(None);
    };
    let same_id = same_id.iter().map(|row| rows::record(row, &Models::new()));
    let Some(record) = plan_edited(id, same_id.collect::<Outcome<_>>()?, edit)? else {
        return Ok(None);
    };
    let seq = record.info.seq;
    let mut old_bytes = 0;
    for row in bytes {
        if unsigned(row, 0)? == seq {
            old_bytes = unsigned(row, 1)?;
        }
    }
    let (changed, totals) = plan_edit(row.totals, &record, old_bytes, edit)?;
    row.totals = totals;
    Ok(Some((row, EditedMemory { seq, changed })))
}

statements! {
    ForgetStatements {
        with_ids: concat!(
            "SELECT ", removed_columns!(), " FROM retain_memories WHERE scope = ", scope_number!(),
            " AND id = ANY($3::text[]) ORDER BY seq"
        ),
        page: concat!(
            "SELECT seq, ", info_columns!(), ", (", memory_bytes!(), ")::int8 \
             FROM retain_memories WHERE scope = $1 AND seq > $2 ORDER BY seq LIMIT $3"
        ),
    }
}

/// Forgets memories. `unconfirmed` is the receipt of an earlier attempt whose commit was not
/// confirmed.
pub(super) async fn forget(
    database: &Database,
    scope: &MemoryScope,
    what: &Forget,
    unconfirmed: &mut Option<ForgetReceipt>,
) -> Outcome<ForgetReceipt> {
    let transaction = database.transaction().await?;
    let (scopes, statements) = join!(
        biased; ScopeStatements::prepare(&transaction), ForgetStatements::prepare(&transaction)
    );
    let (scopes, statements) = (scopes?, statements?);
    let owner: [Param<'_>; _] = [&scope.app, &scope.user];
    let (begun, row) = join!(
        biased; transaction.begin(), transaction.query(&scopes.lock, owner)
    );
    begun?;
    let row = scope::read_locked(&row?)?;
    let found = match &row {
        Some(row) => find_removed(&transaction, &statements, scope, row, what).await,
        None => Ok(Vec::new()),
    };
    let (transaction, removed) = or_roll_back(transaction, found).await?;
    let Some(mut row) = row.filter(|_| !removed.is_empty()) else {
        transaction.roll_back().await?;
        return Ok(unconfirmed.unwrap_or_default());
    };
    let how = MemoryRemoval::from_forget(what);
    let receipt = remove(&transaction, &scopes, scope, &mut row, &removed, how).await?;
    *unconfirmed = Some(receipt);
    transaction.commit().await?;
    transaction.release();
    Ok(receipt)
}

async fn find_removed(
    transaction: &Transaction,
    statements: &ForgetStatements,
    scope: &MemoryScope,
    row: &ScopeRow,
    what: &Forget,
) -> Outcome<Vec<RemovedMemory>> {
    if let Forget::Ids(ids) = what {
        let params: [Param<'_>; _] = [&scope.app, &scope.user, &read::storable_ids(ids)];
        let found = transaction.query(&statements.with_ids, params).await?;
        let removed = found.iter().map(|row| Ok(rows::removed_memory(row)?));
        return removed.collect();
    }
    let (mut removed, mut after) = (Vec::new(), i64::MIN);
    loop {
        let page: [Param<'_>; _] = [&row.number, &after, &PAGE];
        let page = transaction.query(&statements.page, page).await?;
        for found in &page {
            let info = rows::info(found)?;
            after = signed(info.seq);
            if what.matches(&info.filter_fields()) {
                removed.push(RemovedMemory {
                    seq: info.seq,
                    id: info.id,
                    session: info.session,
                    kind: kind_number(info.kind),
                    bytes: unsigned(found, 15)?,
                });
            }
        }
        if page.len() < PAGE as usize {
            return Ok(removed);
        }
    }
}

/// Removes memories of a locked scope and updates the scope row.
async fn remove(
    transaction: &Transaction,
    scopes: &ScopeStatements,
    scope: &MemoryScope,
    row: &mut ScopeRow,
    removed: &[RemovedMemory],
    how: MemoryRemoval,
) -> Result<ForgetReceipt, Error> {
    let tombstones = scope::remove(transaction, scopes, scope, row.number, removed, how).await?;
    let mut receipt = ForgetReceipt::default();
    receipt.memories = removed.len() as u64;
    receipt.bytes = removed.iter().map(|removed| removed.bytes).sum();
    receipt.tombstones = tombstones;
    row.subtract(&receipt);
    let seqs: Vec<u64> = removed
        .iter()
        .map(|removed_memory| removed_memory.seq)
        .collect();
    scope::touch(transaction, scopes, row, &seqs).await?;
    Ok(receipt)
}

statements! {
    ExpiryStatements {
        due: "SELECT DISTINCT scope FROM (SELECT scope FROM retain_memories \
              WHERE expires_us <= $1 ORDER BY expires_us LIMIT $2) AS due",
        // Skip scopes that another writer has locked; the next sweep handles them.
        lock: concat!(
            "SELECT ", scope_columns!(), ", app, user_id FROM retain_memory_scopes \
             WHERE number = ANY($1::int8[]) ORDER BY number FOR UPDATE SKIP LOCKED"
        ),
        expired: concat!(
            "SELECT ", removed_columns!(), ", scope FROM retain_memories \
             WHERE expires_us <= $1 AND scope = ANY($3::int8[]) ORDER BY expires_us LIMIT $2"
        ),
    }
}

/// Removes up to `limit` expired memories of all users.
pub(super) async fn expire(database: &Database, now_us: i64, limit: usize) -> Outcome<u64> {
    let limit = signed(limit as u64);
    let transaction = database.transaction().await?;
    let (scopes, statements) = join!(
        biased; ScopeStatements::prepare(&transaction), ExpiryStatements::prepare(&transaction)
    );
    let (scopes, statements) = (scopes?, statements?);
    let (begun, due) = join!(
        biased; transaction.begin(), transaction.query(&statements.due, [&now_us, &limit])
    );
    begun?;
    let due = due?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<Vec<i64>, Error>>()?;
    if due.is_empty() {
        transaction.roll_back().await?;
        return Ok(0);
    }
    let mut locked: BTreeMap<i64, (ScopeRow, MemoryScope, Vec<RemovedMemory>)> = BTreeMap::new();
    for row in transaction.query(&statements.lock, [&due]).await? {
        let scope = MemoryScope::new(row.try_get::<_, String>(10)?, row.try_get::<_, String>(11)?);
        let row = rows::scope(&row)?;
        locked.insert(row.number, (row, scope, Vec::new()));
    }
    let numbers: Vec<i64> = locked.keys().copied().collect();
    let expired = transaction.query(&statements.expired, [&now_us, &limit, &numbers]);
    for row in expired.await? {
        if let Some((_, _, removed)) = locked.get_mut(&row.try_get(5)?) {
            removed.push(rows::removed_memory(&row)?);
        }
    }
    let mut count = 0;
    for (row, scope, removed) in locked.values_mut().filter(|(_, _, it)| !it.is_empty()) {
        let how = MemoryRemoval::Expiry;
        count += remove(&transaction, &scopes, scope, row, removed, how)
            .await?
            .memories;
    }
    transaction.commit().await?;
    transaction.release();
    Ok(count)
}

statements! {
    EmbeddingStatements {
        set: "UPDATE retain_memories m SET embedding_model = new.model, embedding = new.bytes \
              FROM unnest($2::int8[], $3::int8[], $4::int8[], $5::bytea[]) \
              AS new (seq, revision, model, bytes) \
              WHERE m.scope = $1 AND m.seq = new.seq AND m.revision = new.revision \
              RETURNING m.seq",
    }
}

pub(super) async fn set_embeddings(
    database: &Database,
    models: &ModelNumbers,
    scope: &MemoryScope,
    generation: u64,
    embeddings: &[NewEmbedding],
) -> Outcome<()> {
    let vectors = embeddings.iter().map(|new| &new.vector);
    models.register_models(database, vectors.collect()).await?;
    let transaction = database.transaction().await?;
    let (scopes, statements) = join!(
        biased; ScopeStatements::prepare(&transaction), EmbeddingStatements::prepare(&transaction)
    );
    let (scopes, statements) = (scopes?, statements?);
    let owner: [Param<'_>; _] = [&scope.app, &scope.user];
    let (begun, row) = join!(
        biased; transaction.begin(), transaction.query(&scopes.lock, owner)
    );
    begun?;
    let row = scope::read_locked(&row?)?;
    let Some(mut row) = row.filter(|row| row.mark().generation == generation) else {
        transaction.roll_back().await?;
        return Ok(());
    };
    let updated =
        update_embeddings(&transaction, &statements, models, row.number, embeddings).await?;
    if updated.is_empty() {
        transaction.roll_back().await?;
        return Ok(());
    }
    let (touched, committed) = join!(
        biased;
        scope::touch(&transaction, &scopes, &mut row, &updated),
        transaction.commit(),
    );
    touched?;
    committed?;
    transaction.release();
    Ok(())
}

/// Sets the vectors of memories whose revision has not changed; returns their sequence numbers.
async fn update_embeddings(
    transaction: &Transaction,
    statements: &EmbeddingStatements,
    models: &ModelNumbers,
    scope: i64,
    embeddings: &[NewEmbedding],
) -> Result<Vec<u64>, Error> {
    // If a revision has two vectors, the last one wins.
    let last = embeddings
        .iter()
        .map(|new| ((new.seq, new.revision), &new.vector));
    let last: BTreeMap<_, _> = last.collect();
    let seqs: Vec<i64> = last.keys().map(|(seq, _)| signed(*seq)).collect();
    let revisions: Vec<i64> = last.keys().map(|(_, revision)| signed(*revision)).collect();
    let numbers: Vec<Option<i64>> = last.values().map(|it| models.number(Some(it))).collect();
    let bytes: Vec<&[u8]> = last.values().map(|it| it.bytes.as_slice()).collect();
    let params: [Param<'_>; _] = [&scope, &seqs, &revisions, &numbers, &bytes];
    let found = transaction.query(&statements.set, params).await?;
    found.iter().map(|row| unsigned(row, 0)).collect()
}

statements! {
    /// The statements that erase a user's memories.
    ErasureStatements {
        lock: "SELECT number FROM retain_memory_scopes WHERE app = $1 AND user_id = $2 FOR UPDATE",
        memories: "DELETE FROM retain_memories WHERE scope = $1 AND seq IN \
                   (SELECT seq FROM retain_memories WHERE scope = $1 ORDER BY seq LIMIT $2)",
        touched: "DELETE FROM retain_memory_touched WHERE scope = $1",
        tombstones: "DELETE FROM retain_memory_tombstones WHERE scope = $1",
        scope: "DELETE FROM retain_memory_scopes WHERE number = $1",
    }
}

/// Removes one chunk of a user's memories, and the scope with the last chunk; counts the removed
/// memories and tombstones. The transaction must lock no rows after this.
pub(in crate::postgres) async fn erase_chunk(
    transaction: &Transaction,
    app: &str,
    user: &str,
) -> Result<EraseReceipt, Error> {
    let mut receipt = EraseReceipt::default();
    let statements = ErasureStatements::prepare(transaction).await?;
    let found = transaction.query(&statements.lock, [&app, &user]).await?;
    let Some(row) = found.first() else {
        return Ok(receipt);
    };
    let number: i64 = row.try_get(0)?;
    let chunk = ERASE_CHUNK as i64;
    let erased = transaction.execute(&statements.memories, [&number, &chunk]);
    let erased = erased.await?;
    if erased < ERASE_CHUNK as u64 {
        let (touched, tombstones, scope) = join!(
            biased;
            transaction.execute(&statements.touched, [&number]),
            transaction.execute(&statements.tombstones, [&number]),
            transaction.execute(&statements.scope, [&number]),
        );
        touched?;
        receipt.tombstones = tombstones?;
        scope?;
    }
    receipt.memories = erased;
    Ok(receipt)
}

/// Like [`erase_chunk`], in a transaction of its own.
pub(super) async fn erase_chunk_alone(
    database: &Database,
    scope: &MemoryScope,
) -> Outcome<EraseReceipt> {
    let transaction = database.transaction().await?;
    transaction.begin().await?;
    let erased = erase_chunk(&transaction, &scope.app, &scope.user).await?;
    transaction.commit().await?;
    transaction.release();
    Ok(erased)
}
