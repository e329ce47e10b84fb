//! Checks memories for corruption.

use retain_core::MemoryScope;
use tokio_postgres::Error;

use super::rows::{self, full_columns, unsigned};
use crate::{
    postgres::pool::{Failure, Transaction, statements},
    sql::memory::{Models, describe_unreadable, describe_wrong_totals, info_columns, memory_bytes},
};

/// Maximum number of rows that one query reads.
const STEP: i64 = 1000;

statements! {
    CheckStatements {
        scopes: concat!(
            "SELECT number, app, user_id, entries, bytes, \
             (SELECT count(*) FROM retain_memories WHERE scope = number), \
             (SELECT coalesce(sum(", memory_bytes!(), "), 0)::int8 FROM retain_memories \
              WHERE scope = number) \
             FROM retain_memory_scopes WHERE number > $1 ORDER BY number LIMIT $2"
        ),
        memories: concat!(
            "SELECT ", full_columns!(), " FROM retain_memories \
             WHERE scope = $1 AND seq > $2 ORDER BY seq LIMIT $3"
        ),
        orphans: "SELECT scope, seq FROM retain_memories m WHERE NOT EXISTS \
                  (SELECT 1 FROM retain_memory_scopes WHERE number = m.scope) ORDER BY scope, seq",
    }
}

/// Reports unreadable and orphaned memories, and totals that differ from the rows. The transaction
/// must read from one snapshot.
pub(in crate::postgres) async fn check(
    transaction: &Transaction,
    problems: &mut Vec<String>,
) -> Result<(), Error> {
    let statements = CheckStatements::prepare(transaction).await?;
    let mut after = i64::MIN;
    loop {
        let scopes = transaction.query(&statements.scopes, [&after, &STEP]);
        let scopes = scopes.await?;
        for row in &scopes {
            after = row.try_get(0)?;
            let owner: (String, String) = (row.try_get(1)?, row.try_get(2)?);
            let scope = MemoryScope::new(owner.0, owner.1);
            let recorded = (unsigned(row, 3)?, unsigned(row, 4)?);
            let counted = (unsigned(row, 5)?, unsigned(row, 6)?);
            problems.extend(describe_wrong_totals(&scope, recorded, counted));
            check_rows(transaction, &statements, after, &scope, problems).await?;
        }
        if scopes.is_empty() {
            break;
        }
    }
    for row in transaction.query(&statements.orphans, []).await? {
        let (scope, seq): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        problems.push(format!("memory {seq} of scope {scope} is orphaned"));
    }
    Ok(())
}

async fn check_rows(
    transaction: &Transaction,
    statements: &CheckStatements,
    number: i64,
    scope: &MemoryScope,
    problems: &mut Vec<String>,
) -> Result<(), Error> {
    let mut after = i64::MIN;
    loop {
        let rows = transaction.query(&statements.memories, [&number, &after, &STEP]);
        let rows = rows.await?;
        for row in &rows {
            after = row.try_get(0)?;
            match rows::record(row, &Models::new()) {
                Ok(_) => {}
                Err(Failure::Rejected(error)) => problems.push(describe_unreadable(scope, &error)),
                Err(Failure::Database(error)) => return Err(error),
                // Cannot happen: decoding a fetched row uses no connection.
                Err(Failure::NoConnection(_) | Failure::Transient(_)) => {}
            }
        }
        if rows.len() < STEP as usize {
            return Ok(());
        }
    }
}
