//! Artifacts on the session database: deleted with their session, erased with the user. Each
//! operation is one statement.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, BoxError,
    Bytes, Clock, Limits, NewArtifact, SessionError, StoreArtifactService, StoredArtifact,
};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;

use super::{
    NAME, PostgresStore, addresses,
    pool::{Database, Failure, Param, Retry, tried},
};
use crate::sql::artifacts::{self as sql, ArtifactRow, session};

/// Bytes of an artifact: as many as SQLite takes. A row of PostgreSQL has room for a little more.
const BYTES_MAX: usize = 1_000_000_000;

/// Artifacts on the database of a [`PostgresSessionService`](crate::PostgresSessionService).
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain_core::{ArtifactKey, ArtifactService as _, Part};
/// use retain_stores::{PostgresArtifactService, PostgresSessionService};
/// let uri = "postgresql://retain@db.example/retain?sslmode=verify-full";
/// let sessions = PostgresSessionService::connect(uri).await?;
/// let artifacts = PostgresArtifactService::over(sessions.store().artifacts());
/// let key = ArtifactKey::of_user("app", "ada", "user:photo.png");
/// artifacts.save_artifact(&key, Part::bytes(vec![1, 2, 3], "image/png"), None).await?;
/// assert_eq!(artifacts.list_versions(&key).await?, [0]);
/// # Ok(()) }
/// ```
pub type PostgresArtifactService = StoreArtifactService<PostgresArtifactStore>;

/// The store behind [`PostgresArtifactService`]: [`PostgresStore::artifacts`] gives it.
#[derive(Clone)]
pub struct PostgresArtifactStore {
    database: Arc<Database>,
    clock: Option<Arc<dyn Clock>>,
    uri: Arc<str>,
}

impl fmt::Debug for PostgresArtifactStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("PostgresArtifactStore");
        shown.field(&self.uri).finish()
    }
}

impl PostgresStore {
    /// The artifacts on this database.
    pub fn artifacts(&self) -> PostgresArtifactStore {
        PostgresArtifactStore {
            database: Arc::clone(&self.database),
            clock: self.options.clock.clone(),
            uri: self.options.uri().into(),
        }
    }
}

type Outcome<T> = Result<T, Failure<ArtifactError>>;

impl From<ArtifactError> for Failure<ArtifactError> {
    fn from(error: ArtifactError) -> Failure<ArtifactError> {
        Failure::Decided(error)
    }
}

/// What a caller is told.
fn told(operation: &'static str) -> impl Fn(Failure<ArtifactError>) -> ArtifactError {
    move |failure| {
        let failure: Failure<SessionError> = match failure {
            Failure::Decided(error) => return error,
            Failure::Database(error) => Failure::Database(error),
            Failure::NoConnection(error) => Failure::NoConnection(error),
            Failure::Again(what) => Failure::Again(what),
        };
        sql::as_artifact_error(NAME, failure.told(operation))
    }
}

/// The condition that a row is of the artifact with the address ($1 to $5). The hash is in the
/// index; the name is compared too, because hashes may collide.
macro_rules! by_address {
    () => {
        "app = $1 AND user_id = $2 AND session = $3 AND name_hash = $4 AND name = $5"
    };
}

/// An artifact's address, as its rows have it.
struct Address<'a> {
    place: &'a ArtifactAddress,
    session: &'a str,
    name: &'a [u8],
    hash: Vec<u8>,
}

