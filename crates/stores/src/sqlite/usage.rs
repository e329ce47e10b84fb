//! Counts what an app or a user has stored. Each session's row has the bytes of its log.

use retain_core::{Result, SessionKey, Usage, store_rules::check_position};
use rusqlite::{Connection, Row, params};

use super::{failed, rows::event_key};
use crate::sql::SessionRow;

/// The operation's name in errors.
pub(super) const COUNT: &str = "measure usage";

/// Counts the sessions that have not expired, with their events.
pub(super) fn count(
    connection: &Connection,
    app: &str,
    user: Option<&str>,
    now_us: i64,
) -> Result<Usage> {
    // The inner sum is for events that an older program has appended and not counted.
    const SUMS: &str = "SELECT count(*), ifnull(sum(position), 0), \
        ifnull(sum(log_bytes + CASE WHEN sized_to = position THEN 0 ELSE \
          (SELECT ifnull(sum(octet_length(body)), 0) FROM events \
           WHERE key > (number << 32 | sized_to) AND key <= (number << 32 | position)) END), 0) \
        FROM sessions WHERE app = ?1 AND (ttl_us IS NULL OR touched_us > ?2 - ttl_us)";
    let read = |row: &Row<'_>| {
        let usage = Usage::default().with_sessions(row.get(0)?);
        Ok(usage.with_events(row.get(1)?).with_event_bytes(row.get(2)?))
    };
    let counted = match user {
        None => connection
            .prepare_cached(SUMS)
            .and_then(|mut sums| sums.query_row((app, now_us), read)),
        Some(user) => connection
            .prepare_cached(&format!("{SUMS} AND user = ?3"))
            .and_then(|mut sums| sums.query_row((app, now_us, user), read)),
    };
    counted.map_err(|e| failed(COUNT, e))
}

/// Sums the bytes of a session's events up to `position`.
pub(super) fn count_log_bytes(
    connection: &Connection,
    key: &SessionKey,
    position: u64,
    now_us: i64,
) -> Result<u64> {
    let row = SessionRow::get(connection, COUNT, key, now_us)?;
    check_position(key, position, row.position)?;
    match row.counted_bytes(position) {
        Some(bytes) => Ok(bytes),
        None => log_bytes(connection, row.number, 0, position).map_err(|e| failed(COUNT, e)),
    }
}

/// Sums the bytes of the events of a log after position `after`, up to `last`. Reads no text.
pub(super) fn log_bytes(
    connection: &Connection,
    log: i64,
    after: u64,
    last: u64,
) -> rusqlite::Result<u64> {
    let sql = "SELECT ifnull(sum(octet_length(body)), 0) FROM events WHERE key > ?1 AND key <= ?2";
    let bounds = params![event_key(log, after), event_key(log, last)];
    connection
        .prepare_cached(sql)?
        .query_row(bounds, |row| row.get(0))
}

/// Counts the events that an older program has appended.
pub(super) fn complete_size(connection: &Connection, row: &mut SessionRow) -> rusqlite::Result<()> {
    if row.sized_to < row.position {
        row.log_bytes += log_bytes(connection, row.number, row.sized_to, row.position)?;
        row.sized_to = row.position;
    }
    Ok(())
}
