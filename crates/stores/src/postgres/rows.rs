//! Decodes table rows, and holds the SQL fragments that several statements share.

use std::sync::Arc;

use retain_core::{
    BoxError, Event, Json, JsonMap, Lease, Origin, Result, SessionError, SessionKey,
};
use tokio_postgres::{Error, Row};

use super::pool::Failure;
use crate::sql::{self, SessionLifetime, SessionRow};

/// The columns of a head, in the order in which [`CachedHead::read`] reads them.
macro_rules! head_columns {
    () => {
        "number, position, last_update, create_time, touched_us, ttl_us, lease_token, \
         lease_until_us, in_order, state_bytes, origin_id, origin_position, log_bytes, \
         sized_to, revision"
    };
}

/// The time by the database's clock, in microseconds since 1970.
macro_rules! clock_us {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"
    };
}

/// The condition that selects the session with the key ($1, $2, $3).
macro_rules! by_key {
    () => {
        "app = $1 AND user_id = $2 AND id = $3"
    };
}

/// The number of the session with the key ($1, $2, $3).
macro_rules! number_by_key {
    () => {
        "(SELECT number FROM retain_sessions WHERE app = $1 AND user_id = $2 AND id = $3)"
    };
}

pub(super) use {by_key, clock_us, head_columns, number_by_key};

/// A session head at a revision. The head is current while the stored revision is the same.
#[derive(Debug, Clone)]
pub(super) struct CachedHead {
    pub(super) row: SessionRow,
    pub(super) revision: i64,
}

impl CachedHead {
    /// Reads the columns in the order of `head_columns`.
    pub(super) fn read(row: &Row) -> Result<CachedHead, Error> {
        let origin: Option<String> = row.try_get(10)?;
        let session = SessionRow {
            number: row.try_get(0)?,
            position: unsigned(row, 1)?,
            last_update: row.try_get(2)?,
            create_time: row.try_get(3)?,
            lifetime: SessionLifetime {
                touched_us: row.try_get(4)?,
                ttl_us: row.try_get(5)?,
            },
            lease: Lease {
                token: unsigned(row, 6)?,
                until_us: row.try_get(7)?,
            },
            in_order: row.try_get(8)?,
            state_bytes: unsigned(row, 9)? as usize,
            origin: match origin {
                Some(session_id) => Some(Origin {
                    session_id,
                    position: unsigned(row, 11)?,
                }),
                None => None,
            },
            log_bytes: unsigned(row, 12)?,
            sized_to: unsigned(row, 13)?,
        };
        Ok(CachedHead {
            row: session,
            revision: row.try_get(14)?,
        })
    }

    /// Like [`read`](Self::read), with the time by the database's clock in the next column.
    pub(super) fn read_with_time(row: &Row) -> Result<(CachedHead, i64), Error> {
        Ok((CachedHead::read(row)?, row.try_get(15)?))
    }
}

/// Reads an unsigned number that is stored as a signed one. A fencing token may use the sign bit.
pub(super) fn unsigned(row: &Row, at: usize) -> Result<u64, Error> {
    Ok(row.try_get::<_, i64>(at)? as u64)
}

/// Converts a number for the database, capped at `i64::MAX`.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts an optional count for the database, capped so that SQL can add to it.
pub(super) fn count(number: Option<usize>) -> Option<i64> {
    number.map(|number| signed(number as u64).min(i64::MAX / 2))
}

/// Reads an event with its body in column `at`.
pub(super) fn event(
    key: &SessionKey,
    position: u64,
    row: &Row,
    at: usize,
) -> Result<Arc<Event>, Failure> {
    let body = text(row, at, || (key.clone(), format!("event {position}")))?;
    Ok(sql::event(key, position, body)?)
}

/// Reads the bytes in column `at` as text. For errors, `place` returns the session and the record
/// in it.
pub(super) fn text(
    row: &Row,
    at: usize,
    place: impl Fn() -> (SessionKey, String),
) -> Result<&str, Failure> {
    let bytes: &[u8] = row.try_get(at)?;
    let text = std::str::from_utf8(bytes);
    Ok(text.map_err(|error| {
        let (key, place) = place();
        let source: BoxError = error.into();
        SessionError::Corrupt { key, place, source }
    })?)
}

/// Reads a state key in column `at` and its value in the next column.
pub(super) fn state_entry<'a>(
    owner: &dyn Fn() -> SessionKey,
    row: &'a Row,
    at: usize,
) -> Result<(&'a str, Json), Failure> {
    let key: &str = row.try_get(at)?;
    let value = text(row, at + 1, || (owner(), format!("state key {key:?}")))?;
    Ok((key, sql::state_value(owner, key, value)?))
}

/// Reads rows of (key, value) as state.
pub(super) fn state(owner: &dyn Fn() -> SessionKey, rows: &[Row]) -> Result<JsonMap, Failure> {
    let mut state = JsonMap::new();
    for row in rows {
        let (key, value) = state_entry(owner, row, 0)?;
        state.insert(key, value);
    }
    Ok(state)
}
