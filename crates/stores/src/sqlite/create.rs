//! Creates a session and writes its initial state as position 0 of the log.

use retain_core::{
    Json, LimitKind, NewSession, ReadDetail, Result, SessionError, SessionKey, Snapshot, Window,
    check_limit, duration_us,
};
use rusqlite::{Connection, params};

use super::{
    append::insert_event,
    delete::detach_log,
    failed, read,
    rows::event_key,
    state::{set_session_keys, set_shared_keys},
};
use crate::sql::SessionRow;

/// Creates a session and returns it without events.
pub(super) fn create(connection: &Connection, new: &NewSession, now_us: i64) -> Result<Snapshot> {
    clear_key(connection, &new.key, now_us)?;
    let created = || -> rusqlite::Result<i64> {
        connection
            .prepare_cached("INSERT INTO logs DEFAULT VALUES")?
            .execute([])?;
        let number = connection.last_insert_rowid();
        let ttl_us = new.ttl.map(duration_us);
        let sql = "INSERT INTO sessions (number, app, user, id, position, last_update, create_time, \
                   touched_us, ttl_us, lease_token, state_bytes) \
                   VALUES (?1, ?2, ?3, ?4, 0, ?5, ?5, ?6, ?7, ?1 << 32, 0)";
        let key = &new.key;
        let row = params![
            number,
            key.app,
            key.user,
            key.id,
            new.create_time,
            now_us,
            ttl_us
        ];
        connection.prepare_cached(sql)?.execute(row)?;
        let initial = Json::from(new.initial.clone()).to_string();
        insert_event(
            connection,
            event_key(number, 0),
            "",
            "",
            new.create_time,
            &initial,
        )?;
        Ok(number)
    };
    let number = created().map_err(|e| failed("create a session", e))?;
    let bytes = set_session_keys(connection, number, 0, 0, &new.changes)?;
    check_limit(LimitKind::SessionState, bytes, new.state_bytes_max)?;
    if bytes != 0 {
        let sql = "UPDATE sessions SET state_bytes = ?2 WHERE number = ?1";
        let updated = connection.prepare_cached(sql);
        let updated = updated.and_then(|mut update| update.execute(params![number, bytes]));
        updated.map_err(|e| failed("create a session", e))?;
    }
    set_shared_keys(connection, &new.key, &new.changes, new.state_bytes_max)?;
    let created = read::session(
        connection,
        &new.key,
        Window::NONE,
        ReadDetail::State,
        now_us,
    )?;
    created.ok_or_else(|| SessionError::NotFound {
        key: new.key.clone(),
    })
}

/// Fails if a session with this key exists; deletes an expired one.
pub(super) fn clear_key(connection: &Connection, key: &SessionKey, now_us: i64) -> Result<()> {
    let existing = SessionRow::find_even_expired(connection, key);
    match existing.map_err(|e| failed("create a session", e))? {
        Some(row) if row.is_alive(now_us) => Err(SessionError::AlreadyExists { key: key.clone() }),
        Some(row) => detach_log(connection, row.number).map(drop),
        None => Ok(()),
    }
}
