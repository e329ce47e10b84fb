//! The cache of views, limited by bytes, and the refresh of a view.
//!
//! Every search first asks the store for the scope's revision, which is cheap. It reads entries
//! only if the revision changed.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use lru::LruCache;
use retain_core::{
    MemoryChanges, MemoryError, MemoryMark, MemoryRecord, MemoryRows, MemoryScope, MemoryStore,
    budget::{BudgetUse, ByteBudget, EvictBytes, Meter, Reservation},
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::OwnedMutexGuard,
};

use super::view::{IndexConfig, View};
use crate::index::TermCache;

/// Number of memories per read.
const PAGE: usize = 1000;

/// Number of memories inserted per lock of a view, so that concurrent searches wait only briefly.
const INSERTS_PER_LOCK: usize = 50;
/// Approximate size of an empty view in bytes.
const EMPTY_BYTES: usize = 2048;

/// The view of a scope, shared by all searches in the scope.
#[derive(Debug)]
pub(super) struct ScopeView {
    /// Locked during a refresh, so that concurrent searches wait for it instead of refreshing too.
    refresh_lock: RefreshLock,
    view: RwLock<View>,
    /// The revision of the view. It has its own lock, so that reading it never waits for a refresh.
    mark: Mutex<MemoryMark>,
    bytes: AtomicUsize,
    /// Counts the view against the budget, also after the cache has evicted it, while a search
    /// uses it.
    reservation: Mutex<Reservation>,
    /// Number of entries without an embedding.
    unembedded: AtomicUsize,
    first_expiry_us: AtomicI64,
}

type RefreshLock = Arc<tokio::sync::Mutex<()>>;

impl ScopeView {
    fn new(models: IndexConfig<'_>, budget: &ByteBudget) -> ScopeView {
        ScopeView {
            refresh_lock: RefreshLock::default(),
            view: RwLock::new(View::new(models)),
            mark: Mutex::default(),
            bytes: AtomicUsize::new(EMPTY_BYTES),
            reservation: Mutex::new(budget.empty(BudgetUse::MemoryIndexes)),
            unembedded: AtomicUsize::new(0),
            first_expiry_us: AtomicI64::new(i64::MAX),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`read`](Self::read), but returns `None` while a refresh holds the lock.
    pub(super) fn try_read(&self) -> Option<RwLockReadGuard<'_, View>> {
        self.view.try_read().ok()
    }

    fn write(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn reservation(&self) -> MutexGuard<'_, Reservation> {
        self.reservation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self) -> MemoryMark {
        *self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_mark(&self, mark: MemoryMark) {
        *self.mark.lock().unwrap_or_else(PoisonError::into_inner) = mark;
    }

    fn is_at(&self, mark: MemoryMark) -> bool {
        let at = self.mark();
        (at.generation, at.revision) == (mark.generation, mark.revision)
    }

    /// Whether some entries have no embedding.
    pub(super) fn lacks_vectors(&self) -> bool {
        self.unembedded.load(Ordering::Relaxed) > 0
    }

    /// Updates the sizes that callers read without locking the view.
    fn measure(&self) {
        let view = self.read();
        let bytes = EMPTY_BYTES + view.bytes();
        self.bytes.store(bytes, Ordering::Relaxed);
        let mut reservation = self.reservation();
        let reserved = reservation.bytes();
        reservation.force_grow(bytes.saturating_sub(reserved));
        reservation.shrink_to(bytes);
        drop(reservation);
        self.unembedded.store(view.unembedded(), Ordering::Relaxed);
        let first_expiry_us = view.first_expiry_us().unwrap_or(i64::MAX);
        self.first_expiry_us
            .store(first_expiry_us, Ordering::Relaxed);
    }

    /// Removes expired memories from the view.
    pub(super) async fn remove_expired_entries(
        self: &Arc<Self>,
        now_us: i64,
    ) -> Result<(), MemoryError> {
        if self.first_expiry_us.load(Ordering::Relaxed) > now_us {
            return Ok(());
        }
        let shared = Arc::clone(self);
        off_executor(move || {
            shared.write().remove_expired(now_us);
            shared.measure();
        })
        .await
    }
}

/// Views by scope; the least recently used are evicted first.
#[derive(Debug)]
pub(super) struct Views {
    cached: Mutex<CachedViews>,
    limit: usize,
    budget: ByteBudget,
}

type CachedViews = LruCache<MemoryScope, Arc<ScopeView>>;

impl Views {
    pub(super) fn new(limit: usize, budget: &ByteBudget) -> Arc<Views> {
        Arc::new_cyclic(|views: &Weak<Views>| {
            budget.register(views.clone());
            Views {
                cached: Mutex::new(LruCache::unbounded()),
                limit,
                budget: budget.clone(),
            }
        })
    }

    fn cached(&self) -> MutexGuard<'_, CachedViews> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an empty cache with the same limit and budget.
    pub(super) fn new_empty(&self) -> Arc<Views> {
        Views::new(self.limit, &self.budget)
    }

