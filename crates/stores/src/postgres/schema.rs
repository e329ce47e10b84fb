//! Migrates and checks the schema.
//!
//! Each migration is one transaction. An advisory lock serializes replicas that start concurrently.

use deadpool_postgres::{Object, Transaction};
use retain_core::{BoxError, SchemaReport, SessionError};
use tokio_postgres::{IsolationLevel, error::SqlState, types::ToSql};

use super::{
    PostgresOptions,
    pool::{Database, Failure, Retry},
};
use crate::sql::schema::{AppliedMigration, Migration, Schema, too_old, with_test_migration};

/// The migrations in order; the first results in version 1.
const MIGRATIONS: &[Migration] = &[
    Migration::expanding(
        "create-tables",
        include_str!("migrations/0001_create-tables.sql"),
    ),
    Migration::expanding(
        "record-programs",
        include_str!("migrations/0002_record-programs.sql"),
    ),
    Migration::expanding(
        "record-pending-work",
        include_str!("migrations/0003_record-pending-work.sql"),
    ),
];

/// The first version whose databases record which programs work on them.
const PROGRAMS_FROM: u64 = 2;

fn migrations() -> Vec<Migration> {
    with_test_migration(
        MIGRATIONS,
        include_str!("migrations/test_expand.sql"),
        include_str!("migrations/test_contract.sql"),
    )
}

/// The table of applied migrations.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS retain_migrations (
  version  bigint NOT NULL PRIMARY KEY,
  name     text   NOT NULL,
  checksum text   NOT NULL -- SHA-256 of the migration
)";

/// The statement that takes the advisory lock of migrations until the end of the transaction. The
/// number identifies Retain's lock. Appends do not take it.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8224139420318976)";

/// Time limits that are set before the lock is taken. PostgreSQL aborts the transaction of a
/// replica that hangs in a migration; replicas that wait for the lock time out and retry.
const LOCK_TIMEOUTS: &str = "SET LOCAL idle_in_transaction_session_timeout = '10s'; \
                    SET LOCAL lock_timeout = '12s'";

/// The table lock timeout of a migration. It is short, because a migration that waits for a table
/// lock blocks all later readers and writers. The migration then retries.
const TABLE_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";

/// Runs all missing migrations.
pub(super) async fn migrate(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let migrations = migrations();
    let mut retry = Retry::new(database);
    loop {
        match migrate_one(database, options, &migrations).await {
            Ok(true) => (),
            Ok(false) => return Ok(()),
            Err(failure) => retry.wait_or_fail(failure).await?,
        }
    }
}

/// Runs the pending contract halves. Programs of older schema versions cannot use the database
/// afterwards.
pub(super) async fn finish(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let migrations = migrations();
    let mut retry = Retry::new(database);
    loop {
        match finish_once(database, options, &migrations).await {
            Ok(()) => return Ok(()),
            Err(failure) => retry.wait_or_fail(failure).await?,
        }
    }
}

/// Fails unless this program can use the schema without upgrading it.
pub(super) async fn check(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let migrations = migrations();
    let client = database.connection().await?;
    let supported = migrations.len() as u64;
    match read_schema(&client, options, &migrations).await? {
        Some(schema) if schema.version >= supported => Ok(()),
        Some(schema) => Err(open_error(options, too_old(schema.version, supported)).into()),
        None => {
            let reason = "the database has no Retain tables; check the database name";
            Err(open_error(options, reason).into())
        }
    }
}

/// Describes the schema of the database.
pub(super) async fn report(
    database: &Database,
    options: &PostgresOptions,
) -> Result<SchemaReport, Failure> {
    let migrations = migrations();
    let client = database.connection().await?;
    let schema = read_schema(&client, options, &migrations).await?;
    Ok(schema.unwrap_or_default().report(&migrations))
}

/// Returns the statements that create the schema that the database has. Also returns whether a newer
/// program has upgraded it.
pub(super) async fn fresh_statements(
    database: &Database,
    options: &PostgresOptions,
) -> Result<(Vec<&'static str>, bool), Failure> {
    let migrations = migrations();
    let client = database.connection().await?;
    let schema = read_schema(&client, options, &migrations).await?;
    let schema = schema.unwrap_or_default();
    let mut statements = vec![TABLE];
    for (migration, version) in migrations.iter().zip(1..=schema.version) {
        statements.push(migration.expand);
        let is_finished = !schema.unfinished.contains(&version);
        statements.extend(migration.contract.filter(|_| is_finished));
    }
    Ok((statements, schema.version > migrations.len() as u64))
}

/// Whether the database has Retain tables, of any version.
pub(super) async fn exists(
    database: &Database,
    options: &PostgresOptions,
) -> Result<bool, Failure> {
    let client = database.connection().await?;
    Ok(read_schema(&client, options, &migrations())
        .await?
        .is_some())
}

/// Runs the next migration; false if there is none.
async fn migrate_one(
    database: &Database,
    options: &PostgresOptions,
    migrations: &[Migration],
) -> Result<bool, Failure> {
    let mut client = database.connection().await?;
    // A schema without missing migrations needs no lock.
    let schema = read_schema(&client, options, migrations).await?;
    if schema.is_some_and(|schema| schema.version >= migrations.len() as u64) {
        return Ok(false);
    }
    let (transaction, schema) = lock(&mut client, options, migrations).await?;
    let Some(migration) = migrations.get(schema.version as usize) else {
        return Ok(false);
    };
    // A program that is two versions older cannot use the new schema, so nothing needs the old half
    // any more.
    contract(&transaction, migrations, &schema).await?;
    transaction.batch_execute(migration.expand).await?;
    record(&transaction, migration, schema.version + 1).await?;
    transaction.commit().await?;
    Ok(true)
}

