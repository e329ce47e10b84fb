//! `StoreMemoryService`: ADK's memory service, and operations beyond it, over any store.
//!
//! The path of an ingest: `ingest` (turns events into entries) → `word_vectors` (adds small
//! vectors) → [`MemoryStore::add`] → `embedding` (adds an embedder's vectors later). The path of a
//! search: `cache` (refreshes the scope's view) → `view` (searches the index with the filter) →
//! [`MemoryStore::rows`] (reads the hits).

mod cache;
pub(crate) mod embedding;
mod ingest;
mod long_term;
mod options;
mod origin;
mod search;
pub(crate) mod text;
mod view;
mod word_vectors;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use retain_core::{
    Clock, Embedder, EraseReceipt, Event, Forget, ForgetReceipt, Ids, IngestReceipt, JsonMap,
    Limits, MemoryBatch, MemoryEdit, MemoryEntry, MemoryError, MemoryKind, MemoryLimits,
    MemoryRecord, MemoryRows, MemoryScope, MemoryService, MemoryStatistics, MemoryStore,
    MemoryUpdate, NewMemory, PreparedMemory, QuotaKind, QuotaMeter, Quotas, RandomIds,
    RepeatPolicy, SearchMemoryResponse, Session, SessionOrigin, StoreLabel, SystemClock, Usage,
    budget::ByteBudget,
};

use crate::{MemoryQuery, index::Language};
use cache::{Views, off_executor};
use embedding::EmbeddingTasks;
use ingest::Ingest;
pub use ingest::IngestOptions;
pub use long_term::LongTermMemory;
pub use options::{ListMemories, MemoryHit, MemoryPage};
use text::spoken_text;
use word_vectors::WordVectors;

/// Maximum number of memories per write transaction.
const BATCH: usize = 500;
/// Maximum number of memories deleted per sweep.
const SWEEP: usize = 1000;
/// The interval between sweeps.
const SWEEP_INTERVAL_US: i64 = 60_000_000;
/// Default size of the index cache in bytes.
const CACHE_BYTES: usize = 512 * 1024 * 1024;

/// Long-term memory over a store. Cheap to clone; clones share everything.
///
/// A search finds every acknowledged memory, including those of other processes on the same store.
/// Adding a session again adds only its new events.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain_core::{Event, MemoryService as _, Session};
/// use retain_memory::{MemoryQuery, StoreMemoryService};
/// use retain_stores::InMemoryMemoryStore;
///
/// let memory = StoreMemoryService::over(InMemoryMemoryStore::default());
/// let mut session = Session::new("travel", "ada", "monday");
/// session.events.push(1, Event::user_text("I prefer rooms on high floors."));
/// memory.add_session_to_memory(&session).await?;
///
/// let search = MemoryQuery::new("high floors").with_limit(3);
/// let found = memory.search_memory_with("travel", "ada", search).await?;
/// assert_eq!(found[0].info.session.as_deref(), Some("monday"));
/// assert_eq!(found[0].info.position, 1);
/// # Ok(()) }
/// ```
pub struct StoreMemoryService<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    limits: MemoryLimits,
    quotas: Quotas,
    /// Counts the memories of apps; `None` if apps have no quota.
    app_meter: Option<Arc<QuotaMeter>>,
    default_ttl: Option<Duration>,
    tool_responses: bool,
    has_word_vectors: bool,
    language: Language,
    embedder: Option<Arc<dyn Embedder>>,
    embedding: Arc<EmbeddingTasks>,
    views: Arc<Views>,
    /// The session on whose behalf this service writes, if it is bound to one.
    origin: Option<SessionOrigin>,
    /// When expired memories were last deleted, in microseconds.
    last_sweep_us: Arc<AtomicI64>,
    /// When the indexes of erased users were last evicted, in microseconds.
    last_eviction_us: Arc<AtomicI64>,
}

