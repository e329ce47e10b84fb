//! The cache of views, limited by bytes, and the refresh of a view.
//!
//! Every search first asks the store for the scope's revision, which is cheap. It reads entries
//! only if the revision changed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use lru::LruCache;
use retain_core::{
    MemoryChanges, MemoryError, MemoryMark, MemoryRecord, MemoryRows, MemoryScope, MemoryStore,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::OwnedMutexGuard,
};

use super::view::{IndexConfig, View};
use crate::index::TermCache;

/// Number of memories per read.
const PAGE: usize = 1000;

/// Number of memories inserted per lock, so that concurrent searches wait only briefly.
const AT_ONCE: usize = 50;
/// Approximate size of an empty view in bytes.
const EMPTY_BYTES: usize = 2048;

/// The view of a scope, shared by all its searches.
#[derive(Debug)]
pub(super) struct ScopeView {
    /// Held during a refresh, so that concurrent searches wait for it instead of refreshing too.
    gate: RefreshLock,
    view: RwLock<View>,
    /// The revision of the view. It is outside the view's lock, so that reading it never waits for
    /// a refresh.
    mark: Mutex<MemoryMark>,
    bytes: AtomicUsize,
    lacking: AtomicUsize,
    first_expiry_us: AtomicI64,
}

type RefreshLock = Arc<tokio::sync::Mutex<()>>;

impl ScopeView {
    fn new(models: IndexConfig<'_>) -> ScopeView {
        ScopeView {
            gate: RefreshLock::default(),
            view: RwLock::new(View::new(models)),
            mark: Mutex::default(),
            bytes: AtomicUsize::new(EMPTY_BYTES),
            lacking: AtomicUsize::new(0),
            first_expiry_us: AtomicI64::new(i64::MAX),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`read`](Self::read), unless a refresh holds the lock.
    pub(super) fn try_read(&self) -> Option<RwLockReadGuard<'_, View>> {
        self.view.try_read().ok()
    }

    fn write(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether memories lack an embedding.
    pub(super) fn lacks_vectors(&self) -> bool {
        self.lacking.load(Ordering::Relaxed) > 0
    }

    fn measure(&self) {
        let view = self.read();
        let bytes = EMPTY_BYTES + view.bytes();
        self.bytes.store(bytes, Ordering::Relaxed);
        self.lacking.store(view.lacking(), Ordering::Relaxed);
        let first_expiry_us = view.first_expiry_us().unwrap_or(i64::MAX);
        self.first_expiry_us
            .store(first_expiry_us, Ordering::Relaxed);
    }

    /// Remove expired memories from the view.
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
}

type CachedViews = LruCache<MemoryScope, Arc<ScopeView>>;

impl Views {
    pub(super) fn new(limit: usize) -> Views {
        Views {
            cached: Mutex::new(LruCache::unbounded()),
            limit,
        }
    }

    fn cached(&self) -> MutexGuard<'_, CachedViews> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty cache with the same limit.
    pub(super) fn emptied(&self) -> Views {
        Views::new(self.limit)
    }

    fn get(&self, scope: &MemoryScope, models: IndexConfig<'_>) -> Arc<ScopeView> {
        let mut cached = self.cached();
        let view = cached.get_or_insert_mut_ref(scope, || Arc::new(ScopeView::new(models)));
        if view.view.is_poisoned() {
            // A panic may have left the view half updated.
            *view = Arc::new(ScopeView::new(models));
        }
        Arc::clone(view)
    }

    /// Evict the scope's view.
    pub(super) fn evict(&self, scope: &MemoryScope) {
        self.cached().pop(scope);
    }

