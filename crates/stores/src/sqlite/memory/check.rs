//! Checks memories for corruption.

use retain_core::MemoryScope;
use rusqlite::Connection;

use super::{
    Failure,
    rows::{BYTES, INFO_COLUMNS, record},
    scope::{SEQ_MAX, memory_key},
};
use crate::sql::memory::{Models, describe_unreadable, describe_wrong_totals};

/// Reports unreadable and orphaned memories, and totals that differ from the rows.
pub(in crate::sqlite) fn check(
    connection: &Connection,
    problems: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT app, user, number, entries, bytes, \
         (SELECT count(*) FROM memories WHERE key BETWEEN number << 32 AND number << 32 | ?1), \
         (SELECT ifnull(sum({BYTES}), 0) FROM memories \
         WHERE key BETWEEN number << 32 AND number << 32 | ?1) FROM memory_scopes"
    );
    let mut scopes = connection.prepare(&sql)?;
    let mut scopes = scopes.query([SEQ_MAX])?;
    while let Some(row) = scopes.next()? {
        let scope = MemoryScope::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let recorded: (u64, u64) = (row.get(3)?, row.get(4)?);
        let counted: (u64, u64) = (row.get(5)?, row.get(6)?);
        problems.extend(describe_wrong_totals(&scope, recorded, counted));
        check_rows(connection, row.get(2)?, &scope, problems)?;
    }
    check_orphans(connection, problems)
}

fn check_orphans(connection: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let sql = "SELECT key FROM memories WHERE NOT EXISTS \
               (SELECT 1 FROM memory_scopes WHERE number = key >> 32) ORDER BY key";
    let mut statement = connection.prepare(sql)?;
    for key in statement.query_map([], |row| row.get::<_, i64>(0))? {
        problems.push(format!("memory with key {} is orphaned", key?));
    }
    Ok(())
}

fn check_rows(
    connection: &Connection,
    number: i64,
    scope: &MemoryScope,
    problems: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT {INFO_COLUMNS}, content, fixed_model, fixed, embedding_model, embedding \
         FROM memories WHERE key BETWEEN ?1 AND ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let keys = (memory_key(number, 0), memory_key(number, SEQ_MAX));
    let mut rows = statement.query(keys)?;
    while let Some(row) = rows.next()? {
        match record(row, &Models::new()) {
            Ok(_) => {}
            Err(Failure::Rejected(error)) => problems.push(describe_unreadable(scope, &error)),
            Err(Failure::Sql(error)) => return Err(error),
        }
    }
    Ok(())
}
