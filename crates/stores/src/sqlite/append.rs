//! Rows of one append: event, state, session, lease, in the transaction that the writer began.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Batch, Changes, Event, Json, JsonMap, LeaseUse, Limited, NewEvent, NewSession, Plan, Result,
    SessionError, SessionKey, Snapshot, Want, Window, Written, check_growth, check_limit,
    duration_us, plan_append, plan_renewal,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{failed, read, rows::event_key};
use crate::{
    sql::{self, SessionRow},
    window::TICKET_TTL_US,
};

/// What is being done, for errors.
const APPEND: &str = "append";

/// Creates a session; its state is position 0 of its log.
pub(super) fn create(connection: &Connection, new: &NewSession, now_us: i64) -> Result<Snapshot> {
    make_room(connection, &new.key, now_us)?;
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
    let number = created().map_err(|e| failed("create", e))?;
    let bytes = set_session_keys(connection, number, 0, 0, &new.changes)?;
    check_limit(Limited::SessionState, bytes, new.state_bytes_max)?;
    if bytes != 0 {
        let sql = "UPDATE sessions SET state_bytes = ?2 WHERE number = ?1";
        let updated = connection.prepare_cached(sql);
        let updated = updated.and_then(|mut update| update.execute(params![number, bytes]));
        updated.map_err(|e| failed("create", e))?;
    }
    set_shared_keys(connection, &new.key, &new.changes, new.state_bytes_max)?;
    let created = read::session(connection, &new.key, Window::NONE, Want::State, now_us)?;
    created.ok_or_else(|| SessionError::NotFound {
        key: new.key.clone(),
    })
}

/// Fails if a session with this address is there; an expired one makes way.
pub(super) fn make_room(connection: &Connection, key: &SessionKey, now_us: i64) -> Result<()> {
    let there = SessionRow::find_even_expired(connection, key);
    match there.map_err(|e| failed("create", e))? {
        Some(row) if row.is_alive(now_us) => Err(SessionError::AlreadyExists { key: key.clone() }),
        Some(row) => super::maintenance::bury(connection, row.number),
        None => Ok(()),
    }
}

/// Appends a batch, as [`plan_append`] decides.
pub(super) fn append(
    connection: &Connection,
    key: &SessionKey,
    batch: &Batch,
    now_us: i64,
) -> Result<Written> {
    let row = SessionRow::get(connection, APPEND, key, now_us)?;
    let first_ticket = match batch.lease {
        LeaseUse::Take { .. } => first_ticket(connection, row.number, now_us)?,
        LeaseUse::Outside | LeaseUse::Hold { .. } => None,
    };
    let standing = row.standing(key, first_ticket.as_deref(), now_us);
    let plan = plan_append(standing, batch, |id| find_event(connection, key, &row, id))?;
    match plan {
        Plan::Busy { until_us } => {
            queue(connection, row.number, &batch.lease, now_us)?;
            Ok(Written::Busy { until_us, now_us })
        }
        Plan::Write {
            events,
            fresh,
            lease,
            token,
        } => {
            let before = row.state_bytes;
            let mut row = row;
            row.lease = lease;
            // A session lives on by what is written to it.
            if !fresh.is_empty() {
                row.life.touched_us = now_us;
            }
            for &place in &fresh {
                write_event(
                    connection,
                    key,
                    &mut row,
                    &batch.events[place],
                    batch.state_bytes_max,
                )?;
            }
            let limit = batch.state_bytes_max;
            check_growth(Limited::SessionState, before, row.state_bytes, limit)?;
            update(connection, &row)?;
            leave_queue(connection, row.number, &batch.lease)?;
            Ok(Written::Done { events, token })
        }
    }
}

fn find_event(
    connection: &Connection,
    key: &SessionKey,
    row: &SessionRow,
    id: &str,
) -> Result<Option<(u64, Arc<Event>)>> {
    let position = read::position_by_id(connection, row.number, id);
    let Some(position) = position.map_err(|e| failed(APPEND, e))? else {
        return Ok(None);
    };
    let body: rusqlite::Result<String> = connection
        .prepare_cached("SELECT body FROM events WHERE key = ?1")
        .and_then(|mut sql| sql.query_row([event_key(row.number, position)], |row| row.get(0)));
    let body = body.map_err(|e| failed(APPEND, e))?;
    Ok(Some((position, sql::event(key, position, &body)?)))
}

