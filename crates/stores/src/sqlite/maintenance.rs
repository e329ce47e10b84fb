//! The long work: deleting, forking, importing, erasing, checking, backing up.
//!
//! What may take long is done in chunks, each a job of its own, so that appends get in between.
//! The exceptions are a fork, which is all or nothing, the end of an erase, and the artifacts of a
//! deleted session, which go with it: a new session of this id must not see them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

use retain_core::{
    DraftId, EraseReceipt, Head, JsonMap, LogHeader, NewEvent, Result, ScopedState, SessionError,
    SessionKey, duration_us,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    NAME, append, artifacts, failed, keys, memory, open,
    rows::{event_key, position_of},
};
use crate::{
    sql::{LogCheck, SessionRow},
    window::{self, DRAFT_TTL_US},
};

/// Rows that one job deletes.
const CHUNK: u64 = 2000;

/// Makes a session invisible; false if there is none. Its log is purged afterwards.
pub(super) fn delete(connection: &Connection, key: &SessionKey, now_us: i64) -> Result<bool> {
    let row = SessionRow::find_even_expired(connection, key).map_err(|e| failed("delete", e))?;
    let Some(row) = row else {
        return Ok(false);
    };
    bury(connection, row.number)?;
    Ok(row.is_alive(now_us))
}

/// Takes a session off its log, marks the log for purging and removes the session's artifacts.
pub(super) fn bury(connection: &Connection, number: i64) -> Result<()> {
    let buried = || -> rusqlite::Result<()> {
        artifacts::delete_of_session(connection, number)?;
        let sql = "DELETE FROM sessions WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([number])?;
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE number = ?1";
        connection.prepare_cached(sql)?.execute([number])?;
        Ok(())
    };
    buried().map_err(|e| failed("delete", e))
}

/// Whether a log is marked for purging.
pub(super) fn has_leftovers(connection: &Connection, now_us: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM logs WHERE purge_after_us <= ?1 LIMIT 1";
    let found = || connection.prepare_cached(sql)?.exists([now_us]);
    found().map_err(|e| failed("purge", e))
}

/// Removes some rows of a log that is marked for purging; false when there is none left.
pub(super) fn purge_chunk(connection: &Connection, now_us: i64) -> Result<bool> {
    let purged = || -> rusqlite::Result<bool> {
        let sql = "SELECT number FROM logs WHERE purge_after_us <= ?1 LIMIT 1";
        let log: Option<i64> = connection
            .prepare_cached(sql)?
            .query_row([now_us], |row| row.get(0))
            .optional()?;
        let Some(log) = log else {
            return Ok(false);
        };
        // An import that wakes up now must not find its log half there.
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE number = ?1 AND purge_after_us <> 0";
        connection.prepare_cached(sql)?.execute([log])?;
        let bounds = (event_key(log, 0), event_key(log, u64::MAX), CHUNK);
        let events = "DELETE FROM events WHERE key IN \
                      (SELECT key FROM events WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)";
        let mut deleted = connection.prepare_cached(events)?.execute(bounds)?;
        for state in [
            "DELETE FROM state WHERE log = ?1 AND key IN \
             (SELECT key FROM state WHERE log = ?1 LIMIT ?2)",
            "DELETE FROM state_past WHERE log = ?1 AND (key, position) IN \
             (SELECT key, position FROM state_past WHERE log = ?1 LIMIT ?2)",
        ] {
            deleted += connection.prepare_cached(state)?.execute((log, CHUNK))?;
        }
        if deleted < CHUNK as usize {
            connection.execute("DELETE FROM logs WHERE number = ?1", [log])?;
        }
        Ok(true)
    };
    purged().map_err(|e| failed("purge", e))
}

/// Makes up to `limit` expired sessions invisible and says which.
pub(super) fn sweep(connection: &Connection, limit: usize, now_us: i64) -> Result<Vec<SessionKey>> {
    let expired = || -> rusqlite::Result<Vec<(i64, SessionKey)>> {
        let sql = "SELECT number, app, user, id FROM sessions \
                   WHERE ttl_us IS NOT NULL AND touched_us <= ?1 - ttl_us LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((now_us, limit), |row| {
            let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, SessionKey::new(key.0, key.1, key.2)))
        })?;
        rows.collect()
    };
    let expired = expired().map_err(|e| failed("sweep", e))?;
    let mut swept = Vec::with_capacity(expired.len());
    for (number, key) in expired {
        bury(connection, number)?;
        swept.push(key);
    }
    Ok(swept)
}

