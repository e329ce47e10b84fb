//! Sessions on a PostgreSQL server that many processes share.
//!
//! The way of an append: [`PostgresStore::append`] → `fast` (one statement on a head that is
//! remembered) or `append` (reads in one round trip, writes in another) → `pool`. The way of a read:
//! → `read` (a snapshot, one round trip). Locks are taken in one order: the app's shared state, the
//! user's, the session's head; and only where something changes. Whoever writes memories locks the
//! row of the user's memories, and nothing of the above behind it.

mod addresses;
mod append;
mod artifacts;
mod check;
mod connect;
mod create;
mod fast;
mod gates;
mod heads;
mod keys;
mod lease;
mod list;
mod maintenance;
mod memory;
mod migrate;
mod pool;
mod read;
mod rows;
mod state;
mod tls;
mod upkeep;
mod uri;
mod watch;
mod whole;

use std::{fmt, future::Future, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use retain_core::{
    Batch, ChangeHub, Clock, ConnectStore, DraftId, EraseReceipt, Head, JsonMap, ListQuery,
    Listing, LogHeader, NewEvent, NewSession, Result, ScopedState, SessionError, SessionKey,
    SessionStore, Snapshot, StateOwner, StoreSessionService, Want, Window, Written,
};
use tokio_postgres::{Client, Config};

use gates::{Gate, Gates, Passed};
use heads::Heads;
use pool::{Database, Failure, Retry, tried};
use tls::TlsMode;
use upkeep::Upkeep;

pub use artifacts::{PostgresArtifactService, PostgresArtifactStore};
pub use keys::PostgresKeyStore;
pub use memory::PostgresMemoryStore;

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

/// Which database to use, and how.
#[derive(Clone)]
pub struct PostgresOptions {
    config: Config,
    tls: TlsMode,
    roots: Option<PathBuf>,
    pool_size: usize,
    must_exist: bool,
    clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresOptions").field(&self.uri()).finish()
    }
}

impl PostgresOptions {
    fn new(mut config: Config) -> PostgresOptions {
        // A server that vanished without a word is noticed in seconds, not in hours.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(connect::CONNECT_MAX);
        }
        // Clearly sooner than anybody gives up who tries again.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(8));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(Duration::from_secs(5));
            config.keepalives_interval(Duration::from_secs(2));
            config.keepalives_retries(2);
        }
        PostgresOptions {
            config,
            tls: TlsMode::Unverified,
            roots: None,
            pool_size: 20,
            must_exist: false,
            clock: None,
        }
    }

    /// Reads an address such as `postgresql://user@host/database?sslmode=verify-full`.
    pub fn from_uri(uri: &str) -> Result<PostgresOptions> {
        uri::parse(uri)
    }

    /// Whether `uri` is the address of a PostgreSQL database.
    pub fn is_address(uri: &str) -> bool {
        uri::is_address(uri)
    }

    /// Sets how many connections there may be at once. Default: 20.
    pub fn with_pool_size(mut self, connections: usize) -> PostgresOptions {
        self.pool_size = connections.max(1);
        self
    }

    /// Refuses to create tables: they must be there.
    pub fn existing(mut self) -> PostgresOptions {
        self.must_exist = true;
        self
    }

    /// Lets leases and expiries follow `clock` instead of the database's, which all replicas share.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> PostgresOptions {
        self.clock = Some(clock);
        self
    }

    /// The address without any password.
    pub fn uri(&self) -> String {
        uri::shown(&self.config)
    }
}

