//! Lists the addresses of all stored records in pages, for a migration to another store.
//!
//! SQLite compares texts byte by byte, as Rust does.

use retain_core::{ArtifactAddress, MemoryScope, SessionKey, StateOwner};
use rusqlite::{Connection, params};

/// Lists the sessions that have not expired.
pub(super) fn sessions(
    connection: &Connection,
    after: Option<&SessionKey>,
    limit: usize,
    now_us: i64,
) -> rusqlite::Result<Vec<SessionKey>> {
    let sql = "SELECT app, user, id FROM sessions WHERE (app, user, id) > (?1, ?2, ?3) \
               AND (ttl_us IS NULL OR touched_us > ?4 - ttl_us) \
               ORDER BY app, user, id LIMIT ?5";
    let start = SessionKey::new("", "", "");
    let after = after.unwrap_or(&start);
    let mut statement = connection.prepare_cached(sql)?;
    let arguments = params![after.app, after.user, after.id, now_us, sql_limit(limit)];
    let keys = statement.query_map(arguments, |row| {
        let key: (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(SessionKey::new(key.0, key.1, key.2))
    })?;
    keys.collect()
}

/// Lists the owners of shared state.
pub(super) fn state_owners(
    connection: &Connection,
    after: Option<&StateOwner>,
    limit: usize,
) -> rusqlite::Result<Vec<StateOwner>> {
    // The state of the app itself has an empty user id, so it sorts before the app's users.
    let sql = "SELECT DISTINCT app, user FROM shared_state \
               WHERE ?1 OR (app, user) > (?2, ?3) ORDER BY app, user LIMIT ?4";
    let app = after.map_or("", |after| &after.app);
    let user = after.and_then(|after| after.user.as_deref());
    let mut statement = connection.prepare_cached(sql)?;
    let user = user.unwrap_or_default();
    let arguments = params![after.is_none(), app, user, sql_limit(limit)];
    let owners = statement.query_map(arguments, |row| {
        let user: String = row.get(1)?;
        Ok(StateOwner {
            app: row.get(0)?,
            user: Some(user).filter(|user| !user.is_empty()),
        })
    })?;
    owners.collect()
}

/// Lists the scopes that have memories or tombstones.
pub(super) fn memory_scopes(
    connection: &Connection,
    after: Option<&MemoryScope>,
    limit: usize,
) -> rusqlite::Result<Vec<MemoryScope>> {
    let sql = "SELECT app, user FROM memory_scopes \
               WHERE (entries > 0 OR tombstones > 0) AND (?1 OR (app, user) > (?2, ?3)) \
               ORDER BY app, user LIMIT ?4";
    let (app, user) = after.map_or(("", ""), |after| (&after.app, &after.user));
    let mut statement = connection.prepare_cached(sql)?;
    let arguments = params![after.is_none(), app, user, sql_limit(limit)];
    let scopes = statement.query_map(arguments, |row| {
        Ok(MemoryScope {
            app: row.get(0)?,
            user: row.get(1)?,
        })
    })?;
    scopes.collect()
}

/// Lists the artifacts, without those of expired sessions.
pub(super) fn artifacts(
    connection: &Connection,
    after: Option<&ArtifactAddress>,
    limit: usize,
    now_us: i64,
) -> rusqlite::Result<Vec<ArtifactAddress>> {
    let sql = "SELECT DISTINCT app, user, session, name FROM artifacts it \
               WHERE (?1 OR (app, user, session, name) > (?2, ?3, ?4, ?5)) \
               AND NOT EXISTS (SELECT 1 FROM sessions \
                 WHERE app = it.app AND user = it.user AND id = it.session \
                 AND ttl_us IS NOT NULL AND touched_us <= ?6 - ttl_us) \
               ORDER BY app, user, session, name LIMIT ?7";
    let text = |part: fn(&ArtifactAddress) -> &str| after.map_or("", part);
    let mut statement = connection.prepare_cached(sql)?;
    let arguments = params![
        after.is_none(),
        text(|artifact| &artifact.app),
        text(|artifact| &artifact.user),
        text(|artifact| artifact.session.as_deref().unwrap_or_default()),
        text(|artifact| &artifact.name),
        now_us,
        sql_limit(limit),
    ];
    let artifacts = statement.query_map(arguments, |row| {
        let (session, name): (String, String) = (row.get(2)?, row.get(3)?);
        Ok(ArtifactAddress {
            app: row.get(0)?,
            user: row.get(1)?,
            session: Some(session).filter(|session| !session.is_empty()),
            filename: name.clone(),
            name,
        })
    })?;
    artifacts.collect()
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
