//! Sessions on a PostgreSQL server that many processes share.
//!
//! The way of an append: [`PostgresStore::append`] → `append` (one statement on a cached head, or reads
//! in one round trip and writes in another) → `pool`. The way of a read: → `read` (a snapshot, one
//! round trip). Writers lock in one order: the app's shared state, the user's, the session's head; and
//! only what they change. A writer of memories locks the row of the user's memories, and none of the
//! above after it.

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
mod pool;
mod read;
mod rows;
mod schema;
mod settings;
mod state;
mod tail;
mod tls;
mod uri;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use retain_core::{
    AppendOutcome, Batch, ChangeHub, ConnectStore, DraftId, EraseReceipt, EventLookup, Head,
    JsonMap, LeaseUpdate, ListQuery, Listing, LogHeader, NewEvent, NewSession, ReadDetail, Result,
    ScopedState, SessionError, SessionKey, SessionStore, Snapshot, StateOwner, StoreSessionService,
    TransferStore, Window,
};

use background::BackgroundJobs;
use head_cache::HeadCache;
use locks::{KeyedLockGuard, KeyedLocks, LockKey};
use pool::{Database, Failure, tried};

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

/// Retries a call until it succeeds, is rejected, or the time is up, and turns a failure into the
/// caller's error.
macro_rules! attempts {
    ($operation:literal, $($attempt:tt)*) => {
        tried!($($attempt)*).map_err(|failure: Failure| failure.told($operation))
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

fn database(options: &PostgresOptions) -> Result<Database> {
    Database::new(options).map_err(|cause| SessionError::Open {
        uri: options.uri(),
        reason: cause.to_string(),
        source: Some(cause),
    })
}

impl PostgresStore {
    /// Whether the database has Retain's tables. Changes nothing.
    pub async fn is_set_up(options: &PostgresOptions) -> Result<bool> {
        let found = schema::is_there(&database(options)?, options).await;
        found.map_err(|failure| schema::cannot_open(options, failure))
    }

    /// Connects to the database, creating or migrating the tables where needed.
    pub async fn open(options: PostgresOptions) -> Result<PostgresStore> {
        let database = database(&options)?;
        let opened = async {
            settings::check(&database, &options).await?;
            match options.must_exist {
                true => schema::check(&database, &options).await,
                false => schema::migrate(&database, &options).await,
            }
        };
        opened
            .await
            .map_err(|failure| schema::cannot_open(&options, failure))?;
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

    /// The time, if it is not the database's.
    fn now_us(&self) -> Option<i64> {
        self.options.clock.as_ref().map(|clock| clock.now_us())
    }

    /// Runs work in a task of its own. A holder of a lock must make progress even if its caller stops
    /// polling.
    async fn apart<T, F>(
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
        let mut receipt = EraseReceipt::default();
        loop {
            let (total, mut unconfirmed) = (&mut receipt, erase::UnconfirmedErase::default());
            let erased = attempts!(
                "erase a user",
                erase::erase_chunk(&self.database, app, user, total, &mut unconfirmed)
            );
            let (chunk, erased) = erased?;
            erased.iter().for_each(|key| self.hub.notify(key));
            receipt += chunk;
            if chunk == EraseReceipt::default() {
                break;
            }
        }
        // From here on nothing takes the receipt back.
        self.purge_if_possible().await;
        if receipt != EraseReceipt::default() {
            self.vacuum_later();
        }
        Ok(receipt)
    }

    async fn renew(&self, key: SessionKey, token: u64, ttl: Option<Duration>) -> Result<()> {
        let renew = move |store: PostgresStore| async move {
            let keys = LockKey::of_session(&key, false, false);
            let _locked = store.lock("renew a lease", keys).await?;
            let renewed = attempts!(
                "renew a lease",
                lease::renew(&store.database, &key, token, ttl, store.now_us())
            );
            store.heads.remember(&key, renewed?);
            Ok(())
        };
        self.apart("renew a lease", renew).await
    }

    /// Locks rows against other tasks of this process.
    async fn lock(
        &self,
        operation: &'static str,
        keys: Vec<LockKey>,
    ) -> Result<Vec<KeyedLockGuard>> {
        let locked = self.locks.lock_all(keys).await;
        locked.map_err(|failure: Failure| failure.told(operation))
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

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        let key = new.key.clone();
        let create = move |store: PostgresStore| async move {
            let changes = &new.changes;
            let (app, user) = (!changes.app.is_empty(), !changes.user.is_empty());
            let keys = LockKey::of_session(&new.key, app, user);
            let _locked = store.lock("create", keys).await?;
            let (mut made, now_us) = (None, store.now_us());
            let created = attempts!(
                "create",
                create::create(&store.database, &new, now_us, &mut made)
            );
            store.heads.remember(&new.key, created?);
            Ok(())
        };
        self.apart("create", create).await?;
        let created = self.read(&key, Window::NONE, ReadDetail::State).await?;
        created.ok_or(SessionError::NotFound { key })
    }

    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        want: ReadDetail,
    ) -> Result<Option<Snapshot>> {
        let read = attempts!(
            "read",
            read::session(&self.database, key, window, want, self.now_us())
        );
        Ok(read?.map(|(snapshot, known)| {
            self.heads.remember(key, known);
            snapshot
        }))
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        attempts!("list", list::list(&self.database, query, self.now_us()))
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let key = key.clone();
        let delete = move |store: PostgresStore| async move {
            let keys = LockKey::of_session(&key, false, false);
            let locked = store.lock("delete", keys).await?;
            let (mut found, now_us) = (None, store.now_us());
            attempts!(
                "delete",
                delete::delete(&store.database, &key, now_us, &mut found)
            )?;
            drop(store.heads.take(&key));
            drop(locked);
            store.hub.notify(&key);
            store.purge_later();
            Ok(found.is_some_and(|(_, was_alive)| was_alive))
        };
        self.apart("delete", delete).await
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome> {
        let (address, batch) = (key.clone(), Arc::clone(batch));
        let append = move |store: PostgresStore| async move {
            let keys = LockKey::of_batch(&address, &batch);
            let _locked = store.lock("append", keys).await?;
            append::append(&store, &address, &batch).await
        };
        let written = self.apart("append", append).await?;
        // A caller that only queued has changed nothing that others wait for.
        if matches!(written, AppendOutcome::Done { .. }) {
            self.hub.notify(key);
        }
        Ok(written)
    }

    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()> {
        match update {
            LeaseUpdate::Renew { token, ttl } => self.renew(key.clone(), *token, *ttl).await?,
            LeaseUpdate::Withdraw { ticket } => attempts!(
                "leave a queue",
                lease::withdraw(&self.database, key, ticket)
            )?,
        }
        self.hub.notify(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        let user = user.unwrap_or_default();
        attempts!("read state", read::shared_state(&self.database, app, user))
    }

    async fn find_events(
        &self,
        key: &SessionKey,
        lookup: &EventLookup,
    ) -> Result<Vec<Option<u64>>> {
        attempts!(
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
            attempts!(
                "fork",
                fork::fork(&store.database, &from, &key, create_time, now_us, &mut made)
            )
        };
        self.apart("fork", fork).await
    }

    async fn sweep(&self, limit: usize) -> Result<u64> {
        let sweep = move |store: PostgresStore| async move {
            let swept = attempts!(
                "sweep",
                delete::sweep(&store.database, limit, store.now_us())
            )?;
            swept.iter().for_each(|key| store.hub.notify(key));
            store.purge_later();
            Ok(swept.len() as u64)
        };
        self.apart("sweep", sweep).await
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let (app, user) = (app.to_owned(), user.to_owned());
        let erase = move |store: PostgresStore| async move { store.erase(&app, &user).await };
        self.apart("erase a user", erase).await
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        let now_us = || self.now_us();
        tail::changed(&self.database, &self.hub, key, position, now_us).await;
    }

    async fn flush(&self) -> Result<()> {
        // What is acknowledged is as durable as the server makes it.
        Ok(())
    }

    async fn ready(&self) -> Result<()> {
        // No retry: the caller asks for the state at this moment.
        let ready = schema::check(&self.database, &self.options).await;
        ready.map_err(|failure| schema::cannot_open(&self.options, failure))
    }

    fn transfer(&self) -> Result<&dyn TransferStore> {
        Ok(self)
    }
}

#[async_trait]
impl TransferStore for PostgresStore {
    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        attempts!(
            "list",
            addresses::sessions(&self.database, after, limit, self.now_us())
        )
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        attempts!(
            "list",
            addresses::state_owners(&self.database, after, limit)
        )
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        let (app, user, shared) = (app.to_owned(), user.to_owned(), shared.clone());
        let add = move |store: PostgresStore| async move {
            attempts!(
                "set state",
                state::add_shared(&store.database, &app, &user, &shared)
            )
        };
        self.apart("set state", add).await
    }

    async fn check(&self) -> Result<Vec<String>> {
        attempts!("check", check::check(&self.database))
    }

    async fn identity(&self) -> Result<Option<String>> {
        attempts!("look at the database", read::identity(&self.database)).map(Some)
    }

    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        attempts!("read", read::log_header(&self.database, key, self.now_us()))
    }

    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId> {
        attempts!(
            "begin an import",
            draft::begin(&self.database, key, self.now_us())
        )
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        let events = events.to_vec();
        let extend = move |store: PostgresStore| async move {
            for piece in draft::pieces(&events) {
                let mut is_sent = false;
                let now_us = store.now_us();
                attempts!(
                    "import",
                    draft::extend(&store.database, draft, piece, now_us, &mut is_sent)
                )?;
            }
            Ok(())
        };
        self.apart("import", extend).await
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
            attempts!(
                "finish an import",
                draft::finish(database, draft, &header, &shared, now_us)
            )
        };
        self.apart("finish an import", finish).await
    }
}
