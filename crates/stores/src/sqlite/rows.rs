//! Reads and decodes rows: sessions, event keys and state.

use retain_core::{Json, JsonMap, Lease, Origin, Result, SessionError, SessionKey};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::failed;
use crate::sql::{self, POSITION_MAX, SessionLifetime, SessionRow};

/// Returns the primary key of an event. It sorts events by log, then by position.
pub(super) fn event_key(number: i64, position: u64) -> i64 {
    number << 32 | (position.min(POSITION_MAX) as i64)
}

/// Returns the position in an event's primary key.
pub(super) fn event_position(key: i64) -> u64 {
    key as u64 & POSITION_MAX
}

impl SessionRow {
    /// Finds a session that has not expired.
    pub(super) fn find(
        connection: &Connection,
        key: &SessionKey,
        now_us: i64,
    ) -> rusqlite::Result<Option<SessionRow>> {
        let found = SessionRow::find_even_expired(connection, key)?;
        Ok(found.filter(|row| row.is_alive(now_us)))
    }

    pub(super) fn find_even_expired(
        connection: &Connection,
        key: &SessionKey,
    ) -> rusqlite::Result<Option<SessionRow>> {
        let sql = "SELECT number, position, last_update, create_time, touched_us, ttl_us, \
                   lease_token, lease_until_us, in_order, state_bytes, origin_id, origin_position, \
                   log_bytes, sized_to \
                   FROM sessions WHERE app = ?1 AND user = ?2 AND id = ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let key = (&key.app, &key.user, &key.id);
        statement.query_row(key, SessionRow::read).optional()
    }

    /// Like [`find`](Self::find), but fails if there is no session.
    pub(super) fn get(
        connection: &Connection,
        operation: &'static str,
        key: &SessionKey,
        now_us: i64,
    ) -> Result<SessionRow> {
        let found = SessionRow::find(connection, key, now_us).map_err(|e| failed(operation, e))?;
        found.ok_or_else(|| SessionError::NotFound { key: key.clone() })
    }

    /// Reads the columns in the order of [`find_even_expired`](Self::find_even_expired).
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
        let origin: Option<String> = row.get(10)?;
        Ok(SessionRow {
            number: row.get(0)?,
            position: row.get(1)?,
            last_update: row.get(2)?,
            create_time: row.get(3)?,
            lifetime: SessionLifetime {
                touched_us: row.get(4)?,
                ttl_us: row.get(5)?,
            },
            lease: Lease {
                token: row.get(6)?,
                until_us: row.get(7)?,
            },
            in_order: row.get(8)?,
            state_bytes: row.get(9)?,
            origin: match origin {
                Some(session_id) => Some(Origin {
                    session_id,
                    position: row.get(11)?,
                }),
                None => None,
            },
            log_bytes: row.get(12)?,
            sized_to: row.get(13)?,
        })
    }
}

/// Reads rows of (key, value) as state. `owner` names the session in errors.
pub(super) fn state(
    owner: &dyn Fn() -> SessionKey,
    operation: &'static str,
    rows: rusqlite::Result<rusqlite::Rows<'_>>,
) -> Result<JsonMap> {
    let mut rows = rows.map_err(|e| failed(operation, e))?;
    let mut state = JsonMap::new();
    while let Some(row) = rows.next().map_err(|e| failed(operation, e))? {
        let (key, value) = state_entry(owner, operation, row, 0)?;
        state.insert(key, value);
    }
    Ok(state)
}

/// Reads a state key from `column` and its value from the next one.
pub(super) fn state_entry<'a>(
    owner: &dyn Fn() -> SessionKey,
    operation: &'static str,
    row: &'a Row<'_>,
    column: usize,
) -> Result<(&'a str, Json)> {
    let pair = || {
        Ok((
            row.get_ref(column)?.as_str()?,
            row.get_ref(column + 1)?.as_str()?,
        ))
    };
    let pair: rusqlite::Result<(&str, &str)> = pair();
    let (key, text) = pair.map_err(|e| failed(operation, e))?;
    Ok((key, sql::state_value(owner, key, text)?))
}
