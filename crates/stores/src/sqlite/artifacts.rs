//! Artifacts on the session database: written by the same writer, deleted with their session, erased
//! with the user.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, Clock,
    NewArtifact, Result, SessionError, StoreArtifactService, StoredArtifact,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{NAME, SqliteStore, addresses, failed, readers::Readers, writer::Writer};
use crate::sql::artifacts::{self as sql, ArtifactRow, session};

/// Artifacts on the database of a [`SqliteSessionService`](crate::SqliteSessionService).
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain_core::{ArtifactKey, ArtifactService as _, Part};
/// use retain_stores::{SqliteArtifactService, SqliteSessionService};
/// let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
/// let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
/// let key = ArtifactKey::of_user("app", "ada", "user:photo.png");
/// artifacts.save_artifact(&key, Part::bytes(vec![1, 2, 3], "image/png"), None).await?;
/// assert_eq!(artifacts.list_versions(&key).await?, [0]);
/// # Ok(()) }
/// ```
pub type SqliteArtifactService = StoreArtifactService<SqliteArtifactStore>;

/// The store behind [`SqliteArtifactService`]: [`SqliteStore::artifacts`] gives it.
#[derive(Clone)]
pub struct SqliteArtifactStore {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    clock: Arc<dyn Clock>,
    uri: Arc<str>,
}

impl fmt::Debug for SqliteArtifactStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteArtifactStore")
            .field(&self.uri)
            .finish()
    }
}

impl SqliteStore {
    /// The artifacts on this database.
    pub fn artifacts(&self) -> SqliteArtifactStore {
        SqliteArtifactStore {
            writer: Arc::clone(&self.writer),
            readers: Arc::clone(&self.readers),
            clock: Arc::clone(&self.options.clock),
            uri: self.options.uri().into(),
        }
    }
}

fn insert(
    connection: &Connection,
    place: &ArtifactAddress,
    row: &ArtifactRow,
) -> rusqlite::Result<u64> {
    let address = (&place.app, &place.user, session(place), &place.name);
    let sql = "SELECT ifnull(max(version) + 1, 0) FROM artifacts \
               WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let version: u64 = statement.query_row(address, |row| row.get(0))?;
    let sql = "INSERT INTO artifacts (app, user, session, name, version, create_time, \
               mime_type, custom_metadata, part, data) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.prepare_cached(sql)?.execute(params![
        place.app,
        place.user,
        session(place),
        place.name,
        version,
        row.create_time,
        row.mime_type,
        row.custom_metadata,
        row.part,
        row.data.as_deref(),
    ])?;
    Ok(version)
}

type Found = (u64, String, Option<Vec<u8>>);

