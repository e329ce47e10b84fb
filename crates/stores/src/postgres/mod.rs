//! Sessions on a PostgreSQL server that many processes share.
//!
//! An append runs one statement if the head is cached; otherwise it reads in one round trip and
//! writes in a second (`append`). A read takes one snapshot in one round trip (`read`).
//!
//! Writers lock only the rows that they change, in one order: the app's shared state, the user's
//! shared state, the session's head. A writer of memories locks the user's memory scope last.

mod addresses;
mod append;
mod artifacts;
mod background;
mod check;
mod connect;
mod create;
mod delete;
mod draft;
mod erase;
mod fork;
mod head_cache;
mod keys;
mod lease;
mod list;
mod locks;
mod memory;
mod named_sql;
mod options;
mod pending;
mod pool;
mod read;
mod rows;
mod schema;
mod settings;
mod state;
mod tail;
mod tls;
mod uri;
mod usage;

use std::{collections::BTreeSet, fmt, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use retain_core::{
    AppendOutcome, Batch, ChangeHub, ConnectStore, DraftId, EraseReceipt, EventLookup,
    ExpiredSession, ExpiryReceipt, Head, JsonMap, LeaseUpdate, ListQuery, Listing, Location,
    LogHeader, MaintenanceStore, NewEvent, NewSession, PendingStatistics, Problem, ReadDetail,
    Result, SchemaReport, ScopedState, SessionError, SessionKey, SessionStore, SessionWork,
    Snapshot, StateOwner, StoreLabel, StoreSessionService, TaskLease, TransferStore, Usage, Window,
};

use background::BackgroundJobs;
use head_cache::HeadCache;
use locks::{KeyedLockGuard, KeyedLocks, LockKey};
use pool::{Database, Failure, retry};

pub use artifacts::{PostgresArtifactService, PostgresArtifactStore};
pub use keys::PostgresKeyStore;
pub use memory::PostgresMemoryStore;
pub use options::PostgresOptions;

/// The store's name in errors.
const NAME: &str = "postgres";

/// Sessions on a PostgreSQL server, which any number of processes may share.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> retain_core::Result<()> {
/// use retain_core::{Event, SessionService as _};
/// let uri = "postgresql://retain@db.example/retain?sslmode=verify-full";
/// let sessions = retain_stores::PostgresSessionService::connect(uri).await?;
/// let mut session = sessions.create_session("app", "ada", None, Some("s1")).await?;
/// sessions.append_event(&mut session, Event::user_text("hello")).await?;
/// # Ok(()) }
/// ```
pub type PostgresSessionService = StoreSessionService<PostgresStore>;

/// Like `retry!`, but converts a failure into the error that the caller gets.
macro_rules! retry_as {
    ($operation:literal, $($attempt:tt)*) => {
        retry!($($attempt)*).map_err(|failure: Failure| failure.into_session_error($operation))
    };
}

/// The store behind [`PostgresSessionService`].
#[derive(Clone)]
pub struct PostgresStore {
    options: Arc<PostgresOptions>,
    database: Arc<Database>,
    heads: Arc<HeadCache>,
    locks: Arc<KeyedLocks>,
    background: Arc<BackgroundJobs>,
    hub: Arc<ChangeHub>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore")
            .field(&self.options.uri())
            .finish()
    }
}

fn new_database(options: &PostgresOptions) -> Result<Database> {
    Database::new(options).map_err(|cause| SessionError::Open {
        uri: options.uri(),
        reason: cause.to_string(),
        source: Some(cause),
    })
}

impl PostgresStore {
    /// Whether the database has Retain's tables. Changes nothing.
    pub async fn is_set_up(options: &PostgresOptions) -> Result<bool> {
        let found = schema::exists(&new_database(options)?, options).await;
        found.map_err(|failure| schema::into_open_error(options, failure))
    }

    /// Connects to the database, creating or migrating the tables where needed.
    pub async fn open(options: PostgresOptions) -> Result<PostgresStore> {
        let database = new_database(&options)?;
        let opened = async {
            settings::check(&database, &options).await?;
            if options.must_exist {
                schema::check(&database, &options).await
            } else {
                schema::migrate(&database, &options).await
            }
        };
        opened
            .await
            .map_err(|failure| schema::into_open_error(&options, failure))?;
        let store = PostgresStore {
            database: Arc::new(database),
            heads: Arc::default(),
            locks: Arc::default(),
            background: Arc::default(),
            hub: Arc::default(),
            options: Arc::new(options),
        };
        if !store.options.must_exist {
            store.purge_later();
        }
        Ok(store)
    }

