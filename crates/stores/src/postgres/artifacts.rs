//! The artifact store on the session database. Artifacts are deleted with their session and erased
//! with the user.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, BoxError,
    Bytes, Clock, EraseReceipt, Limits, NewArtifact, SessionError, StoreArtifactService,
    StoreLabel, StoredArtifact,
};
use sha2::{Digest as _, Sha256};
use tokio::join;
use tokio_postgres::Row;

use super::{
    NAME, PostgresStore, addresses,
    erase::{self, FenceStatements},
    pool::{Database, Failure, Param, Retry, retry, statements},
    rows::{clock_us, unsigned},
};
use crate::sql::artifacts::{self as sql, ArtifactRow, session_column};

/// Maximum bytes of an artifact, equal to SQLite's limit; PostgreSQL's limit is slightly higher.
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

/// The store behind [`PostgresArtifactService`]. [`PostgresStore::artifacts`] creates it.
#[derive(Clone)]
pub struct PostgresArtifactStore {
    database: Arc<Database>,
    clock: Option<Arc<dyn Clock>>,
    uri: Arc<str>,
}

impl fmt::Debug for PostgresArtifactStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("PostgresArtifactStore");
        tuple.field(&self.uri).finish()
    }
}

impl PostgresStore {
    /// Returns the artifacts on this database.
    pub fn artifacts(&self) -> PostgresArtifactStore {
        PostgresArtifactStore {
            database: Arc::clone(&self.database),
            clock: self.options.clock.clone(),
            uri: self.options.uri().into(),
        }
    }
}

impl PostgresArtifactStore {
    /// Returns the time of the configured clock; `None` if statements must use the clock of the
    /// database.
    fn now_us(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now_us())
    }
}

type Outcome<T> = Result<T, Failure<ArtifactError>>;

impl From<ArtifactError> for Failure<ArtifactError> {
    fn from(error: ArtifactError) -> Failure<ArtifactError> {
        Failure::Rejected(error)
    }
}

/// Returns a converter from failures of `operation` to artifact errors.
fn to_artifact_error(operation: &'static str) -> impl Fn(Failure<ArtifactError>) -> ArtifactError {
    move |failure| {
        let failure: Failure<SessionError> = match failure {
            Failure::Rejected(error) => return error,
            Failure::Database(error) => Failure::Database(error),
            Failure::NoConnection(error) => Failure::NoConnection(error),
            Failure::Transient(what) => Failure::Transient(what),
        };
        sql::as_artifact_error(NAME, failure.into_session_error(operation))
    }
}

/// The condition that selects the rows of one artifact ($1 to $5). The index contains the hash; the
/// name is compared too, because hashes may collide.
macro_rules! by_address {
    () => {
        "app = $1 AND user_id = $2 AND session = $3 AND name_hash = $4 AND name = $5"
    };
}

/// SQL that is true unless the session $3 of the user $2 in the app $1 has expired at the time
/// `$now`, or if that is null, by the clock of the database. The user's own artifacts have
/// the session '', and no session has this id.
macro_rules! is_not_expired {
    ($now:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM retain_sessions AS owner \
             WHERE owner.app = $1 AND owner.user_id = $2 AND owner.id = $3 \
             AND owner.ttl_us IS NOT NULL AND owner.touched_us <= coalesce(",
            $now,
            "::int8, ",
            clock_us!(),
            ") - owner.ttl_us)"
        )
    };
}

/// The columns that identify an artifact.
struct ArtifactRowKey<'a> {
    address: &'a ArtifactAddress,
    session: &'a str,
    name: &'a [u8],
    hash: Vec<u8>,
}

