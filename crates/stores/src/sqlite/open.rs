//! Opens a database file: checks that it belongs to Retain, then configures and migrates it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use retain_core::{Result, SessionError};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{Durability, SqliteOptions};

/// Maximum time that a statement waits for the write lock of another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the database for writing, creating or migrating it where needed.
pub(super) fn open_writer(options: &SqliteOptions) -> Result<Connection> {
    let opener = Opener { options };
    opener.check_path()?;
    if options.read_only {
        return opener.open_read_only();
    }
    let connection =
        opener.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    opener.check_owner(&connection)?;
    opener.configure(&connection)?;
    opener.migrate(&connection)?;
    Ok(connection)
}

/// Opens an existing file of any schema version for reading.
pub(super) fn open_any_version(options: &SqliteOptions) -> Result<Connection> {
    let options = options.clone().read_only();
    let opener = Opener { options: &options };
    opener.check_path()?;
    let connection = opener.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    opener.check_application(&connection)?;
    Ok(connection)
}

/// Opens a connection to an existing database, outside of the writer and the pool of readers.
pub(super) fn open_existing(options: &SqliteOptions) -> Result<Connection> {
    let flags = if options.read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    };
    Opener { options }.connect(flags)
}

/// Opens the database for reading.
pub(super) fn open_reader(options: &SqliteOptions) -> Result<Connection> {
    let opener = Opener { options };
    let connection = open_existing(options)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|e| opener.error("SQLite failed to read the database", e))?;
    Ok(connection)
}

/// Opens one database, and creates errors that name it.
pub(super) struct Opener<'a> {
    pub(super) options: &'a SqliteOptions,
}

impl Opener<'_> {
    fn check_path(&self) -> Result<()> {
        let Some(path) = &self.options.path else {
            return Ok(());
        };
        if path.is_dir() {
            return Err(self.reject("the path is a folder; add a file name to the path"));
        }
        if self.options.must_exist && !path.exists() {
            return Err(self.reject("the file does not exist; check the path"));
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        if let Some(folder) = folder
            && !folder.is_dir()
        {
            let folder = folder.display();
            return Err(self.reject(format!(
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
        let connection =
            connection.map_err(|e| self.error("SQLite failed to open the database", e))?;
        let prepared = connection.busy_timeout(BUSY_TIMEOUT).and_then(|()| {
            connection.set_prepared_statement_cache_capacity(64);
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "trusted_schema", false)
        });
        prepared.map_err(|e| self.error("SQLite failed to open the database", e))?;
        Ok(connection)
    }

    /// Opens the database without migrating it.
    fn open_read_only(&self) -> Result<Connection> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        self.check_owner(&connection)?;
        self.check_current(&connection)?;
        Ok(connection)
    }

    fn configure(&self, connection: &Connection) -> Result<()> {
        let read_only = connection.is_readonly(rusqlite::MAIN_DB);
        if read_only.map_err(|e| self.error("SQLite failed to open the database", e))? {
            return Err(self.reject("the file is read-only; make it writable"));
        }
        let synchronous = match self.options.durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
            Durability::Off => "OFF",
        };
        let configured = || {
            // In WAL mode, readers and the writer do not block each other.
            self.enter_wal_mode(connection)?;
            // With NORMAL, a power failure can lose acknowledged writes.
            connection.pragma_update(None, "synchronous", synchronous)?;
            // With rare checkpoints, SQLite copies a page once even if many appends changed it.
            let pages = self.options.checkpoint_pages;
            connection.pragma_update_and_check(None, "wal_autocheckpoint", pages, |_| Ok(()))?;
            connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
            // FAST overwrites deleted content if that needs no extra I/O.
            connection.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))
        };
        configured().map_err(|e| self.error("SQLite failed to write to the database", e))
    }

    /// Switches to WAL mode. Retries while another process does the same, because the busy timeout
    /// does not apply here.
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

    pub(super) fn reject(&self, reason: impl Into<String>) -> SessionError {
        SessionError::Open {
            uri: self.options.uri(),
            reason: reason.into(),
            source: None,
        }
    }

    pub(super) fn error(&self, what: &str, error: rusqlite::Error) -> SessionError {
        let reason = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                "the file is not a SQLite database; give another file name".into()
            }
            Some(ErrorCode::ReadOnly) => {
                "the file is read-only; make the file and its folder writable".into()
            }
            Some(ErrorCode::CannotOpen) => {
                format!("{what}; check that the folder exists and is writable")
            }
            Some(ErrorCode::DatabaseBusy) => {
                format!("{what}: another process holds the lock; try again later")
            }
            Some(ErrorCode::DatabaseCorrupt) => {
                format!("{what}: the file is corrupt; restore a backup")
            }
            _ => what.to_owned(),
        };
        SessionError::Open {
            uri: self.options.uri(),
            reason,
            source: Some(Box::new(error)),
        }
    }
}