    /// Returns the time of the configured clock; `None` if statements must use the clock of the
    /// database.
    fn now_us(&self) -> Option<i64> {
        self.options.clock.as_ref().map(|clock| clock.now_us())
    }

    /// Runs `work` in its own task: the holder of a lock must make progress even if its caller
    /// stops polling.
    async fn spawn_work<T, F>(
        &self,
        operation: &'static str,
        work: impl FnOnce(PostgresStore) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let done = tokio::spawn(work(self.clone())).await;
        done.unwrap_or_else(|error| {
            Err(SessionError::Store {
                store: NAME,
                operation,
                source: error.into(),
            })
        })
    }

    async fn erase(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let mut receipt = self.erase_rows(app, user).await?;
        let counted = retry_as!("erase a user", erase::add_erasure(&self.database));
        counted?;
        // Delete the memories and artifacts that were written for a session before it was deleted.
        receipt += self.erase_rows(app, user).await?;
        // The user is erased; a failed purge or vacuum must not fail the call.
        self.purge_if_possible().await;
        receipt.unfinished = erase::vacuum_or_note(&self.database).await;
        Ok(receipt)
    }

    /// Deletes the rows of a user in chunks.
    async fn erase_rows(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let mut receipt = EraseReceipt::default();
        loop {
            let (total, mut unconfirmed) = (&mut receipt, erase::UnconfirmedErase::default());
            let erased = retry_as!(
                "erase a user",
                erase::erase_chunk(&self.database, app, user, total, &mut unconfirmed)
            );
            let (chunk, erased) = erased?;
            erased.iter().for_each(|key| {
                self.heads.take(key);
                self.hub.notify(key);
            });
            receipt += chunk;
            if chunk == EraseReceipt::default() {
                return Ok(receipt);
            }
        }
    }

    async fn renew(&self, key: SessionKey, token: u64, ttl: Option<Duration>) -> Result<()> {
        let renew = move |store: PostgresStore| async move {
            let keys = LockKey::for_session(&key, false, false);
            let _locked = store.lock("renew a lease", keys).await?;
            let renewed = retry_as!(
                "renew a lease",
                lease::renew(&store.database, &key, token, ttl, store.now_us())
            );
            store.heads.insert(&key, renewed?);
            Ok(())
        };
        self.spawn_work("renew a lease", renew).await
    }

    /// Takes the process-local locks of rows.
    async fn lock(
        &self,
        operation: &'static str,
        keys: Vec<LockKey>,
    ) -> Result<Vec<KeyedLockGuard>> {
        let locked = self.locks.lock_all(keys).await;
        locked.map_err(|failure: Failure| failure.into_session_error(operation))
    }
}

#[async_trait]
impl ConnectStore for PostgresStore {
    async fn connect(uri: &str) -> Result<PostgresStore> {
        PostgresStore::open(PostgresOptions::from_uri(uri)?).await
    }
}