async fn finish_once(
    database: &Database,
    options: &PostgresOptions,
    migrations: &[Migration],
) -> Result<(), Failure> {
    let mut client = database.connection().await?;
    let (transaction, schema) = lock(&mut client, options, migrations).await?;
    contract(&transaction, migrations, &schema).await?;
    Ok(transaction.commit().await?)
}

/// Begins a transaction with the lock of migrations, and reads the schema in it.
async fn lock<'a>(
    client: &'a mut Object,
    options: &PostgresOptions,
    migrations: &[Migration],
) -> Result<(Transaction<'a>, Schema), Failure> {
    // The query after the lock must see the migrations of earlier holders.
    let transaction = client.build_transaction();
    let transaction = transaction.isolation_level(IsolationLevel::ReadCommitted);
    let transaction = transaction.read_only(false).start().await?;
    transaction.batch_execute(LOCK_TIMEOUTS).await?;
    transaction.batch_execute(LOCK).await?;
    transaction.batch_execute(TABLE_TIMEOUT).await?;
    transaction.batch_execute(TABLE).await?;
    let rows = transaction.query(APPLIED, &[]).await?;
    let schema = decode_schema(options, &rows, migrations)?;
    Ok((transaction, schema))
}

/// Runs the pending contract halves inside a transaction.
async fn contract(
    transaction: &Transaction<'_>,
    migrations: &[Migration],
    schema: &Schema,
) -> Result<(), Failure> {
    for version in &schema.unfinished {
        let migration = migrations.get(*version as usize - 1);
        if let Some(contract) = migration.and_then(|migration| migration.contract) {
            transaction.batch_execute(contract).await?;
        }
        let sql = "UPDATE retain_migrations SET oldest_program = version WHERE version = $1";
        transaction.execute(sql, &[&(*version as i64)]).await?;
    }
    Ok(())
}

async fn record(
    transaction: &Transaction<'_>,
    migration: &Migration,
    version: u64,
) -> Result<(), Failure> {
    let row = AppliedMigration::expanded(migration, version);
    let number = version as i64;
    let sql = "INSERT INTO retain_migrations (version, name, checksum) VALUES ($1, $2, $3)";
    let params: [&(dyn ToSql + Sync); 3] = [&number, &row.name, &row.checksum];
    transaction.execute(sql, &params).await?;
    if version >= PROGRAMS_FROM {
        let sql = "UPDATE retain_migrations SET oldest_program = $2, program = $3 \
                   WHERE version = $1";
        let params: [&(dyn ToSql + Sync); 3] =
            [&number, &(row.oldest_program as i64), &row.program];
        transaction.execute(sql, &params).await?;
    }
    Ok(())
}

/// Reads the applied migrations. Version 1 has no columns for programs, so they are read as JSON.
const APPLIED: &str = "SELECT version, name, checksum, \
    coalesce((to_jsonb(m) ->> 'oldest_program')::int8, 0), \
    coalesce(to_jsonb(m) ->> 'program', '') FROM retain_migrations m ORDER BY version";

/// Reads the schema; `None` if the database has no Retain tables.
async fn read_schema(
    client: &Object,
    options: &PostgresOptions,
    migrations: &[Migration],
) -> Result<Option<Schema>, Failure> {
    match client.query(APPLIED, &[]).await {
        Ok(rows) => Ok(Some(decode_schema(options, &rows, migrations)?)),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn decode_schema(
    options: &PostgresOptions,
    rows: &[tokio_postgres::Row],
    migrations: &[Migration],
) -> Result<Schema, SessionError> {
    let applied: Result<Vec<AppliedMigration>, _> = rows.iter().map(decode_row).collect();
    let applied = applied.map_err(|error| SessionError::Open {
        uri: options.uri(),
        reason: "the database has a table retain_migrations that Retain did not create".to_owned(),
        source: Some(error),
    })?;
    Schema::read(migrations, &applied).map_err(|reason| open_error(options, reason))
}

fn decode_row(row: &tokio_postgres::Row) -> Result<AppliedMigration, BoxError> {
    Ok(AppliedMigration {
        version: u64::try_from(row.try_get::<_, i64>(0)?)?,
        name: row.try_get(1)?,
        checksum: row.try_get(2)?,
        oldest_program: u64::try_from(row.try_get::<_, i64>(3)?)?,
        program: row.try_get(4)?,
    })
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
        Some(_) => "PostgreSQL returned an error",
        None => "the connection to PostgreSQL failed",
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
    use super::MIGRATIONS;
    use crate::sql::schema::assert_unchanged;

    #[test]
    fn released_migration_is_unchanged() {
        let expected = [
            ("create-tables", "97ad2e7329892178"),
            ("record-programs", "e09c267714420499"),
            ("record-pending-work", "cc275981555cd733"),
        ];
        assert_unchanged(MIGRATIONS, &expected);
    }
}
