//! `WrappedStore`: a store for several services, optionally with faults.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use retain_core::{
    AppendOutcome, Batch, DraftId, EraseReceipt, EventLookup, Head, JsonMap, LeaseUpdate,
    ListQuery, Listing, LogHeader, MaintenanceStore, NewEvent, NewSession, Problem, ReadDetail,
    Result, SchemaReport, ScopedState, SessionKey, SessionStore, Snapshot, StateOwner, StoreLabel,
    TransferStore, Usage, Window,
};

/// One store that several services share.
pub type SharedStore<S> = WrappedStore<S, NoChange>;

/// A store behind an interceptor that may change writes and reads.
#[derive(Debug)]
pub struct WrappedStore<S, M> {
    store: Arc<S>,
    interceptor: Arc<M>,
}

/// Changes the input and output of a store. The default methods change nothing.
pub trait StoreInterceptor: fmt::Debug + Send + Sync + 'static {
    /// Returns the batch to write instead of `batch`; `None` writes `batch` itself.
    fn before_append(&self, _batch: &Batch) -> Option<Batch> {
        None
    }

    /// Returns the answer to return instead of `written`.
    fn after_append(&self, _batch: &Batch, written: AppendOutcome) -> AppendOutcome {
        written
    }

    /// Called before the store returns an answer, which waits for the returned future.
    fn before_answer(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called after each successful lease renewal.
    fn after_renew(&self) {}

    /// Returns the snapshot to return instead of `snapshot`.
    fn after_read(&self, snapshot: Snapshot) -> Snapshot {
        snapshot
    }
}

/// Changes nothing.
#[derive(Debug, Default)]
pub struct NoChange;

impl StoreInterceptor for NoChange {}

impl<S> SharedStore<S> {
    /// Shares `store`.
    pub fn new(store: S) -> SharedStore<S> {
        WrappedStore::with(store, NoChange)
    }
}

impl<S, M> WrappedStore<S, M> {
    /// Shares `store`; `interceptor` may change its writes and reads.
    pub fn with(store: S, interceptor: M) -> WrappedStore<S, M> {
        WrappedStore {
            store: Arc::new(store),
            interceptor: Arc::new(interceptor),
        }
    }
}

impl<S, M> Clone for WrappedStore<S, M> {
    fn clone(&self) -> WrappedStore<S, M> {
        WrappedStore {
            store: Arc::clone(&self.store),
            interceptor: Arc::clone(&self.interceptor),
        }
    }
}

impl<S, M: StoreInterceptor> WrappedStore<S, M> {
    /// Waits for the answer of a call and for the interceptor.
    async fn answer<T>(&self, call: impl Future<Output = T>) -> T {
        let answer = call.await;
        self.interceptor.before_answer().await;
        answer
    }
}

#[async_trait]
impl<S: TransferStore, M: StoreInterceptor> SessionStore for WrappedStore<S, M> {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn label(&self) -> StoreLabel {
        self.store.label()
    }

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        self.answer(self.store.create(new)).await
    }

    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        want: ReadDetail,
    ) -> Result<Option<Snapshot>> {
        let read = self.answer(self.store.read(key, window, want)).await?;
        Ok(read.map(|snapshot| self.interceptor.after_read(snapshot)))
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        self.answer(self.store.list(query)).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        self.answer(self.store.delete(key)).await
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome> {
        let other = self.interceptor.before_append(batch).map(Arc::new);
        let written = self.store.append(key, other.as_ref().unwrap_or(batch));
        let written = self.answer(written).await?;
        Ok(self.interceptor.after_append(batch, written))
    }

    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()> {
        self.answer(self.store.update_lease(key, update)).await?;
        if matches!(update, LeaseUpdate::Renew { .. }) {
            self.interceptor.after_renew();
        }
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        self.answer(self.store.shared_state(app, user)).await
    }

    async fn find_events(
        &self,
        key: &SessionKey,
        lookup: &EventLookup,
    ) -> Result<Vec<Option<u64>>> {
        self.answer(self.store.find_events(key, lookup)).await
    }

    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head> {
        self.answer(self.store.fork(origin, position, id, create_time))
            .await
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        self.answer(self.store.erase_user(app, user)).await
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<Usage> {
        self.answer(self.store.usage(app, user)).await
    }

    async fn log_bytes(&self, key: &SessionKey, position: u64) -> Result<u64> {
        self.answer(self.store.log_bytes(key, position)).await
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        self.answer(self.store.changed(key, position)).await
    }

    async fn flush(&self) -> Result<()> {
        self.answer(self.store.flush()).await
    }

    fn transfer(&self) -> Result<&dyn TransferStore> {
        Ok(self)
    }

    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        self.store.maintenance()
    }
}

#[async_trait]
impl<S: TransferStore, M: StoreInterceptor> TransferStore for WrappedStore<S, M> {
    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        self.answer(self.store.log_header(key)).await
    }

    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId> {
        self.answer(self.store.begin_draft(key)).await
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        self.answer(self.store.extend_draft(draft, events)).await
    }

    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head> {
        self.answer(self.store.finish_draft(draft, header, shared))
            .await
    }

    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        self.answer(self.store.addresses(after, limit)).await
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        self.answer(self.store.state_owners(after, limit)).await
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        self.answer(self.store.add_shared_keys(app, user, shared))
            .await
    }

    async fn check(&self) -> Result<Vec<Problem>> {
        self.answer(self.store.check()).await
    }

    async fn repair(&self, problems: &[Problem]) -> Result<()> {
        self.answer(self.store.repair(problems)).await
    }

    async fn schema(&self) -> Result<SchemaReport> {
        self.answer(self.store.schema()).await
    }

    async fn finish_upgrade(&self) -> Result<SchemaReport> {
        self.answer(self.store.finish_upgrade()).await
    }

    async fn identity(&self) -> Result<Option<String>> {
        self.answer(self.store.identity()).await
    }
}