impl<S> Clone for StoreMemoryService<S> {
    fn clone(&self) -> Self {
        StoreMemoryService {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            limits: self.limits.clone(),
            quotas: self.quotas.clone(),
            app_meter: self.app_meter.clone(),
            default_ttl: self.default_ttl,
            tool_responses: self.tool_responses,
            has_word_vectors: self.has_word_vectors,
            language: self.language,
            embedder: self.embedder.clone(),
            embedding: Arc::clone(&self.embedding),
            views: Arc::clone(&self.views),
            origin: self.origin.clone(),
            last_sweep_us: Arc::clone(&self.last_sweep_us),
            last_eviction_us: Arc::clone(&self.last_eviction_us),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for StoreMemoryService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("StoreMemoryService");
        tuple.field(&self.store).finish()
    }
}

impl<S: MemoryStore> StoreMemoryService<S> {
    /// Creates a service on `store`.
    pub fn over(store: S) -> Self {
        StoreMemoryService {
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            limits: MemoryLimits::default(),
            quotas: Quotas::default(),
            app_meter: None,
            default_ttl: None,
            tool_responses: false,
            has_word_vectors: true,
            language: Language::default(),
            embedder: None,
            embedding: Arc::default(),
            views: Views::new(CACHE_BYTES, &ByteBudget::default()),
            origin: None,
            last_sweep_us: Arc::new(AtomicI64::new(i64::MIN)),
            last_eviction_us: Arc::new(AtomicI64::new(i64::MIN)),
        }
    }

    /// Takes the current time from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes the ids of memories without one from `ids`.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the limits per user.
    pub fn with_limits(mut self, limits: MemoryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits how many memories a user and an app may have. A quota of users sets
    /// [`MemoryLimits::entries`]; zero leaves it. A quota of apps is zero by default, which is
    /// unlimited and costs nothing. Memories of other processes count after at most two seconds.
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        if quotas.user().memories > 0 {
            self.limits.entries = quotas.user().memories;
        }
        let of_apps = quotas.clone().with_user(Usage::default());
        self.app_meter = QuotaMeter::new(&of_apps, &[QuotaKind::Memories]);
        self.quotas = quotas;
        self
    }

    /// Sets the default time to live of memories (default: unlimited).
    pub fn with_default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = Some(ttl);
        self
    }

    /// Sets whether tool responses are ingested, with the tool as author (default: no, because
    /// external text is less trustworthy than the user's).
    pub fn with_tool_responses(mut self, ingest: bool) -> Self {
        self.tool_responses = ingest;
        self
    }

    /// Sets whether the compiled-in word vectors rank memories by meaning (default: yes). Without
    /// them an entry is 256 bytes smaller, and only words, times and an embedder find entries.
    pub fn with_static_vectors(mut self, is_enabled: bool) -> Self {
        self.has_word_vectors = is_enabled;
        self.views = self.views.new_empty();
        self
    }

    /// Sets the language of the stemmer, with which `floor` finds `floors` (default: English).
    pub fn with_language(mut self, language: Language) -> Self {
        self.language = language;
        self.views = self.views.new_empty();
        self
    }