impl<'a> ArtifactRowKey<'a> {
    fn new(address: &'a ArtifactAddress) -> ArtifactRowKey<'a> {
        ArtifactRowKey {
            address,
            session: session_column(address),
            name: address.name.as_bytes(),
            hash: Sha256::digest(address.name.as_bytes()).to_vec(),
        }
    }

    /// Returns the parameters of `by_address`, followed by `more`.
    fn params<'p>(&'p self, more: &[Param<'p>]) -> Vec<Param<'p>> {
        let mut params: Vec<Param<'_>> = vec![
            &self.address.app,
            &self.address.user,
            &self.session,
            &self.hash,
            &self.name,
        ];
        params.extend(more);
        params
    }

    /// Rejects values that are too long for the index.
    fn check(&self) -> Result<(), ArtifactError> {
        for (what, text) in [
            ("app name", self.address.app.as_str()),
            ("user id", &self.address.user),
            ("session id", self.session),
        ] {
            let (found, limit) = (text.len(), Limits::ID_BYTES_MAX);
            if found > limit {
                let reason = format!("has {found} bytes; the limit is {limit} bytes");
                return Err(ArtifactError::invalid(what, reason));
            }
        }
        Ok(())
    }
}

/// Rejects artifacts that are too large for a row.
fn check_size(data: usize, texts: usize) -> Result<(), ArtifactError> {
    let found = data + texts;
    if found > BYTES_MAX {
        let reason = format!("has {found} bytes; the limit is {BYTES_MAX} bytes");
        return Err(ArtifactError::invalid("artifact", reason));
    }
    Ok(())
}

async fn query(database: &Database, sql: &str, params: &[Param<'_>]) -> Outcome<Vec<Row>> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

const INSERT: &str = "INSERT INTO retain_artifacts (app, user_id, session, name_hash, name, \
     create_time, mime_type, custom_metadata, part, data, version) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
     ON CONFLICT DO NOTHING RETURNING version";

statements! {
    InsertStatements {
        insert: INSERT,
    }
}

/// The columns of a row that are sent as bytes.
struct RowTexts<'a> {
    mime_type: Option<&'a [u8]>,
    metadata: &'a [u8],
    part: &'a [u8],
    data: Option<&'a [u8]>,
}

impl<'a> RowTexts<'a> {
    fn new(row: &'a ArtifactRow) -> RowTexts<'a> {
        RowTexts {
            mime_type: row.mime_type.as_ref().map(String::as_bytes),
            metadata: row.custom_metadata.as_bytes(),
            part: row.part.as_bytes(),
            data: row.data.as_deref(),
        }
    }

    /// Returns the parameters of `INSERT`.
    fn params<'p>(
        &'p self,
        row_key: &'p ArtifactRowKey<'_>,
        row: &'p ArtifactRow,
        version: &'p i64,
    ) -> Vec<Param<'p>> {
        row_key.params(&[
            &row.create_time,
            &self.mime_type,
            &self.metadata,
            &self.part,
            &self.data,
            version,
        ])
    }
}

/// Inserts a version with this number; returns false if the number is taken. The caller chooses the
/// number, so that a late write of an abandoned attempt cannot insert the artifact a second time.
async fn insert(
    database: &Database,
    row_key: &ArtifactRowKey<'_>,
    row: &ArtifactRow,
    version: i64,
) -> Outcome<bool> {
    let found = query_version(database, INSERT, row_key, row, version).await?;
    Ok(!found.is_empty())
}

/// Like [`insert`], under the lock that erasures take; `None` if their number differs.
async fn insert_fenced(
    database: &Database,
    row_key: &ArtifactRowKey<'_>,
    row: &ArtifactRow,
    version: i64,
    erasures: u64,
) -> Outcome<Option<bool>> {
    let transaction = database.transaction().await?;
    let (fence, insert) = join!(
        biased; FenceStatements::prepare(&transaction), InsertStatements::prepare(&transaction)
    );
    let (fence, insert) = (fence?, insert?);
    let (begun, shared, count) = join!(
        biased;
        transaction.begin(),
        transaction.query(&fence.share, []),
        transaction.query(&fence.count, []),
    );
    begun?;
    shared?;
    let count = count?.first().map(|row| unsigned(row, 0)).transpose()?;
    if count != Some(erasures) {
        transaction.roll_back().await?;
        return Ok(None);
    }
    let texts = RowTexts::new(row);
    let params = texts.params(row_key, row, &version);
    let (inserted, committed) = join!(
        biased; transaction.query_all(&insert.insert, &params), transaction.commit()
    );
    let is_inserted = !inserted?.is_empty();
    committed?;
    transaction.release();
    Ok(Some(is_inserted))
}

/// Finds the next free version number, and the number of the newest row.
async fn find_newest(database: &Database, row_key: &ArtifactRowKey<'_>) -> Outcome<(i64, i64)> {
    const SQL: &str = concat!(
        "SELECT coalesce(max(version) + 1, 0), coalesce(max(number), 0) \
         FROM retain_artifacts WHERE ",
        by_address!()
    );
    let found = query(database, SQL, &row_key.params(&[])).await?;
    match found.first() {
        Some(row) => Ok((row.try_get(0)?, row.try_get(1)?)),
        None => Err(Failure::Transient(
            "PostgreSQL returned no row for the newest version",
        )),
    }
}

/// Whether the stored version equals this one, including its time, which means that an earlier,
/// unconfirmed attempt has saved it.
async fn is_stored(
    database: &Database,
    row_key: &ArtifactRowKey<'_>,
    row: &ArtifactRow,
    version: i64,
) -> Outcome<bool> {
    const SQL: &str = concat!(
        "SELECT version FROM retain_artifacts WHERE ",
        by_address!(),
        " AND create_time = $6 AND mime_type IS NOT DISTINCT FROM $7 AND custom_metadata = $8 \
         AND part = $9 AND data IS NOT DISTINCT FROM $10 AND version = $11"
    );
    let found = query_version(database, SQL, row_key, row, version).await?;
    Ok(!found.is_empty())
}

async fn query_version(
    database: &Database,
    sql: &str,
    row_key: &ArtifactRowKey<'_>,
    row: &ArtifactRow,
    version: i64,
) -> Outcome<Vec<Row>> {
    let texts = RowTexts::new(row);
    query(database, sql, &texts.params(row_key, row, &version)).await
}

/// Saves the next version; returns `None` if users were erased since their number was `erasures`.
async fn put(
    database: &Database,
    row_key: &ArtifactRowKey<'_>,
    row: &ArtifactRow,
    erasures: Option<u64>,
) -> Outcome<Option<u64>> {
    let (mut retry, mut version, mut is_unsure) = (Retry::new(database), None, false);
    loop {
        let saved = async {
            let number = match version {
                Some(number) => number,
                None => find_newest(database, row_key).await?.0,
            };
            version = Some(number);
            let inserted = match erasures {
                None => insert(database, row_key, row, number).await?,
                Some(erasures) => {
                    let inserted = insert_fenced(database, row_key, row, number, erasures).await?;
                    match inserted {
                        Some(inserted) => inserted,
                        None => return Ok((None, false)),
                    }
                }
            };
            let is_saved =
                inserted || (is_unsure && is_stored(database, row_key, row, number).await?);
            Ok((Some(number), is_saved))
        };
        match saved.await {
            Ok((Some(number), true)) => return Ok(Some(number as u64)),
            Ok((None, _)) => return Ok(None),
            // A concurrent save took the number: retry immediately with the next one.
            Ok((Some(_), false)) => (version, is_unsure) = (None, false),
            Err(failure) => {
                retry.wait_or_fail(failure).await?;
                is_unsure = true;
            }
        }
    }
}

async fn get(
    database: &Database,
    address: &ArtifactAddress,
    version: Option<u64>,
    now_us: Option<i64>,
) -> Outcome<Option<StoredArtifact>> {
    const SQL: &str = concat!(
        "SELECT version, part, data FROM retain_artifacts WHERE ",
        by_address!(),
        " AND ($6::int8 IS NULL OR version = $6) AND ",
        is_not_expired!("$7"),
        " ORDER BY version DESC LIMIT 1"
    );
    // -1 matches no row, as does every version above `i64::MAX`.
    let version = version.map(|version| i64::try_from(version).unwrap_or(-1));
    let row_key = ArtifactRowKey::new(address);
    let found = query(database, SQL, &row_key.params(&[&version, &now_us])).await?;
    let Some(row) = found.first() else {
        return Ok(None);
    };
    let version = row.try_get::<_, i64>(0)? as u64;
    let part = decode_text(address, version, row.try_get(1)?)?;
    let data: Option<&[u8]> = row.try_get(2)?;
    sql::charge_data(data.map_or(0, <[u8]>::len)).map_err(ArtifactError::from)?;
    let data = data.map(Bytes::from);
    Ok(Some(sql::decode_artifact(address, version, part, data)?))
}

async fn versions(
    database: &Database,
    address: &ArtifactAddress,
    now_us: Option<i64>,
) -> Outcome<Vec<ArtifactVersion>> {
    const SQL: &str = concat!(
        "SELECT version, create_time, mime_type, custom_metadata FROM retain_artifacts WHERE ",
        by_address!(),
        " AND ",
        is_not_expired!("$6"),
        " ORDER BY version"
    );
    let row_key = ArtifactRowKey::new(address);
    let mut versions = Vec::new();
    for row in query(database, SQL, &row_key.params(&[&now_us])).await? {
        let version = row.try_get::<_, i64>(0)? as u64;
        let mime_type: Option<&[u8]> = row.try_get(2)?;
        let mime_type =
            mime_type.map(|bytes| decode_text(address, version, bytes).map(str::to_owned));
        let metadata = decode_text(address, version, row.try_get(3)?)?;
        let (create_time, mime_type) = (row.try_get(1)?, mime_type.transpose()?);
        versions.push(sql::decode_version(
            address,
            version,
            create_time,
            mime_type,
            metadata,
        )?);
    }
    Ok(versions)
}

/// Decodes bytes of a version as UTF-8 text.
fn decode_text<'a>(
    address: &ArtifactAddress,
    version: u64,
    bytes: &'a [u8],
) -> Result<&'a str, ArtifactError> {
    std::str::from_utf8(bytes).map_err(|e| sql::corrupt(address, version, e))
}

