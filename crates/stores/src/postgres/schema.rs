//! Migrates and checks the schema.
//!
//! Each migration is one transaction. An advisory lock serializes replicas that start concurrently.

use deadpool_postgres::Object;
use retain_core::{BoxError, SessionError};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{IsolationLevel, error::SqlState};

use super::{
    PostgresOptions,
    pool::{Database, Failure, Retry},
};

/// A schema migration. A released one must not change: databases store its checksum.
struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// The migrations in order; the first results in version 1.
const MIGRATIONS: [Migration; 1] = [Migration {
    name: "create-tables",
    sql: include_str!("migrations/0001_create-tables.sql"),
}];

/// The table of applied migrations.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS retain_migrations (
  version  bigint NOT NULL PRIMARY KEY,
  name     text   NOT NULL,
  checksum text   NOT NULL -- SHA-256 of the migration
)";

/// Takes the advisory lock of migrations until the end of the transaction. The number identifies
/// Retain's lock. Appends do not take it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8224139420318976)";

/// Set before the lock is taken: the server aborts the transaction of a replica that hangs in a
/// migration, and replicas that wait for the lock time out and retry.
const LOCK_TIMEOUTS: &str = "SET LOCAL idle_in_transaction_session_timeout = '10s'; \
                    SET LOCAL lock_timeout = '12s'";

/// A migration that waits for a table lock blocks all readers and writers that come after it, so it
/// times out soon and retries.
const TABLE_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";

/// The schema of a database.
#[derive(Debug, PartialEq, Eq)]
enum Schema {
    /// The database has no Retain tables.
    Absent,
    /// Number of applied migrations, all with the expected checksums.
    Version(usize),
}

/// Applies all missing migrations.
pub(super) async fn migrate(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let mut retry = Retry::new(database);
    loop {
        match apply_next(database, options).await {
            Ok(true) => (),
            Ok(false) => return Ok(()),
            Err(failure) => retry.wait_or_fail(failure).await?,
        }
    }
}

/// Fails unless the schema has the version that this program needs.
pub(super) async fn check(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let client = database.connection().await?;
    match read_schema(&client, options).await? {
        Schema::Version(version) if version == MIGRATIONS.len() => Ok(()),
        Schema::Version(version) => {
            let reason = format!(
                "the database has schema version {version}, but this program needs {}; start \
                 `retain serve` once to migrate it",
                MIGRATIONS.len()
            );
            Err(open_error(options, reason).into())
        }
        Schema::Absent => {
            let reason = "the database has no Retain tables; check the database name";
            Err(open_error(options, reason).into())
        }
    }
}

/// Whether the database has Retain tables, of any version.
pub(super) async fn exists(
    database: &Database,
    options: &PostgresOptions,
) -> Result<bool, Failure> {
    let client = database.connection().await?;
    Ok(read_schema(&client, options).await? != Schema::Absent)
}

/// Applies the next migration; false if the schema is up to date.
async fn apply_next(database: &Database, options: &PostgresOptions) -> Result<bool, Failure> {
    let up_to_date = Schema::Version(MIGRATIONS.len());
    let mut client = database.connection().await?;
    // If the schema is current, take no lock.
    if read_schema(&client, options).await? == up_to_date {
        return Ok(false);
    }
    // With READ COMMITTED, the query after the lock sees the migrations of earlier lock holders.
    let transaction = client.build_transaction();
    let transaction = transaction.isolation_level(IsolationLevel::ReadCommitted);
    let transaction = transaction.read_only(false).start().await?;
    transaction.batch_execute(LOCK_TIMEOUTS).await?;
    transaction.batch_execute(LOCK).await?;
    transaction.batch_execute(TABLE_TIMEOUT).await?;
    transaction.batch_execute(TABLE).await?;
    let rows = transaction.query(APPLIED, &[]).await?;
    let Schema::Version(version) = decode_schema(options, &rows)? else {
        return Ok(true);
    };
    let Some(migration) = MIGRATIONS.get(version) else {
        return Ok(false);
    };
    transaction.batch_execute(migration.sql).await?;
    let row = "INSERT INTO retain_migrations (version, name, checksum) VALUES ($1, $2, $3)";
    let (number, checksum) = (version as i64 + 1, checksum(migration));
    transaction
        .execute(row, &[&number, &migration.name, &checksum])
        .await?;
    transaction.commit().await?;
    Ok(true)
}

const APPLIED: &str = "SELECT version, name, checksum FROM retain_migrations ORDER BY version";

async fn read_schema(client: &Object, options: &PostgresOptions) -> Result<Schema, Failure> {
    match client.query(APPLIED, &[]).await {
        Ok(rows) => Ok(decode_schema(options, &rows)?),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(Schema::Absent),
        Err(error) => Err(error.into()),
    }
}

fn decode_schema(
    options: &PostgresOptions,
    rows: &[tokio_postgres::Row],
) -> Result<Schema, SessionError> {
    let unreadable = |error: tokio_postgres::Error| SessionError::Open {
        uri: options.uri(),
        reason: "the table retain_migrations was not created by Retain; use another database"
            .to_owned(),
        source: Some(Box::new(error)),
    };
    for (at, row) in rows.iter().enumerate() {
        let version: i64 = row.try_get(0).map_err(unreadable)?;
        let name: String = row.try_get(1).map_err(unreadable)?;
        let found: String = row.try_get(2).map_err(unreadable)?;
        let migration = MIGRATIONS.get(at).filter(|_| version == at as i64 + 1);
        let Some(migration) = migration else {
            let reason = format!(
                "the database has schema version {version} ({name}), created by a newer version of \
                 Retain; this program supports versions up to {}; use the newer program",
                MIGRATIONS.len()
            );
            return Err(open_error(options, reason));
        };
        if found != checksum(migration) {
            let reason = format!(
                "migration {version} ({name}) of the database differs from that of this program: \
                 its checksum is {found}; use the program that created the database"
            );
            return Err(open_error(options, reason));
        }
    }
    Ok(Schema::Version(rows.len()))
}

fn checksum(migration: &Migration) -> String {
    let hash = Sha256::digest(migration.sql.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open_error(options: &PostgresOptions, reason: impl Into<String>) -> SessionError {
    SessionError::Open {
        uri: options.uri(),
        reason: reason.into(),
        source: None,
    }
}

/// Converts a failure to open the database into an error that tells the user what to do.
pub(super) fn into_open_error(options: &PostgresOptions, failure: Failure) -> SessionError {
    let code = match &failure {
        Failure::Database(error) => error.code().cloned(),
        _ => None,
    };
    let reason = match code.as_ref().map(SqlState::code) {
        Some("28P01" | "28000") => "authentication failed; check the user name and password",
        Some("3D000") => "the database does not exist; create it first",
        Some("42501") => "permission denied; grant the role the right to create tables",
        Some(_) => "the server returned an error",
        None => "cannot connect to the server",
    };
    let source: BoxError = match failure {
        Failure::Rejected(error) => return error,
        failure => failure.cause(),
    };
    SessionError::Open {
        uri: options.uri(),
        reason: format!("{reason}: {}", root_cause(&*source)),
        source: Some(source),
    }
}

/// Returns the text of the root cause. The driver's own text is often only "db error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_migration_is_unchanged() {
        let found: Vec<(&str, String)> = MIGRATIONS
            .iter()
            .map(|migration| (migration.name, checksum(migration)[..16].to_owned()))
            .collect();
        assert_eq!(found, [("create-tables", "97ad2e7329892178".to_owned())]);
    }
}
