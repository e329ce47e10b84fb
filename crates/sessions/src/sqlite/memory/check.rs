//! Looks for damage in memories: what a search would stumble over.

use retain_core::{Content, Json};
use rusqlite::{Connection, Row};

/// Every memory can be read and is somebody's, and there are as many as were counted.
pub(in crate::sqlite) fn check(
    connection: &Connection,
    problems: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let sql = "SELECT id, kind, origin, tool, custom_metadata, content, app, user FROM memories \
               LEFT JOIN memory_scopes ON number = key >> 32 ORDER BY key";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(fault) = fault(row) {
            let text = |at| row.get(at).unwrap_or_else(|_| "?".to_owned());
            let (id, app, user) = (text(0), text(6), text(7));
            problems.push(format!("memory {id:?} of {app}/{user}: {fault}"));
        }
    }
    let sql = "SELECT app, user, entries, count(key) FROM memory_scopes \
               LEFT JOIN memories ON key >> 32 = number GROUP BY number";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (app, user): (String, String) = (row.get(0)?, row.get(1)?);
        let (counted, there): (i64, i64) = (row.get(2)?, row.get(3)?);
        if counted != there {
            let told = format!("memories of {app}/{user}: {there} are there, should be {counted}");
            problems.push(told);
        }
    }
    Ok(())
}

/// Why a memory cannot be what it is.
fn fault(row: &Row<'_>) -> Option<String> {
    let read = || -> rusqlite::Result<Option<String>> {
        let (kind, origin): (i64, i64) = (row.get(1)?, row.get(2)?);
        if !(0..=1).contains(&kind) || !(0..=3).contains(&origin) {
            return Ok(Some(format!("has kind {kind} and origin {origin}")));
        }
        if origin == 2 && row.get::<_, Option<String>>(3)?.is_none() {
            return Ok(Some("is of a tool without a name".to_owned()));
        }
        let notes: Option<String> = row.get(4)?;
        let notes = notes.map(|notes| Json::parse(&notes));
        if !notes.is_none_or(|notes| notes.is_ok_and(|notes| notes.as_object().is_some())) {
            return Ok(Some("has notes that are no object".to_owned()));
        }
        if row.get::<_, Option<String>>(6)?.is_none() {
            return Ok(Some("is nobody's".to_owned()));
        }
        let content = Content::from_json(row.get_ref(5)?.as_str()?);
        Ok(content
            .err()
            .map(|error| format!("cannot be read: {error}")))
    };
    read().unwrap_or_else(|error| Some(format!("cannot be read: {error}")))
}
