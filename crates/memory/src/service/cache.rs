//! The views that are kept at hand, bounded by bytes, and how one is brought up to date.
//!
//! Before every search the store is asked where the scope is: one cheap question. Only if it has
//! moved on since is anything read.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use retain_core::{
    MemoryChanges, MemoryError, MemoryMark, MemoryRecord, MemoryRows, MemoryScope, MemoryStore,
};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::view::{Models, View};
use crate::index::KnownWords;

/// Memories that are read at a time.
const PAGE: usize = 1000;

/// The view of a scope, shared by all who search it.
#[derive(Debug)]
pub(super) struct ScopeView {
    /// Who brings it up to date. Those who come meanwhile wait, and find it done.
    gate: tokio::sync::Mutex<()>,
    view: RwLock<View>,
    bytes: AtomicUsize,
}

impl ScopeView {
    fn new(models: Models<'_>) -> ScopeView {
        ScopeView {
            gate: tokio::sync::Mutex::default(),
            view: RwLock::new(View::new(models)),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at(&self, mark: MemoryMark) -> bool {
        let at = self.read().mark;
        (at.generation, at.revision) == (mark.generation, mark.revision)
    }
}

/// Views by scope; those that were not used for the longest time go first.
#[derive(Debug)]
pub(super) struct Views {
    kept: Mutex<Kept>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    views: HashMap<MemoryScope, (u64, Arc<ScopeView>)>,
    uses: u64,
}

impl Views {
    pub(super) fn new(limit: usize) -> Views {
        Views {
            kept: Mutex::default(),
            limit,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many bytes of views, and none yet.
    pub(super) fn emptied(&self) -> Views {
        Views::new(self.limit)
    }

    fn get(&self, scope: &MemoryScope, models: Models<'_>) -> Arc<ScopeView> {
        let mut kept = self.kept();
        kept.uses += 1;
        let now = kept.uses;
        let entry = kept.views.entry(scope.clone());
        let entry = entry.or_insert_with(|| (now, Arc::new(ScopeView::new(models))));
        entry.0 = now;
        Arc::clone(&entry.1)
    }

    /// Whether the scope's view is at hand.
    pub(super) fn has(&self, scope: &MemoryScope) -> bool {
        self.kept().views.contains_key(scope)
    }

    /// Lets go of the views that were not used for the longest time, as long as there are too many
    /// bytes. The one that is in use stays.
    fn make_room(&self) {
        let mut kept = self.kept();
        let bytes = |view: &ScopeView| view.bytes.load(Ordering::Relaxed);
        let mut total: usize = kept.views.values().map(|(_, view)| bytes(view)).sum();
        while total > self.limit && kept.views.len() > 1 {
            let oldest = kept.views.iter().min_by_key(|(_, (used, _))| *used);
            let Some(scope) = oldest.map(|(scope, _)| scope.clone()) else {
                return;
            };
            if let Some((_, view)) = kept.views.remove(&scope) {
                total -= bytes(&view);
            }
        }
    }

    /// How many views there are, and about how many bytes they take.
    pub(super) fn size(&self) -> (usize, usize) {
        let kept = self.kept();
        let views = kept.views.values();
        let bytes = views.map(|(_, view)| view.bytes.load(Ordering::Relaxed));
        (kept.views.len(), bytes.sum())
    }

    /// The scope's view with everything that was acknowledged before this was called, and whether
    /// it was found to lack vectors of the embedder.
    pub(super) async fn up_to_date(
        &self,
        store: &dyn MemoryStore,
        scope: &MemoryScope,
        models: Models<'_>,
    ) -> Result<(Arc<ScopeView>, bool), MemoryError> {
        let shared = self.get(scope, models);
        let mark = store.mark(scope).await?;
        if shared.is_at(mark) {
            return Ok((shared, false));
        }
        let update = Update {
            store,
            scope,
            models,
            shared: &shared,
        };
        let gate = shared.gate.lock().await;
        let is_complete = match shared.is_at(mark) {
            true => true,
            false => update.run().await?,
        };
        drop(gate);
        let bytes = shared.read().bytes();
        shared.bytes.store(bytes, Ordering::Relaxed);
        self.make_room();
        Ok((shared, !is_complete))
    }
}

/// One bringing up to date of a view, by whom the gate has let in.
struct Update<'a> {
    store: &'a dyn MemoryStore,
    scope: &'a MemoryScope,
    models: Models<'a>,
    shared: &'a Arc<ScopeView>,
}

impl Update<'_> {
    /// Says whether all memories that were read have a vector of the embedder.
    async fn run(&self) -> Result<bool, MemoryError> {
        let at = self.shared.read().mark;
        match self.store.changes(self.scope, at).await? {
            MemoryChanges::Touched { seqs, mark } => {
                let known = seqs.into_iter().filter(|seq| *seq <= at.last_seq);
                let touched = self.touched(known.collect()).await?;
                Ok(self.added(mark, at.last_seq).await? && touched)
            }
            MemoryChanges::Rebuild => {
                // What changes while this reads is behind this mark, and is read again next time.
                let mark = self.store.mark(self.scope).await?;
                // Others may be searching in what there is, and must not find it half done.
                let fresh = Arc::new(ScopeView::new(self.models));
                let build = Update {
                    shared: &fresh,
                    ..*self
                };
                let is_complete = build.added(mark, 0).await?;
                let built = std::mem::take(&mut *fresh.write());
                *self.shared.write() = built;
                Ok(is_complete)
            }
        }
    }

    async fn touched(&self, seqs: Vec<u64>) -> Result<bool, MemoryError> {
        if seqs.is_empty() {
            return Ok(true);
        }
        let rows = MemoryRows::Numbered(seqs.clone());
        let found = self.rows(rows).await?;
        let there: std::collections::HashSet<u64> = found.iter().map(|it| it.about.seq).collect();
        let gone = seqs.into_iter().filter(|seq| !there.contains(seq));
        self.apply(found, gone.collect()).await
    }

    /// Reads what is behind `after`, and then says that the view is at `mark`.
    async fn added(&self, mut mark: MemoryMark, mut after: u64) -> Result<bool, MemoryError> {
        let mut is_complete = true;
        loop {
            let rows = MemoryRows::After {
                seq: after,
                limit: PAGE,
            };
            let found = self.rows(rows).await?;
            let is_last = found.len() < PAGE;
            after = found.last().map_or(after, |record| record.about.seq);
            is_complete &= self.apply(found, Vec::new()).await?;
            if is_last {
                break;
            }
        }
        mark.last_seq = mark.last_seq.max(after);
        self.shared.write().mark = mark;
        Ok(is_complete)
    }

    async fn rows(&self, rows: MemoryRows) -> Result<Vec<MemoryRecord>, MemoryError> {
        let with_vectors = self.models.table.is_some() || self.models.embedder.is_some();
        self.store.rows(self.scope, rows, with_vectors).await
    }

    async fn apply(&self, found: Vec<MemoryRecord>, gone: Vec<u64>) -> Result<bool, MemoryError> {
        let shared = Arc::clone(self.shared);
        let Models {
            language, table, ..
        } = self.models;
        let embedder = self.models.embedder.map(str::to_owned);
        off_executor(move || {
            let mut view = shared.write();
            gone.into_iter().for_each(|seq| view.remove(seq));
            let embedder = embedder.as_deref();
            let models = Models {
                language,
                table,
                embedder,
            };
            let (mut is_complete, mut known) = (true, KnownWords::default());
            for record in found {
                is_complete &= view.insert(record, models, &mut known);
            }
            is_complete
        })
        .await
    }
}

/// Does work that takes its time where it holds up nobody: words are cut and counted here, which is
/// neither waiting nor short.
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
