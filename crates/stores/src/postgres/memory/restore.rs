//! Restores the memories and tombstones of another store without change, for a migration.

use retain_core::{MemoryRestore, MemoryScope, Tombstone, plan_restore};
use tokio::join;
use tokio_postgres::Error;

use super::{
    Outcome,
    add::{build_chunks, list_vectors},
    models::ModelNumbers,
    or_roll_back,
    rows::{scope_number, signed},
    scope::{self, ScopeStatements},
};
use crate::{
    postgres::{
        pool::{Database, Param, Transaction, statements},
        rows::count,
    },
    sql::memory::ScopeRow,
};

statements! {
    RestoreStatements {
        times: "UPDATE retain_memories m SET created_us = restored.created_us, \
                updated_us = restored.updated_us \
                FROM unnest($2::int8[], $3::int8[], $4::int8[]) \
                AS restored (seq, created_us, updated_us) \
                WHERE m.scope = $1 AND m.seq = restored.seq",
    }
}

/// Lists the tombstones of a scope, ascending by hash.
pub(super) async fn tombstones(
    database: &Database,
    scope: &MemoryScope,
    after: Option<Tombstone>,
    limit: usize,
) -> Outcome<Vec<Tombstone>> {
    const SQL: &str = concat!(
        "SELECT hash FROM retain_memory_tombstones WHERE scope = ",
        scope_number!(),
        " AND hash > $3 ORDER BY hash LIMIT $4::int8"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    // The empty hash sorts before every other hash.
    let after = after.map_or(Vec::new(), |after| after.0.to_vec());
    let limit = count(Some(limit));
    let params: &[Param<'_>] = &[&scope.app, &scope.user, &after, &limit];
    let mut hashes = Vec::new();
    for row in &client.query(&statement, params).await? {
        let hash = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(0)?);
        hashes.extend(hash.map(Tombstone));
    }
    Ok(hashes)
}

/// Writes the memories and tombstones of another store. `is_sent` is true if an earlier,
/// unconfirmed attempt sent them.
pub(super) async fn restore(
    database: &Database,
    models: &ModelNumbers,
    restore: &MemoryRestore,
    is_sent: &mut bool,
) -> Outcome<()> {
    let memories = restore.memories.iter().map(|restored| &restored.memory);
    models
        .register_models(database, list_vectors(memories))
        .await?;
    let transaction = database.transaction().await?;
    let (scopes, restoring) = join!(
        biased;
        ScopeStatements::prepare(&transaction),
        RestoreStatements::prepare(&transaction),
    );
    let (scopes, restoring) = (scopes?, restoring?);
    let planned = lock_and_plan(&transaction, &scopes, restore, *is_sent).await;
    let (transaction, planned) = or_roll_back(transaction, planned).await?;
    let Some(mut row) = planned else {
        return Ok(transaction.roll_back().await?);
    };
    *is_sent = true;
    insert_memories(&transaction, models, restore, &row).await?;
    write_rest(&transaction, &scopes, &restoring, restore, &mut row).await?;
    transaction.release();
    Ok(())
}

/// Begins the transaction, locks the scope and plans its row after the restore. Returns `None` if
/// an earlier attempt has already restored the memories.
async fn lock_and_plan(
    transaction: &Transaction,
    scopes: &ScopeStatements,
    restore: &MemoryRestore,
    is_sent: bool,
) -> Outcome<Option<ScopeRow>> {
    let (begun, found) = join!(
        biased;
        transaction.begin(),
        transaction.query(&scopes.lock, [&restore.scope.app, &restore.scope.user]),
    );
    begun?;
    let found = scope::read_locked(&found?)?;
    let last = restore.memories.last().map(|restored| restored.seq);
    let has_last = |row: &ScopeRow| last.is_some_and(|last| row.last_seq >= last);
    if is_sent && found.as_ref().is_some_and(has_last) {
        return Ok(None);
    }
    let (totals, last_seq) = match &found {
        Some(row) => (row.totals, row.last_seq),
        None => Default::default(),
    };
    let totals = plan_restore(totals, last_seq, restore)?;
    let mut row = match found {
        Some(row) => row,
        None => scope::create(transaction, scopes, &restore.scope).await?,
    };
    row.totals = totals;
    row.last_seq = last.unwrap_or(row.last_seq);
    Ok(Some(row))
}

async fn insert_memories(
    transaction: &Transaction,
    models: &ModelNumbers,
    restore: &MemoryRestore,
    row: &ScopeRow,
) -> Result<(), Error> {
    let (number, revision) = (row.number, signed(row.revision + 1));
    let memories = restore.memories.iter();
    let memories = memories.map(|restored| (restored.seq, &restored.memory));
    for chunk in build_chunks(memories.collect(), models) {
        // The insert takes one creation time for all rows; `times` then sets that of each row.
        let insert = chunk.insert(&number, &revision, &0);
        transaction.run(&insert).await?;
    }
    Ok(())
}

/// Writes the times and the tombstones, and commits.
async fn write_rest(
    transaction: &Transaction,
    scopes: &ScopeStatements,
    restoring: &RestoreStatements,
    restore: &MemoryRestore,
    row: &mut ScopeRow,
) -> Result<(), Error> {
    let number = row.number;
    let memories = || restore.memories.iter();
    let seqs: Vec<i64> = memories().map(|it| signed(it.seq)).collect();
    let created: Vec<i64> = memories().map(|it| it.created_us).collect();
    let updated: Vec<Option<i64>> = memories().map(|it| it.updated_us).collect();
    let tombstones = restore.tombstones.iter();
    let hashes: Vec<&[u8]> = tombstones.map(|it| it.0.as_slice()).collect();
    let (timed, tombstones) = join!(
        biased;
        transaction.execute(&restoring.times, [&number, &seqs, &created, &updated]),
        transaction.execute(&scopes.insert_tombstones, [&number, &hashes]),
    );
    timed?;
    row.tombstones += tombstones?;
    let (touched, committed) = join!(
        biased;
        scope::touch(transaction, scopes, row, &[]),
        transaction.commit(),
    );
    touched?;
    committed
}
