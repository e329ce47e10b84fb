//! The SQLite store, the embedded default: sessions, memories, artifacts and API keys in one file.
//!
//! Writes go through `writer`, which batches queued jobs into one transaction. Reads go through
//! `readers`, each in one snapshot. The other modules read and write the rows.

mod addresses;
mod append;
mod artifacts;
mod backup;
mod check;
mod create;
mod delete;
mod draft;
mod erase;
mod fork;
mod free_space;
mod keys;
mod lease;
mod list;
mod memory;
mod open;
mod options;
mod pending;
mod read;
mod readers;
mod rows;
mod schema;
mod state;
mod state_text_cache;
mod tail;
mod uri;
mod usage;
mod writer;

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    AppendOutcome, Batch, ChangeHub, ConnectStore, DraftId, EraseReceipt, EventLookup,
    ExpiredSession, ExpiryReceipt, FreeSpace, Head, JsonMap, LeaseUpdate, ListQuery, Listing,
    Location, LogHeader, MaintenanceStore, NewEvent, NewSession, PendingStatistics, Problem,
    ReadDetail, Result, SchemaReport, ScopedState, SessionError, SessionKey, SessionStore,
    SessionWork, Snapshot, StateOwner, StoreLabel, StoreSessionService, TaskLease, TransferStore,
    Usage, Window,
};
use rusqlite::ErrorCode;

pub use artifacts::{SqliteArtifactService, SqliteArtifactStore};
pub use free_space::{DiskSpace, SpaceProbe};
pub use keys::SqliteKeyStore;
pub use memory::SqliteMemoryStore;
pub use options::{Durability, SqliteOptions};
use readers::Readers;
use state_text_cache::StateTextCache;
use tail::ForeignWrites;
use writer::Writer;

/// The store's name in errors.
const NAME: &str = "sqlite";

/// The estimated size of a state key with its value, to admit the creation of a session.
const STATE_KEY_BYTES: usize = 1024;

/// Maximum number of events in a small read. Such a read is faster than moving the runtime's other
/// tasks to another thread.
const SMALL_READ: usize = 16;

/// Sessions in a SQLite file, durable when acknowledged.
///
/// ```
/// # #[tokio::main] async fn main() -> retain_core::Result<()> {
/// use retain_core::{Event, GetSessionConfig, SessionService as _};
/// let sessions = retain_stores::SqliteSessionService::connect("sqlite::memory:").await?;
/// let mut session = sessions.create_session("app", "ada", None, Some("s1")).await?;
/// sessions.append_event(&mut session, Event::user_text("hello")).await?;
/// let read = sessions.get_session("app", "ada", "s1", GetSessionConfig::default()).await?;
/// assert_eq!(read.unwrap().events.len(), 1);
/// # Ok(()) }
/// ```
pub type SqliteSessionService = StoreSessionService<SqliteStore>;

/// The store behind [`SqliteSessionService`].
pub struct SqliteStore {
    options: SqliteOptions,
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    hub: ChangeHub,
    foreign_writes: ForeignWrites,
    state_texts: Arc<StateTextCache>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore")
            .field(&self.options.uri())
            .finish()
    }
}

impl SqliteStore {
    /// Opens the database, creating or migrating it where needed.
    pub async fn open(options: SqliteOptions) -> Result<SqliteStore> {
        let writer_options = options.clone();
        let connection = readers::blocking("open the database", move || {
            open::open_writer(&writer_options)
        });
        let writer = Arc::new(Writer::start(options.clone(), connection.await?)?);
        let store = SqliteStore {
            readers: Arc::new(Readers::new(options.clone(), Arc::clone(&writer))),
            hub: ChangeHub::default(),
            foreign_writes: ForeignWrites::default(),
            state_texts: Arc::default(),
            writer,
            options,
        };
        if !store.options.read_only && store.has_purgeable_logs().await? {
            match store.purge().await {
                // Another process holds the write lock. Deleted sessions are invisible, so their
                // logs can stay until the next purge.
                Err(error) if is_busy(&error) => {}
                purged => purged?,
            }
        }
        Ok(store)
    }

