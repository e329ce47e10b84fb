//! Forks a session: copies its log up to a position, in one transaction.

use retain_core::{Head, Result, SessionKey, store_rules};
use rusqlite::{Connection, params};

use super::{
    create::clear_key,
    failed,
    rows::event_key,
    state::{copy_state, state_bytes},
    usage::log_bytes,
};
use crate::sql::SessionRow;

/// Copies a log up to `position` into a new session.
pub(super) fn fork(
    connection: &Connection,
    origin: &SessionKey,
    position: u64,
    key: &SessionKey,
    create_time: f64,
    now_us: i64,
) -> Result<Head> {
    let from = SessionRow::get(connection, "fork a session", origin, now_us)?;
    store_rules::check_position(origin, position, from.position)?;
    clear_key(connection, key, now_us)?;
    let forked = || -> rusqlite::Result<()> {
        connection.execute("INSERT INTO logs DEFAULT VALUES", [])?;
        let number = connection.last_insert_rowid();
        let bounds = (
            event_key(from.number, 0),
            event_key(from.number, position),
            event_key(number, 0) - event_key(from.number, 0),
        );
        connection.execute(
            "INSERT INTO events (key, event_id, invocation, timestamp, body) \
             SELECT key + ?3, event_id, invocation, timestamp, body FROM events \
             WHERE key BETWEEN ?1 AND ?2",
            bounds,
        )?;
        copy_state(connection, from.number, number, position)?;
        let bytes = state_bytes(connection, number)?;
        let in_order = is_in_order(connection, number, position, create_time)?;
        let log_bytes = log_bytes(connection, number, 0, position)?;
        connection.execute(
            "INSERT INTO sessions (number, app, user, id, position, last_update, create_time, \
             touched_us, ttl_us, lease_token, in_order, state_bytes, origin_id, \
             origin_position, log_bytes, sized_to) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?1 << 32, ?9, ?10, ?11, ?5, ?12, ?5)",
            params![
                number,
                key.app,
                key.user,
                key.id,
                position,
                create_time,
                now_us,
                from.lifetime.ttl_us,
                in_order,
                bytes,
                origin.id,
                log_bytes,
            ],
        )?;
        Ok(())
    };
    forked().map_err(|e| failed("fork a session", e))?;
    Ok(SessionRow::get(connection, "fork a session", key, now_us)?.head(key.clone()))
}

/// Whether the timestamps of a log never decrease and none is after `last_update`, with which the
/// next event is compared. For a fork, `last_update` is its creation time.
pub(super) fn is_in_order(
    connection: &Connection,
    log: i64,
    position: u64,
    last_update: f64,
) -> rusqlite::Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM \
               (SELECT timestamp, lead(timestamp, 1, ?3) OVER (ORDER BY key) AS next \
                FROM events WHERE key BETWEEN ?1 AND ?2) WHERE next < timestamp)";
    let bounds = (event_key(log, 1), event_key(log, position), last_update);
    connection.query_row(sql, bounds, |row| row.get(0))
}
