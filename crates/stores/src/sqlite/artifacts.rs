//! The artifact store on the session database. It shares the session writer; artifacts are deleted
//! with their session and erased with the user.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, Clock,
    EraseReceipt, NewArtifact, Result, SessionError, StoreArtifactService, StoreLabel,
    StoredArtifact,
};
use rusqlite::{Connection, Row, params};

use super::{
    NAME, SqliteStore, addresses, erase, failed, readers::Readers, usage::COUNT, writer::Writer,
};
use crate::sql::artifacts::{self as sql, ArtifactRow, session_column};

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

/// The store behind [`SqliteArtifactService`]. [`SqliteStore::artifacts`] creates it.
#[derive(Clone)]
pub struct SqliteArtifactStore {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    clock: Arc<dyn Clock>,
    uri: Arc<str>,
    has_file: bool,
}

impl fmt::Debug for SqliteArtifactStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteArtifactStore")
            .field(&self.uri)
            .finish()
    }
}

impl SqliteStore {
    /// Returns the artifacts on this database.
    pub fn artifacts(&self) -> SqliteArtifactStore {
        SqliteArtifactStore {
            writer: Arc::clone(&self.writer),
            readers: Arc::clone(&self.readers),
            clock: Arc::clone(&self.options.clock),
            uri: self.options.uri().into(),
            has_file: self.options.path.is_some(),
        }
    }
}

/// SQL that is true unless the session ?3 of the user ?2 in the app ?1 has expired at the time
/// `$now`. The user's own artifacts have the session '', and no session has this id.
macro_rules! is_not_expired {
    ($now:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM sessions AS owner \
             WHERE owner.app = ?1 AND owner.user = ?2 AND owner.id = ?3 \
             AND owner.ttl_us IS NOT NULL AND owner.touched_us <= ",
            $now,
            " - owner.ttl_us)"
        )
    };
}

/// Returns the columns that identify an artifact.
fn row_key(address: &ArtifactAddress) -> (&str, &str, &str, &str) {
    let session = session_column(address);
    (&address.app, &address.user, session, &address.name)
}

fn insert(
    connection: &Connection,
    address: &ArtifactAddress,
    row: &ArtifactRow,
) -> rusqlite::Result<u64> {
    let key = row_key(address);
    let sql = "SELECT ifnull(max(version) + 1, 0) FROM artifacts \
               WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let version: u64 = statement.query_row(key, |row| row.get(0))?;
    let sql = "INSERT INTO artifacts (app, user, session, name, version, create_time, \
               mime_type, custom_metadata, part, data) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.prepare_cached(sql)?.execute(params![
        address.app,
        address.user,
        session_column(address),
        address.name,
        version,
        row.create_time,
        row.mime_type,
        row.custom_metadata,
        row.part,
        row.data.as_deref(),
    ])?;
    Ok(version)
}

/// Sums the bytes of all versions. Reads no content.
fn stored_bytes(connection: &Connection, app: &str, user: Option<&str>) -> rusqlite::Result<u64> {
    const SUM: &str = "SELECT ifnull(sum(ifnull(octet_length(data), 0) + octet_length(part) \
                       + octet_length(custom_metadata)), 0) FROM artifacts WHERE app = ?1";
    let read = |row: &Row<'_>| row.get(0);
    match user {
        None => connection.prepare_cached(SUM)?.query_row([app], read),
        Some(user) => {
            let sql = format!("{SUM} AND user = ?2");
            connection
                .prepare_cached(&sql)?
                .query_row([app, user], read)
        }
    }
}

/// Version, part as JSON, and bytes.
type ArtifactColumns = (u64, String, Option<Vec<u8>>);

fn find(
    connection: &Connection,
    address: &ArtifactAddress,
    version: Option<u64>,
    now_us: i64,
) -> Result<Option<ArtifactColumns>> {
    let failed = |error| failed("load an artifact", error);
    let sql = concat!(
        "SELECT version, part, data FROM artifacts \
         WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4 \
         AND (?5 IS NULL OR version = ?5) AND ",
        is_not_expired!("?6"),
        " ORDER BY version DESC LIMIT 1"
    );
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    // -1 matches no row, as does every version above `i64::MAX`.
    let version = version.map(|version| i64::try_from(version).unwrap_or(-1));
    let (app, user, session, name) = row_key(address);
    let params = params![app, user, session, name, version, now_us];
    let mut rows = statement.query(params).map_err(failed)?;
    let Some(row) = rows.next().map_err(failed)? else {
        return Ok(None);
    };
    let data = row.get_ref(2).map_err(failed)?;
    sql::charge_data(data.as_blob_or_null().ok().flatten().map_or(0, <[u8]>::len))?;
    let columns = || Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    columns().map(Some).map_err(failed)
}

/// Version, creation time, media type and custom metadata.
type VersionColumns = (u64, f64, Option<String>, String);

