//! Reads sessions, their state and their events, each from one snapshot.

use std::sync::Arc;

use retain_core::{
    Event, EventLookup, Json, JsonMap, LogHeader, ReadDetail, Result, ScopedState, SessionError,
    SessionKey, Snapshot, Window, store_rules,
};
use rusqlite::{Connection, OptionalExtension as _};

use super::{
    failed,
    rows::{self, event_key, event_position},
};
use crate::sql::{self, SessionRow, check_next};

/// The operation's name in errors.
const READ: &str = "read a session";

/// Maximum number of events for which memory is reserved before they are read.
const CAPACITY_MAX: usize = 4096;

/// Events with their positions.
type PositionedEvents = Vec<(u64, Arc<Event>)>;

/// Reads a session with the events of `window`.
pub(super) fn session(
    connection: &Connection,
    key: &SessionKey,
    window: Window,
    detail: ReadDetail,
    now_us: i64,
) -> Result<Option<Snapshot>> {
    let row = SessionRow::find(connection, key, now_us).map_err(|e| failed(READ, e))?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(Some(Snapshot {
        state: match detail {
            ReadDetail::State => {
                let own = session_state(connection, key, row.number)?;
                with_shared_state(connection, key, own)?
            }
            ReadDetail::StateAt(position) => {
                let own = state_at(connection, key, row.number, position)?;
                with_shared_state(connection, key, own)?
            }
            ReadDetail::EventsOnly => ScopedState::default(),
        },
        events: read_window(connection, key, &row, window)?,
        head: row.head(key.clone()),
    }))
}

fn read_window(
    connection: &Connection,
    key: &SessionKey,
    row: &SessionRow,
    window: Window,
) -> Result<PositionedEvents> {
    let mut since = 1;
    if let Some(time) = window.after_timestamp {
        if !row.in_order {
            return read_unordered(connection, key, row, window, time);
        }
        since = find_time(connection, row, time).map_err(|e| failed(READ, e))?;
    }
    let Some((first, last)) = sql::bounds(window, since, row.position) else {
        return Ok(PositionedEvents::new());
    };
    read_range(connection, key, row.number, (first, last), window.bytes)
}

/// Reads the events at the positions `first` to `last`, as far as they fit into `bytes`. Fails if
/// one is missing.
fn read_range(
    connection: &Connection,
    key: &SessionKey,
    number: i64,
    (first, last): (u64, u64),
    bytes: Option<usize>,
) -> Result<PositionedEvents> {
    let sql = "SELECT key, body FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
    let mut statement = connection
        .prepare_cached(sql)
        .map_err(|e| failed(READ, e))?;
    let bounds = (event_key(number, first), event_key(number, last));
    let mut rows = statement.query(bounds).map_err(|e| failed(READ, e))?;
    let count = (last - first + 1) as usize;
    let mut events = PositionedEvents::with_capacity(count.min(CAPACITY_MAX));
    let mut bytes_left = bytes.unwrap_or(usize::MAX);
    while let Some(row) = rows.next().map_err(|e| failed(READ, e))? {
        let (event_key, body) = event_row(row).map_err(|e| failed(READ, e))?;
        let position = event_position(event_key);
        check_next(key, first + events.len() as u64, position)?;
        if body.len() > bytes_left && !events.is_empty() {
            return Ok(events);
        }
        bytes_left = bytes_left.saturating_sub(body.len());
        events.push((position, sql::event(key, position, body)?));
    }
    check_next(key, first + events.len() as u64, last + 1)?;
    Ok(events)
}

fn event_row<'a>(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<(i64, &'a str)> {
    Ok((row.get(0)?, row.get_ref(1)?.as_str()?))
}