    /// Adds an embedder as another ranking signal. A background task embeds memories after their
    /// ingest, and again if their vectors come from another model.
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        // Clones of this service keep their embedder and its tasks.
        self.embedding = Arc::default();
        self.views = self.views.new_empty();
        self
    }

    /// Sets the maximum size of the index cache in bytes, approximately (default: 512 MiB). The
    /// most recently used index stays, whatever its size.
    pub fn with_cache_bytes(mut self, bytes: usize) -> Self {
        self.views = self.views.with_limit(bytes);
        self
    }

    /// Limits the indexes, including those in use, to half of `budget`. They count against it, and
    /// requests evict them. A search whose index does not fit waits, and then fails with
    /// [`MemoryError::OverBudget`].
    pub fn with_byte_budget(mut self, budget: &ByteBudget) -> Self {
        let indexes = budget.part(budget.limit().unwrap_or_default() / 2);
        self.views = self.views.with_budget(&indexes);
        self
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, shared with this service.
    pub fn shared_store(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    /// Returns the number of cached indexes and their approximate size in bytes.
    pub fn cache_size(&self) -> (usize, usize) {
        self.views.size()
    }

    /// Ingests a session and reports what changed.
    pub async fn add_session_with(
        &self,
        session: &Session,
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError> {
        let scope = scope_to_write(&session.app_name, &session.user_id)?;
        check_id("session id", &session.id)?;
        let ingest = self.ingest(Some(&session.id), options);
        let events = (0..session.events.len()).filter_map(|at| {
            let event = session.events.get_shared(at)?;
            Some((session.events.position(at).unwrap_or_default(), event))
        });
        let memories = events.flat_map(|(position, event)| ingest.event(position, &event));
        self.add(scope, memories.collect(), RepeatPolicy::Replace)
            .await
    }

    /// Ingests events and reports what changed. Existing entries are skipped.
    pub async fn add_events_with(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError> {
        let scope = scope_to_write(app_name, user_id)?;
        let session = session_id.filter(|id| !id.is_empty());
        session.map_or(Ok(()), |id| check_id("session id", id))?;
        let ingest = self.ingest(session, options);
        let memories = events.iter().flat_map(|event| ingest.event(0, event));
        self.add(scope, memories.collect(), RepeatPolicy::Keep)
            .await
    }

    /// Stores memories as given and reports what changed. An entry with an existing id is replaced,
    /// unless it was edited by `update`.
    pub async fn add_memory_with(
        &self,
        app_name: &str,
        user_id: &str,
        memories: &[MemoryEntry],
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError> {
        let scope = scope_to_write(app_name, user_id)?;
        let ingest = self.ingest(None, options);
        let memories = memories.iter();
        let memories = memories.map(|entry| ingest.entry(entry, || self.ids.new_id()));
        let memories: Result<Vec<NewMemory>, MemoryError> = memories.collect();
        self.add(scope, memories?, RepeatPolicy::Replace).await
    }

    /// Returns the memory with this id, or `None` if it does not exist or has expired. If several
    /// sessions have a memory with this id, returns the one that was ingested first.
    pub async fn get(
        &self,
        app_name: &str,
        user_id: &str,
        id: &str,
    ) -> Result<Option<MemoryRecord>, MemoryError> {
        let scope = scope_to_read(app_name, user_id)?;
        let found = self.records_with_id(&scope, id).await?;
        Ok(found.into_iter().next())
    }

    /// Edits a memory; returns false if it does not exist. Later ingests leave it unchanged.
    pub async fn update(
        &self,
        app_name: &str,
        user_id: &str,
        id: &str,
        update: MemoryUpdate,
    ) -> Result<bool, MemoryError> {
        if update
            .content
            .as_ref()
            .is_some_and(|it| spoken_text(it).is_empty())
        {
            let reason = "would have no text; keep at least one text part, or forget the memory";
            return Err(MemoryError::invalid_input("memory", reason));
        }
        let scope = scope_to_read(app_name, user_id)?;
        let edit = MemoryEdit {
            update,
            limits: self.limits.clone(),
            now_us: self.clock.now_us(),
        };
        let edit = Arc::new(edit);
        let mut is_done = self.store.update(&scope, id, Arc::clone(&edit)).await;
        if self.has_freed_space(&is_done).await {
            is_done = self.store.update(&scope, id, edit).await;
        }
        let is_done = is_done?;
        if is_done {
            self.refresh_cached_index(&scope).await;
            self.embed_later(&scope);
        }
        Ok(is_done)
    }

    /// Deletes memories permanently, with their vectors and index entries. The store keeps hashes
    /// of their ids, so that ingesting their source again does not restore them. Erase the user to
    /// delete the hashes too.
    pub async fn forget(
        &self,
        app_name: &str,
        user_id: &str,
        what: Forget,
    ) -> Result<ForgetReceipt, MemoryError> {
        let scope = scope_to_read(app_name, user_id)?;
        let receipt = self.store.forget(&scope, Arc::new(what)).await?;
        if receipt.memories > 0 {
            self.record_deletion(Some(&scope));
            self.refresh_cached_index(&scope).await;
        }
        Ok(receipt)
    }

    /// Refreshes the scope's index now if it is cached, so that deleted entries do not stay in
    /// memory until the next search.
    async fn refresh_cached_index(&self, scope: &MemoryScope) {
        if !self.views.contains(scope) {
            return;
        }
        if let Err(error) = self.up_to_date(scope).await {
            // The change is stored, so the caller gets no error. The next search rebuilds the
            // index.
            self.views.evict(scope);
            tracing::warn!("failed to refresh an index; rebuilding it");
            let (scope, error) = (scope.to_string(), error.to_string());
            tracing::debug!(?scope, ?error, "failed to refresh an index; rebuilding it");
        }
    }

    /// Returns statistics about a user's memories.
    pub async fn statistics(
        &self,
        app_name: &str,
        user_id: &str,
    ) -> Result<MemoryStatistics, MemoryError> {
        let scope = scope_to_read(app_name, user_id)?;
        self.store.statistics(&scope, self.clock.now_us()).await
    }

    /// Deletes expired memories of all users and returns their number. Searches skip expired
    /// memories anyway; this frees their space. Ingests also delete expired memories, once a
    /// minute.
    pub async fn expire(&self) -> Result<u64, MemoryError> {
        self.views.evict_erased(&*self.store).await;
        let mut removed = 0;
        loop {
            let swept = self.store.expire(self.clock.now_us(), SWEEP).await?;
            removed += swept;
            if swept < SWEEP as u64 {
                if removed > 0 {
                    self.record_deletion(None);
                }
                return Ok(removed);
            }
        }
    }

    /// Waits until all pending embeddings are computed.
    pub async fn flush(&self) {
        self.embedding.wait().await;
    }

    async fn records_with_id(
        &self,
        scope: &MemoryScope,
        id: &str,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        let rows = MemoryRows::WithId(id.to_owned());
        let mut found = self.store.rows(scope, rows, false).await?;
        let now_us = self.clock.now_us();
        found.retain(|record| record.info.is_alive(now_us));
        Ok(found)
    }

    fn ingest<'a>(&self, session: Option<&'a str>, options: &'a IngestOptions) -> Ingest<'a> {
        Ingest {
            session,
            ttl: options.ttl.or(self.default_ttl),
            tool_responses: options.tool_responses.unwrap_or(self.tool_responses),
            custom_metadata: &options.custom_metadata,
            now_us: self.clock.now_us(),
        }
    }

    /// Writes only new and changed entries, so that adding a session again costs only its new
    /// events.
    async fn add(
        &self,
        scope: MemoryScope,
        memories: Vec<NewMemory>,
        repeats: RepeatPolicy,
    ) -> Result<IngestReceipt, MemoryError> {
        self.evict_erased_if_due().await;
        self.sweep_if_due().await;
        let mut total = IngestReceipt::default();
        let new = self.new_or_changed(&scope, memories, &mut total).await?;
        let mut new = new.into_iter().peekable();
        while new.peek().is_some() {
            let batch = MemoryBatch {
                scope: scope.clone(),
                memories: new.by_ref().take(BATCH).collect(),
                repeats,
                limits: self.limits.clone(),
                rooms: Vec::new(),
                now_us: self.clock.now_us(),
            };
            let added = self.add_batch(batch).await?;
            total.added += added.added;
            total.replaced += added.replaced;
            total.unchanged += added.unchanged;
            total.forgotten += added.forgotten;
            self.sweep_if_due().await;
        }
        if total.added + total.replaced > 0 {
            self.embed_later(&scope);
        }
        Ok(total)
    }

    async fn add_batch(&self, mut batch: MemoryBatch) -> Result<IngestReceipt, MemoryError> {
        let mut added = self.add_within_quotas(&mut batch).await;
        if self.has_freed_space(&added).await {
            added = self.add_within_quotas(&mut batch).await;
        }
        if let Err(MemoryError::QuotaExceeded(error)) = &added {
            self.quotas.count_rejection(error);
        }
        added
    }

    /// Adds a batch. The store refuses it if its new memories do not fit the quota of the app.
    async fn add_within_quotas(
        &self,
        batch: &mut MemoryBatch,
    ) -> Result<IngestReceipt, MemoryError> {
        let Some(meter) = &self.app_meter else {
            return self.write_batch(Arc::new(batch.clone())).await;
        };
        let MemoryScope { app, user } = batch.scope.clone();
        let wanted = Usage::default().with_memories(batch.memories.len() as u64);
        let load = |user| self.count_memories(&app, user);
        let reserved = meter.reserve(&*self.clock, &app, &user, wanted, load);
        let mut reservation = reserved.await?;
        batch.rooms = reservation.rooms().to_vec();
        reservation.begin_write();
        let added = self.write_batch(Arc::new(batch.clone())).await;
        match &added {
            Ok(receipt) => reservation.settle(Usage::default().with_memories(receipt.added)),
            // The outcome is unknown; the next load tells it.
            Err(MemoryError::Backend(_)) => drop(reservation),
            Err(_) => reservation.settle(Usage::default()),
        }
        added
    }

    async fn count_memories(&self, app: &str, user: Option<&str>) -> Result<Usage, MemoryError> {
        let memories = self.store.usage(app, user).await?;
        Ok(Usage::default().with_memories(memories))
    }

    /// Counts the memories of an app or of one of its users, with expired ones that are not deleted
    /// yet.
    pub async fn usage(&self, app_name: &str, user_id: Option<&str>) -> Result<u64, MemoryError> {
        self.store.usage(app_name, user_id).await
    }

    /// Records that memories were deleted, of one user or (`None`) of any.
    fn record_deletion(&self, scope: Option<&MemoryScope>) {
        match (&self.app_meter, scope) {
            (Some(meter), Some(scope)) => meter.record_deletion(&scope.app, &scope.user),
            (Some(meter), None) => meter.record_deletions(),
            (None, _) => {}
        }
    }

    /// Deletes expired memories if `result` is a limit error. Returns whether a retry may succeed.
    async fn has_freed_space<T>(&self, result: &Result<T, MemoryError>) -> bool {
        use MemoryError::{LimitExceeded, QuotaExceeded};
        if !matches!(result, Err(LimitExceeded { .. } | QuotaExceeded(_))) {
            return false;
        }
        match self.expire().await {
            Ok(removed) => removed > 0,
            Err(error) => {
                tracing::warn!(%error, "failed to delete expired memories; retrying later");
                false
            }
        }
    }

    /// Returns the memories that are new to the store or have other content there, and computes
    /// their vectors. Adds the number of all others to `total.unchanged`.
    async fn new_or_changed(
        &self,
        scope: &MemoryScope,
        memories: Vec<NewMemory>,
        total: &mut IngestReceipt,
    ) -> Result<Vec<PreparedMemory>, MemoryError> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for memory in &memories {
            check_id("memory id", &memory.id)?;
            *counts.entry(memory.id.clone()).or_default() += 1;
        }
        let prepare = || memories.into_iter().map(PreparedMemory::new).collect();
        let prepared: Result<Vec<PreparedMemory>, MemoryError> = off_executor(prepare).await?;
        let prepared = prepared?;
        // Leave two cases to the store: an id that repeats in the batch, because an earlier memory
        // of the batch may change the stored one, and a direct memory, because the stored one may
        // have expired.
        let is_compared = |it: &PreparedMemory| {
            it.new.kind == MemoryKind::Turn
                && counts.get(&it.new.id).is_some_and(|count| *count == 1)
        };
        let (compared, mut new): (Vec<_>, Vec<_>) = prepared
            .into_iter()
            .enumerate()
            .partition(|(_, it)| is_compared(it));
        if let Some((_, first)) = compared.first() {
            let session = first.new.session.clone();
            let ids: Vec<String> = compared.iter().map(|(_, it)| it.new.id.clone()).collect();
            let hashes = self.store.body_hashes(scope, session.as_deref(), &ids);
            let hashes = hashes.await?;
            let before = new.len();
            let pairs = compared.into_iter().zip(hashes);
            let changed = pairs.filter(|((_, it), hash)| *hash != Some(it.body_hash));
            new.extend(changed.map(|(it, _)| it));
            total.unchanged = (ids.len() - (new.len() - before)) as u64;
        }
        new.sort_unstable_by_key(|(at, _)| *at);
        let new: Vec<PreparedMemory> = new.into_iter().map(|(_, it)| it).collect();
        match self.table().await? {
            Some(table) if !new.is_empty() => word_vectors::with_vectors(new, table).await,
            _ => Ok(new),
        }
    }

    async fn table(&self) -> Result<WordVectors, MemoryError> {
        match self.has_word_vectors {
            true => word_vectors::table().await,
            false => Ok(None),
        }
    }

    fn embed_later(&self, scope: &MemoryScope) {
        if let Some(embedder) = &self.embedder {
            let (embedding, clock) = (&self.embedding, &self.clock);
            embedding::embed_later(&self.store, embedder, embedding, clock, scope);
        }
    }

    /// Deletes expired memories if the last sweep was at least a minute ago. A search does not call
    /// this, because it would have to wait for writers.
    async fn sweep_if_due(&self) {
        let now_us = self.clock.now_us();
        if !is_due(&self.last_sweep_us, now_us) {
            return;
        }
        match self.store.expire(now_us, SWEEP).await {
            // More memories may have expired, so let the next call continue.
            Ok(swept) if swept >= SWEEP as u64 => {
                self.last_sweep_us.store(i64::MIN, Ordering::Relaxed)
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "failed to delete expired memories; retrying later")
            }
        }
    }

    /// Evicts the indexes of erased users if this was last done at least a minute ago.
    async fn evict_erased_if_due(&self) {
        if is_due(&self.last_eviction_us, self.clock.now_us()) {
            self.views.evict_erased(&*self.store).await;
        }
    }
}

/// Whether at least a minute has passed since `last_us`. If so, sets `last_us` to now.
fn is_due(last_us: &AtomicI64, now_us: i64) -> bool {
    let is_due = now_us.saturating_sub(last_us.load(Ordering::Relaxed)) >= SWEEP_INTERVAL_US;
    if is_due {
        last_us.store(now_us, Ordering::Relaxed);
    }
    is_due
}

#[async_trait]
impl<S: MemoryStore> MemoryService for StoreMemoryService<S> {
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        let options = IngestOptions::default();
        self.add_session_with(session, &options).await.map(drop)
    }

    async fn search_memory(
        &self,
        app_name: &str,
        user_id: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        let query = MemoryQuery::new(query);
        let found = self.search_memory_with(app_name, user_id, query).await?;
        Ok(SearchMemoryResponse {
            memories: found.into_iter().map(|found| found.entry).collect(),
            ..SearchMemoryResponse::default()
        })
    }

    /// Ingests events. `custom_metadata` becomes the metadata of every entry.
    async fn add_events_to_memory(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let options = options_with_metadata(custom_metadata);
        let added = self.add_events_with(app_name, user_id, events, session_id, &options);
        added.await.map(drop)
    }

    /// Stores memories as given. `custom_metadata` is merged into each entry's own metadata, which
    /// takes precedence.
    async fn add_memory(
        &self,
        app_name: &str,
        user_id: &str,
        memories: &[MemoryEntry],
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let options = options_with_metadata(custom_metadata);
        let added = self.add_memory_with(app_name, user_id, memories, &options);
        added.await.map(drop)
    }

    async fn delete_expired_sessions(
        &self,
        app_name: &str,
        user_id: &str,
        session_ids: &[String],
    ) -> Result<u64, MemoryError> {
        let what = Forget::ExpiredSessions(session_ids.to_vec());
        Ok(self.forget(app_name, user_id, what).await?.memories)
    }

    async fn delete_expired(&self) -> Result<u64, MemoryError> {
        self.expire().await
    }

    /// Deletes the memories with this id permanently, in all sessions. A missing or unknown id is
    /// ignored.
    async fn delete_memory(
        &self,
        app_name: &str,
        user_id: &str,
        memory_id: Option<&str>,
    ) -> Result<(), MemoryError> {
        let Some(id) = memory_id else {
            return Ok(());
        };
        let ids = Forget::Ids(vec![id.to_owned()]);
        self.forget(app_name, user_id, ids).await.map(drop)
    }

    async fn erase_user(&self, app_name: &str, user_id: &str) -> Result<EraseReceipt, MemoryError> {
        let scope = scope_to_read(app_name, user_id)?;
        let erased = self.store.erase_user(&scope).await;
        self.record_deletion(Some(&scope));
        // Evict after the deletion: a concurrent search may have cached entries that still existed.
        self.views.evict(&scope);
        erased
    }

    fn evict_user(&self, app_name: &str, user_id: &str) {
        self.views.evict(&MemoryScope::new(app_name, user_id));
    }

    fn for_session(&self, origin: SessionOrigin) -> Option<Arc<dyn MemoryService>> {
        Some(Arc::new(self.bound_to(origin)))
    }

    fn memory_store(&self) -> Option<Arc<dyn MemoryStore>> {
        Some(self.shared_store())
    }

    fn store_label(&self) -> StoreLabel {
        self.store.label()
    }
}

fn options_with_metadata(custom_metadata: Option<&JsonMap>) -> IngestOptions {
    IngestOptions {
        custom_metadata: custom_metadata.cloned().unwrap_or_default(),
        ..IngestOptions::default()
    }
}

fn scope_to_write(app: &str, user: &str) -> Result<MemoryScope, MemoryError> {
    check_id("app name", app)?;
    check_id("user id", user)?;
    Ok(MemoryScope::new(app, user))
}

/// Returns the scope of a read or a change. An unknown user has no memories, but a name with a NUL
/// character is rejected, because not every store can hold it.
fn scope_to_read(app: &str, user: &str) -> Result<MemoryScope, MemoryError> {
    for (what, name) in [("app name", app), ("user id", user)] {
        if name.contains('\0') {
            check_id(what, name)?;
        }
    }
    Ok(MemoryScope::new(app, user))
}

/// Checks that every store can hold `id` exactly.
fn check_id(what: &'static str, id: &str) -> Result<(), MemoryError> {
    let checked = Limits::default().check_id(what, id);
    checked.map_err(|error| match error {
        retain_core::SessionError::Invalid { what, reason } => {
            MemoryError::InvalidInput { what, reason }
        }
        other => MemoryError::backend(other),
    })
}