    /// Whether a log must be purged. Only reads, so it does not wait for the write lock.
    async fn has_purgeable_logs(&self) -> Result<bool> {
        let now_us = self.now_us();
        let check =
            move |connection: &rusqlite::Connection| delete::has_purgeable_logs(connection, now_us);
        self.readers.read("purge deleted sessions", check).await
    }

    /// Writes a snapshot of a file to a new file at `path`, whatever schema version the file has.
    /// The file is not changed; readers and writers are not blocked. The copy is synced to disk when
    /// this returns.
    pub async fn backup_file(options: SqliteOptions, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref().to_owned();
        readers::blocking("back up the database", move || {
            backup::backup(&open::open_any_version(&options)?, &path)
        })
        .await
    }

    /// The schema version that this program creates.
    pub(crate) const SCHEMA_VERSION: u64 = schema::VERSION;

    /// Reads the schema version of a file, whatever it is.
    pub(crate) fn file_schema_version(path: &Path) -> Result<u64> {
        let connection = open::open_any_version(&SqliteOptions::file(path))?;
        let version: rusqlite::Result<u64> =
            connection.pragma_query_value(None, "user_version", |row| row.get(0));
        version.map_err(|e| failed("read the schema", e))
    }

    /// Writes a snapshot of the whole database to a new file at `path`, without blocking readers
    /// and writers. The copy is synced to disk when this returns.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref().to_owned();
        if self.options.path.is_none() {
            let work = move |connection: &rusqlite::Connection| backup::backup(connection, &path);
            return self
                .writer
                .run_exclusive("back up the database", work)
                .await;
        }
        let options = self.options.clone();
        readers::blocking("back up the database", move || {
            backup::backup(&open::open_existing(&options)?, &path)
        })
        .await
    }

    /// Deletes the rows of a user in chunks, so that other writes can run in between.
    async fn erase_rows(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let mut receipt = EraseReceipt::default();
        loop {
            let (app, user) = (app.to_owned(), user.to_owned());
            let erase = move |connection: &rusqlite::Connection| {
                erase::erase_chunk(connection, &app, &user)
            };
            let (chunk, erased) = self.writer.write("erase a user", erase).await?;
            erased.iter().for_each(|key| self.hub.notify(key));
            receipt += chunk;
            self.purge().await?;
            if chunk == EraseReceipt::default() {
                return Ok(receipt);
            }
        }
    }

    fn now_us(&self) -> i64 {
        self.options.clock.now_us()
    }

    /// Deletes the logs of deleted sessions, one chunk per transaction.
    async fn purge(&self) -> Result<()> {
        loop {
            let now_us = self.now_us();
            let purged = self
                .writer
                .write("purge deleted sessions", move |connection| {
                    delete::purge_chunk(connection, now_us)
                });
            if !purged.await? {
                return Ok(());
            }
        }
    }
}

/// Whether a write failed because another process held the write lock.
fn is_busy(error: &SessionError) -> bool {
    let SessionError::Store { source, .. } = error else {
        return false;
    };
    let source = source.downcast_ref::<rusqlite::Error>();
    source.is_some_and(|source| source.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
}

/// Converts an error of SQLite; a full disk has its own error class.
fn failed(operation: &'static str, error: rusqlite::Error) -> SessionError {
    let source = Box::new(error);
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => SessionError::Full {
            store: NAME,
            operation,
            source,
        },
        _ => SessionError::Store {
            store: NAME,
            operation,
            source,
        },
    }
}

#[async_trait]
impl ConnectStore for SqliteStore {
    async fn connect(uri: &str) -> Result<SqliteStore> {
        SqliteStore::open(SqliteOptions::from_uri(uri)?).await
    }
}