/// Tries something until it succeeds, is refused, or too much time has passed; says what a caller is
/// told.
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
    heads: Arc<Heads>,
    gates: Arc<Gates>,
    upkeep: Arc<Upkeep>,
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
        let found = migrate::is_there(&database(options)?, options).await;
        found.map_err(|failure| migrate::cannot_open(options, failure))
    }

    /// Connects to the database, creating or migrating the tables where needed.
    pub async fn open(options: PostgresOptions) -> Result<PostgresStore> {
        let database = database(&options)?;
        let opened = async {
            settings(&database, &options).await?;
            match options.must_exist {
                true => migrate::check(&database, &options).await,
                false => migrate::migrate(&database, &options).await,
            }
        };
        opened
            .await
            .map_err(|failure| migrate::cannot_open(&options, failure))?;
        let store = PostgresStore {
            database: Arc::new(database),
            heads: Arc::default(),
            gates: Arc::default(),
            upkeep: Arc::default(),
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

    /// Does something in a task of its own. Whoever holds a lock must get on, also while nobody asks
    /// how far it is: a future that is only kept would keep the lock.
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
            let (total, mut unheard) = (&mut receipt, maintenance::Unheard::default());
            let erased = attempts!(
                "erase a user",
                maintenance::erase_chunk(&self.database, app, user, total, &mut unheard)
            );
            let (chunk, erased) = erased?;
            erased.iter().for_each(|key| self.hub.ring(key));
            maintenance::add_up(&mut receipt, chunk);
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

    /// Waits for others of this process that are about to change the same rows.
    async fn pass(&self, operation: &'static str, gates: Vec<Gate>) -> Result<Vec<Passed>> {
        let passed = self.gates.pass(gates).await;
        passed.map_err(|failure: Failure| failure.told(operation))
    }

    /// Appends in one round trip, if the head is remembered; `None` if it must be done the longer
    /// way.
    async fn append_fast(
        &self,
        key: &SessionKey,
        batch: &Batch,
        sent: &mut Option<append::Sent>,
    ) -> Result<Option<Written>, Failure> {
        let Some(known) = self.heads.take(key) else {
            return Ok(None);
        };
        let appended = fast::append(&self.database, key, batch, known, self.now_us(), sent);
        Ok(appended.await?.map(|(written, known)| {
            self.heads.remember(key, known);
            written
        }))
    }

    /// Appends the longer way, after an attempt that has failed, if it has. What was sent and may
    /// have been done is looked for first.
    async fn append_surely(
        &self,
        key: &SessionKey,
        batch: &Batch,
        failed: Option<Failure>,
        mut sent: Option<append::Sent>,
    ) -> Result<Written> {
        let (mut retry, mut failed) = (Retry::new(&self.database), failed);
        loop {
            if let Some(failure) = failed.take() {
                let again = retry.again(failure).await;
                again.map_err(|failure| failure.told("append"))?;
            }
            let now_us = self.now_us();
            match append::append(&self.database, key, batch, now_us, &mut sent).await {
                Ok((written, known)) => {
                    if let Some(known) = known {
                        self.heads.remember(key, known);
                    }
                    return Ok(written);
                }
                Err(failure) => failed = Some(failure),
            }
        }
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
            let gates = Gate::of_session(&new.key, app, user);
            let _passed = store.pass("create", gates).await?;
            let (mut made, now_us) = (None, store.now_us());
            let created = attempts!(
                "create",
                create::create(&store.database, &new, now_us, &mut made)
            );
            store.heads.remember(&new.key, created?);
            Ok(())
        };
        self.apart("create", create).await?;
        let created = self.read(&key, Window::NONE, Want::State).await?;
        created.ok_or(SessionError::NotFound { key })
    }

    async fn read(&self, key: &SessionKey, window: Window, want: Want) -> Result<Option<Snapshot>> {
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
            let gates = Gate::of_session(&key, false, false);
            let passed = store.pass("delete", gates).await?;
            let (mut found, now_us) = (None, store.now_us());
            attempts!(
                "delete",
                maintenance::delete(&store.database, &key, now_us, &mut found)
            )?;
            drop(store.heads.take(&key));
            drop(passed);
            store.hub.ring(&key);
            store.purge_later();
            Ok(found.is_some_and(|(_, was_alive)| was_alive))
        };
        self.apart("delete", delete).await
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<Written> {
        let (address, batch) = (key.clone(), Arc::clone(batch));
        let append = move |store: PostgresStore| async move {
            let gates = Gate::of_batch(&address, &batch);
            let _passed = store.pass("append", gates).await?;
            let mut sent = None;
            match store.append_fast(&address, &batch, &mut sent).await {
                Ok(Some(written)) => Ok(written),
                fast => {
                    let failed = fast.err();
                    store.append_surely(&address, &batch, failed, sent).await
                }
            }
        };
        let written = self.apart("append", append).await?;
        // Who only queued has changed nothing that others wait for.
        if matches!(written, Written::Done { .. }) {
            self.hub.ring(key);
        }
        Ok(written)
    }

    async fn renew(&self, key: &SessionKey, token: u64, ttl: Option<Duration>) -> Result<()> {
        let key = key.clone();
        let renew = move |store: PostgresStore| async move {
            let gates = Gate::of_session(&key, false, false);
            let _passed = store.pass("renew a lease", gates).await?;
            let renewed = attempts!(
                "renew a lease",
                lease::renew(&store.database, &key, token, ttl, store.now_us())
            );
            store.heads.remember(&key, renewed?);
            store.hub.ring(&key);
            Ok(())
        };
        self.apart("renew a lease", renew).await
    }

    async fn withdraw(&self, key: &SessionKey, ticket: &str) -> Result<()> {
        attempts!(
            "leave a queue",
            lease::withdraw(&self.database, key, ticket)
        )?;
        self.hub.ring(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        let user = user.unwrap_or_default();
        attempts!("read state", read::shared_state(&self.database, app, user))
    }

    async fn state_at(&self, key: &SessionKey, position: u64) -> Result<JsonMap> {
        attempts!(
            "read state",
            read::state_at(&self.database, key, position, self.now_us())
        )
    }

    async fn positions_of(&self, key: &SessionKey, ids: &[String]) -> Result<Vec<Option<u64>>> {
        attempts!(
            "find events",
            read::positions_of(&self.database, key, ids, self.now_us())
        )
    }

    async fn first_of_invocation(&self, key: &SessionKey, invocation: &str) -> Result<Option<u64>> {
        attempts!(
            "find an invocation",
            read::first_of_invocation(&self.database, key, invocation, self.now_us())
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
                whole::fork(&store.database, &from, &key, create_time, now_us, &mut made)
            )
        };
        self.apart("fork", fork).await
    }

    async fn sweep(&self, limit: usize) -> Result<u64> {
        let sweep = move |store: PostgresStore| async move {
            let swept = attempts!(
                "sweep",
                maintenance::sweep(&store.database, limit, store.now_us())
            )?;
            swept.iter().for_each(|key| store.hub.ring(key));
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
                whole::add_shared(&store.database, &app, &user, &shared)
            )
        };
        self.apart("set state", add).await
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
            whole::begin_draft(&self.database, key, self.now_us())
        )
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        let events = events.to_vec();
        let extend = move |store: PostgresStore| async move {
            for piece in whole::pieces(&events) {
                let mut is_sent = false;
                let now_us = store.now_us();
                attempts!(
                    "import",
                    whole::extend_draft(&store.database, draft, piece, now_us, &mut is_sent)
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
                whole::finish_draft(database, draft, &header, &shared, now_us)
            )
        };
        self.apart("finish an import", finish).await
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        let now_us = || self.now_us();
        watch::changed(&self.database, &self.hub, key, position, now_us).await;
    }

    async fn check(&self) -> Result<Vec<String>> {
        attempts!("check", check::check(&self.database))
    }

    async fn flush(&self) -> Result<()> {
        // What is acknowledged is as durable as the server makes it.
        Ok(())
    }

    async fn ready(&self) -> Result<()> {
        // No second attempts: whoever asks wants to know how it is now.
        let ready = migrate::check(&self.database, &self.options).await;
        ready.map_err(|failure| migrate::cannot_open(&self.options, failure))
    }
}