    /// Creates an empty cache with another limit and the same budget.
    pub(super) fn with_limit(&self, limit: usize) -> Arc<Views> {
        Views::new(limit, &self.budget)
    }

    /// Creates an empty cache with the same limit that counts against `budget`.
    pub(super) fn with_budget(&self, budget: &ByteBudget) -> Arc<Views> {
        Views::new(self.limit, budget)
    }

    fn get(&self, scope: &MemoryScope, models: IndexConfig<'_>) -> Arc<ScopeView> {
        let mut cached = self.cached();
        let view =
            cached.get_or_insert_mut_ref(scope, || Arc::new(ScopeView::new(models, &self.budget)));
        if view.view.is_poisoned() {
            // A panic may have left the view incomplete: rebuild it.
            *view = Arc::new(ScopeView::new(models, &self.budget));
        }
        Arc::clone(view)
    }

    /// Evicts the scope's view.
    pub(super) fn evict(&self, scope: &MemoryScope) {
        self.cached().pop(scope);
    }

    /// Evicts the views of users who were erased, also by another process.
    pub(super) async fn evict_erased(&self, store: &dyn MemoryStore) {
        let views: Vec<_> = {
            let cached = self.cached();
            let views = cached.iter();
            let views = views.map(|(scope, view)| (scope.clone(), view.mark().generation));
            // Skip a view under construction: it has no generation yet, and `up_to_date` checks
            // whether the user was erased meanwhile.
            views.filter(|(_, generation)| *generation > 0).collect()
        };
        for (scope, generation) in views {
            let now = store.mark(&scope).await;
            if now.is_ok_and(|mark| mark.generation != generation) {
                self.evict(&scope);
            }
        }
    }

    /// Whether the scope's view is cached.
    pub(super) fn contains(&self, scope: &MemoryScope) -> bool {
        self.cached().contains(scope)
    }

    /// Evicts the least recently used views while the cache is over its limit. The most recently
    /// used one stays, whatever its size.
    fn evict_over_limit(&self) {
        let mut cached = self.cached();
        let bytes = |view: &ScopeView| view.bytes.load(Ordering::Relaxed);
        let mut total: usize = cached.iter().map(|(_, view)| bytes(view)).sum();
        while total > self.limit
            && cached.len() > 1
            && let Some((_, evicted)) = cached.pop_lru()
        {
            total -= bytes(&evicted);
        }
    }

    /// Returns the number of views and their approximate size in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let cached = self.cached();
        let bytes = cached
            .iter()
            .map(|(_, view)| view.bytes.load(Ordering::Relaxed));
        (cached.len(), bytes.sum())
    }

    /// Returns the scope's view, which includes every write acknowledged before this call.
    pub(super) async fn up_to_date(
        &self,
        store: &dyn MemoryStore,
        scope: &MemoryScope,
        models: IndexConfig<'_>,
    ) -> Result<Arc<ScopeView>, MemoryError> {
        let mut mark = store.mark(scope).await?;
        loop {
            if mark.generation == 0 {
                // The scope does not exist or was erased: cache nothing.
                self.evict(scope);
                return Ok(Arc::new(ScopeView::new(models, &self.budget)));
            }
            let shared = self.get(scope, models);
            if shared.is_at(mark) {
                return Ok(shared);
            }
            let update = ViewRefresh {
                store,
                scope,
                models,
                shared: &shared,
                budget: &self.budget,
                guard: Arc::new(Arc::clone(&shared.refresh_lock).lock_owned().await),
            };
            if !shared.is_at(mark) {
                update.run().await?;
            }
            drop(update);
            shared.measure();
            self.evict_over_limit();
            // The user may have been erased during the read. If so, start again.
            mark = store.mark(scope).await?;
            if mark.generation == shared.mark().generation {
                return Ok(shared);
            }
        }
    }
}

/// One refresh of a view, under its lock.
struct ViewRefresh<'a> {
    store: &'a dyn MemoryStore,
    scope: &'a MemoryScope,
    models: IndexConfig<'a>,
    shared: &'a Arc<ScopeView>,
    budget: &'a ByteBudget,
    /// The lock. A blocking task shares it, because the task outlives a cancelled caller, and the
    /// next refresh must wait for the task.
    guard: Arc<OwnedMutexGuard<()>>,
}