fn versions(
    connection: &Connection,
    address: &ArtifactAddress,
    now_us: i64,
) -> rusqlite::Result<Vec<VersionColumns>> {
    let sql = concat!(
        "SELECT version, create_time, mime_type, custom_metadata FROM artifacts \
         WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4 AND ",
        is_not_expired!("?5"),
        " ORDER BY version"
    );
    let mut statement = connection.prepare_cached(sql)?;
    let (app, user, session, name) = row_key(address);
    let rows = statement.query_map((app, user, session, name, now_us), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    rows.collect()
}

/// Deletes the artifacts of a session. Must run before the session is deleted, because it reads the
/// session's key.
pub(super) fn delete_session_artifacts(
    connection: &Connection,
    number: i64,
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM artifacts WHERE (app, user, session) = \
               (SELECT app, user, id FROM sessions WHERE number = ?1)";
    connection.prepare_cached(sql)?.execute([number])
}

/// Deletes up to 64 artifact versions of a user; returns their number.
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
        address: &ArtifactAddress,
        new: NewArtifact,
    ) -> std::result::Result<u64, ArtifactError> {
        let (address, row) = (address.clone(), ArtifactRow::from_new(new)?);
        let bytes = row.bytes();
        let job = move |connection: &Connection| -> Result<u64> {
            let inserted = insert(connection, &address, &row);
            inserted.map_err(|e| failed("save an artifact", e))
        };
        let inserted = self.writer.add("save an artifact", bytes, job).await;
        inserted.map_err(as_artifact_error)
    }

    async fn erasures(&self) -> std::result::Result<u64, ArtifactError> {
        let count = |connection: &Connection| -> Result<u64> {
            erase::count_erasures(connection).map_err(|e| failed("count erasures", e))
        };
        let counted = self.readers.read("count erasures", count).await;
        counted.map_err(as_artifact_error)
    }

    async fn put_unless_erased(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
        erasures: u64,
    ) -> std::result::Result<Option<u64>, ArtifactError> {
        let (address, row) = (address.clone(), ArtifactRow::from_new(new)?);
        let bytes = row.bytes();
        let job = move |connection: &Connection| -> Result<Option<u64>> {
            let put = || match erase::count_erasures(connection)? == erasures {
                true => insert(connection, &address, &row).map(Some),
                false => Ok(None),
            };
            put().map_err(|e| failed("save an artifact", e))
        };
        let inserted = self.writer.add("save an artifact", bytes, job).await;
        inserted.map_err(as_artifact_error)
    }

    fn label(&self) -> StoreLabel {
        erase::label(&self.uri, self.has_file)
    }

    async fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> std::result::Result<Option<StoredArtifact>, ArtifactError> {
        let (owned, now_us) = (address.clone(), self.clock.now_us());
        let read = move |connection: &Connection| -> Result<Option<ArtifactColumns>> {
            find(connection, &owned, version, now_us)
        };
        let found = self.readers.read("load an artifact", read).await;
        let found = found.map_err(as_artifact_error)?;
        let artifact = found.map(|(version, part, data)| {
            sql::decode_artifact(address, version, &part, data.map(Into::into))
        });
        artifact.transpose()
    }

    async fn versions(
        &self,
        address: &ArtifactAddress,
    ) -> std::result::Result<Vec<ArtifactVersion>, ArtifactError> {
        let (owned, now_us) = (address.clone(), self.clock.now_us());
        let read = move |connection: &Connection| -> Result<Vec<VersionColumns>> {
            versions(connection, &owned, now_us).map_err(|e| failed("list artifact versions", e))
        };
        let found = self.readers.read("list artifact versions", read).await;
        let rows = found.map_err(as_artifact_error)?.into_iter();
        let versions = rows.map(|(version, create_time, mime_type, metadata)| {
            sql::decode_version(address, version, create_time, mime_type, &metadata)
        });
        versions.collect()
    }

    async fn delete(&self, address: &ArtifactAddress) -> std::result::Result<(), ArtifactError> {
        let address = address.clone();
        let delete = move |connection: &Connection| -> Result<()> {
            let sql = "DELETE FROM artifacts \
                       WHERE app = ?1 AND user = ?2 AND session = ?3 AND name = ?4";
            let deleted = connection.execute(sql, row_key(&address));
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
        let now_us = self.clock.now_us();
        let list = move |connection: &Connection| -> Result<Vec<String>> {
            let read = || -> rusqlite::Result<Vec<String>> {
                let sql = concat!(
                    "SELECT DISTINCT name FROM artifacts \
                     WHERE app = ?1 AND user = ?2 AND (session = '' OR session = ?3 AND ",
                    is_not_expired!("?4"),
                    ")"
                );
                let mut statement = connection.prepare_cached(sql)?;
                let params = (&app, &user, &session, now_us);
                let names = statement.query_map(params, |row| row.get(0))?;
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

    async fn usage(
        &self,
        app: &str,
        user: Option<&str>,
    ) -> std::result::Result<u64, ArtifactError> {
        let (app, user) = (app.to_owned(), user.map(str::to_owned));
        let sum = move |connection: &Connection| -> Result<u64> {
            stored_bytes(connection, &app, user.as_deref()).map_err(|e| failed(COUNT, e))
        };
        self.readers
            .read(COUNT, sum)
            .await
            .map_err(as_artifact_error)
    }

    async fn erase_user(
        &self,
        app: &str,
        user: &str,
    ) -> std::result::Result<EraseReceipt, ArtifactError> {
        let counted = self.writer.write("erase a user", erase::add_erasure).await;
        counted.map_err(as_artifact_error)?;
        let mut receipt = EraseReceipt::default();
        loop {
            let (app, user) = (app.to_owned(), user.to_owned());
            // Erase in chunks, so that other writes can run in between.
            let chunk = move |connection: &Connection| -> Result<usize> {
                erase_chunk(connection, &app, &user).map_err(|e| failed("erase a user", e))
            };
            let chunk = self.writer.write("erase a user", chunk).await;
            match chunk.map_err(as_artifact_error)? {
                0 => break,
                more => receipt.artifacts += more as u64,
            }
        }
        let rewritten = erase::rewrite_file(&self.writer, &self.readers).await;
        receipt.unfinished = rewritten.map_err(as_artifact_error)?;
        Ok(receipt)
    }
}
