//! Compares the schema with the one that the migrations create in an empty database.

use rusqlite::Connection;

use super::CheckError;
use crate::{
    sql::check::schema::{SchemaDifference, SchemaObject, compare},
    sqlite::{SqliteOptions, schema},
};

/// Returns what differs from the schema that the migrations create.
pub(super) fn differences(
    options: &SqliteOptions,
    connection: &Connection,
) -> Result<Vec<SchemaDifference>, CheckError> {
    let (fresh, has_newer_objects) = schema::create_fresh(options, connection)?;
    let (found, expected) = (objects(connection)?, objects(&fresh)?);
    Ok(compare(found, expected, has_newer_objects))
}

fn objects(connection: &Connection) -> rusqlite::Result<Vec<SchemaObject>> {
    // SQLite's own objects are indexes of constraints, counters and statistics.
    let sql = "SELECT type, name, sql, tbl_name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let objects = statement.query_map([], |row| {
        let (kind, definition): (String, String) = (row.get(0)?, row.get(2)?);
        let is_index = kind == "index";
        Ok(SchemaObject {
            is_harmless: is_index && !definition.to_uppercase().starts_with("CREATE UNIQUE"),
            create: is_index.then(|| definition.clone()),
            kind,
            name: row.get(1)?,
            table: row.get(3)?,
            definition,
        })
    })?;
    objects.collect()
}