#[async_trait]
impl SessionStore for SqliteStore {
    fn name(&self) -> &'static str {
        NAME
    }

    fn label(&self) -> StoreLabel {
        erase::label(&self.options.uri(), self.options.path.is_some())
    }

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        let (now_us, bytes) = (self.now_us(), new.initial.len() * STATE_KEY_BYTES);
        let create =
            move |connection: &rusqlite::Connection| create::create(connection, &new, now_us);
        self.writer.add("create a session", bytes, create).await
    }

    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        want: ReadDetail,
    ) -> Result<Option<Snapshot>> {
        let (key, now_us) = (key.clone(), self.now_us());
        let read = move |connection: &rusqlite::Connection| {
            read::session(connection, &key, window, want, now_us)
        };
        match window.newest {
            Some(newest) if newest <= SMALL_READ => {
                self.readers.read_small("read a session", read).await
            }
            _ => self.readers.read("read a session", read).await,
        }
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        let (query, now_us) = (query.clone(), self.now_us());
        let states = Arc::clone(&self.state_texts);
        let list = move |connection: &rusqlite::Connection| {
            list::list(connection, &query, now_us, &states)
        };
        self.readers.read("list sessions", list).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let (job_key, now_us) = (key.clone(), self.now_us());
        let delete =
            move |connection: &rusqlite::Connection| delete::delete(connection, &job_key, now_us);
        let deleted = self.writer.write("delete a session", delete).await?;
        self.hub.notify(key);
        self.purge().await?;
        Ok(deleted)
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome> {
        let bytes = batch.events.iter().map(|new| new.body.len()).sum();
        let (job_key, batch, now_us) = (key.clone(), Arc::clone(batch), self.now_us());
        let append = move |connection: &rusqlite::Connection| {
            append::append(connection, &job_key, &batch, now_us)
        };
        let outcome = match bytes {
            // It only takes or releases a lease.
            0 => self.writer.write("append events", append).await?,
            bytes => self.writer.add("append events", bytes, append).await?,
        };
        // An append that only queued for the lease has not changed the log.
        if matches!(outcome, AppendOutcome::Done { .. }) {
            self.hub.notify(key);
        }
        Ok(outcome)
    }

    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()> {
        let (job_key, update, now_us) = (key.clone(), update.clone(), self.now_us());
        let operation = lease::operation(&update);
        let update = move |connection: &rusqlite::Connection| {
            lease::update(connection, &job_key, &update, now_us)
        };
        self.writer.write(operation, update).await?;
        self.hub.notify(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        let (app, user) = (app.to_owned(), user.unwrap_or_default().to_owned());
        let read =
            move |connection: &rusqlite::Connection| read::shared_state(connection, &app, &user);
        self.readers.read("read state", read).await
    }

    async fn find_events(
        &self,
        key: &SessionKey,
        lookup: &EventLookup,
    ) -> Result<Vec<Option<u64>>> {
        let (key, lookup, now_us) = (key.clone(), lookup.clone(), self.now_us());
        let find = move |connection: &rusqlite::Connection| {
            read::find_events(connection, &key, &lookup, now_us)
        };
        self.readers.read("find events", find).await
    }

    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head> {
        let (origin, now_us) = (origin.clone(), self.now_us());
        let key = SessionKey::new(&origin.app, &origin.user, id);
        let fork = move |connection: &rusqlite::Connection| {
            fork::fork(connection, &origin, position, &key, create_time, now_us)
        };
        // The size of the copy is unknown; a write that fails for lack of space stores nothing.
        self.writer.add("fork a session", 0, fork).await
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let mut receipt = self.erase_rows(app, user).await?;
        self.writer
            .write("erase a user", erase::add_erasure)
            .await?;
        // Delete the memories and artifacts that were written for a session before it was deleted.
        receipt += self.erase_rows(app, user).await?;
        // Evict after the deletion: a concurrent list may have cached rows that still existed.
        self.state_texts.evict(app, user);
        receipt.unfinished = erase::rewrite_file(&self.writer, &self.readers).await?;
        Ok(receipt)
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<Usage> {
        let (app, user, now_us) = (app.to_owned(), user.map(str::to_owned), self.now_us());
        let count = move |connection: &rusqlite::Connection| {
            usage::count(connection, &app, user.as_deref(), now_us)
        };
        self.readers.read(usage::COUNT, count).await
    }

    async fn log_bytes(&self, key: &SessionKey, position: u64) -> Result<u64> {
        let (key, now_us) = (key.clone(), self.now_us());
        let count = move |connection: &rusqlite::Connection| {
            usage::count_log_bytes(connection, &key, position, now_us)
        };
        self.readers.read(usage::COUNT, count).await
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        tail::changed(self, key, position).await;
    }

    async fn flush(&self) -> Result<()> {
        // Acknowledged writes are already on disk. An empty job waits for the queued jobs.
        self.writer.write("flush the writes", |_| Ok(())).await
    }

    async fn ready(&self) -> Result<()> {
        let options = self.options.clone();
        let check =
            move |connection: &rusqlite::Connection| schema::check_ready(&options, connection);
        self.readers.read("check the schema", check).await
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.writer.free_space()
    }

    fn transfer(&self) -> Result<&dyn TransferStore> {
        Ok(self)
    }

    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        Ok(self)
    }
}

#[async_trait]
impl MaintenanceStore for SqliteStore {
    async fn pending_work(&self, after: u64, limit: usize) -> Result<Vec<SessionWork>> {
        let now_us = self.now_us();
        let find = move |connection: &rusqlite::Connection| {
            pending::find(connection, after, limit, now_us)
        };
        self.readers.read("find pending work", find).await
    }

    async fn pending_statistics(&self) -> Result<PendingStatistics> {
        let now_us = self.now_us();
        let count =
            move |connection: &rusqlite::Connection| pending::statistics(connection, now_us);
        self.readers.read("count pending work", count).await
    }

    async fn finish_work(&self, done: &SessionWork) -> Result<()> {
        let done = done.clone();
        let finish = move |connection: &rusqlite::Connection| pending::finish(connection, &done);
        self.writer.write("finish pending work", finish).await
    }

    async fn update_task_lease(&self, lease: &TaskLease) -> Result<bool> {
        let (lease, now_us) = (lease.clone(), self.now_us());
        let update =
            move |connection: &rusqlite::Connection| lease::update_task(connection, &lease, now_us);
        self.writer.write(lease::TASK, update).await
    }

    async fn expired(&self, after: u64, limit: usize) -> Result<Vec<ExpiredSession>> {
        let now_us = self.now_us();
        let find = move |connection: &rusqlite::Connection| {
            delete::expired(connection, after, limit, now_us)
        };
        self.readers.read("find expired sessions", find).await
    }

    async fn delete_expired(&self, sessions: &[ExpiredSession]) -> Result<ExpiryReceipt> {
        let (job_sessions, now_us) = (sessions.to_vec(), self.now_us());
        let delete = move |connection: &rusqlite::Connection| {
            delete::delete_expired(connection, &job_sessions, now_us)
        };
        let deleted = self.writer.write("delete expired sessions", delete).await?;
        sessions
            .iter()
            .for_each(|session| self.hub.notify(&session.key));
        self.purge().await?;
        Ok(deleted)
    }

    async fn is_expired(&self, key: &SessionKey) -> Result<bool> {
        let (key, now_us) = (key.clone(), self.now_us());
        let look =
            move |connection: &rusqlite::Connection| delete::is_expired(connection, &key, now_us);
        self.readers
            .read_small("look for an expired session", look)
            .await
    }
}

#[async_trait]
impl TransferStore for SqliteStore {
    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        let (key, now_us) = (key.clone(), self.now_us());
        let read =
            move |connection: &rusqlite::Connection| read::log_header(connection, &key, now_us);
        self.readers.read("read a session", read).await
    }

    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId> {
        let (key, now_us) = (key.clone(), self.now_us());
        let begin = move |connection: &rusqlite::Connection| draft::begin(connection, &key, now_us);
        self.writer.add("begin an import", 0, begin).await
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        let bytes = events.iter().map(|(_, new)| new.body.len()).sum();
        let (events, now_us) = (events.to_vec(), self.now_us());
        let extend = move |connection: &rusqlite::Connection| {
            draft::extend(connection, draft, &events, now_us)
        };
        self.writer.add("import events", bytes, extend).await
    }

    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head> {
        let (header, shared, now_us) = (header.clone(), shared.clone(), self.now_us());
        let finish = move |connection: &rusqlite::Connection| {
            draft::finish(connection, draft, &header, &shared, now_us)
        };
        self.writer.add("finish an import", 0, finish).await
    }

    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        let (after, now_us) = (after.cloned(), self.now_us());
        let list = move |connection: &rusqlite::Connection| {
            let found = addresses::sessions(connection, after.as_ref(), limit, now_us);
            found.map_err(|e| failed("list sessions", e))
        };
        self.readers.read("list sessions", list).await
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        let after = after.cloned();
        let list = move |connection: &rusqlite::Connection| {
            let found = addresses::state_owners(connection, after.as_ref(), limit);
            found.map_err(|e| failed("list the owners of state", e))
        };
        self.readers.read("list the owners of state", list).await
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        let (app, user, shared) = (app.to_owned(), user.to_owned(), shared.clone());
        let add = move |connection: &rusqlite::Connection| {
            let added = state::add_shared(connection, &app, &user, &shared);
            added.map_err(|e| failed("set state", e))
        };
        self.writer.add("set state", 0, add).await
    }

    async fn check(&self) -> Result<Vec<Problem>> {
        let options = self.options.clone();
        let check = move |connection: &rusqlite::Connection| check::check(&options, connection);
        self.readers.read("check the database", check).await
    }

    async fn repair(&self, problems: &[Problem]) -> Result<()> {
        let operation = "repair the database";
        let repairable = problems.iter().filter(|problem| problem.is_repairable);
        let (sessions, others): (Vec<_>, Vec<_>) =
            repairable.partition(|problem| problem.location.session().is_some());
        let is_schema = |problem: &&Problem| {
            matches!(
                problem.location,
                Location::Schema { .. } | Location::Database
            )
        };
        // A repaired index needs consistent rows, and the repair of rows needs the indexes.
        let mut indexes = Ok(());
        for attempt in 0..2 {
            if others.iter().any(is_schema) && (attempt == 0 || indexes.is_err()) {
                let options = self.options.clone();
                let repair = move |connection: &rusqlite::Connection| {
                    check::repair_schema(&options, connection)
                };
                indexes = self.writer.write(operation, repair).await;
            }
            self.writer.write(operation, check::repair_rows).await?;
        }
        indexes?;
        let keys: BTreeSet<_> = sessions
            .iter()
            .filter_map(|it| it.location.session())
            .collect();
        for key in keys {
            let job_key = key.clone();
            let repair = move |connection: &rusqlite::Connection| {
                check::repair_session(connection, &job_key)
            };
            self.writer.write(operation, repair).await?;
            self.state_texts.evict(&key.app, &key.user);
            self.hub.notify(key);
        }
        Ok(())
    }

    async fn schema(&self) -> Result<SchemaReport> {
        let options = self.options.clone();
        let report = move |connection: &rusqlite::Connection| schema::report(&options, connection);
        self.readers.read("read the schema", report).await
    }

    async fn finish_upgrade(&self) -> Result<SchemaReport> {
        let options = self.options.clone();
        let finish = move |connection: &rusqlite::Connection| schema::finish(&options, connection);
        self.writer
            .run_exclusive("finish the upgrade", finish)
            .await?;
        self.schema().await
    }

    async fn identity(&self) -> Result<Option<String>> {
        self.options.identity()
    }
}