/// Looks at the server's settings: says which of them break promises, refuses what cannot work.
async fn settings(database: &Database, options: &PostgresOptions) -> Result<(), Failure> {
    let mut retry = Retry::new(database);
    let client = loop {
        match database.connection().await {
            Ok(client) => break client,
            Err(failure) => retry.again(failure).await?,
        }
    };
    let found = look_at_settings(&client).await?;
    for name in found.are_off {
        tracing::warn!(
            "PostgreSQL at {} has {name} = off: what is acknowledged can be lost",
            options.uri()
        );
    }
    if found.encoding != "UTF8" {
        let reason = format!(
            "has the encoding {}, which cannot hold every text; create the database with \
             ENCODING 'UTF8'",
            found.encoding
        );
        return Err(SessionError::Open {
            uri: options.uri(),
            reason,
            source: None,
        }
        .into());
    }
    Ok(())
}

/// What matters of a server's settings.
#[derive(Debug, Default)]
struct Settings {
    encoding: String,
    /// Those without which a commit is not for ever.
    are_off: Vec<String>,
}

async fn look_at_settings(client: &Client) -> Result<Settings, tokio_postgres::Error> {
    let sql = "SELECT name, setting FROM pg_settings WHERE name IN \
               ('fsync', 'full_page_writes', 'synchronous_commit', 'server_encoding')";
    let mut found = Settings::default();
    for row in client.query(sql, &[]).await? {
        let (name, setting): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        match name.as_str() {
            "server_encoding" => found.encoding = setting,
            _ if setting == "off" => found.are_off.push(name),
            _ => (),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn settings_that_break_promises_are_seen() {
        if !is_there() {
            return;
        }
        let test = TestDatabase::new().await;
        let safe = look_at_settings(&test.client().await).await.unwrap();
        assert_eq!(safe.encoding, "UTF8");
        assert!(!safe.are_off.contains(&"synchronous_commit".to_owned()));
        let name = test.uri().rsplit('/').next().unwrap().to_owned();
        let sql = format!("ALTER DATABASE {name} SET synchronous_commit = off");
        test.client().await.batch_execute(&sql).await.unwrap();
        let risky = look_at_settings(&test.client().await).await.unwrap();
        assert!(risky.are_off.contains(&"synchronous_commit".to_owned()));
        // It is said, and no more than said.
        PostgresStore::connect(&test.uri()).await.unwrap();
    }
}
