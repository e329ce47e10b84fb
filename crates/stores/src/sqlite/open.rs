//! Opens a database file: looks first, changes nothing that is not ours, then migrates.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use retain_core::{Result, SessionError};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{Durability, SqliteOptions};

/// Marks a file as ours: "Retn".
const APPLICATION_ID: i32 = 0x5265_746e;

/// The schema, step by step. A released step is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_create-sessions.sql"),
    include_str!("migrations/0002_create-artifacts.sql"),
    include_str!("migrations/0003_create-memories.sql"),
    include_str!("migrations/0004_create-api-keys.sql"),
];

/// How long a statement waits for another process that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the database for writing, creating or migrating it where needed.
pub(super) fn open_writer(options: &SqliteOptions) -> Result<Connection> {
    let opener = Opener { options };
    opener.check_path()?;
    if options.read_only {
        return opener.look_only();
    }
    let mut connection =
        opener.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    opener.check_ours(&connection)?;
    opener.configure(&connection)?;
    opener.migrate(&mut connection)?;
    Ok(connection)
}

/// Opens the database, which must be there, for work that neither the writer nor a reader does.
pub(super) fn open_existing(options: &SqliteOptions) -> Result<Connection> {
    let flags = match options.read_only {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    Opener { options }.connect(flags)
}

/// Opens the database for reading.
pub(super) fn open_reader(options: &SqliteOptions) -> Result<Connection> {
    let opener = Opener { options };
    let connection = open_existing(options)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|e| opener.error("cannot be read", e))?;
    Ok(connection)
}

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

struct Opener<'a> {
    options: &'a SqliteOptions,
}

impl Opener<'_> {
    fn check_path(&self) -> Result<()> {
        let Some(path) = &self.options.path else {
            return Ok(());
        };
        if path.is_dir() {
            return Err(self.refuse("is a directory; give the path of a file in it"));
        }
        if self.options.must_exist && !path.exists() {
            return Err(self.refuse("there is no such file"));
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        if let Some(folder) = folder
            && !folder.is_dir()
        {
            let folder = folder.display();
            return Err(self.refuse(format!(
                "the folder {folder} does not exist; create it first"
            )));
        }
        Ok(())
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match &self.options.path {
            None => Connection::open_in_memory(),
            Some(path) => Connection::open_with_flags(path, flags),
        };
        let connection = connection.map_err(|e| self.error("cannot be opened", e))?;
        let prepared = connection.busy_timeout(BUSY_TIMEOUT).and_then(|()| {
            connection.set_prepared_statement_cache_capacity(64);
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "trusted_schema", false)
        });
        prepared.map_err(|e| self.error("cannot be opened", e))?;
        Ok(connection)
    }

    /// Opens the database as it is.
    fn look_only(&self) -> Result<Connection> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        self.check_ours(&connection)?;
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let version: usize = version.map_err(|e| self.error("cannot be read", e))?;
        if version != MIGRATIONS.len() {
            let known = MIGRATIONS.len();
            return Err(self.refuse(format!(
                "its schema is {version} and this program reads {known}; `retain check` brings it up to date"
            )));
        }
        Ok(connection)
    }

    /// Refuses, untouched, a file that is no database or another program's.
    fn check_ours(&self, connection: &Connection) -> Result<()> {
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

    fn configure(&self, connection: &Connection) -> Result<()> {
        let read_only = connection.is_readonly(rusqlite::MAIN_DB);
        if read_only.map_err(|e| self.error("cannot be opened", e))? {
            return Err(self.refuse("is read-only; make it writable"));
        }
        let synchronous = match self.options.durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off => "OFF",
        };
        let configured = || {
            // Readers and the writer do not wait for one another.
            self.enter_wal_mode(connection)?;
            // NORMAL would lose what was acknowledged when the power fails.
            connection.pragma_update(None, "synchronous", synchronous)?;
            // Pages that many appends change are copied back once, not every few appends.
            let pages = self.options.checkpoint_pages;
            connection.pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()))?;
            connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
            // What is deleted is overwritten where that costs no further write.
            connection.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))
        };
        configured().map_err(|e| self.error("cannot be written", e))
    }

    /// SQLite does not wait for another process that changes the mode at the same moment; we do.
    fn enter_wal_mode(&self, connection: &Connection) -> rusqlite::Result<()> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            let entered =
                connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
            match entered {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && Instant::now() < deadline =>
                {
                    #[allow(clippy::disallowed_methods, reason = "opening blocks by nature")]
                    std::thread::sleep(Duration::from_millis(10));
                }
                entered => return entered,
            }
        }
    }

    /// Brings the schema up to date, one transaction a step. Several processes may try at once. Where
    /// there is nothing to do, nobody who writes is waited for.
    fn migrate(&self, connection: &mut Connection) -> Result<()> {
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

    fn refuse(&self, reason: impl Into<String>) -> SessionError {
        SessionError::Open {
            uri: self.options.uri(),
            reason: reason.into(),
            source: None,
        }
    }

    fn error(&self, what: &str, error: rusqlite::Error) -> SessionError {
        let reason = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                "is not a SQLite database; give another file name".into()
            }
            Some(ErrorCode::ReadOnly) => "is read-only; make file and folder writable".into(),
            Some(ErrorCode::CannotOpen) => {
                format!("{what}; check that the folder exists and may be written")
            }
            Some(ErrorCode::DatabaseBusy) => {
                format!("{what}: another program keeps it locked; try again later")
            }
            Some(ErrorCode::DatabaseCorrupt) => format!("{what}: the file is damaged"),
            _ => what.to_owned(),
        };
        SessionError::Open {
            uri: self.options.uri(),
            reason,
            source: Some(Box::new(error)),
        }
    }
}
