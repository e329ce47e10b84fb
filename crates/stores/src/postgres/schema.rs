//! The schema, step by step. Several replicas may start at once; each step is one transaction, and
//! one replica at a time takes it.

use deadpool_postgres::Object;
use retain_core::{BoxError, SessionError};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{IsolationLevel, error::SqlState};

use super::{
    PostgresOptions,
    pool::{Database, Failure, Retry},
};

/// A step of the schema. Once released it is never changed: its checksum is in databases.
struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// The steps, in order; the first brings a database to version 1.
const MIGRATIONS: [Migration; 1] = [Migration {
    name: "create-tables",
    sql: include_str!("migrations/0001_create-tables.sql"),
}];

/// Which steps a database has taken.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS retain_migrations (
  version  bigint NOT NULL PRIMARY KEY,
  name     text   NOT NULL,
  checksum text   NOT NULL -- SHA-256 of the step
)";

/// A migrating process holds this lock, by a number that only Retain uses. It ends with the
/// transaction; appends do not take it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8224139420318976)";

/// Said before anything is locked: a replica that stands still in the middle of a step is ended by the
/// server, and who waits for it asks again instead of status there for good.
const CARE: &str = "SET LOCAL idle_in_transaction_session_timeout = '10s'; \
                    SET LOCAL lock_timeout = '12s'";

/// A step that cannot have its tables at once makes way: others read and write behind it in line.
const PATIENCE: &str = "SET LOCAL lock_timeout = '2s'";

/// What is known of a database.
#[derive(Debug, PartialEq, Eq)]
enum Schema {
    /// There is nothing of ours.
    Absent,
    /// So many steps were taken, all of them as we know them.
    Version(usize),
}

/// Brings the schema up to date.
pub(super) async fn migrate(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let mut retry = Retry::new(database);
    loop {
        match step(database, options).await {
            Ok(true) => (),
            Ok(false) => return Ok(()),
            Err(failure) => retry.again(failure).await?,
        }
    }
}

/// Fails unless the schema is the one that this program knows.
pub(super) async fn check(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let client = database.connection().await?;
    match look(&client, options).await? {
        Schema::Version(version) if version == MIGRATIONS.len() => Ok(()),
        Schema::Version(version) => {
            let reason = format!(
                "has schema version {version}, and this program needs {}; start `retain serve` \
                 once to bring it up to date",
                MIGRATIONS.len()
            );
            Err(refuse(options, reason).into())
        }
        Schema::Absent => {
            let reason = "holds no database of Retain; check the name of the database";
            Err(refuse(options, reason).into())
        }
    }
}

/// Whether there are tables of ours, of whichever version.
pub(super) async fn is_there(
    database: &Database,
    options: &PostgresOptions,
) -> Result<bool, Failure> {
    let client = database.connection().await?;
    Ok(look(&client, options).await? != Schema::Absent)
}

/// Takes the next step; false if there is none.
async fn step(database: &Database, options: &PostgresOptions) -> Result<bool, Failure> {
    let up_to_date = Schema::Version(MIGRATIONS.len());
    let mut client = database.connection().await?;
    // A current schema needs no lock.
    if look(&client, options).await? == up_to_date {
        return Ok(false);
    }
    // What is read behind the lock must be what those before have written.
    let transaction = client.build_transaction();
    let transaction = transaction.isolation_level(IsolationLevel::ReadCommitted);
    let transaction = transaction.read_only(false).start().await?;
    transaction.batch_execute(CARE).await?;
    transaction.batch_execute(LOCK).await?;
    transaction.batch_execute(PATIENCE).await?;
    transaction.batch_execute(TABLE).await?;
    let rows = transaction.query(STEPS, &[]).await?;
    let Schema::Version(version) = schema(options, &rows)? else {
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

const STEPS: &str = "SELECT version, name, checksum FROM retain_migrations ORDER BY version";

/// Which steps were taken.
async fn look(client: &Object, options: &PostgresOptions) -> Result<Schema, Failure> {
    match client.query(STEPS, &[]).await {
        Ok(rows) => Ok(schema(options, &rows)?),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(Schema::Absent),
        Err(error) => Err(error.into()),
    }
}

fn schema(options: &PostgresOptions, rows: &[tokio_postgres::Row]) -> Result<Schema, SessionError> {
    let unreadable = |error: tokio_postgres::Error| SessionError::Open {
        uri: options.uri(),
        reason: "has a table retain_migrations that is not Retain's".to_owned(),
        source: Some(Box::new(error)),
    };
    for (at, row) in rows.iter().enumerate() {
        let version: i64 = row.try_get(0).map_err(unreadable)?;
        let name: String = row.try_get(1).map_err(unreadable)?;
        let found: String = row.try_get(2).map_err(unreadable)?;
        let known = MIGRATIONS.get(at).filter(|_| version == at as i64 + 1);
        let Some(known) = known else {
            let reason = format!(
                "has schema version {version} ({name}), made by a newer version of Retain; this \
                 one knows versions up to {}. Use the newer program",
                MIGRATIONS.len()
            );
            return Err(refuse(options, reason));
        };
        if found != checksum(known) {
            let reason = format!(
                "was set up by a step {version} ({name}) that is not the one this program knows: \
                 its checksum is {found}. Use the program that made it"
            );
            return Err(refuse(options, reason));
        }
    }
    Ok(Schema::Version(rows.len()))
}

fn checksum(migration: &Migration) -> String {
    let hash = Sha256::digest(migration.sql.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refuse(options: &PostgresOptions, reason: impl Into<String>) -> SessionError {
    SessionError::Open {
        uri: options.uri(),
        reason: reason.into(),
        source: None,
    }
}

/// Why the database cannot be opened, with what to do about it.
pub(super) fn cannot_open(options: &PostgresOptions, failure: Failure) -> SessionError {
    let code = match &failure {
        Failure::Database(error) => error.code().cloned(),
        _ => None,
    };
    let code = code.as_ref().map(SqlState::code);
    let reason = match (failure, code) {
        (Failure::Decided(error), _) => return error,
        (failure, Some("28P01" | "28000")) => ("the server lets nobody in like this", failure),
        (failure, Some("3D000")) => ("there is no such database; create it first", failure),
        (failure, Some("42501")) => ("the role may not create tables there", failure),
        (failure, Some(_)) => ("the server refuses", failure),
        (failure, None) => ("the server cannot be reached", failure),
    };
    let source: BoxError = reason.1.cause();
    SessionError::Open {
        uri: options.uri(),
        reason: format!("{}: {}", reason.0, innermost(&*source)),
        source: Some(source),
    }
}

/// What happened at the bottom: the driver's own words say little.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
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
