//! The in-memory store: sessions, memories, artifacts and API keys that are lost with the process.

mod addresses;
mod append;
mod artifacts;
mod check;
mod create;
mod delete;
mod draft;
mod erase;
mod fork;
mod keys;
mod lease;
mod list;
mod memory;
mod pending;
mod read;
mod schema;
mod state;
mod tail;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use retain_core::{
    AppendOutcome, Batch, ChangeHub, Clock, DraftId, EraseReceipt, EventLookup, ExpiredSession,
    ExpiryReceipt, Head, JsonMap, LeaseUpdate, ListQuery, Listing, LogHeader, MaintenanceStore,
    NewEvent, NewSession, PendingStatistics, Problem, ReadDetail, Result, ScopedState, SessionKey,
    SessionStore, SessionWork, Snapshot, StateOwner, StoreSessionService, SystemClock, TaskLease,
    TransferStore, Usage, Window,
};

use self::schema::SessionTables;
pub use self::{
    artifacts::{InMemoryArtifactService, InMemoryArtifactStore},
    keys::InMemoryKeyStore,
    memory::InMemoryMemoryStore,
};

/// Sessions in memory, which are lost when the process ends.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> retain_core::Result<()> {
/// use retain_core::{Event, SessionService as _};
/// let sessions = retain_stores::InMemorySessionService::new();
/// let mut session = sessions.create_session("app", "ada", None, None).await?;
/// sessions.append_event(&mut session, Event::user_text("hello")).await?;
/// assert_eq!(session.events.len(), 1);
/// # Ok(()) }
/// ```
pub type InMemorySessionService = StoreSessionService<InMemoryStore>;

/// The store behind [`InMemorySessionService`].
#[derive(Debug)]
pub struct InMemoryStore {
    tables: Mutex<SessionTables>,
    hub: ChangeHub,
    clock: Arc<dyn Clock>,
}

impl Default for InMemoryStore {
    fn default() -> InMemoryStore {
        InMemoryStore::with_clock(Arc::new(SystemClock))
    }
}

impl InMemoryStore {
    /// Creates an empty store that uses `clock` for leases and TTLs.
    pub fn with_clock(clock: Arc<dyn Clock>) -> InMemoryStore {
        InMemoryStore {
            tables: Mutex::default(),
            hub: ChangeHub::default(),
            clock,
        }
    }

    fn now_us(&self) -> i64 {
        self.clock.now_us()
    }

    fn tables(&self) -> MutexGuard<'_, SessionTables> {
        // Ignore the poison: each function performs the steps that can fail before it changes a
        // table, so a panic leaves the tables consistent.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionStore for InMemoryStore {
    fn name(&self) -> &'static str {
        "in-memory"
    }

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        create::create(&mut self.tables(), new, self.now_us())
    }

    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        want: ReadDetail,
    ) -> Result<Option<Snapshot>> {
        let now_us = self.now_us();
        Ok(read::session(&self.tables(), key, window, want, now_us))
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        list::list(&self.tables(), query, self.now_us())
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let deleted = delete::delete(&mut self.tables(), key, self.now_us());
        self.hub.notify(key);
        Ok(deleted)
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome> {
        let outcome = append::append(&mut self.tables(), key, batch, self.now_us())?;
        // An append that only queued for the lease has not changed the log.
        if matches!(outcome, AppendOutcome::Done { .. }) {
            self.hub.notify(key);
        }
        Ok(outcome)
    }

    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()> {
        lease::update(&mut self.tables(), key, update, self.now_us())?;
        self.hub.notify(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        Ok(read::shared_state(&self.tables(), app, user))
    }

    async fn find_events(
        &self,
        key: &SessionKey,
        lookup: &EventLookup,
    ) -> Result<Vec<Option<u64>>> {
        read::find_events(&mut self.tables(), key, lookup, self.now_us())
    }

    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head> {
        let now_us = self.now_us();
        fork::fork(
            &mut self.tables(),
            origin,
            position,
            id,
            create_time,
            now_us,
        )
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let (receipt, erased) = erase::erase_user(&mut self.tables(), app, user);
        erased.iter().for_each(|key| self.hub.notify(key));
        Ok(receipt)
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<Usage> {
        Ok(usage::count(&self.tables(), app, user, self.now_us()))
    }

    async fn log_bytes(&self, key: &SessionKey, position: u64) -> Result<u64> {
        usage::count_log_bytes(&mut self.tables(), key, position, self.now_us())
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        tail::changed(self, key, position).await;
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn transfer(&self) -> Result<&dyn TransferStore> {
        Ok(self)
    }

    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        Ok(self)
    }
}

#[async_trait]
impl MaintenanceStore for InMemoryStore {
    async fn pending_work(&self, after: u64, limit: usize) -> Result<Vec<SessionWork>> {
        let now_us = self.now_us();
        Ok(pending::find(&self.tables(), after, limit, now_us))
    }

    async fn pending_statistics(&self) -> Result<PendingStatistics> {
        Ok(pending::statistics(&self.tables(), self.now_us()))
    }

    async fn finish_work(&self, done: &SessionWork) -> Result<()> {
        pending::finish(&mut self.tables(), done);
        Ok(())
    }

    async fn update_task_lease(&self, lease: &TaskLease) -> Result<bool> {
        Ok(lease::update_task(&mut self.tables(), lease, self.now_us()))
    }

    async fn expired(&self, after: u64, limit: usize) -> Result<Vec<ExpiredSession>> {
        let now_us = self.now_us();
        Ok(delete::expired(&self.tables(), after, limit, now_us))
    }

    async fn delete_expired(&self, sessions: &[ExpiredSession]) -> Result<ExpiryReceipt> {
        let deleted = delete::delete_expired(&mut self.tables(), sessions, self.now_us());
        sessions
            .iter()
            .for_each(|session| self.hub.notify(&session.key));
        Ok(deleted)
    }

    async fn is_expired(&self, key: &SessionKey) -> Result<bool> {
        Ok(delete::is_expired(&self.tables(), key, self.now_us()))
    }
}

#[async_trait]
impl TransferStore for InMemoryStore {
    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        Ok(read::log_header(&self.tables(), key, self.now_us()))
    }

    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId> {
        Ok(draft::begin(&mut self.tables(), key, self.now_us()))
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        draft::extend(&mut self.tables(), draft, events, self.now_us())
    }

    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head> {
        draft::finish(&mut self.tables(), draft, header, shared, self.now_us())
    }

    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        let now_us = self.now_us();
        Ok(addresses::sessions(&self.tables(), after, limit, now_us))
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        Ok(addresses::state_owners(&self.tables(), after, limit))
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        self.tables().shared.add_absent(app, user, shared);
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Problem>> {
        Ok(check::check(&self.tables()))
    }
}
