//! Writes state: a session's own keys with their past values, and the shared state.

use retain_core::{
    Changes, Json, JsonMap, LimitKind, Result, ScopedState, SessionKey, check_growth,
};
use rusqlite::{Connection, OptionalExtension as _};

use super::failed;

/// Sets the session's own state keys at `position` and moves old values to `state_past`. `bytes` is
/// the size of the session's state before; returns the size after.
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

/// Sets one state key and returns the bytes it used before.
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

/// Sets the app's and the user's state keys that have changed. Each key is its own row, so that
/// writers of different keys do not overwrite each other.
pub(super) fn set_shared_keys(
    connection: &Connection,
    key: &SessionKey,
    changes: &Changes,
    bytes_max: usize,
) -> Result<()> {
    let scopes = [
        (LimitKind::AppState, "", &changes.app),
        (LimitKind::UserState, key.user.as_str(), &changes.user),
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

/// Sets state keys of an app (`user` empty) or a user. Returns the owner's bytes before and after.
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

/// Sets one shared state key and returns the bytes it used before.
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

/// Sets the shared state keys that the app or the user does not have yet.
pub(super) fn add_shared(
    connection: &Connection,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> rusqlite::Result<()> {
    set_absent(connection, app, "", &shared.app)?;
    set_absent(connection, app, user, &shared.user)
}

/// Sets the state keys that the app (`user` empty) or the user does not have yet.
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
        set_shared(connection, app, user, &absent)?;
    }
    Ok(())
}

/// Sets a state key at position 0: as the current value, or as the oldest past value if an event
/// has set the key.
pub(super) fn set_initial(
    connection: &Connection,
    log: i64,
    key: &str,
    value: &str,
) -> rusqlite::Result<()> {
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

/// Counts the bytes of a log's current state keys and values.
pub(super) fn state_bytes(connection: &Connection, log: i64) -> rusqlite::Result<i64> {
    let sql = "SELECT ifnull(sum(octet_length(key) + octet_length(value)), 0) \
               FROM state WHERE log = ?1 AND value IS NOT NULL";
    connection.query_row(sql, [log], |row| row.get(0))
}

/// Copies the values that were set up to `position`. The last value of each key becomes current.
pub(super) fn copy_state(
    connection: &Connection,
    from: i64,
    to: i64,
    position: u64,
) -> rusqlite::Result<()> {
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
