//! Lists the addresses of all sessions, owners, memories and artifacts in pages, for a migration to
//! another store.
//!
//! PostgreSQL compares these texts byte by byte, as Rust does.

use std::fmt::Debug;

use retain_core::{ArtifactAddress, MemoryScope, SessionKey, StateOwner};
use tokio_postgres::Row;

use super::{
    pool::{Database, Failure, Param},
    rows::{clock_us, count},
};

async fn query<E>(
    database: &Database,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, Failure<E>> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Lists the keys of sessions that have not expired.
pub(super) async fn sessions(
    database: &Database,
    after: Option<&SessionKey>,
    limit: usize,
    now_us: Option<i64>,
) -> Result<Vec<SessionKey>, Failure> {
    const SQL: &str = concat!(
        "SELECT app, user_id, id FROM retain_sessions WHERE (app, user_id, id) > ($1, $2, $3) \
         AND (ttl_us IS NULL OR touched_us > coalesce($4::int8, ",
        clock_us!(),
        ") - ttl_us) ORDER BY app, user_id, id LIMIT $5::int8"
    );
    let none = SessionKey::new("", "", "");
    let SessionKey { app, user, id } = after.unwrap_or(&none);
    let found = query(
        database,
        SQL,
        &[app, user, id, &now_us, &count(Some(limit))],
    )
    .await?;
    let mut keys = Vec::with_capacity(found.len());
    for row in &found {
        let (app, user): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        keys.push(SessionKey::new(app, user, row.try_get::<_, String>(2)?));
    }
    Ok(keys)
}

/// Lists the owners of shared state.
pub(super) async fn state_owners(
    database: &Database,
    after: Option<&StateOwner>,
    limit: usize,
) -> Result<Vec<StateOwner>, Failure> {
    // $1 is true for the first page. The state of the app itself has an empty user id, so it sorts
    // before the app's users.
    const SQL: &str = "SELECT DISTINCT app, user_id FROM retain_shared_state \
                       WHERE $1::bool OR (app, user_id) > ($2, $3) \
                       ORDER BY app, user_id LIMIT $4::int8";
    let app = after.map_or("", |after| &after.app);
    let user = after.and_then(|after| after.user.as_deref());
    let (is_first, user) = (after.is_none(), user.unwrap_or_default());
    let params: &[Param<'_>] = &[&is_first, &app, &user, &count(Some(limit))];
    let found = query(database, SQL, params).await?;
    let mut owners = Vec::with_capacity(found.len());
    for row in &found {
        let user: String = row.try_get(1)?;
        owners.push(StateOwner {
            app: row.try_get(0)?,
            user: Some(user).filter(|user| !user.is_empty()),
        });
    }
    Ok(owners)
}

/// Lists the scopes that have memories or tombstones.
pub(super) async fn memory_scopes<E>(
    database: &Database,
    after: Option<&MemoryScope>,
    limit: usize,
) -> Result<Vec<MemoryScope>, Failure<E>> {
    const SQL: &str = "SELECT app, user_id FROM retain_memory_scopes \
                       WHERE (entries > 0 OR tombstones > 0) \
                       AND ($1::bool OR (app, user_id) > ($2, $3)) \
                       ORDER BY app, user_id LIMIT $4::int8";
    let (app, user) = after.map_or(("", ""), |after| (&after.app, &after.user));
    let params: &[Param<'_>] = &[&after.is_none(), &app, &user, &count(Some(limit))];
    let found = query(database, SQL, params).await?;
    let mut scopes = Vec::with_capacity(found.len());
    for row in &found {
        scopes.push(MemoryScope {
            app: row.try_get(0)?,
            user: row.try_get(1)?,
        });
    }
    Ok(scopes)
}

/// Lists the addresses of artifacts, without those of expired sessions.
pub(super) async fn artifacts<E: Debug>(
    database: &Database,
    after: Option<&ArtifactAddress>,
    limit: usize,
    now_us: Option<i64>,
    corrupt_name: impl Fn(&[u8]) -> E,
) -> Result<Vec<ArtifactAddress>, Failure<E>> {
    const SQL: &str = concat!(
        "SELECT DISTINCT app, user_id, session, name FROM retain_artifacts it \
         WHERE ($1::bool OR (app, user_id, session, name) > ($2, $3, $4, $5)) \
         AND NOT EXISTS (SELECT 1 FROM retain_sessions s WHERE s.app = it.app \
           AND s.user_id = it.user_id AND s.id = it.session AND s.ttl_us IS NOT NULL \
           AND s.touched_us <= coalesce($6::int8, ",
        clock_us!(),
        ") - s.ttl_us) ORDER BY app, user_id, session, name LIMIT $7::int8"
    );
    let text = |part: fn(&ArtifactAddress) -> &str| after.map_or("", part);
    let session = text(|it| it.session.as_deref().unwrap_or_default());
    let name = text(|it| &it.name).as_bytes();
    let params: &[Param<'_>] = &[
        &after.is_none(),
        &text(|it| &it.app),
        &text(|it| &it.user),
        &session,
        &name,
        &now_us,
        &count(Some(limit)),
    ];
    let found = query(database, SQL, params).await?;
    let mut addresses = Vec::with_capacity(found.len());
    for row in &found {
        let (session, name): (String, Vec<u8>) = (row.try_get(2)?, row.try_get(3)?);
        let name = String::from_utf8(name);
        let name = name.map_err(|error| Failure::Rejected(corrupt_name(error.as_bytes())))?;
        addresses.push(ArtifactAddress {
            app: row.try_get(0)?,
            user: row.try_get(1)?,
            session: Some(session).filter(|session| !session.is_empty()),
            filename: name.clone(),
            name,
        });
    }
    Ok(addresses)
}
