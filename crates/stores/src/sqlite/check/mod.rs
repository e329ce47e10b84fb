//! Checks for corruption: SQLite's integrity check, the schema, then Retain's own invariants.

mod repair;
mod rows;
mod schema;
mod session;

use retain_core::{Damage, Location, Problem, Problems, Result};
use rusqlite::{Connection, ErrorCode, Row};

pub(super) use repair::{repair_rows, repair_schema, repair_session};

use super::{SqliteOptions, failed};
use crate::sql::check::rules::{Dialect, Finding, RULES};

/// Checks the whole database.
pub(super) fn check(options: &SqliteOptions, connection: &Connection) -> Result<Vec<Problem>> {
    let mut problems = Problems::default();
    match check_all(options, connection, &mut problems) {
        Ok(()) => Ok(problems.into_vec()),
        // SQLite cannot read a page, so nothing more can be checked.
        Err(CheckError::Sqlite(error)) if is_damage(&error) => {
            problems.push(storage_problem(error.to_string()));
            Ok(problems.into_vec())
        }
        Err(CheckError::Sqlite(error)) => Err(failed("check the database", error)),
        Err(CheckError::Other(error)) => Err(error),
    }
}

/// Why a check ended early.
enum CheckError {
    Sqlite(rusqlite::Error),
    Other(retain_core::SessionError),
}

impl From<rusqlite::Error> for CheckError {
    fn from(error: rusqlite::Error) -> CheckError {
        CheckError::Sqlite(error)
    }
}

impl From<retain_core::SessionError> for CheckError {
    fn from(error: retain_core::SessionError) -> CheckError {
        CheckError::Other(error)
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn check_all(
    options: &SqliteOptions,
    connection: &Connection,
    problems: &mut Problems,
) -> Result<(), CheckError> {
    check_integrity(connection, problems)?;
    let differences = schema::differences(options, connection)?;
    problems.extend(differences.iter().map(|difference| difference.problem()));
    if differences
        .iter()
        .any(|difference| difference.create.is_none())
        && !can_query(connection)
    {
        return Ok(());
    }
    for rule in RULES {
        let mut statement = connection.prepare(&Dialect::Sqlite.expand(rule.find))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            problems.push((rule.problem)(read_finding(row)?));
        }
    }
    session::check_sessions(connection, problems)?;
    rows::check_shared_state(connection, problems)?;
    rows::check_memories(connection, problems)?;
    rows::check_artifacts(connection, problems)?;
    rows::check_keys(connection, problems)?;
    Ok(())
}

/// Whether all tables have the columns that the rules read.
fn can_query(connection: &Connection) -> bool {
    let mut sqls = RULES.iter().map(|rule| Dialect::Sqlite.expand(rule.find));
    sqls.all(|sql| connection.prepare(&sql).is_ok()) && rows::can_query(connection)
}

fn check_integrity(connection: &Connection, problems: &mut Problems) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let message: String = row.get(0)?;
        if message != "ok" {
            problems.push(storage_problem(message));
        }
    }
    Ok(())
}

/// A message of SQLite. Indexes can be rebuilt from their tables.
fn storage_problem(message: String) -> Problem {
    let is_index = [" index ", "entry in index"];
    let is_index = is_index.iter().any(|text| message.contains(text));
    Problem::new(Location::Database, Damage::Storage { message }, is_index)
}

fn read_finding(row: &Row<'_>) -> rusqlite::Result<Finding> {
    Ok(Finding {
        app: row.get(0)?,
        user: row.get(1)?,
        id: row.get(2)?,
        number: row.get(3)?,
        stored: row.get(4)?,
        derived: row.get(5)?,
    })
}
