//! Repairs what can be derived: indexes, rows that contradict each other, and views of a log.

use retain_core::{Result, SessionKey, SessionRepair};
use rusqlite::{Connection, params};

use super::{CheckError, schema, session};
use crate::{
    sql::check::rules::{Dialect, RULES},
    sqlite::{SqliteOptions, failed, rows::event_key},
};

/// The operation's name in errors.
const REPAIR: &str = "repair the database";

fn to_error(error: CheckError) -> retain_core::SessionError {
    match error {
        CheckError::Sqlite(error) => failed(REPAIR, error),
        CheckError::Other(error) => error,
    }
}

/// Creates the indexes that are missing or differ, and rebuilds all of them.
pub(in crate::sqlite) fn repair_schema(
    options: &SqliteOptions,
    connection: &Connection,
) -> Result<()> {
    let repaired = || -> Result<(), CheckError> {
        for difference in schema::differences(options, connection)? {
            if let Some((create, exists)) = &difference.create {
                if *exists {
                    let name = difference.name().replace('"', "\"\"");
                    connection.execute_batch(&format!("DROP INDEX \"{name}\""))?;
                }
                connection.execute_batch(create)?;
            }
        }
        Ok(connection.execute_batch("REINDEX")?)
    };
    repaired().map_err(to_error)
}

/// Repairs the rows that break a rule about several rows.
pub(in crate::sqlite) fn repair_rows(connection: &Connection) -> Result<()> {
    for sql in RULES.iter().flat_map(|rule| rule.repair) {
        let repaired = connection.execute(&Dialect::Sqlite.expand(sql), []);
        repaired.map_err(|e| failed(REPAIR, e))?;
    }
    Ok(())
}

/// Makes a session equal to the fold of its log.
pub(in crate::sqlite) fn repair_session(connection: &Connection, key: &SessionKey) -> Result<()> {
    let repaired = || -> rusqlite::Result<()> {
        // Check it again in this transaction: it may have changed since.
        let Some((number, verdict)) = session::check_session(connection, key)? else {
            return Ok(());
        };
        match verdict.repair {
            Some(repair) => write(connection, number, &repair),
            None => Ok(()),
        }
    };
    repaired().map_err(|e| failed(REPAIR, e))
}

fn write(connection: &Connection, number: i64, repair: &SessionRepair) -> rusqlite::Result<()> {
    let sql = "UPDATE events SET event_id = ?2, invocation = ?3, timestamp = ?4 WHERE key = ?1";
    let mut update = connection.prepare(sql)?;
    for (position, id, invocation, timestamp) in &repair.events {
        update.execute((event_key(number, *position), id, invocation, timestamp))?;
    }
    if let Some(state) = &repair.state {
        connection.execute("DELETE FROM state WHERE log = ?1", [number])?;
        connection.execute("DELETE FROM state_past WHERE log = ?1", [number])?;
        let insert = |table: &str| {
            let sql =
                format!("INSERT INTO {table} (log, key, position, value) VALUES (?1, ?2, ?3, ?4)");
            connection.prepare(&sql)
        };
        let (mut current, mut past) = (insert("state")?, insert("state_past")?);
        for row in state {
            let statement = if row.is_current {
                &mut current
            } else {
                &mut past
            };
            statement.execute((number, &row.name, row.position, &row.value))?;
        }
    }
    let facts = &repair.facts;
    let sql = "UPDATE sessions SET position = ?2, last_update = ?3, in_order = ?4, \
               state_bytes = ?5, log_bytes = ?6, sized_to = ?7 WHERE number = ?1";
    let row = params![
        number,
        facts.position,
        facts.last_update_time,
        facts.in_order,
        facts.state_bytes,
        facts.log_bytes,
        facts.sized_to,
    ];
    connection.execute(sql, row).map(drop)
}