/// Deletes all versions up to the newest. The row number limits the delete, so that a delayed
/// attempt deletes no later version.
async fn delete(database: &Database, address: &ArtifactAddress) -> Outcome<()> {
    const SQL: &str = concat!(
        "DELETE FROM retain_artifacts WHERE ",
        by_address!(),
        " AND number <= $6"
    );
    let row_key = ArtifactRowKey::new(address);
    let (_, newest) = find_newest(database, &row_key).await?;
    query(database, SQL, &row_key.params(&[&newest]))
        .await
        .map(drop)
}

async fn list(
    database: &Database,
    app: &str,
    user: &str,
    session: &str,
    now_us: Option<i64>,
) -> Outcome<Vec<String>> {
    const SQL: &str = concat!(
        "SELECT DISTINCT name FROM retain_artifacts WHERE app = $1 AND user_id = $2 \
         AND (session = '' OR session = $3 AND ",
        is_not_expired!("$4"),
        ")"
    );
    let mut names = Vec::new();
    for row in query(database, SQL, &[&app, &user, &session, &now_us]).await? {
        let name = String::from_utf8(row.try_get(0)?).map_err(|error| ArtifactError::Store {
            store: NAME,
            operation: "list artifacts",
            source: BoxError::from(error),
        })?;
        names.push(name);
    }
    Ok(names)
}

