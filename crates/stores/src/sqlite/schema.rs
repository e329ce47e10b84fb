//! The schema: its migrations, and the check that this program may use a file.

use std::cmp::Ordering;

use retain_core::{Result, SchemaReport};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{SqliteOptions, open::Opener};
use crate::sql::schema::{AppliedMigration, Migration, Schema, too_old, with_test_migration};

/// The application id that marks a file as a Retain database: "Retn" in ASCII.
const APPLICATION_ID: i32 = 0x5265_746e;

/// The migrations in order.
const MIGRATIONS: &[Migration] = &[
    Migration::expanding(
        "create-sessions",
        include_str!("migrations/0001_create-sessions.sql"),
    ),
    Migration::expanding(
        "create-artifacts",
        include_str!("migrations/0002_create-artifacts.sql"),
    ),
    Migration::expanding(
        "create-memories",
        include_str!("migrations/0003_create-memories.sql"),
    ),
    Migration::expanding(
        "create-api-keys",
        include_str!("migrations/0004_create-api-keys.sql"),
    ),
    Migration::expanding(
        "record-migrations",
        include_str!("migrations/0005_record-migrations.sql"),
    ),
    Migration::expanding(
        "record-pending-work",
        include_str!("migrations/0006_record-pending-work.sql"),
    ),
];

/// The version after all migrations.
pub(super) const VERSION: u64 = MIGRATIONS.len() as u64;

/// The first version whose databases record their migrations. Older databases have only a version
/// number.
const RECORDED_FROM: u64 = 5;

fn migrations() -> Vec<Migration> {
    with_test_migration(
        MIGRATIONS,
        include_str!("migrations/test_expand.sql"),
        include_str!("migrations/test_contract.sql"),
    )
}

/// Fails if the file was deleted or this program must not use its schema any more. A deleted file
/// stays usable through open connections, but its data is lost when they close.
pub(super) fn check_ready(options: &SqliteOptions, connection: &Connection) -> Result<()> {
    let opener = Opener { options };
    if options.path.as_ref().is_some_and(|path| !path.is_file()) {
        return Err(opener.reject("the file was deleted; new writes will be lost"));
    }
    opener.check_current(connection)
}

/// Describes the schema of the file.
pub(super) fn report(options: &SqliteOptions, connection: &Connection) -> Result<SchemaReport> {
    let migrations = migrations();
    let schema = Opener { options }.read_schema(connection, &migrations)?;
    Ok(schema.report(&migrations))
}

/// Creates an empty database in memory with the migrations that the file has. Also returns whether
/// a newer program has upgraded the file.
pub(super) fn create_fresh(
    options: &SqliteOptions,
    connection: &Connection,
) -> Result<(Connection, bool)> {
    let opener = Opener { options };
    let migrations = migrations();
    let schema = opener.read_schema(connection, &migrations)?;
    let create = || -> rusqlite::Result<Connection> {
        let fresh = Connection::open_in_memory()?;
        for (migration, version) in migrations.iter().zip(1..=schema.version) {
            fresh.execute_batch(migration.expand)?;
            let is_finished = !schema.unfinished.contains(&version);
            if let Some(contract) = migration.contract.filter(|_| is_finished) {
                fresh.execute_batch(contract)?;
            }
        }
        Ok(fresh)
    };
    let fresh = create().map_err(|e| opener.error("SQLite failed to create a schema", e))?;
    Ok((fresh, schema.version > migrations.len() as u64))
}

/// Runs the pending contract halves. Programs of older schema versions cannot use the file
/// afterwards.
pub(super) fn finish(options: &SqliteOptions, connection: &Connection) -> Result<()> {
    let opener = Opener { options };
    let migrations = migrations();
    let failed = |error| opener.error("SQLite failed to upgrade the database", error);
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(failed)?;
    let schema = opener.read_schema(&transaction, &migrations)?;
    contract(&transaction, &migrations, &schema).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Runs the pending contract halves inside a transaction.
fn contract(
    transaction: &Transaction<'_>,
    migrations: &[Migration],
    schema: &Schema,
) -> rusqlite::Result<()> {
    for version in &schema.unfinished {
        let migration = migrations.get(*version as usize - 1);
        if let Some(contract) = migration.and_then(|migration| migration.contract) {
            transaction.execute_batch(contract)?;
        }
        let sql = "UPDATE retain_migrations SET oldest_program = version WHERE version = ?1";
        transaction.execute(sql, [version])?;
    }
    Ok(())
}

fn read_version(connection: &Connection) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Reads the applied migrations. A file too old to record them has only the schema version.
fn read_applied(connection: &Connection) -> rusqlite::Result<Vec<AppliedMigration>> {
    let version = read_version(connection)?;
    if version < RECORDED_FROM {
        let known = MIGRATIONS.iter().zip(1..=version);
        return Ok(known
            .map(|(migration, version)| AppliedMigration::expanded(migration, version))
            .collect());
    }
    let sql = "SELECT version, name, checksum, oldest_program, program FROM retain_migrations \
               ORDER BY version";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(AppliedMigration {
            version: row.get(0)?,
            name: row.get(1)?,
            checksum: row.get(2)?,
            oldest_program: row.get(3)?,
            program: row.get(4)?,
        })
    })?;
    rows.collect()
}