impl ViewRefresh<'_> {
    async fn run(&self) -> Result<(), MemoryError> {
        let at = self.shared.mark();
        match self.store.changes(self.scope, at).await? {
            MemoryChanges::Touched { seqs, mark } => {
                // An interrupted refresh may have read entries beyond the mark: `newest` covers
                // them.
                let newest = self.shared.read().newest();
                let indexed = seqs.into_iter().filter(|seq| *seq <= newest);
                self.reload(indexed.collect()).await?;
                self.load_after(mark, at.last_seq).await
            }
            MemoryChanges::Rebuild => {
                // Changes during the read come after this mark; the next refresh reads them.
                let mark = self.store.mark(self.scope).await?;
                // Concurrent searches must not see a half-built view.
                let fresh = Arc::new(ScopeView::new(self.models, self.budget));
                let build = ViewRefresh {
                    shared: &fresh,
                    guard: Arc::clone(&self.guard),
                    ..*self
                };
                build.load_after(mark, 0).await?;
                let built = std::mem::take(&mut *fresh.write());
                *self.shared.write() = built;
                std::mem::swap(&mut *self.shared.reservation(), &mut *fresh.reservation());
                self.shared.set_mark(fresh.mark());
                Ok(())
            }
        }
    }

    /// Reads these entries again, and removes those that no longer exist.
    async fn reload(&self, seqs: Vec<u64>) -> Result<(), MemoryError> {
        if seqs.is_empty() {
            return Ok(());
        }
        let rows = MemoryRows::Numbered(seqs.clone());
        let page = Meter::part(BudgetUse::MemoryIndexes);
        let records = page.scope(self.rows(rows)).await?;
        let existing: HashSet<u64> = records.iter().map(|it| it.info.seq).collect();
        let removed = seqs.into_iter().filter(|seq| !existing.contains(seq));
        self.apply(records, removed.collect()).await
    }

    /// Reads all entries after the sequence number `after`, then sets the view's mark.
    async fn load_after(&self, mut mark: MemoryMark, mut after: u64) -> Result<(), MemoryError> {
        let mut limit = PAGE;
        loop {
            // A page counts until its entries are in the index.
            let page = Meter::part(BudgetUse::MemoryIndexes);
            let rows = MemoryRows::After { seq: after, limit };
            let records = match page.scope(self.rows(rows)).await {
                // Large entries fit in smaller pages.
                Err(MemoryError::OverBudget(_)) if limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                records => records?,
            };
            let is_last = records.len() < limit;
            after = records.last().map_or(after, |record| record.info.seq);
            self.apply(records, Vec::new()).await?;
            if is_last {
                break;
            }
        }
        mark.last_seq = mark.last_seq.max(after);
        self.shared.set_mark(mark);
        Ok(())
    }

    async fn rows(&self, rows: MemoryRows) -> Result<Vec<MemoryRecord>, MemoryError> {
        let with_vectors = self.models.table.is_some() || self.models.embedder.is_some();
        self.store.rows(self.scope, rows, with_vectors).await
    }

    /// Removes entries from the view and inserts others, off the executor.
    async fn apply(
        &self,
        records: Vec<MemoryRecord>,
        removed: Vec<u64>,
    ) -> Result<(), MemoryError> {
        let bytes = records.iter().map(estimate_indexed_bytes).sum();
        let reserved = self.budget.reserve(BudgetUse::MemoryIndexes, bytes).await?;
        self.shared.reservation().merge(reserved);
        let (shared, guard) = (Arc::clone(self.shared), Arc::clone(&self.guard));
        let (language, table) = (self.models.language, self.models.table);
        let embedder = self.models.embedder.map(|(id, dims)| (id.to_owned(), dims));
        off_executor(move || {
            shared.write().remove(&removed);
            let embedder = embedder.as_ref().map(|(id, dims)| (id.as_str(), *dims));
            let models = IndexConfig {
                language,
                table,
                embedder,
            };
            let mut terms = TermCache::default();
            let mut records = records.into_iter().peekable();
            while records.peek().is_some() {
                let mut view = shared.write();
                let chunk = records.by_ref().take(INSERTS_PER_LOCK);
                chunk.for_each(|record| view.insert(record, models, &mut terms));
            }
            shared.measure();
            drop(guard);
        })
        .await
    }
}

impl EvictBytes for Views {
    fn evict_bytes(&self, bytes: usize) {
        let mut evicted = Vec::new();
        let mut cached = self.cached();
        let mut size = 0;
        while size < bytes
            && let Some((_, view)) = cached.pop_lru()
        {
            size += view.bytes.load(Ordering::Relaxed);
            evicted.push(view);
        }
        // Dropping a large view takes long, so the lock is released first.
        drop(cached);
    }
}

/// Estimates the size of an entry in the index before it is built.
fn estimate_indexed_bytes(record: &MemoryRecord) -> usize {
    /// The vector of an entry, its fields and its place in the tables.
    const ENTRY_BYTES: usize = 1024;
    let texts = record.content.parts().iter();
    let text: usize = texts
        .map(|part| part.text.as_ref().map_or(0, String::len))
        .sum();
    let vectors = [&record.vectors.fixed, &record.vectors.embedding];
    let vectors = vectors
        .into_iter()
        .flatten()
        .map(|vector| vector.bytes.len());
    ENTRY_BYTES + 2 * text + vectors.sum::<usize>()
}

/// Runs CPU-bound work without blocking other tasks of the executor.
pub(super) async fn off_executor<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, MemoryError> {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => Ok(tokio::task::block_in_place(work)),
        Ok(_) => {
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(MemoryError::backend)
        }
        Err(_) => Ok(work()),
    }
}