fn find(
    connection: &Connection,
    place: &ArtifactAddress,
    version: Option<u64>,
) -> rusqlite::Result<Option<Found>> {
    let sql = "SELECT version, part, data FROM artifacts \
               WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4 \
               AND (?5 IS NULL OR version = ?5) ORDER BY version DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    // A number that no row can have is asked for like any other that there is not.
    let version = version.map(|version| i64::try_from(version).unwrap_or(-1));
    let asked = params![place.app, place.user, session(place), place.name, version];
    statement
        .query_row(asked, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
}

/// A version, when and as what it was saved, and its notes.
type ListedSession = (u64, f64, Option<String>, String);

fn versions(
    connection: &Connection,
    place: &ArtifactAddress,
) -> rusqlite::Result<Vec<ListedSession>> {
    let sql = "SELECT version, create_time, mime_type, custom_metadata FROM artifacts \
               WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4 ORDER BY version";
    let mut statement = connection.prepare_cached(sql)?;
    let address = (&place.app, &place.user, session(place), &place.name);
    let rows = statement.query_map(address, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    rows.collect()
}

/// Removes what belongs to a session.
pub(super) fn delete_of_session(connection: &Connection, number: i64) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM artifacts WHERE (app, user, session) = \
               (SELECT app, user, id FROM sessions WHERE number = ?1)";
    connection.prepare_cached(sql)?.execute([number])
}

/// Removes some of a user's versions and says how many.
pub(super) fn erase_chunk(
    connection: &Connection,
    app: &str,
    user: &str,
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM artifacts WHERE number IN \
               (SELECT number FROM artifacts WHERE app = ?1 AND user = ?2 LIMIT 64)";
    connection.prepare_cached(sql)?.execute((app, user))
}

fn as_artifact_error(error: SessionError) -> ArtifactError {
    sql::as_artifact_error(NAME, error)
}

#[async_trait]
impl ArtifactStore for SqliteArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Exact
    }

    async fn put(
        &self,
        place: &ArtifactAddress,
        new: NewArtifact,
    ) -> std::result::Result<u64, ArtifactError> {
        let (place, row) = (place.clone(), ArtifactRow::of(new)?);
        let job = move |connection: &Connection| -> Result<u64> {
            let inserted = insert(connection, &place, &row);
            inserted.map_err(|e| failed("save an artifact", e))
        };
        let inserted = self.writer.write("save an artifact", job).await;
        inserted.map_err(as_artifact_error)
    }

    async fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> std::result::Result<Option<StoredArtifact>, ArtifactError> {
        let asked = place.clone();
        let read = move |connection: &Connection| -> Result<Option<Found>> {
            find(connection, &asked, version).map_err(|e| failed("load an artifact", e))
        };
        let found = self.readers.read("load an artifact", read).await;
        let found = found.map_err(as_artifact_error)?;
        let stored = found
            .map(|(version, part, data)| sql::stored(place, version, &part, data.map(Into::into)));
        stored.transpose()
    }

    async fn versions(
        &self,
        place: &ArtifactAddress,
    ) -> std::result::Result<Vec<ArtifactVersion>, ArtifactError> {
        let asked = place.clone();
        let read = move |connection: &Connection| -> Result<Vec<ListedSession>> {
            versions(connection, &asked).map_err(|e| failed("list versions", e))
        };
        let found = self.readers.read("list versions", read).await;
        let known = found.map_err(as_artifact_error)?.into_iter();
        let known = known.map(|(version, create_time, mime_type, notes)| {
            sql::read_version(place, version, create_time, mime_type, &notes)
        });
        known.collect()
    }

    async fn delete(&self, place: &ArtifactAddress) -> std::result::Result<(), ArtifactError> {
        let place = place.clone();
        let delete = move |connection: &Connection| -> Result<()> {
            let sql = "DELETE FROM artifacts \
                       WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4";
            let address = (&place.app, &place.user, session(&place), &place.name);
            let deleted = connection.execute(sql, address);
            deleted
                .map(drop)
                .map_err(|e| failed("delete an artifact", e))
        };
        let deleted = self.writer.write("delete an artifact", delete).await;
        deleted.map_err(as_artifact_error)
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> std::result::Result<Vec<String>, ArtifactError> {
        let (app, user) = (app.to_owned(), user.to_owned());
        let session = session.unwrap_or_default().to_owned();
        let list = move |connection: &Connection| -> Result<Vec<String>> {
            let read = || -> rusqlite::Result<Vec<String>> {
                let sql = "SELECT DISTINCT name FROM artifacts \
                           WHERE app = ?1 AND user = ?2 AND session IN ('', ?3)";
                let mut statement = connection.prepare_cached(sql)?;
                let names = statement.query_map((&app, &user, &session), |row| row.get(0))?;
                names.collect()
            };
            read().map_err(|e| failed("list artifacts", e))
        };
        let listed = self.readers.read("list artifacts", list).await;
        listed.map_err(as_artifact_error)
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> std::result::Result<Vec<ArtifactAddress>, ArtifactError> {
        let (after, now_us) = (after.cloned(), self.clock.now_us());
        let list = move |connection: &Connection| -> Result<Vec<ArtifactAddress>> {
            let found = addresses::artifacts(connection, after.as_ref(), limit, now_us);
            found.map_err(|e| failed("list artifacts", e))
        };
        let listed = self.readers.read("list artifacts", list).await;
        listed.map_err(as_artifact_error)
    }

    async fn erase_user(&self, app: &str, user: &str) -> std::result::Result<u64, ArtifactError> {
        let mut erased = 0;
        loop {
            let (app, user) = (app.to_owned(), user.to_owned());
            // Some at a time, so that others can write in between.
            let chunk = move |connection: &Connection| -> Result<usize> {
                erase_chunk(connection, &app, &user).map_err(|e| failed("erase a user", e))
            };
            let chunk = self.writer.write("erase a user", chunk).await;
            match chunk.map_err(as_artifact_error)? {
                0 => return Ok(erased),
                more => erased += more as u64,
            }
        }
    }
}
