//! Reads the rows of sessions for a check.

use retain_core::{
    EventColumns, Location, Origin, Problem, Problems, SessionCheck, SessionFacts, SessionKey,
    SessionVerdict, StateColumns,
};
use rusqlite::{Connection, Row};

use crate::sqlite::rows::{event_key, event_position};

const COLUMNS: &str = "number, app, user, id, position, create_time, last_update, in_order, \
                       state_bytes, log_bytes, sized_to, origin_id, origin_position";

pub(super) fn check_sessions(
    connection: &Connection,
    problems: &mut Problems,
) -> rusqlite::Result<()> {
    let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY number");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        match read_facts(row) {
            Ok(facts) => problems.extend(check_log(connection, number, facts)?.problems),
            Err(error) => {
                let row = format!("row {number} of table sessions");
                problems.push(Problem::unreadable(Location::Row { row }, error));
            }
        }
    }
    Ok(())
}

/// Checks the session with this key; `None` if it does not exist.
pub(super) fn check_session(
    connection: &Connection,
    key: &SessionKey,
) -> rusqlite::Result<Option<(i64, SessionVerdict)>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE app = ?1 AND user = ?2 AND id = ?3");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query((&key.app, &key.user, &key.id))?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let number = row.get(0)?;
    let verdict = check_log(connection, number, read_facts(row)?)?;
    Ok(Some((number, verdict)))
}

fn read_facts(row: &Row<'_>) -> rusqlite::Result<SessionFacts> {
    let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
    let origin: Option<String> = row.get(11)?;
    let origin = match origin {
        Some(session_id) => Some(Origin {
            session_id,
            position: row.get(12)?,
        }),
        None => None,
    };
    Ok(SessionFacts {
        key: SessionKey::new(key.0, key.1, key.2),
        position: row.get(4)?,
        create_time: row.get(5)?,
        last_update_time: row.get(6)?,
        in_order: row.get(7)?,
        state_bytes: row.get(8)?,
        log_bytes: row.get(9)?,
        sized_to: row.get(10)?,
        origin,
    })
}

fn check_log(
    connection: &Connection,
    number: i64,
    facts: SessionFacts,
) -> rusqlite::Result<SessionVerdict> {
    let key = facts.key.clone();
    let mut check = SessionCheck::new(facts);
    let sql = "SELECT key, event_id, invocation, timestamp, body FROM events \
               WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((event_key(number, 0), event_key(number, u64::MAX)))?;
    while let Some(row) = rows.next()? {
        let position = event_position(row.get(0)?);
        match read_event(row, position) {
            Ok(event) => check.check_event(event),
            Err(error) => check.check_unreadable(position, error),
        }
    }
    let sql = "SELECT key, position, value, true FROM state WHERE log = ?1 UNION ALL \
               SELECT key, position, value, false FROM state_past WHERE log = ?1 ORDER BY 1, 2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([number])?;
    let mut unreadable = Vec::new();
    while let Some(row) = rows.next()? {
        match read_state(row) {
            Ok(state) => check.check_state(state),
            Err(error) => unreadable.push(error),
        }
    }
    let mut verdict = check.end();
    let problem = |error| Problem::unreadable(Location::Session { key: key.clone() }, error);
    verdict.problems.extend(unreadable.into_iter().map(problem));
    Ok(verdict)
}

fn read_event<'a>(row: &'a Row<'_>, position: u64) -> rusqlite::Result<EventColumns<'a>> {
    Ok(EventColumns {
        position,
        id: row.get_ref(1)?.as_str()?,
        invocation: row.get_ref(2)?.as_str()?,
        timestamp: row.get(3)?,
        body: row.get_ref(4)?.as_bytes()?,
    })
}

fn read_state<'a>(row: &'a Row<'_>) -> rusqlite::Result<StateColumns<&'a str>> {
    Ok(StateColumns {
        name: row.get_ref(0)?.as_str()?,
        position: row.get(1)?,
        value: row.get_ref(2)?.as_str_or_null()?,
        is_current: row.get(3)?,
    })
}
