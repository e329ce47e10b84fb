//! The row of a user's memories. Every writer locks it first, so that numbers and revisions become
//! visible in order and a mark that was read is never overtaken by an older revision.

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
    /// What everybody who writes says of the scope.
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
        note: "INSERT INTO retain_memory_touched (scope, revision, seq) \
               SELECT $1::int8, $2::int8, seq FROM unnest($3::int8[]) AS seq \
               ON CONFLICT DO NOTHING",
        forget_notes: "DELETE FROM retain_memory_touched WHERE scope = $1",
        remove: "DELETE FROM retain_memories WHERE scope = $1 AND seq = ANY($2::int8[])",
        bury: "INSERT INTO retain_memory_tombstones (scope, hash) \
               SELECT $1::int8, hash FROM unnest($2::bytea[]) AS hash ON CONFLICT DO NOTHING",
    }
}

/// What locking has found.
pub(super) fn locked(found: &[Row]) -> Result<Option<ScopeRow>, Error> {
    found.first().map(rows::scope).transpose()
}

/// Makes the row of a user who had none when it was looked for.
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
        // What was read before does not hold any more.
        None => Err(Failure::Again(
            "others wrote the first memories of this user",
        )),
    }
}

/// Sends one more revision, in which these were changed or removed.
pub(super) async fn touch(
    transaction: &Transaction,
    statements: &ScopeStatements,
    row: &mut ScopeRow,
    seqs: &[u64],
) -> Result<(), Error> {
    let is_noted = row.start_revision(seqs.len());
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
    let note: [Param<'_>; _] = [&number, &revision, &seqs];
    let forget: [Param<'_>; _] = [&number];
    let (noted, forgotten, written) = join!(
        biased;
        if_some((is_noted && !seqs.is_empty()).then(|| transaction.execute(&statements.note, note))),
        if_some((!is_noted).then(|| transaction.execute(&statements.forget_notes, forget))),
        transaction.execute(&statements.write, written),
    );
    noted?;
    forgotten?;
    written.map(drop)
}

/// Removes memories and leaves their hashes; says how many hashes are new. What it comes to is the
/// caller's to write.
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
    let (removed, buried) = join!(
        biased;
        transaction.execute(&statements.remove, [&number, &seqs]),
        transaction.execute(&statements.bury, [&number, &hashes]),
    );
    removed?;
    buried
}