/// Finds the first event at or after `since` by binary search, in a log whose timestamps never
/// decrease.
fn find_time(connection: &Connection, row: &SessionRow, since: f64) -> rusqlite::Result<u64> {
    let sql = "SELECT timestamp FROM events WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let (mut low, mut high) = (1, row.position + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let time: f64 = statement.query_row([event_key(row.number, middle)], |row| row.get(0))?;
        if time < since {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Like [`read_window`], for a log whose timestamps are not sorted, so it compares every timestamp.
fn read_unordered(
    connection: &Connection,
    key: &SessionKey,
    row: &SessionRow,
    window: Window,
    since: f64,
) -> Result<PositionedEvents> {
    let matching = || -> rusqlite::Result<Vec<u64>> {
        let sql =
            "SELECT key FROM events WHERE key BETWEEN ?1 AND ?2 AND timestamp >= ?3 ORDER BY key";
        let first = event_key(row.number, window.first.max(1));
        let last = event_key(row.number, window.last.min(row.position));
        let mut statement = connection.prepare_cached(sql)?;
        let keys = statement.query_map((first, last, since), |row| row.get(0))?;
        keys.map(|key| key.map(event_position)).collect()
    };
    let mut positions = matching().map_err(|e| failed(READ, e))?;
    store_rules::trim_to_window(&mut positions, window);
    let mut events = PositionedEvents::new();
    for position in positions {
        let range = (position, position);
        events.extend(read_range(connection, key, row.number, range, None)?);
    }
    Ok(events)
}

fn with_shared_state(
    connection: &Connection,
    key: &SessionKey,
    session: JsonMap,
) -> Result<ScopedState> {
    Ok(ScopedState {
        session,
        app: shared_state(connection, &key.app, "")?,
        user: shared_state(connection, &key.app, &key.user)?,
    })
}

/// Selects the current state keys of a session.
pub(super) const STATE: &str = "SELECT key, value FROM state WHERE log = ?1 AND value IS NOT NULL";

fn session_state(connection: &Connection, key: &SessionKey, log: i64) -> Result<JsonMap> {
    let mut statement = connection
        .prepare_cached(STATE)
        .map_err(|e| failed(READ, e))?;
    rows::state(&|| key.clone(), READ, statement.query([log]))
}

/// Reads the state keys of an app (`user` empty) or of one of its users.
pub(super) fn shared_state(connection: &Connection, app: &str, user: &str) -> Result<JsonMap> {
    let sql = "SELECT key, value FROM shared_state WHERE app = ?1 AND user = ?2";
    let mut statement = connection
        .prepare_cached(sql)
        .map_err(|e| failed(READ, e))?;
    // The key is only for error messages: shared state has no session.
    let owner = || SessionKey::new(app, user, "");
    rows::state(&owner, READ, statement.query((app, user)))
}

/// Reads the session's own state keys as they were after `position`.
fn state_at(
    connection: &Connection,
    key: &SessionKey,
    number: i64,
    position: u64,
) -> Result<JsonMap> {
    // SQLite's integers are signed. No log is longer than `i64::MAX`.
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    // If a key was set after `position`, `state_past` has its earlier values.
    let sql = "SELECT key, value FROM (
                 SELECT key, CASE WHEN position <= ?2 THEN value ELSE (
                   SELECT past.value FROM state_past past
                   WHERE past.log = state.log AND past.key = state.key AND past.position <= ?2
                   ORDER BY past.position DESC LIMIT 1
                 ) END AS value
                 FROM state WHERE log = ?1)
               WHERE value IS NOT NULL ORDER BY key";
    let mut statement = connection
        .prepare_cached(sql)
        .map_err(|e| failed(READ, e))?;
    rows::state(&|| key.clone(), READ, statement.query((number, position)))
}

/// Finds the position of an event by its id.
pub(super) fn position_by_id(
    connection: &Connection,
    number: i64,
    id: &str,
) -> rusqlite::Result<Option<u64>> {
    // An index covers this query, so it does not read the event.
    let sql = "SELECT key FROM events WHERE key >> 32 = ?1 AND event_id = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let key: Option<i64> = statement
        .query_row((number, id), |row| row.get(0))
        .optional()?;
    Ok(key.map(event_position))
}

/// Finds the positions of the events that `lookup` names.
pub(super) fn find_events(
    connection: &Connection,
    key: &SessionKey,
    lookup: &EventLookup,
    now_us: i64,
) -> Result<Vec<Option<u64>>> {
    let row = SessionRow::get(connection, READ, key, now_us)?;
    let found = match lookup {
        EventLookup::Ids(ids) => ids
            .iter()
            .map(|id| position_by_id(connection, row.number, id))
            .collect(),
        EventLookup::Invocation(invocation) => {
            find_invocation(connection, &row, invocation).map(|first| vec![first])
        }
    };
    found.map_err(|e| failed(READ, e))
}

/// Finds the position of the invocation's first event.
fn find_invocation(
    connection: &Connection,
    row: &SessionRow,
    invocation: &str,
) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT key FROM events WHERE key BETWEEN ?1 AND ?2 AND invocation = ?3 \
               ORDER BY key LIMIT 1";
    let first = event_key(row.number, 1);
    let last = event_key(row.number, row.position);
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row((first, last, invocation), |row| row.get(0));
    Ok(found.optional()?.map(event_position))
}

/// Reads a session's head and the state it was created with.
pub(super) fn log_header(
    connection: &Connection,
    key: &SessionKey,
    now_us: i64,
) -> Result<Option<LogHeader>> {
    let row = SessionRow::find(connection, key, now_us).map_err(|e| failed(READ, e))?;
    let Some(row) = row else {
        return Ok(None);
    };
    let sql = "SELECT body FROM events WHERE key = ?1";
    let body: rusqlite::Result<Option<String>> =
        connection.prepare_cached(sql).and_then(|mut sql| {
            sql.query_row([event_key(row.number, 0)], |row| row.get(0))
                .optional()
        });
    let body = body.map_err(|e| failed(READ, e))?;
    let initial = body.map(|body| Json::parse(&body)).transpose();
    let initial = initial.map_err(|e| SessionError::corrupt_event(key, 0, e))?;
    let Some(initial) = initial.as_ref().and_then(Json::as_object) else {
        check_next(key, 0, 1)?;
        return Ok(None);
    };
    Ok(Some(LogHeader {
        initial: initial.clone(),
        head: row.head(key.clone()),
    }))
}
