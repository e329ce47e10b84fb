//! Checks for corruption: SQLite's integrity check, then Retain's own invariants.

use retain_core::{Result, SessionKey};
use rusqlite::Connection;

use super::{
    failed, memory,
    rows::{event_key, event_position},
};
use crate::sql::LogCheck;

/// Returns one line for each problem found.
pub(super) fn check(connection: &Connection) -> Result<Vec<String>> {
    let error = |e| failed("check the database", e);
    let mut problems = Vec::new();
    let mut statement = connection
        .prepare("PRAGMA integrity_check")
        .map_err(error)?;
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .map_err(error)?;
    for row in rows {
        let message = row.map_err(error)?;
        if message != "ok" {
            problems.push(message);
        }
    }
    let sql = "SELECT number, app, user, id, position FROM sessions";
    let mut statement = connection.prepare(sql).map_err(error)?;
    let mut sessions = statement.query([]).map_err(error)?;
    while let Some(row) = sessions.next().map_err(error)? {
        let read = || -> rusqlite::Result<(i64, SessionKey, u64)> {
            let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((
                row.get(0)?,
                SessionKey::new(key.0, key.1, key.2),
                row.get(4)?,
            ))
        };
        let (number, key, position) = read().map_err(error)?;
        check_log(connection, number, &key, position, &mut problems).map_err(error)?;
    }
    memory::check(connection, &mut problems).map_err(error)?;
    Ok(problems)
}

/// Checks that every position of a log exists once, and that every event is readable.
fn check_log(
    connection: &Connection,
    number: i64,
    key: &SessionKey,
    position: u64,
    problems: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let sql = "SELECT key, body FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((event_key(number, 0), event_key(number, u64::MAX)))?;
    let mut check = LogCheck::new(key);
    while let Some(row) = rows.next()? {
        check.check_row(
            event_position(row.get(0)?),
            row.get_ref(1)?.as_bytes()?,
            problems,
        );
    }
    check.end(position, problems);
    Ok(())
}
