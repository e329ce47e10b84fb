//! The schema: its migrations, and the check that a file has the current one.

use retain_core::Result;
use rusqlite::{Connection, TransactionBehavior};

use super::{SqliteOptions, open::Opener};

/// The application id that marks a file as a Retain database: "Retn" in ASCII.
const APPLICATION_ID: i32 = 0x5265_746e;

/// The migrations in order. A released migration never changes.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_create-sessions.sql"),
    include_str!("migrations/0002_create-artifacts.sql"),
    include_str!("migrations/0003_create-memories.sql"),
    include_str!("migrations/0004_create-api-keys.sql"),
];

/// Fails if the file was deleted or its schema is not the current one. A deleted file stays usable
/// through open connections, but its data is lost when they close.
pub(super) fn check_ready(options: &SqliteOptions, connection: &Connection) -> Result<()> {
    let opener = Opener { options };
    if options.path.as_ref().is_some_and(|path| !path.is_file()) {
        return Err(opener.reject("the file was deleted; new writes will be lost"));
    }
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let version: usize = version.map_err(|e| opener.error("cannot be read", e))?;
    if version != MIGRATIONS.len() {
        let current = MIGRATIONS.len();
        return Err(opener.reject(format!(
            "its schema version is now {version}, this program supports {current}; restart with a version of Retain that supports it"
        )));
    }
    Ok(())
}

impl Opener<'_> {
    /// Rejects a file that is not a database or belongs to another program, without changing it.
    pub(super) fn check_owner(&self, connection: &Connection) -> Result<()> {
        // Read from one snapshot, because another process may be creating the database now.
        let snapshot = connection.unchecked_transaction();
        let connection = &*snapshot.map_err(|e| self.error("cannot be read", e))?;
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        let id: i32 = pragma("application_id").map_err(|e| self.error("cannot be read", e))?;
        let version = pragma("user_version").map_err(|e| self.error("cannot be read", e))?;
        if id == APPLICATION_ID {
            if usize::try_from(version).is_ok_and(|version| version > MIGRATIONS.len()) {
                let current = MIGRATIONS.len();
                return Err(self.reject(format!(
                    "was written by a newer version of Retain (schema {version}, this one supports {current}); upgrade Retain"
                )));
            }
            return Ok(());
        }
        let tables = self
            .tables(connection)
            .map_err(|e| self.error("cannot be read", e))?;
        if tables.is_empty() && id == 0 {
            return Ok(());
        }
        let has = |name: &str| tables.iter().any(|table| table == name);
        let reason = if has("adk_internal_metadata") || (has("sessions") && has("events")) {
            "is a session database of Google's ADK, not of Retain, and was not changed; \
             choose another file name"
        } else {
            "is a database of another program and was not changed; choose another file name"
        };
        Err(self.reject(reason))
    }

    fn tables(&self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut statement = connection.prepare(sql)?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    }

    /// Fails unless the schema is the current one.
    pub(super) fn check_current(&self, connection: &Connection) -> Result<()> {
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let version: usize = version.map_err(|e| self.error("cannot be read", e))?;
        if version == MIGRATIONS.len() {
            return Ok(());
        }
        let current = MIGRATIONS.len();
        Err(self.reject(format!(
            "its schema version is {version}, this program reads {current}; run `retain check` to migrate it"
        )))
    }

    /// Runs the missing migrations, each in its own transaction. Several processes may migrate at
    /// once. If the schema is current, this takes no write lock and so waits for no writer.
    pub(super) fn migrate(&self, connection: &mut Connection) -> Result<()> {
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let version: usize = version.map_err(|e| self.error("cannot be read", e))?;
        if version == MIGRATIONS.len() {
            return Ok(());
        }
        let mut step = || -> rusqlite::Result<bool> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let version: usize =
                transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
            let Some(migration) = MIGRATIONS.get(version) else {
                return Ok(false);
            };
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", version + 1)?;
            transaction.commit()?;
            Ok(true)
        };
        while step().map_err(|e| self.error("cannot be migrated", e))? {}
        Ok(())
    }
}