/// Writes one event and its changes; the session's row is brought along in `row`.
fn write_event(
    connection: &Connection,
    key: &SessionKey,
    row: &mut SessionRow,
    new: &NewEvent,
    bytes_max: usize,
) -> Result<()> {
    let event = &new.event;
    let position = row.go_on(event)?;
    let event_key = event_key(row.number, position);
    let (id, invocation) = (&event.id, &event.invocation_id);
    insert_event(
        connection,
        event_key,
        id,
        invocation,
        event.timestamp,
        &new.body,
    )
    .map_err(|e| failed(APPEND, e))?;
    row.state_bytes = set_session_keys(
        connection,
        row.number,
        position,
        row.state_bytes,
        &new.changes,
    )?;
    set_shared_keys(connection, key, &new.changes, bytes_max)
}

pub(super) fn insert_event(
    connection: &Connection,
    key: i64,
    id: &str,
    invocation: &str,
    timestamp: f64,
    body: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO events (key, event_id, invocation, timestamp, body) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = params![key, id, invocation, timestamp, body];
    connection.prepare_cached(sql)?.execute(row).map(drop)
}

fn update(connection: &Connection, row: &SessionRow) -> Result<()> {
    let updated = || {
        let sql = "UPDATE sessions SET position = ?2, last_update = ?3, touched_us = ?4, \
                   lease_token = ?5, lease_until_us = ?6, in_order = ?7, state_bytes = ?8 \
                   WHERE number = ?1";
        connection.prepare_cached(sql)?.execute(params![
            row.number,
            row.position,
            row.last_update,
            row.life.touched_us,
            row.lease.token,
            row.lease.until_us,
            row.in_order,
            row.state_bytes,
        ])
    };
    updated().map(drop).map_err(|e| failed(APPEND, e))
}

/// Sets the session's own keys as of `position`, moving what they were to the past. Gives back how
/// many bytes all keys and values take, given that they took `bytes` before.
pub(super) fn set_session_keys(
    connection: &Connection,
    log: i64,
    position: u64,
    bytes: usize,
    changes: &Changes,
) -> Result<usize> {
    let mut bytes = bytes;
    for (key, value) in &changes.session {
        let value = value.as_ref().map(Json::to_string);
        let freed = set_session_key(connection, log, position, key, value.as_deref());
        bytes = bytes.saturating_sub(freed.map_err(|e| failed("write state", e))?);
        bytes += value.map_or(0, |value| key.len() + value.len());
    }
    Ok(bytes)
}

/// Sets one key and gives back how many bytes it took before.
fn set_session_key(
    connection: &Connection,
    log: i64,
    position: u64,
    key: &str,
    value: Option<&str>,
) -> rusqlite::Result<usize> {
    let sql = "SELECT position, value FROM state WHERE log = ?1 AND key = ?2";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query((log, key))?;
    let mut before = None;
    if let Some(row) = rows.next()? {
        let (since, value): (i64, _) = (row.get(0)?, row.get_ref(1)?.as_str_or_null()?);
        before = Some(value.map(str::len));
        let sql = "INSERT INTO state_past (log, key, position, value) VALUES (?1, ?2, ?3, ?4)";
        connection
            .prepare_cached(sql)?
            .execute((log, key, since, value))?;
    }
    drop(rows);
    if before.is_some() {
        let sql = "UPDATE state SET position = ?3, value = ?4 WHERE log = ?1 AND key = ?2";
        connection
            .prepare_cached(sql)?
            .execute((log, key, position, value))?;
    } else {
        let sql = "INSERT INTO state (log, key, position, value) VALUES (?1, ?2, ?3, ?4)";
        connection
            .prepare_cached(sql)?
            .execute((log, key, position, value))?;
    }
    Ok(before.flatten().map_or(0, |length| key.len() + length))
}

/// Sets keys that are shared by the app or the user, each on its own, so that writers of other keys
/// lose nothing.
fn set_shared_keys(
    connection: &Connection,
    key: &SessionKey,
    changes: &Changes,
    bytes_max: usize,
) -> Result<()> {
    let scopes = [
        (Limited::AppState, "", &changes.app),
        (Limited::UserState, key.user.as_str(), &changes.user),
    ];
    for (what, user, keys) in scopes {
        if !keys.is_empty() {
            let grown = set_shared(connection, &key.app, user, keys);
            let (before, after) = grown.map_err(|e| failed("write state", e))?;
            check_growth(what, before, after, bytes_max)?;
        }
    }
    Ok(())
}

