//! The schema: its migrations, and the check that a file has the current one.

use retain_core::Result;
use rusqlite::{Connection, TransactionBehavior};

use super::{SqliteOptions, open::Opener};

/// Marks a file as ours: "Retn".
const APPLICATION_ID: i32 = 0x5265_746e;

/// The schema, step by step. A released step is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_create-sessions.sql"),
    include_str!("migrations/0002_create-artifacts.sql"),
    include_str!("migrations/0003_create-memories.sql"),
    include_str!("migrations/0004_create-api-keys.sql"),
];

/// Whether what `connection` reads is the database that stands at its path, in the form that this
/// program knows. A file that was removed can be written and read by those who have it open, and is
/// gone when they end.
pub(super) fn check_ready(options: &SqliteOptions, connection: &Connection) -> Result<()> {
    let opener = Opener { options };
    if options.path.as_ref().is_some_and(|path| !path.is_file()) {
        return Err(opener.refuse("the file is gone; what is written now will be lost"));
    }
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let version: usize = version.map_err(|e| opener.error("cannot be read", e))?;
    if version != MIGRATIONS.len() {
        let known = MIGRATIONS.len();
        return Err(opener.refuse(format!(
            "its schema is {version} by now and this program knows {known}; restart with a Retain that knows it"
        )));
    }
    Ok(())
}

impl Opener<'_> {
    /// Rejects, without changing it, a file that is not a database or belongs to another program.
    pub(super) fn check_ours(&self, connection: &Connection) -> Result<()> {
        // One snapshot: another process may be creating the database at this moment.
        let snapshot = connection.unchecked_transaction();
        let connection = &*snapshot.map_err(|e| self.error("cannot be read", e))?;
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        let id: i32 = pragma("application_id").map_err(|e| self.error("cannot be read", e))?;
        let version = pragma("user_version").map_err(|e| self.error("cannot be read", e))?;
        if id == APPLICATION_ID {
            if usize::try_from(version).is_ok_and(|version| version > MIGRATIONS.len()) {
                let known = MIGRATIONS.len();
                return Err(self.refuse(format!(
                    "was written by a newer version of Retain (schema {version}, this one knows {known}); upgrade Retain"
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
            "is a session database of Google's ADK, not of Retain, and is left as it is; \
             give another file name"
        } else {
            "is a database of another program and is left as it is; give another file name"
        };
        Err(self.refuse(reason))
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
        let known = MIGRATIONS.len();
        Err(self.refuse(format!(
            "its schema is {version} and this program reads {known}; `retain check` brings it up to date"
        )))
    }

    /// Brings the schema up to date, one transaction a step. Several processes may try at once. Where
    /// there is nothing to do, nobody who writes is waited for.
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
        while step().map_err(|e| self.error("cannot be brought up to date", e))? {}
        Ok(())
    }
}
