//! Addresses of everything there is, a page at a time: what a store that takes this one's place asks
//! for. Texts are compared byte by byte, in SQLite as in Rust.

use retain_core::{ArtifactAddress, MemoryScope, SessionKey, StateOwner};
use rusqlite::{Connection, params};

/// The addresses of sessions that have not expired.
pub(super) fn sessions(
    connection: &Connection,
    after: Option<&SessionKey>,
    limit: usize,
    now_us: i64,
) -> rusqlite::Result<Vec<SessionKey>> {
    let sql = "SELECT app, user, id FROM sessions WHERE (app, user, id) > (?1, ?2, ?3) \
               AND (ttl_us IS NULL OR touched_us > ?4 - ttl_us) \
               ORDER BY app, user, id LIMIT ?5";
    let none = SessionKey::new("", "", "");
    let after = after.unwrap_or(&none);
    let mut statement = connection.prepare_cached(sql)?;
    let asked = params![after.app, after.user, after.id, now_us, small(limit)];
    let found = statement.query_map(asked, |row| {
        let key: (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(SessionKey::new(key.0, key.1, key.2))
    })?;
    found.collect()
}

/// Owners of shared state, a page at a time.
pub(super) fn state_owners(
    connection: &Connection,
    after: Option<&StateOwner>,
    limit: usize,
) -> rusqlite::Result<Vec<StateOwner>> {
    // Without an owner all come; behind an app's own keys, which are those of user '', its users.
    let sql = "SELECT DISTINCT app, user FROM shared_state \
               WHERE ?1 OR (app, user) > (?2, ?3) ORDER BY app, user LIMIT ?4";
    let app = after.map_or("", |after| &after.app);
    let user = after.and_then(|after| after.user.as_deref());
    let mut statement = connection.prepare_cached(sql)?;
    let asked = params![after.is_none(), app, user.unwrap_or_default(), small(limit)];
    let found = statement.query_map(asked, |row| {
        let user: String = row.get(1)?;
        Ok(StateOwner {
            app: row.get(0)?,
            user: Some(user).filter(|user| !user.is_empty()),
        })
    })?;
    found.collect()
}

/// Whose memories there are, or hashes of forgotten ones.
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
    let asked = params![after.is_none(), app, user, small(limit)];
    let found = statement.query_map(asked, |row| {
        Ok(MemoryScope {
            app: row.get(0)?,
            user: row.get(1)?,
        })
    })?;
    found.collect()
}

/// The places of artifacts. What belongs to an expired session is as good as gone.
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
    let asked = params![
        after.is_none(),
        text(|it| &it.app),
        text(|it| &it.user),
        text(|it| it.session.as_deref().unwrap_or_default()),
        text(|it| &it.name),
        now_us,
        small(limit),
    ];
    let found = statement.query_map(asked, |row| {
        let (session, name): (String, String) = (row.get(2)?, row.get(3)?);
        Ok(ArtifactAddress {
            app: row.get(0)?,
            user: row.get(1)?,
            session: Some(session).filter(|session| !session.is_empty()),
            filename: name.clone(),
            name,
        })
    })?;
    found.collect()
}

fn small(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