impl<'a> Address<'a> {
    fn of(place: &'a ArtifactAddress) -> Address<'a> {
        Address {
            place,
            session: session(place),
            name: place.name.as_bytes(),
            hash: Sha256::digest(place.name.as_bytes()).to_vec(),
        }
    }

    /// The parameters of `by_address`, and those behind them.
    fn params<'p>(&'p self, more: &[Param<'p>]) -> Vec<Param<'p>> {
        let mut params: Vec<Param<'_>> = vec![
            &self.place.app,
            &self.place.user,
            &self.session,
            &self.hash,
            &self.name,
        ];
        params.extend(more);
        params
    }

    /// Refuses what an index has no room for.
    fn check(&self) -> Result<(), ArtifactError> {
        for (what, text) in [
            ("app name", self.place.app.as_str()),
            ("user id", &self.place.user),
            ("session id", self.session),
        ] {
            let (found, limit) = (text.len(), Limits::ID_BYTES_MAX);
            if found > limit {
                let reason = format!("has {found} bytes; the limit is {limit}");
                return Err(ArtifactError::invalid(what, reason));
            }
        }
        Ok(())
    }
}

/// Refuses what a row has no room for.
fn check_size(data: usize, texts: usize) -> Result<(), ArtifactError> {
    let found = data + texts;
    if found > BYTES_MAX {
        let reason = format!("has {found} bytes; the limit is {BYTES_MAX}");
        return Err(ArtifactError::invalid("artifact", reason));
    }
    Ok(())
}

async fn ask(database: &Database, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Keeps a version under this number; false if somebody else has taken it. The number is decided
/// before: an attempt that was given up and gets on late must not find another one free.
async fn insert(
    database: &Database,
    address: &Address<'_>,
    row: &ArtifactRow,
    version: i64,
) -> Outcome<bool> {
    const SQL: &str = "INSERT INTO retain_artifacts (app, user_id, session, name_hash, name, \
         create_time, mime_type, custom_metadata, part, data, version) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
         ON CONFLICT DO NOTHING RETURNING version";
    let found = ask_about(database, SQL, address, row, version).await?;
    Ok(!found.is_empty())
}

/// The number of the version to come, and the number of the newest row.
async fn newest(database: &Database, address: &Address<'_>) -> Outcome<(i64, i64)> {
    const SQL: &str = concat!(
        "SELECT coalesce(max(version) + 1, 0), coalesce(max(number), 0) \
         FROM retain_artifacts WHERE ",
        by_address!()
    );
    let found = ask(database, SQL, &address.params(&[])).await?;
    match found.first() {
        Some(row) => Ok((row.try_get(0)?, row.try_get(1)?)),
        None => Err(Failure::Again("the server did not count")),
    }
}

/// Whether this version says and holds just this, saved at this time: then it is that of an attempt
/// whose end was not heard of.
async fn is_same(
    database: &Database,
    address: &Address<'_>,
    row: &ArtifactRow,
    version: i64,
) -> Outcome<bool> {
    const SQL: &str = concat!(
        "SELECT version FROM retain_artifacts WHERE ",
        by_address!(),
        " AND create_time = $6 AND mime_type IS NOT DISTINCT FROM $7 AND custom_metadata = $8 \
         AND part = $9 AND data IS NOT DISTINCT FROM $10 AND version = $11"
    );
    let found = ask_about(database, SQL, address, row, version).await?;
    Ok(!found.is_empty())
}

async fn ask_about(
    database: &Database,
    sql: &str,
    address: &Address<'_>,
    row: &ArtifactRow,
    version: i64,
) -> Outcome<Vec<Row>> {
    let mime_type = row.mime_type.as_ref().map(String::as_bytes);
    let (notes, part) = (row.custom_metadata.as_bytes(), row.part.as_bytes());
    let data = row.data.as_deref();
    let params = address.params(&[&row.create_time, &mime_type, &notes, &part, &data, &version]);
    ask(database, sql, &params).await
}

async fn put(database: &Database, address: &Address<'_>, row: &ArtifactRow) -> Outcome<u64> {
    let (mut retry, mut version, mut is_unsure) = (Retry::new(database), None, false);
    loop {
        let saved = async {
            let number = match version {
                Some(number) => number,
                None => newest(database, address).await?.0,
            };
            version = Some(number);
            let is_saved = insert(database, address, row, number).await?
                || (is_unsure && is_same(database, address, row, number).await?);
            Ok((number, is_saved))
        };
        match saved.await {
            Ok((number, true)) => return Ok(number as u64),
            // One of those who came at once has got the number: there is nothing to wait for.
            Ok((_, false)) => (version, is_unsure) = (None, false),
            Err(failure) => {
                retry.again(failure).await?;
                is_unsure = true;
            }
        }
    }
}

async fn get(
    database: &Database,
    place: &ArtifactAddress,
    version: Option<u64>,
) -> Outcome<Option<StoredArtifact>> {
    const SQL: &str = concat!(
        "SELECT version, part, data FROM retain_artifacts WHERE ",
        by_address!(),
        " AND ($6::int8 IS NULL OR version = $6) ORDER BY version DESC LIMIT 1"
    );
    // A number that no row can have is asked for like any other that there is not.
    let version = version.map(|version| i64::try_from(version).unwrap_or(-1));
    let address = Address::of(place);
    let found = ask(database, SQL, &address.params(&[&version])).await?;
    let Some(row) = found.first() else {
        return Ok(None);
    };
    let version = row.try_get::<_, i64>(0)? as u64;
    let part = text(place, version, row.try_get(1)?)?;
    let data: Option<&[u8]> = row.try_get(2)?;
    let data = data.map(Bytes::from);
    Ok(Some(sql::stored(place, version, part, data)?))
}

async fn versions(database: &Database, place: &ArtifactAddress) -> Outcome<Vec<ArtifactVersion>> {
    const SQL: &str = concat!(
        "SELECT version, create_time, mime_type, custom_metadata FROM retain_artifacts WHERE ",
        by_address!(),
        " ORDER BY version"
    );
    let address = Address::of(place);
    let mut versions = Vec::new();
    for row in ask(database, SQL, &address.params(&[])).await? {
        let version = row.try_get::<_, i64>(0)? as u64;
        let mime_type: Option<&[u8]> = row.try_get(2)?;
        let mime_type = mime_type.map(|bytes| text(place, version, bytes).map(str::to_owned));
        let notes = text(place, version, row.try_get(3)?)?;
        let (create_time, mime_type) = (row.try_get(1)?, mime_type.transpose()?);
        versions.push(sql::read_version(
            place,
            version,
            create_time,
            mime_type,
            notes,
        )?);
    }
    Ok(versions)
}

/// The text that some bytes of a version are.
fn text<'a>(
    place: &ArtifactAddress,
    version: u64,
    bytes: &'a [u8],
) -> Result<&'a str, ArtifactError> {
    std::str::from_utf8(bytes).map_err(|e| sql::corrupt(place, version, e))
}