fn record(transaction: &Transaction<'_>, applied: &AppliedMigration) -> rusqlite::Result<()> {
    let sql = "INSERT INTO retain_migrations (version, name, checksum, oldest_program, program) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let AppliedMigration {
        version,
        name,
        checksum,
        oldest_program,
        program,
    } = applied;
    let row = (version, name, checksum, oldest_program, program);
    transaction.execute(sql, row).map(drop)
}

impl Opener<'_> {
    /// Rejects a file that is not a database, belongs to another program or is too new, without
    /// changing it.
    pub(super) fn check_owner(&self, connection: &Connection) -> Result<()> {
        if self.check_application(connection)? {
            self.read_schema(connection, &migrations())?;
        }
        Ok(())
    }

    /// Returns true for a Retain database and false for an empty file. Rejects any other file.
    pub(super) fn check_application(&self, connection: &Connection) -> Result<bool> {
        // Read from one snapshot, because another process may be creating the database now.
        let snapshot = connection.unchecked_transaction();
        let connection =
            &*snapshot.map_err(|e| self.error("SQLite failed to read the database", e))?;
        let id = connection.pragma_query_value(None, "application_id", |row| row.get(0));
        let id: i32 = id.map_err(|e| self.error("SQLite failed to read the database", e))?;
        if id == APPLICATION_ID {
            return Ok(true);
        }
        let tables = self
            .tables(connection)
            .map_err(|e| self.error("SQLite failed to read the database", e))?;
        if tables.is_empty() && id == 0 {
            return Ok(false);
        }
        let has = |name: &str| tables.iter().any(|table| table == name);
        let reason = if has("adk_internal_metadata") || (has("sessions") && has("events")) {
            "the file is a session database of Google's ADK, not of Retain, and was not changed; \
             choose another file name"
        } else {
            "the file is a database of another program and was not changed; choose another name"
        };
        Err(self.reject(reason))
    }

    fn tables(&self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut statement = connection.prepare(sql)?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    }

    /// Reads the schema. Fails if this program must not use the file.
    fn read_schema(&self, connection: &Connection, migrations: &[Migration]) -> Result<Schema> {
        let read = || {
            // Another process may be migrating the file, so read the version and the list of
            // migrations from one snapshot.
            let _snapshot = match connection.is_autocommit() {
                true => Some(connection.unchecked_transaction()?),
                false => None,
            };
            Ok((read_version(connection)?, read_applied(connection)?))
        };
        let (version, applied) =
            read().map_err(|e| self.error("SQLite failed to read the database", e))?;
        if version != applied.len() as u64 {
            let recorded = applied.len();
            return Err(self.reject(format!(
                "the database has schema version {version}, but records {recorded} migrations; \
                 restore a backup"
            )));
        }
        Schema::read(migrations, &applied).map_err(|reason| self.reject(reason))
    }

    /// Fails unless this program can read the schema without upgrading it.
    pub(super) fn check_current(&self, connection: &Connection) -> Result<()> {
        let migrations = migrations();
        let (version, supported) = (
            self.read_schema(connection, &migrations)?.version,
            migrations.len() as u64,
        );
        match version >= supported {
            true => Ok(()),
            false => Err(self.reject(too_old(version, supported))),
        }
    }

    /// Runs the missing migrations, each in its own transaction. Several processes may migrate
    /// concurrently. If none is missing, this takes no write lock and so waits for no writer.
    pub(super) fn migrate(&self, connection: &Connection) -> Result<()> {
        let migrations = migrations();
        let version = self.read_schema(connection, &migrations)?.version;
        if version >= migrations.len() as u64 {
            return Ok(());
        }
        while self.migrate_one(connection, &migrations)? {}
        Ok(())
    }

    /// Runs the next migration; false if there is none.
    fn migrate_one(&self, connection: &Connection, migrations: &[Migration]) -> Result<bool> {
        let failed = |error| self.error("SQLite failed to upgrade the database", error);
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        let transaction = transaction.map_err(failed)?;
        let schema = self.read_schema(&transaction, migrations)?;
        let Some(migration) = migrations.get(schema.version as usize) else {
            return Ok(false);
        };
        let version = schema.version + 1;
        let migrate = || -> rusqlite::Result<()> {
            // A program that is two versions older cannot use the new schema, so nothing needs the
            // old half any more.
            contract(&transaction, migrations, &schema)?;
            transaction.execute_batch(migration.expand)?;
            let versions = match version.cmp(&RECORDED_FROM) {
                Ordering::Less => 1..1,
                // This version adds the table of migrations, which also records the earlier ones.
                Ordering::Equal => 1..version + 1,
                Ordering::Greater => version..version + 1,
            };
            for (migration, version) in migrations.iter().zip(1..) {
                if versions.contains(&version) {
                    record(
                        &transaction,
                        &AppliedMigration::expanded(migration, version),
                    )?;
                }
            }
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", version)
        };
        migrate().map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::MIGRATIONS;
    use crate::sql::schema::assert_unchanged;

    #[test]
    fn released_migration_is_unchanged() {
        let expected = [
            ("create-sessions", "2c40d73d77fe7427"),
            ("create-artifacts", "565d670a9bdce6e0"),
            ("create-memories", "9fac47a1ba3ca7cd"),
            ("create-api-keys", "0bef3c4c7a87071e"),
            ("record-migrations", "a27289cae16d759b"),
            ("record-pending-work", "dc17899b07d4c477"),
        ];
        assert_unchanged(MIGRATIONS, &expected);
    }
}