/// Deletes the artifacts of the sessions with the numbers $1. Must run before the sessions are
/// deleted, because it reads their keys.
pub(super) const DELETE_OF_SESSIONS: &str = "DELETE FROM retain_artifacts a \
     USING retain_sessions s WHERE s.number = ANY($1) AND a.app = s.app \
     AND a.user_id = s.user_id AND a.session = s.id";

/// Deletes up to 64 artifact versions of user $2 in app $1.
pub(super) const ERASE_CHUNK: &str = "DELETE FROM retain_artifacts WHERE number IN \
     (SELECT number FROM retain_artifacts WHERE app = $1 AND user_id = $2 LIMIT 64)";

async fn erase_chunk(database: &Database, app: &str, user: &str) -> Outcome<u64> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(ERASE_CHUNK).await?;
    Ok(client.execute(&statement, &[&app, &user]).await?)
}

/// Sums the bytes of all versions. Reads no content.
async fn stored_bytes(database: &Database, app: &str, user: Option<&str>) -> Outcome<u64> {
    const SUM: &str = "SELECT coalesce(sum(coalesce(octet_length(data), 0) + octet_length(part) \
                       + octet_length(custom_metadata)), 0)::int8 \
                       FROM retain_artifacts WHERE app = $1";
    let found = match user {
        None => query(database, SUM, &[&app]).await?,
        Some(user) => {
            let sql = format!("{SUM} AND user_id = $2");
            query(database, &sql, &[&app, &user]).await?
        }
    };
    match found.first() {
        Some(row) => Ok(row.try_get::<_, i64>(0)? as u64),
        None => Err(Failure::Transient("PostgreSQL returned no sum")),
    }
}

