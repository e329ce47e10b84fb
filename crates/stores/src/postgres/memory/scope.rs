//! The scope row of a user's memories. Every writer locks it first, so that sequence numbers and
//! revisions become visible in order: no older revision appears after a newer one was read.

use retain_core::{MemoryScope, Tombstone, store_rules::MemoryRemoval};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    Outcome,
    rows::{self, scope_columns, signed},
};
use crate::{
    postgres::pool::{Failure, Param, Transaction, if_some, statements},
    sql::memory::{RemovedMemory, ScopeRow},
};

statements! {
    /// The statements that every memory writer uses.
    ScopeStatements {
        lock: concat!(
            "SELECT ", scope_columns!(), " FROM retain_memory_scopes \
             WHERE app = $1 AND user_id = $2 FOR UPDATE"
        ),
        create: "INSERT INTO retain_memory_scopes (app, user_id) VALUES ($1, $2) \
                 ON CONFLICT (app, user_id) DO NOTHING RETURNING number",
        write: "UPDATE retain_memory_scopes SET revision = $2, last_seq = $3, floor = $4, \
                touched = $5, tombstones = $6, entries = $7, bytes = $8, minute = $9, \
                in_minute = $10 WHERE number = $1",
        record_touched: "INSERT INTO retain_memory_touched (scope, revision, seq) \
                         SELECT $1::int8, $2::int8, seq FROM unnest($3::int8[]) AS seq \
                         ON CONFLICT DO NOTHING",
        clear_touched: "DELETE FROM retain_memory_touched WHERE scope = $1",
        remove: "DELETE FROM retain_memories WHERE scope = $1 AND seq = ANY($2::int8[])",
        insert_tombstones: "INSERT INTO retain_memory_tombstones (scope, hash) \
                            SELECT $1::int8, hash FROM unnest($2::bytea[]) AS hash \
                            ON CONFLICT DO NOTHING",
    }
}

/// Reads the result of `lock`.
pub(super) fn read_locked(rows: &[Row]) -> Result<Option<ScopeRow>, Error> {
    rows.first().map(rows::scope).transpose()
}

/// Creates the scope row of a user if `lock` found none. Fails with a transient failure, so that
/// the operation is retried, if another writer created the row first.
pub(super) async fn create(
    transaction: &Transaction,
    statements: &ScopeStatements,
    scope: &MemoryScope,
) -> Outcome<ScopeRow> {
    let created = transaction.query(&statements.create, [&scope.app, &scope.user]);
    match created.await?.first() {
        Some(row) => Ok(ScopeRow {
            number: row.try_get(0)?,
            ..ScopeRow::default()
        }),
        // The rows that this transaction has read are outdated, so it must start again.
        None => Err(Failure::Transient(
            "another writer created the memory scope of this user first",
        )),
    }
}

/// Writes the scope row with a new revision, in which the memories `seqs` were changed or removed.
pub(super) async fn touch(
    transaction: &Transaction,
    statements: &ScopeStatements,
    row: &mut ScopeRow,
    seqs: &[u64],
) -> Result<(), Error> {
    let is_recorded = row.start_revision(seqs.len());
    let (number, revision) = (row.number, signed(row.revision));
    let seqs: Vec<i64> = seqs.iter().map(|seq| signed(*seq)).collect();
    let (totals, counts) = (
        row.totals,
        [row.last_seq, row.floor, row.touched, row.tombstones].map(signed),
    );
    let [last_seq, floor, touched, tombstones] = &counts;
    let written: [Param<'_>; _] = [
        &number,
        &revision,
        last_seq,
        floor,
        touched,
        tombstones,
        &signed(totals.entries),
        &signed(totals.bytes),
        &totals.minute,
        &signed(totals.in_minute),
    ];
    let record: [Param<'_>; _] = [&number, &revision, &seqs];
    let clear: [Param<'_>; _] = [&number];
    let (recorded, cleared, written) = join!(
        biased;
        if_some(
            (is_recorded && !seqs.is_empty())
                .then(|| transaction.execute(&statements.record_touched, record))
        ),
        if_some((!is_recorded).then(|| transaction.execute(&statements.clear_touched, clear))),
        transaction.execute(&statements.write, written),
    );
    recorded?;
    cleared?;
    written.map(drop)
}

/// Removes memories and inserts their tombstones; returns the number of new tombstones. The caller
/// updates the scope row.
pub(super) async fn remove(
    transaction: &Transaction,
    statements: &ScopeStatements,
    scope: &MemoryScope,
    number: i64,
    removed: &[RemovedMemory],
    how: MemoryRemoval,
) -> Result<u64, Error> {
    let seqs: Vec<i64> = removed
        .iter()
        .map(|removed_memory| signed(removed_memory.seq))
        .collect();
    let hashes = removed
        .iter()
        .filter_map(|removed_memory| removed_memory.tombstone(scope, how));
    let hashes: Vec<Tombstone> = hashes.collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
    let (removed, tombstones) = join!(
        biased;
        transaction.execute(&statements.remove, [&number, &seqs]),
        transaction.execute(&statements.insert_tombstones, [&number, &hashes]),
    );
    removed?;
    tombstones
}