    /// Evict the views of users who were erased, also by another process.
    pub(super) async fn evict_erased(&self, store: &dyn MemoryStore) {
        let views: Vec<_> = {
            let cached = self.cached();
            let views = cached.iter();
            let views = views.map(|(scope, view)| (scope.clone(), view.mark().generation));
            // Skip a view under construction: it has no generation yet and checks for an erase
            // itself.
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
    pub(super) fn has(&self, scope: &MemoryScope) -> bool {
        self.cached().contains(scope)
    }

    /// Evict the least recently used views while the cache is over its limit. The view in use
    /// stays.
    fn make_room(&self) {
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

    /// Number of views and their approximate size in bytes.
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
                return Ok(Arc::new(ScopeView::new(models)));
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
                gate: Arc::new(Arc::clone(&shared.gate).lock_owned().await),
            };
            if !shared.is_at(mark) {
                update.run().await?;
            }
            drop(update);
            shared.measure();
            self.make_room();
            // Do not cache a user who was erased during the read.
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
    /// Shared with work that continues after its caller is cancelled: the next refresh must wait
    /// for it.
    gate: Arc<OwnedMutexGuard<()>>,
}

impl ViewRefresh<'_> {
    async fn run(&self) -> Result<(), MemoryError> {
        let at = self.shared.mark();
        match self.store.changes(self.scope, at).await? {
            MemoryChanges::Touched { seqs, mark } => {
                // Include entries after the mark that an interrupted refresh has read.
                let newest = self.shared.read().newest();
                let known = seqs.into_iter().filter(|seq| *seq <= newest);
                self.touched(known.collect()).await?;
                self.added(mark, at.last_seq).await
            }
            MemoryChanges::Rebuild => {
                // Changes during the read are after this mark and are read next time.
                let mark = self.store.mark(self.scope).await?;
                // Concurrent searches must not see a half-built view.
                let fresh = Arc::new(ScopeView::new(self.models));
                let build = ViewRefresh {
                    shared: &fresh,
                    gate: Arc::clone(&self.gate),
                    ..*self
                };
                build.added(mark, 0).await?;
                let built = std::mem::take(&mut *fresh.write());
                *self.shared.write() = built;
                self.shared.set_mark(fresh.mark());
                Ok(())
            }
        }
    }

    async fn touched(&self, seqs: Vec<u64>) -> Result<(), MemoryError> {
        if seqs.is_empty() {
            return Ok(());
        }
        let rows = MemoryRows::Numbered(seqs.clone());
        let found = self.rows(rows).await?;
        let there: std::collections::HashSet<u64> = found.iter().map(|it| it.info.seq).collect();
        let gone = seqs.into_iter().filter(|seq| !there.contains(seq));
        self.apply(found, gone.collect()).await
    }

    /// Read the entries after `after`, then set the view's mark.
    async fn added(&self, mut mark: MemoryMark, mut after: u64) -> Result<(), MemoryError> {
        loop {
            let rows = MemoryRows::After {
                seq: after,
                limit: PAGE,
            };
            let found = self.rows(rows).await?;
            let is_last = found.len() < PAGE;
            after = found.last().map_or(after, |record| record.info.seq);
            self.apply(found, Vec::new()).await?;
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

    async fn apply(&self, found: Vec<MemoryRecord>, gone: Vec<u64>) -> Result<(), MemoryError> {
        let (shared, gate) = (Arc::clone(self.shared), Arc::clone(&self.gate));
        let (language, table) = (self.models.language, self.models.table);
        let embedder = self.models.embedder.map(|(id, dims)| (id.to_owned(), dims));
        off_executor(move || {
            shared.write().remove(&gone);
            let embedder = embedder.as_ref().map(|(id, dims)| (id.as_str(), *dims));
            let models = IndexConfig {
                language,
                table,
                embedder,
            };
            let mut known = TermCache::default();
            let mut found = found.into_iter().peekable();
            while found.peek().is_some() {
                let mut view = shared.write();
                let some = found.by_ref().take(AT_ONCE);
                some.for_each(|record| view.insert(record, models, &mut known));
            }
            drop(gate);
        })
        .await
    }
}

/// Run CPU-bound work without blocking the executor.
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