impl PostgresArtifactStore {
    async fn save(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
        erasures: Option<u64>,
    ) -> Result<Option<u64>, ArtifactError> {
        let (row_key, row) = (ArtifactRowKey::new(address), ArtifactRow::from_new(new)?);
        row_key.check()?;
        let data = row.data.as_ref().map_or(0, |data| data.len());
        check_size(data, row.part.len() + row.custom_metadata.len())?;
        let saved = put(&self.database, &row_key, &row, erasures).await;
        saved.map_err(to_artifact_error("save an artifact"))
    }
}

#[async_trait]
impl ArtifactStore for PostgresArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Exact
    }

    async fn put(&self, address: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        Ok(self.save(address, new, None).await?.unwrap_or_default())
    }

    async fn erasures(&self) -> Result<u64, ArtifactError> {
        retry!(erase::count_erasures(&self.database)).map_err(to_artifact_error("count erasures"))
    }

    async fn put_unless_erased(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
        erasures: u64,
    ) -> Result<Option<u64>, ArtifactError> {
        self.save(address, new, Some(erasures)).await
    }

    fn label(&self) -> StoreLabel {
        erase::label(&self.uri)
    }

    async fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let now_us = self.now_us();
        retry!(get(&self.database, address, version, now_us))
            .map_err(to_artifact_error("load an artifact"))
    }

    async fn versions(
        &self,
        address: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        retry!(versions(&self.database, address, self.now_us()))
            .map_err(to_artifact_error("list artifact versions"))
    }

    async fn delete(&self, address: &ArtifactAddress) -> Result<(), ArtifactError> {
        retry!(delete(&self.database, address)).map_err(to_artifact_error("delete an artifact"))
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let session = session.unwrap_or_default();
        let now_us = self.now_us();
        retry!(list(&self.database, app, user, session, now_us))
            .map_err(to_artifact_error("list artifacts"))
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        let corrupt = |name: &[u8]| ArtifactError::Corrupt {
            address: String::from_utf8_lossy(name).into_owned(),
            version: 0,
            source: "its name is not valid UTF-8".into(),
        };
        let now_us = self.now_us();
        let database = &self.database;
        retry!(addresses::artifacts(
            database, after, limit, now_us, corrupt
        ))
        .map_err(to_artifact_error("list artifacts"))
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, ArtifactError> {
        retry!(stored_bytes(&self.database, app, user)).map_err(to_artifact_error("measure usage"))
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt, ArtifactError> {
        let counted = retry!(erase::add_erasure(&self.database));
        counted.map_err(to_artifact_error("erase a user"))?;
        let mut receipt = EraseReceipt::default();
        loop {
            // Erase in chunks, so that each statement stays short.
            let chunk = retry!(erase_chunk(&self.database, app, user));
            match chunk.map_err(to_artifact_error("erase a user"))? {
                0 => break,
                more => receipt.artifacts += more,
            }
        }
        receipt.unfinished = erase::vacuum_or_note(&self.database).await;
        Ok(receipt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact_address(app: String, session: String) -> ArtifactAddress {
        ArtifactAddress {
            app,
            user: "ada".to_owned(),
            session: Some(session),
            name: "a".repeat(70_000),
            filename: String::new(),
        }
    }

    #[test]
    fn id_too_long_for_the_index_is_rejected() {
        let most = "x".repeat(Limits::ID_BYTES_MAX);
        let fits = artifact_address(most.clone(), most.clone());
        ArtifactRowKey::new(&fits).check().unwrap();
        for address in [
            artifact_address(format!("{most}x"), "s".to_owned()),
            artifact_address("app".to_owned(), format!("{most}x")),
        ] {
            let error = ArtifactRowKey::new(&address).check().unwrap_err();
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
