//! Artifacts on the session database: written by the same writer, deleted with their session, erased
//! with the user.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    ArtifactError, ArtifactNames, ArtifactPlace, ArtifactStore, ArtifactVersion, Json, NewArtifact,
    Part, Result, SessionError, StoreArtifactService, StoredArtifact,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{NAME, SqliteStore, failed, readers::Readers, writer::Writer};
use crate::artifacts::address;

/// Artifacts on the database of a [`SqliteSessionService`](crate::SqliteSessionService).
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain_core::{ArtifactKey, ArtifactService as _, Part};
/// use retain_sessions::{SqliteArtifactService, SqliteSessionService};
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
            uri: self.options.uri().into(),
        }
    }
}

/// The part without its bytes, as JSON; and the bytes.
struct Row {
    part: String,
    data: Option<Vec<u8>>,
    custom_metadata: String,
    new: NewArtifact,
}

impl Row {
    fn of(mut new: NewArtifact) -> std::result::Result<Row, ArtifactError> {
        let blob = new.part.inline_data.as_mut();
        let data = blob.and_then(|blob| blob.data.take());
        let unwritable = |what, e| ArtifactError::invalid(what, format!("cannot be written: {e}"));
        let notes = Json::from(new.custom_metadata.clone()).to_json();
        Ok(Row {
            part: new.part.to_json().map_err(|e| unwritable("artifact", e))?,
            data: data.map(|data| data.to_vec()),
            custom_metadata: notes.map_err(|e| unwritable("custom metadata", e))?,
            new,
        })
    }

    fn insert(&self, connection: &Connection, place: &ArtifactPlace) -> rusqlite::Result<u64> {
        let session = place.session.as_deref().unwrap_or_default();
        let address = (&place.app, &place.user, session, &place.name);
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
            session,
            place.name,
            version,
            self.new.create_time,
            self.new.mime_type,
            self.custom_metadata,
            self.part,
            self.data,
        ])?;
        Ok(version)
    }
}

type Found = (u64, String, Option<Vec<u8>>);

fn find(
    connection: &Connection,
    place: &ArtifactPlace,
    version: Option<u64>,
) -> rusqlite::Result<Option<Found>> {
    let session = place.session.as_deref().unwrap_or_default();
    let sql = "SELECT version, part, data FROM artifacts \
               WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4 \
               AND (?5 IS NULL OR version = ?5) ORDER BY version DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    // A number that no row can have is asked for like any other that there is not.
    let version = version.map(|version| i64::try_from(version).unwrap_or(-1));
    let asked = params![place.app, place.user, session, place.name, version];
    statement
        .query_row(asked, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
}

fn versions(
    connection: &Connection,
    place: &ArtifactPlace,
) -> rusqlite::Result<Vec<(ArtifactVersion, String)>> {
    let session = place.session.as_deref().unwrap_or_default();
    let sql = "SELECT version, create_time, mime_type, custom_metadata FROM artifacts \
               WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4 ORDER BY version";
    let mut statement = connection.prepare_cached(sql)?;
    let address = (&place.app, &place.user, session, &place.name);
    let rows = statement.query_map(address, |row| {
        let version = row.get(0)?;
        let about = ArtifactVersion {
            version,
            canonical_uri: address_text(place, version),
            create_time: row.get(1)?,
            mime_type: row.get(2)?,
            ..ArtifactVersion::default()
        };
        Ok((about, row.get(3)?))
    })?;
    rows.collect()
}

fn address_text(place: &ArtifactPlace, version: u64) -> String {
    address(place, version).to_string()
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

/// A failure of the database as one of artifacts.
fn as_artifact_error(error: SessionError) -> ArtifactError {
    match error {
        SessionError::Full {
            store,
            operation,
            source,
        } => ArtifactError::Full {
            store,
            operation,
            source,
        },
        SessionError::Store {
            store,
            operation,
            source,
        } => ArtifactError::Store {
            store,
            operation,
            source,
        },
        other => ArtifactError::Store {
            store: NAME,
            operation: "keep artifacts",
            source: Box::new(other),
        },
    }
}

fn corrupt(
    place: &ArtifactPlace,
    version: u64,
    cause: impl Into<retain_core::BoxError>,
) -> ArtifactError {
    ArtifactError::Corrupt {
        place: place.filename.clone(),
        version,
        source: cause.into(),
    }
}

#[async_trait]
impl ArtifactStore for SqliteArtifactStore {
    fn names(&self) -> ArtifactNames {
        ArtifactNames::Exact
    }

    async fn put(
        &self,
        place: &ArtifactPlace,
        new: NewArtifact,
    ) -> std::result::Result<u64, ArtifactError> {
        let (place, row) = (place.clone(), Row::of(new)?);
        let insert = move |connection: &Connection| -> Result<u64> {
            let inserted = row.insert(connection, &place);
            inserted.map_err(|e| failed("save an artifact", e))
        };
        let inserted = self.writer.write("save an artifact", insert).await;
        inserted.map_err(as_artifact_error)
    }

    async fn get(
        &self,
        place: &ArtifactPlace,
        version: Option<u64>,
    ) -> std::result::Result<Option<StoredArtifact>, ArtifactError> {
        let asked = place.clone();
        let read = move |connection: &Connection| -> Result<Option<Found>> {
            find(connection, &asked, version).map_err(|e| failed("load an artifact", e))
        };
        let found = self.readers.read("load an artifact", read).await;
        let Some((version, part, data)) = found.map_err(as_artifact_error)? else {
            return Ok(None);
        };
        let mut part = Part::from_json(&part).map_err(|e| corrupt(place, version, e))?;
        if let Some(blob) = &mut part.inline_data {
            blob.data = data.map(Into::into);
        }
        Ok(Some(StoredArtifact { part, version }))
    }

    async fn versions(
        &self,
        place: &ArtifactPlace,
    ) -> std::result::Result<Vec<ArtifactVersion>, ArtifactError> {
        let asked = place.clone();
        let read = move |connection: &Connection| -> Result<Vec<(ArtifactVersion, String)>> {
            versions(connection, &asked).map_err(|e| failed("list versions", e))
        };
        let found = self.readers.read("list versions", read).await;
        let known = found.map_err(as_artifact_error)?.into_iter();
        let known = known.map(|(mut about, notes)| {
            let notes = Json::parse(&notes).map_err(|e| corrupt(place, about.version, e))?;
            let notes = notes.as_object().cloned();
            about.custom_metadata = notes.unwrap_or_default();
            Ok(about)
        });
        known.collect()
    }

    async fn delete(&self, place: &ArtifactPlace) -> std::result::Result<(), ArtifactError> {
        let place = place.clone();
        let delete = move |connection: &Connection| -> Result<()> {
            let session = place.session.as_deref().unwrap_or_default();
            let sql = "DELETE FROM artifacts \
                       WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4";
            let address = (&place.app, &place.user, session, &place.name);
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
}
