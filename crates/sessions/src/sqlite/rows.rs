//! What stands in the tables, and how it becomes ours.

use std::{sync::Arc, time::Duration};

use retain_core::{Event, Head, Json, JsonMap, Lease, Origin, Result, SessionError, SessionKey};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::failed;
use crate::window;

/// The key of an event: logs lie one after the other, ordered by position.
pub(super) fn event_key(number: i64, position: u64) -> i64 {
    number << 32 | (position.min(POSITION_MAX) as i64)
}

/// Positions have 32 bits of an event's key.
pub(super) const POSITION_MAX: u64 = u32::MAX as u64;

/// The position in an event's key.
pub(super) fn position_of(key: i64) -> u64 {
    key as u64 & POSITION_MAX
}

/// A row of `sessions`.
#[derive(Debug, Clone)]
pub(super) struct SessionRow {
    pub(super) number: i64,
    pub(super) position: u64,
    pub(super) last_update: f64,
    pub(super) create_time: f64,
    pub(super) life: Life,
    pub(super) lease: Lease,
    pub(super) in_order: bool,
    pub(super) state_bytes: usize,
    pub(super) origin: Option<Origin>,
}

/// How long a session lives after its last write, and when that was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) touched_us: i64,
    pub(super) ttl_us: Option<i64>,
}

impl Life {
    pub(super) fn is_alive(self, now_us: i64) -> bool {
        self.expires_us().is_none_or(|expires| now_us < expires)
    }

    pub(super) fn ttl(self) -> Option<Duration> {
        self.ttl_us
            .map(|us| Duration::from_micros(us.unsigned_abs()))
    }

    pub(super) fn expires_us(self) -> Option<i64> {
        self.ttl().map(|ttl| window::expiry(self.touched_us, ttl))
    }
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
                   lease_token, lease_until_us, in_order, state_bytes, origin_id, origin_position \
                   FROM sessions WHERE app = ?1 AND user = ?2 AND id = ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let key = (&key.app, &key.user, &key.id);
        statement.query_row(key, SessionRow::read).optional()
    }

    /// Finds a session that has not expired, or says that there is none.
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
            life: Life {
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
        })
    }

    pub(super) fn is_alive(&self, now_us: i64) -> bool {
        self.life.is_alive(now_us)
    }

    pub(super) fn head(&self, key: SessionKey) -> Head {
        Head {
            key,
            incarnation: self.number as u64,
            position: self.position,
            create_time: self.create_time,
            last_update_time: self.last_update,
            ttl: self.life.ttl(),
            expires_us: self.life.expires_us(),
            origin: self.origin.clone(),
        }
    }
}

/// Reads the body of an event.
pub(super) fn event(key: &SessionKey, position: u64, body: &str) -> Result<Arc<Event>> {
    let event = Event::shared_from_json(body);
    event.map_err(|e| SessionError::corrupt_event(key, position, e))
}

/// Reads rows of (key, value) as state. `owner` says whose, for errors.
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

/// Reads a key and its value, which stand at column `at` and behind it.
pub(super) fn state_entry<'a>(
    owner: &dyn Fn() -> SessionKey,
    operation: &'static str,
    row: &'a Row<'_>,
    at: usize,
) -> Result<(&'a str, Json)> {
    let pair = || Ok((row.get_ref(at)?.as_str()?, row.get_ref(at + 1)?.as_str()?));
    let pair: rusqlite::Result<(&str, &str)> = pair();
    let (key, text) = pair.map_err(|e| failed(operation, e))?;
    let value = Json::parse(text);
    let value = value.map_err(|e| SessionError::corrupt_state(&owner(), key, e))?;
    Ok((key, value))
}