/// Removes the versions that there are, and none that is saved later, however late this gets on.
async fn delete(database: &Database, place: &ArtifactAddress) -> Outcome<()> {
    const SQL: &str = concat!(
        "DELETE FROM retain_artifacts WHERE ",
        by_address!(),
        " AND number <= $6"
    );
    let address = Address::of(place);
    let (_, newest) = newest(database, &address).await?;
    ask(database, SQL, &address.params(&[&newest]))
        .await
        .map(drop)
}

async fn list(database: &Database, app: &str, user: &str, session: &str) -> Outcome<Vec<String>> {
    const SQL: &str = "SELECT DISTINCT name FROM retain_artifacts \
                       WHERE app = $1 AND user_id = $2 AND session IN ('', $3)";
    let mut names = Vec::new();
    for row in ask(database, SQL, &[&app, &user, &session]).await? {
        let name = String::from_utf8(row.try_get(0)?).map_err(|error| ArtifactError::Store {
            store: NAME,
            operation: "list artifacts",
            source: BoxError::from(error),
        })?;
        names.push(name);
    }
    Ok(names)
}

/// Removes what belongs to the sessions with the numbers $1, while they are still there.
pub(super) const DELETE_OF_SESSIONS: &str = "DELETE FROM retain_artifacts a \
     USING retain_sessions s WHERE s.number = ANY($1) AND a.app = s.app \
     AND a.user_id = s.user_id AND a.session = s.id";

/// Removes some of the versions of the user $2 in the app $1.
pub(super) const ERASE_CHUNK: &str = "DELETE FROM retain_artifacts WHERE number IN \
     (SELECT number FROM retain_artifacts WHERE app = $1 AND user_id = $2 LIMIT 64)";

async fn erase_chunk(database: &Database, app: &str, user: &str) -> Outcome<u64> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(ERASE_CHUNK).await?;
    Ok(client.execute(&statement, &[&app, &user]).await?)
}

#[async_trait]
impl ArtifactStore for PostgresArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Exact
    }

    async fn put(&self, place: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        let (address, row) = (Address::of(place), ArtifactRow::of(new)?);
        address.check()?;
        let data = row.data.as_ref().map_or(0, |data| data.len());
        check_size(data, row.part.len() + row.custom_metadata.len())?;
        let saved = put(&self.database, &address, &row).await;
        saved.map_err(told("save an artifact"))
    }

    async fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        tried!(get(&self.database, place, version)).map_err(told("load an artifact"))
    }

    async fn versions(
        &self,
        place: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        tried!(versions(&self.database, place)).map_err(told("list versions"))
    }

    async fn delete(&self, place: &ArtifactAddress) -> Result<(), ArtifactError> {
        tried!(delete(&self.database, place)).map_err(told("delete an artifact"))
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let session = session.unwrap_or_default();
        tried!(list(&self.database, app, user, session)).map_err(told("list artifacts"))
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        let damaged = |name: &[u8]| ArtifactError::Corrupt {
            address: String::from_utf8_lossy(name).into_owned(),
            version: 0,
            source: "its name is not UTF-8".into(),
        };
        let now_us = self.clock.as_ref().map(|clock| clock.now_us());
        let database = &self.database;
        tried!(addresses::artifacts(
            database, after, limit, now_us, damaged
        ))
        .map_err(told("list artifacts"))
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<u64, ArtifactError> {
        let mut erased = 0;
        loop {
            // Some at a time, so that no statement takes as long as there is much.
            let chunk = tried!(erase_chunk(&self.database, app, user));
            match chunk.map_err(told("erase a user"))? {
                0 => return Ok(erased),
                more => erased += more,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(app: String, session: String) -> ArtifactAddress {
        ArtifactAddress {
            app,
            user: "ada".to_owned(),
            session: Some(session),
            name: "a".repeat(70_000),
            filename: String::new(),
        }
    }

    #[test]
    fn owners_fit_an_index_or_are_refused() {
        let most = "x".repeat(Limits::ID_BYTES_MAX);
        let fits = place(most.clone(), most.clone());
        Address::of(&fits).check().unwrap();
        for place in [
            place(format!("{most}x"), "s".to_owned()),
            place("app".to_owned(), format!("{most}x")),
        ] {
            let error = Address::of(&place).check().unwrap_err();
            assert!(matches!(error, ArtifactError::Invalid { .. }), "{error}");
        }
    }

    #[test]
    fn artifact_larger_than_a_row_is_rejected() {
        check_size(BYTES_MAX - 7, 7).unwrap();
        let error = check_size(BYTES_MAX - 7, 8).unwrap_err();
        assert!(matches!(error, ArtifactError::Invalid { .. }), "{error}");
    }
}