#[async_trait]
impl SessionStore for PostgresStore {
    fn name(&self) -> &'static str {
        NAME
    }

    fn label(&self) -> StoreLabel {
        erase::label(&self.options.uri())
    }

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        let key = new.key.clone();
        let create = move |store: PostgresStore| async move {
            let changes = &new.changes;
            let (app, user) = (!changes.app.is_empty(), !changes.user.is_empty());
            let keys = LockKey::for_session(&new.key, app, user);
            let _locked = store.lock("create a session", keys).await?;
            let (mut made, now_us) = (None, store.now_us());
            let created = retry_as!(
                "create a session",
                create::create(&store.database, &new, now_us, &mut made)
            );
            store.heads.insert(&new.key, created?);
            Ok(())
        };
        self.spawn_work("create a session", create).await?;
        let created = self.read(&key, Window::NONE, ReadDetail::State).await?;
        created.ok_or(SessionError::NotFound { key })
    }

    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        want: ReadDetail,
    ) -> Result<Option<Snapshot>> {
        let read = retry_as!(
            "read a session",
            read::read_session(&self.database, key, window, want, self.now_us())
        );
        Ok(read?.map(|(snapshot, head)| {
            self.heads.insert(key, head);
            snapshot
        }))
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        retry_as!(
            "list sessions",
            list::list(&self.database, query, self.now_us())
        )
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let key = key.clone();
        let delete = move |store: PostgresStore| async move {
            let keys = LockKey::for_session(&key, false, false);
            let locked = store.lock("delete a session", keys).await?;
            let (mut found, now_us) = (None, store.now_us());
            retry_as!(
                "delete a session",
                delete::delete(&store.database, &key, now_us, &mut found)
            )?;
            drop(store.heads.take(&key));
            drop(locked);
            store.hub.notify(&key);
            store.purge_later();
            Ok(found.is_some_and(|(_, was_alive)| was_alive))
        };
        self.spawn_work("delete a session", delete).await
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome> {
        let (address, batch) = (key.clone(), Arc::clone(batch));
        let append = move |store: PostgresStore| async move {
            let keys = LockKey::for_batch(&address, &batch);
            let _locked = store.lock("append events", keys).await?;
            append::append(&store, &address, &batch).await
        };
        let written = self.spawn_work("append events", append).await?;
        // An append that only queued for the lease has not changed the log.
        if matches!(written, AppendOutcome::Done { .. }) {
            self.hub.notify(key);
        }
        Ok(written)
    }

    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()> {
        match update {
            LeaseUpdate::Renew { token, ttl } => self.renew(key.clone(), *token, *ttl).await?,
            LeaseUpdate::Withdraw { ticket } => retry_as!(
                "leave the lease queue",
                lease::withdraw(&self.database, key, ticket)
            )?,
        }
        self.hub.notify(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        let user = user.unwrap_or_default();
        retry_as!("read state", read::shared_state(&self.database, app, user))
    }

    async fn find_events(
        &self,
        key: &SessionKey,
        lookup: &EventLookup,
    ) -> Result<Vec<Option<u64>>> {
        retry_as!(
            "find events",
            read::find_events(&self.database, key, lookup, self.now_us())
        )
    }

    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head> {
        let key = SessionKey::new(&origin.app, &origin.user, id);
        let from = (origin.clone(), position);
        let fork = move |store: PostgresStore| async move {
            let (mut made, now_us) = (None, store.now_us());
            retry_as!(
                "fork a session",
                fork::fork(&store.database, &from, &key, create_time, now_us, &mut made)
            )
        };
        self.spawn_work("fork a session", fork).await
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let (app, user) = (app.to_owned(), user.to_owned());
        let erase = move |store: PostgresStore| async move { store.erase(&app, &user).await };
        self.spawn_work("erase a user", erase).await
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<Usage> {
        retry_as!(
            "measure usage",
            usage::count(&self.database, app, user, self.now_us())
        )
    }

    async fn log_bytes(&self, key: &SessionKey, position: u64) -> Result<u64> {
        retry_as!(
            "measure usage",
            usage::count_log_bytes(&self.database, key, position, self.now_us())
        )
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        let now_us = || self.now_us();
        tail::changed(&self.database, &self.hub, key, position, now_us).await;
    }

    async fn flush(&self) -> Result<()> {
        // PostgreSQL has committed every acknowledged write.
        Ok(())
    }

    async fn ready(&self) -> Result<()> {
        // Do not retry: the caller asks whether the database is ready now.
        let ready = schema::check(&self.database, &self.options).await;
        ready.map_err(|failure| schema::into_open_error(&self.options, failure))
    }

    fn transfer(&self) -> Result<&dyn TransferStore> {
        Ok(self)
    }

    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        Ok(self)
    }
}

#[async_trait]
impl MaintenanceStore for PostgresStore {
    async fn pending_work(&self, after: u64, limit: usize) -> Result<Vec<SessionWork>> {
        retry_as!(
            "find pending work",
            pending::find(&self.database, after, limit, self.now_us())
        )
    }

    async fn pending_statistics(&self) -> Result<PendingStatistics> {
        retry_as!(
            "count pending work",
            pending::statistics(&self.database, self.now_us())
        )
    }

    async fn finish_work(&self, done: &SessionWork) -> Result<()> {
        let done = done.clone();
        let finish = move |store: PostgresStore| async move {
            let keys = LockKey::for_session(&done.key, false, false);
            let _locked = store.lock("finish pending work", keys).await?;
            retry_as!(
                "finish pending work",
                pending::finish(&store.database, &done)
            )
        };
        self.spawn_work("finish pending work", finish).await
    }

    async fn update_task_lease(&self, lease: &TaskLease) -> Result<bool> {
        retry_as!(
            "take the lease of a task",
            lease::update_task(&self.database, lease, self.now_us())
        )
    }

    async fn expired(&self, after: u64, limit: usize) -> Result<Vec<ExpiredSession>> {
        retry_as!(
            "find expired sessions",
            delete::expired(&self.database, after, limit, self.now_us())
        )
    }

    async fn delete_expired(&self, sessions: &[ExpiredSession]) -> Result<ExpiryReceipt> {
        let sessions = sessions.to_vec();
        let delete = move |store: PostgresStore| async move {
            let mut sent = ExpiryReceipt::default();
            let deleted = retry_as!(
                "delete expired sessions",
                delete::delete_expired(&store.database, &sessions, store.now_us(), &mut sent)
            )?;
            sessions
                .iter()
                .for_each(|session| store.hub.notify(&session.key));
            store.purge_later();
            Ok(deleted)
        };
        self.spawn_work("delete expired sessions", delete).await
    }

    async fn is_expired(&self, key: &SessionKey) -> Result<bool> {
        retry_as!(
            "look for an expired session",
            delete::is_expired(&self.database, key, self.now_us())
        )
    }
}

#[async_trait]
impl TransferStore for PostgresStore {
    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        retry_as!(
            "list sessions",
            addresses::sessions(&self.database, after, limit, self.now_us())
        )
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        retry_as!(
            "list the owners of state",
            addresses::state_owners(&self.database, after, limit)
        )
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        let (app, user, shared) = (app.to_owned(), user.to_owned(), shared.clone());
        let add = move |store: PostgresStore| async move {
            retry_as!(
                "set state",
                state::add_shared(&store.database, &app, &user, &shared)
            )
        };
        self.spawn_work("set state", add).await
    }

    async fn check(&self) -> Result<Vec<Problem>> {
        retry_as!(
            "check the database",
            check::check(&self.database, &self.options)
        )
    }

    async fn repair(&self, problems: &[Problem]) -> Result<()> {
        let repairable = problems.iter().filter(|problem| problem.is_repairable);
        let (sessions, others): (Vec<_>, Vec<_>) =
            repairable.partition(|problem| problem.location.session().is_some());
        let is_schema = |problem: &&Problem| matches!(problem.location, Location::Schema { .. });
        // A repaired constraint needs consistent rows, and the repair of rows needs the constraints.
        let mut constraints = Ok(());
        for attempt in 0..2 {
            if others.iter().any(is_schema) && (attempt == 0 || constraints.is_err()) {
                constraints = retry_as!(
                    "repair the schema",
                    check::repair_schema(&self.database, &self.options)
                );
            }
            retry_as!("repair the database", check::repair_rows(&self.database))?;
        }
        constraints?;
        let keys: BTreeSet<_> = sessions
            .iter()
            .filter_map(|it| it.location.session())
            .collect();
        for key in keys {
            retry_as!(
                "repair a session",
                check::repair_session(&self.database, key)
            )?;
            self.hub.notify(key);
        }
        Ok(())
    }

    async fn schema(&self) -> Result<SchemaReport> {
        let report = schema::report(&self.database, &self.options).await;
        report.map_err(|failure| schema::into_open_error(&self.options, failure))
    }

    async fn finish_upgrade(&self) -> Result<SchemaReport> {
        let finished = schema::finish(&self.database, &self.options).await;
        finished.map_err(|failure| schema::into_open_error(&self.options, failure))?;
        self.schema().await
    }

    async fn identity(&self) -> Result<Option<String>> {
        retry_as!("identify the database", read::identity(&self.database)).map(Some)
    }

    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        retry_as!(
            "read a session",
            read::log_header(&self.database, key, self.now_us())
        )
    }

    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId> {
        retry_as!(
            "begin an import",
            draft::begin(&self.database, key, self.now_us())
        )
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        let events = events.to_vec();
        let extend = move |store: PostgresStore| async move {
            for chunk in draft::split_into_chunks(&events) {
                let mut is_sent = false;
                let now_us = store.now_us();
                retry_as!(
                    "import events",
                    draft::extend(&store.database, draft, chunk, now_us, &mut is_sent)
                )?;
            }
            Ok(())
        };
        self.spawn_work("import events", extend).await
    }

    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head> {
        let (header, shared) = (header.clone(), shared.clone());
        let finish = move |store: PostgresStore| async move {
            let (database, now_us) = (&store.database, store.now_us());
            retry_as!(
                "finish an import",
                draft::finish(database, draft, &header, &shared, now_us)
            )
        };
        self.spawn_work("finish an import", finish).await
    }
}