/// Sets the keys of one owner; says how many bytes all of them took before and take now.
pub(super) fn set_shared(
    connection: &Connection,
    app: &str,
    user: &str,
    keys: &JsonMap,
) -> rusqlite::Result<(usize, usize)> {
    let sql = "SELECT bytes FROM shared_bytes WHERE app = ?1 AND user = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let before = statement
        .query_row((app, user), |row| row.get(0))
        .optional()?;
    let before: usize = before.unwrap_or(0);
    let mut after = before;
    for (name, value) in keys {
        let value = value.to_string();
        let freed = set_shared_key(connection, app, user, name, &value)?;
        after = (after + name.len() + value.len()).saturating_sub(freed);
    }
    let sql = "INSERT INTO shared_bytes (app, user, bytes) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET bytes = excluded.bytes";
    connection
        .prepare_cached(sql)?
        .execute((app, user, after))?;
    Ok((before, after))
}

/// Sets one key and gives back how many bytes it took before.
fn set_shared_key(
    connection: &Connection,
    app: &str,
    user: &str,
    name: &str,
    value: &str,
) -> rusqlite::Result<usize> {
    let sql = "SELECT octet_length(value) FROM shared_state \
               WHERE app = ?1 AND user = ?2 AND key = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let before: Option<usize> = statement
        .query_row((app, user, name), |row| row.get(0))
        .optional()?;
    let sql = "INSERT INTO shared_state (app, user, key, value) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT DO UPDATE SET value = excluded.value";
    connection
        .prepare_cached(sql)?
        .execute((app, user, name, value))?;
    Ok(before.map_or(0, |length| name.len() + length))
}

/// Prolongs or gives back a lease.
pub(super) fn renew(
    connection: &Connection,
    key: &SessionKey,
    token: u64,
    ttl: Option<Duration>,
    now_us: i64,
) -> Result<()> {
    let mut row = SessionRow::get(connection, "renew a lease", key, now_us)?;
    let standing = row.standing(key, None, now_us);
    row.lease = plan_renewal(standing, &LeaseUse::Hold { token, ttl })?;
    update(connection, &row)
}

/// The caller that has waited longest for the lease and still does.
fn first_ticket(connection: &Connection, session: i64, now_us: i64) -> Result<Option<String>> {
    let first = || {
        let sql = "SELECT ticket FROM tickets WHERE session = ?1 AND until_us > ?2 \
                   ORDER BY place LIMIT 1";
        let mut statement = connection.prepare_cached(sql)?;
        statement
            .query_row((session, now_us), |row| row.get(0))
            .optional()
    };
    first().map_err(|e: rusqlite::Error| failed(APPEND, e))
}

/// Puts the caller into the queue for the lease, or keeps its place.
fn queue(connection: &Connection, session: i64, lease: &LeaseUse, now_us: i64) -> Result<()> {
    let LeaseUse::Take { ticket, .. } = lease else {
        return Ok(());
    };
    if ticket.is_empty() {
        return Ok(());
    }
    let queued = || -> rusqlite::Result<()> {
        let sql = "DELETE FROM tickets WHERE session = ?1 AND until_us <= ?2 AND ticket <> ?3";
        connection
            .prepare_cached(sql)?
            .execute((session, now_us, ticket))?;
        let sql = "INSERT INTO tickets (session, ticket, until_us) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (session, ticket) DO UPDATE SET until_us = excluded.until_us \
                   WHERE excluded.until_us - until_us > ?4";
        // A ticket that is still good for half its time is left alone, so that looking again
        // writes nothing.
        let until_us = now_us + TICKET_TTL_US;
        connection
            .prepare_cached(sql)?
            .execute((session, ticket, until_us, TICKET_TTL_US / 2))?;
        Ok(())
    };
    queued().map_err(|e| failed(APPEND, e))
}

fn leave_queue(connection: &Connection, session: i64, lease: &LeaseUse) -> Result<()> {
    match lease {
        LeaseUse::Take { ticket, .. } if !ticket.is_empty() => {
            delete_ticket(connection, session, ticket)
        }
        _ => Ok(()),
    }
}

/// Takes a caller out of the queue.
pub(super) fn withdraw(
    connection: &Connection,
    key: &SessionKey,
    ticket: &str,
    now_us: i64,
) -> Result<()> {
    let row = SessionRow::find(connection, key, now_us).map_err(|e| failed(APPEND, e))?;
    row.map_or(Ok(()), |row| delete_ticket(connection, row.number, ticket))
}

fn delete_ticket(connection: &Connection, session: i64, ticket: &str) -> Result<()> {
    let sql = "DELETE FROM tickets WHERE session = ?1 AND ticket = ?2";
    let deleted = connection
        .prepare_cached(sql)
        .and_then(|mut s| s.execute((session, ticket)));
    deleted.map(drop).map_err(|e| failed(APPEND, e))
}