/// Copies a log up to `position` into a new session.
pub(super) fn fork(
    connection: &Connection,
    origin: &SessionKey,
    position: u64,
    key: &SessionKey,
    create_time: f64,
    now_us: i64,
) -> Result<Head> {
    let from = SessionRow::get(connection, "fork", origin, now_us)?;
    window::check_position(origin, position, from.position)?;
    append::make_room(connection, key, now_us)?;
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
        connection.execute(
            "INSERT INTO sessions (number, app, user, id, position, last_update, create_time, \
             touched_us, ttl_us, lease_token, in_order, state_bytes, origin_id, origin_position) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?1 << 32, ?9, ?10, ?11, ?5)",
            params![
                number,
                key.app,
                key.user,
                key.id,
                position,
                create_time,
                now_us,
                from.life.ttl_us,
                in_order,
                bytes,
                origin.id
            ],
        )?;
        Ok(())
    };
    forked().map_err(|e| failed("fork", e))?;
    Ok(SessionRow::get(connection, "fork", key, now_us)?.head(key.clone()))
}

/// Whether the times of a log never go back. The next event is compared with the time of the last
/// update, which is to be no earlier than the last event: in a fork it is that of the fork.
fn is_in_order(
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

/// How many bytes the keys and values of a log take.
fn state_bytes(connection: &Connection, log: i64) -> rusqlite::Result<i64> {
    let sql = "SELECT ifnull(sum(octet_length(key) + octet_length(value)), 0) \
               FROM state WHERE log = ?1 AND value IS NOT NULL";
    connection.query_row(sql, [log], |row| row.get(0))
}

/// Copies what was set up to `position`: the last value of each key is current, the rest is past.
fn copy_state(connection: &Connection, from: i64, to: i64, position: u64) -> rusqlite::Result<()> {
    let all = "SELECT key, position, value FROM state WHERE log = ?1 AND position <= ?3 \
               UNION ALL \
               SELECT key, position, value FROM state_past WHERE log = ?1 AND position <= ?3";
    let is_last = "position = max(position) OVER (PARTITION BY key)";
    for (table, which) in [("state", "is_last"), ("state_past", "NOT is_last")] {
        let sql = format!(
            "INSERT INTO {table} (log, key, position, value) \
             SELECT ?2, key, position, value \
             FROM (SELECT key, position, value, {is_last} AS is_last FROM ({all})) WHERE {which}"
        );
        connection.execute(&sql, (from, to, position))?;
    }
    Ok(())
}

/// Starts a log that no session has yet.
pub(super) fn begin_draft(
    connection: &Connection,
    key: &SessionKey,
    now_us: i64,
) -> Result<DraftId> {
    let sql = "INSERT INTO logs (purge_after_us, app, user) VALUES (?1, ?2, ?3)";
    let begun = connection.execute(sql, (now_us + DRAFT_TTL_US, &key.app, &key.user));
    begun.map_err(|e| failed("begin an import", e))?;
    Ok(DraftId(connection.last_insert_rowid() as u64))
}

/// Adds events to a draft.
pub(super) fn extend_draft(
    connection: &Connection,
    draft: DraftId,
    events: &[(u64, NewEvent)],
    now_us: i64,
) -> Result<()> {
    let log = draft.0 as i64;
    let sql = "UPDATE logs SET purge_after_us = ?2 WHERE number = ?1 AND purge_after_us > 0";
    let alive = connection.execute(sql, (log, now_us + DRAFT_TTL_US));
    if alive.map_err(|e| failed("import", e))? == 0 {
        return Err(window::draft_gone());
    }
    for (position, new) in events {
        let (event, key) = (&new.event, event_key(log, *position));
        let (id, invocation) = (&event.id, &event.invocation_id);
        append::insert_event(connection, key, id, invocation, event.timestamp, &new.body)
            .map_err(|e| failed("import", e))?;
        append::set_session_keys(connection, log, *position, 0, &new.changes)?;
    }
    Ok(())
}

/// Makes the draft a session.
pub(super) fn finish_draft(
    connection: &Connection,
    draft: DraftId,
    header: &LogHeader,
    shared: &ScopedState,
    now_us: i64,
) -> Result<Head> {
    let (log, head, key) = (draft.0 as i64, &header.head, &header.head.key);
    append::make_room(connection, key, now_us)?;
    let finished = || -> rusqlite::Result<bool> {
        let sql = "UPDATE logs SET purge_after_us = NULL, app = NULL, user = NULL \
                   WHERE number = ?1 AND purge_after_us > 0";
        if connection.execute(sql, [log])? == 0 {
            return Ok(false);
        }
        let initial = retain_core::Json::from(header.initial.clone()).to_string();
        append::insert_event(
            connection,
            event_key(log, 0),
            "",
            "",
            head.create_time,
            &initial,
        )?;
        for (name, value) in &window::session_keys(&header.initial) {
            set_initial(connection, log, name, &value.to_string())?;
        }
        add_shared(connection, &key.app, &key.user, shared)?;
        let bytes = state_bytes(connection, log)?;
        let in_order = is_in_order(connection, log, head.position, head.last_update_time)?;
        let ttl_us = head.ttl.map(duration_us);
        let origin = head.origin.as_ref();
        connection.execute(
            "INSERT INTO sessions (number, app, user, id, position, last_update, create_time, \
             touched_us, ttl_us, lease_token, in_order, state_bytes, origin_id, origin_position) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?1 << 32, ?10, ?11, ?12, ?13)",
            params![
                log,
                key.app,
                key.user,
                key.id,
                head.position,
                head.last_update_time,
                head.create_time,
                window::touched_us(head, now_us),
                ttl_us,
                in_order,
                bytes,
                origin.map(|origin| &origin.session_id),
                origin.map(|origin| origin.position),
            ],
        )?;
        Ok(true)
    };
    if !finished().map_err(|e| failed("finish an import", e))? {
        return Err(window::draft_gone());
    }
    Ok(SessionRow::get(connection, "finish an import", key, now_us)?.head(key.clone()))
}

/// Sets a key as of position 0: current if no event set it since, else the oldest past.
fn set_initial(connection: &Connection, log: i64, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "SELECT true FROM state WHERE log = ?1 AND key = ?2";
    let is_set: Option<bool> = connection
        .prepare_cached(sql)?
        .query_row((log, key), |row| row.get(0))
        .optional()?;
    let sql = match is_set {
        Some(_) => "INSERT INTO state_past (log, key, position, value) VALUES (?1, ?2, 0, ?3)",
        None => "INSERT INTO state (log, key, position, value) VALUES (?1, ?2, 0, ?3)",
    };
    connection
        .prepare_cached(sql)?
        .execute((log, key, value))
        .map(drop)
}

/// Sets shared keys where the app or the user does not have them.
pub(super) fn add_shared(
    connection: &Connection,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> rusqlite::Result<()> {
    set_absent(connection, app, "", &shared.app)?;
    set_absent(connection, app, user, &shared.user)
}

/// Sets keys that their owner, the app (`user` empty) or the user, does not have.
fn set_absent(
    connection: &Connection,
    app: &str,
    user: &str,
    keys: &JsonMap,
) -> rusqlite::Result<()> {
    let sql = "SELECT true FROM shared_state WHERE app = ?1 AND user = ?2 AND key = ?3";
    let mut find = connection.prepare_cached(sql)?;
    let mut absent = JsonMap::new();
    for (name, value) in keys {
        if !find.exists((app, user, name))? {
            absent.insert(name, value.clone());
        }
    }
    if !absent.is_empty() {
        append::set_shared(connection, app, user, &absent)?;
    }
    Ok(())
}

/// Makes some sessions and keys of a user invisible and counts them; zeros when nothing is left.
pub(super) fn erase_chunk(
    connection: &Connection,
    app: &str,
    user: &str,
) -> Result<(EraseReceipt, Vec<SessionKey>)> {
    let mut receipt = EraseReceipt::default();
    let mut erased = Vec::new();
    // Before the sessions, which would take theirs along without counting them.
    let artifacts = artifacts::erase_chunk(connection, app, user);
    receipt.artifacts = artifacts.map_err(|e| failed("erase a user", e))? as u64;
    if receipt.artifacts > 0 {
        return Ok((receipt, erased));
    }
    let found = || -> rusqlite::Result<Vec<(i64, String, u64, u64)>> {
        let sql = "SELECT number, id, position, (SELECT count(*) FROM state \
                   WHERE log = number AND value IS NOT NULL) \
                   FROM sessions WHERE app = ?1 AND user = ?2 LIMIT 64";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map((app, user), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.collect()
    };
    for (number, id, events, keys) in found().map_err(|e| failed("erase a user", e))? {
        bury(connection, number)?;
        receipt.sessions += 1;
        receipt.events += events;
        receipt.state_keys += keys;
        erased.push(SessionKey::new(app, user, id));
    }
    let rest = || -> rusqlite::Result<usize> {
        // Imports that were never finished.
        let sql = "UPDATE logs SET purge_after_us = 0 WHERE app = ?1 AND user = ?2";
        connection.execute(sql, (app, user))?;
        keys::erase(connection, app, user)?;
        connection.execute(
            "DELETE FROM shared_bytes WHERE app = ?1 AND user = ?2",
            (app, user),
        )?;
        connection.execute(
            "DELETE FROM shared_state WHERE app = ?1 AND user = ?2",
            (app, user),
        )
    };
    receipt.state_keys += rest().map_err(|e| failed("erase a user", e))? as u64;
    let memories = memory::erase_chunk(connection, app, user);
    receipt.memories = memories.map_err(|e| failed("erase a user", e))? as u64;
    Ok((receipt, erased))
}

/// Rewrites the file without the gaps in which deleted rows may still be read. SQLite's
/// secure_delete is not enough: pages that were split keep copies of rows.
pub(super) fn rewrite(connection: &Connection) -> Result<()> {
    connection
        .execute_batch("VACUUM")
        .map_err(|e| failed("erase a user", e))
}

/// Empties the log of pages; false if a reader still needs it.
pub(super) fn empty_wal(connection: &Connection) -> Result<bool> {
    // Waiting for the reader here would keep everybody from writing.
    let _ = connection.busy_timeout(Duration::ZERO);
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    let _ = connection.busy_timeout(open::BUSY_TIMEOUT);
    let busy: i64 = busy.map_err(|e| failed("erase a user", e))?;
    Ok(busy == 0)
}

/// Looks for damage: what SQLite finds, and what only we can know.
pub(super) fn check(connection: &Connection) -> Result<Vec<String>> {
    let error = |e| failed("check", e);
    let mut problems = Vec::new();
    let mut statement = connection
        .prepare("PRAGMA integrity_check")
        .map_err(error)?;
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .map_err(error)?;
    for row in rows {
        let message = row.map_err(error)?;
        if message != "ok" {
            problems.push(message);
        }
    }
    let sql = "SELECT number, app, user, id, position FROM sessions";
    let mut statement = connection.prepare(sql).map_err(error)?;
    let mut sessions = statement.query([]).map_err(error)?;
    while let Some(row) = sessions.next().map_err(error)? {
        let read = || -> rusqlite::Result<(i64, SessionKey, u64)> {
            let key: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((
                row.get(0)?,
                SessionKey::new(key.0, key.1, key.2),
                row.get(4)?,
            ))
        };
        let (number, key, position) = read().map_err(error)?;
        check_log(connection, number, &key, position, &mut problems).map_err(error)?;
    }
    memory::check(connection, &mut problems).map_err(error)?;
    Ok(problems)
}

/// Every position is there, once, and every event can be read.
fn check_log(
    connection: &Connection,
    number: i64,
    key: &SessionKey,
    position: u64,
    problems: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let sql = "SELECT key, body FROM events WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((event_key(number, 0), event_key(number, u64::MAX)))?;
    let mut check = LogCheck::new(key);
    while let Some(row) = rows.next()? {
        check.see(
            position_of(row.get(0)?),
            row.get_ref(1)?.as_bytes()?,
            problems,
        );
    }
    check.end(position, problems);
    Ok(())
}

/// Copies the database as it is at this moment into a new file.
pub(super) fn backup(connection: &Connection, path: &Path) -> Result<()> {
    let error = |source: retain_core::BoxError| SessionError::Store {
        store: NAME,
        operation: "back up",
        source,
    };
    if path.exists() {
        let reason = format!("{} is there already; give another name", path.display());
        return Err(SessionError::invalid("backup file", reason));
    }
    // Complete or not there: a copy that was cut off must not look like a backup.
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let Some(text) = partial.to_str() else {
        return Err(SessionError::invalid(
            "backup file",
            "has a name that is not Unicode",
        ));
    };
    let _ = std::fs::remove_file(&partial);
    connection
        .execute("VACUUM INTO ?1", [text])
        .map_err(|e| failed("back up", e))?;
    let synced = || {
        File::open(&partial)?.sync_all()?;
        std::fs::rename(&partial, path)?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    synced().map_err(|e: std::io::Error| error(Box::new(e)))
}
