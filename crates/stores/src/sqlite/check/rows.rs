//! Decodes every row of shared state, memories, artifacts and API keys.

use retain_core::{ArtifactAddress, Location, MemoryScope, Problem, Problems};
use rusqlite::{Connection, Row};

use crate::{
    sql::check::{
        ArtifactColumns, check_artifact, check_key, check_shared_value, root_cause, state_owner,
    },
    sqlite::{keys, memory},
};

const SHARED_STATE: &str = "SELECT app, user, key, value FROM shared_state";

const ARTIFACTS: &str = "SELECT number, app, user, session, name, version, create_time, mime_type, \
                         custom_metadata, part, data IS NOT NULL FROM artifacts ORDER BY number";

/// Whether the tables have the columns that this file reads.
pub(super) fn can_query(connection: &Connection) -> bool {
    let memories = memory::all_records_sql();
    let sqls = [SHARED_STATE, ARTIFACTS, keys::ALL, &memories];
    sqls.iter().all(|sql| connection.prepare(sql).is_ok())
}

/// Calls `check` with each row. A row whose columns have other types is reported as unreadable.
fn check_rows(
    connection: &Connection,
    sql: &str,
    table: &str,
    problems: &mut Problems,
    check: impl Fn(&Row<'_>) -> rusqlite::Result<Option<Problem>>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut number = 0;
    while let Some(row) = rows.next()? {
        number += 1;
        match check(row) {
            Ok(problem) => problems.extend(problem),
            Err(error) => {
                let row = format!("row {number} of table {table}");
                problems.push(Problem::unreadable(Location::Row { row }, error));
            }
        }
    }
    Ok(())
}

pub(super) fn check_shared_state(
    connection: &Connection,
    problems: &mut Problems,
) -> rusqlite::Result<()> {
    check_rows(connection, SHARED_STATE, "shared_state", problems, |row| {
        let owner = state_owner(row.get(0)?, row.get(1)?);
        let (name, value): (String, _) = (row.get(2)?, row.get_ref(3)?.as_bytes()?);
        Ok(check_shared_value(owner, &name, value))
    })
}

pub(super) fn check_memories(
    connection: &Connection,
    problems: &mut Problems,
) -> rusqlite::Result<()> {
    let sql = memory::all_records_sql();
    check_rows(connection, &sql, "memories", problems, |row| {
        let Some(error) = memory::check_record(row)? else {
            return Ok(None);
        };
        let scope = MemoryScope::new(row.get::<_, String>("app")?, row.get::<_, String>("user")?);
        let seq = memory::seq_from_key(row.get(0)?);
        let id = row.get(1).unwrap_or_default();
        let location = Location::Memory { scope, seq, id };
        Ok(Some(Problem::unreadable(location, root_cause(&error))))
    })
}

pub(super) fn check_artifacts(
    connection: &Connection,
    problems: &mut Problems,
) -> rusqlite::Result<()> {
    check_rows(connection, ARTIFACTS, "artifacts", problems, |row| {
        let session: String = row.get(3)?;
        let name: String = row.get(4)?;
        let address = ArtifactAddress {
            app: row.get(1)?,
            user: row.get(2)?,
            session: Some(session).filter(|session| !session.is_empty()),
            filename: name.clone(),
            name,
        };
        Ok(check_artifact(ArtifactColumns {
            address: &address,
            version: row.get(5)?,
            create_time: row.get(6)?,
            mime_type: row.get(7)?,
            custom_metadata: row.get_ref(8)?.as_str()?,
            part: row.get_ref(9)?.as_str()?,
            has_data: row.get(10)?,
        }))
    })
}

pub(super) fn check_keys(connection: &Connection, problems: &mut Problems) -> rusqlite::Result<()> {
    check_rows(connection, keys::ALL, "api_keys", problems, |row| {
        let id: String = row.get(0)?;
        Ok(check_key(id, keys::decode(row)))
    })
}
