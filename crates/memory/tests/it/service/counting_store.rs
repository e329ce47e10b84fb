//! A store that counts reads, to check that a service builds an index once and only refreshes it
//! afterwards. It can also fail, or change a memory during a search.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use retain_core::{
    EraseReceipt, Event, Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryChanges,
    MemoryEdit, MemoryError, MemoryMark, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope,
    MemoryService as _, MemoryStatistics, MemoryStore, NewEmbedding, Tombstone,
};
use retain_memory::StoreMemoryService;
use retain_stores::InMemoryMemoryStore;

use super::session_with;

type StoreResult<T> = Result<T, MemoryError>;

#[derive(Debug, Clone, Default)]
pub(super) struct CountingStore {
    pub(super) store: InMemoryMemoryStore,
    /// Number of pages that indexes have read.
    pages: Arc<AtomicUsize>,
    /// The number of the last page that can be read; 0 means no limit.
    last_page: Arc<AtomicUsize>,
    /// An edit to apply before the next read of hits, and the id of its memory.
    pending_edit: Arc<Mutex<Option<(String, MemoryEdit)>>>,
}

impl CountingStore {
    /// Makes all reads of pages fail after this many more pages.
    pub(super) fn fail_after(&self, pages: usize) {
        let last = self.pages.load(Ordering::SeqCst) + pages;
        self.last_page.store(last, Ordering::SeqCst);
    }

    /// Lets reads of pages succeed again.
    pub(super) fn recover(&self) {
        self.last_page.store(0, Ordering::SeqCst);
    }

    /// Applies an edit before the next read of hits.
    pub(super) fn edit_before_next_read(&self, id: &str, edit: MemoryEdit) {
        *self.pending_edit.lock().unwrap() = Some((id.to_owned(), edit));
    }
}

#[async_trait]
impl MemoryStore for CountingStore {
    async fn add(&self, batch: Arc<MemoryBatch>) -> StoreResult<IngestReceipt> {
        self.store.add(batch).await
    }

    async fn erase_user(&self, scope: &MemoryScope) -> StoreResult<EraseReceipt> {
        self.store.erase_user(scope).await
    }

    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> StoreResult<Vec<Option<u64>>> {
        self.store.body_hashes(scope, session, ids).await
    }

    async fn mark(&self, scope: &MemoryScope) -> StoreResult<MemoryMark> {
        self.store.mark(scope).await
    }

    async fn changes(&self, scope: &MemoryScope, since: MemoryMark) -> StoreResult<MemoryChanges> {
        self.store.changes(scope, since).await
    }

    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> StoreResult<Vec<MemoryRecord>> {
        if matches!(rows, MemoryRows::After { .. }) {
            let page = self.pages.fetch_add(1, Ordering::SeqCst) + 1;
            let last = self.last_page.load(Ordering::SeqCst);
            if last > 0 && page > last {
                return Err(MemoryError::backend("the store fails in this test"));
            }
            // Let other tasks run during the read.
            tokio::task::yield_now().await;
        }
        let edit = match rows {
            MemoryRows::Numbered(_) => self.pending_edit.lock().unwrap().take(),
            _ => None,
        };
        if let Some((id, edit)) = edit {
            self.store.update(scope, &id, Arc::new(edit)).await?;
        }
        self.store.rows(scope, rows, with_vectors).await
    }

    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> StoreResult<bool> {
        self.store.update(scope, id, edit).await
    }

    async fn forget(&self, scope: &MemoryScope, what: Arc<Forget>) -> StoreResult<ForgetReceipt> {
        self.store.forget(scope, what).await
    }

    async fn expire(&self, now_us: i64, limit: usize) -> StoreResult<u64> {
        self.store.expire(now_us, limit).await
    }

    async fn statistics(&self, scope: &MemoryScope, now_us: i64) -> StoreResult<MemoryStatistics> {
        self.store.statistics(scope, now_us).await
    }

    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> StoreResult<Vec<MemoryRecord>> {
        self.store
            .without_embedding(scope, model, dims, after, limit)
            .await
    }

    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> StoreResult<()> {
        let set = self.store.set_embeddings(scope, generation, embeddings);
        set.await
    }

    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> StoreResult<Vec<MemoryScope>> {
        self.store.scopes(after, limit).await
    }

    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> StoreResult<Vec<Tombstone>> {
        self.store.tombstones(scope, after, limit).await
    }

    async fn restore(&self, restore: Arc<MemoryRestore>) -> StoreResult<()> {
        self.store.restore(restore).await
    }
}

#[tokio::test]
async fn index_is_built_once_and_then_refreshed() {
    let store = CountingStore::default();
    let memory = StoreMemoryService::over(store.clone());
    let texts = (0..2500).map(|n| Event::user_text(format!("apples {n}")));
    let mut session = session_with("s1", texts.collect());
    memory.add_session_to_memory(&session).await.unwrap();
    let mut searches = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let memory = memory.clone();
        searches.spawn(async move { memory.search_memory("app", "ada", "apples").await });
    }
    while let Some(found) = searches.join_next().await {
        assert_eq!(found.unwrap().unwrap().memories.len(), 10);
    }
    // One search read three pages of a thousand memories; the others waited for it.
    assert_eq!(store.pages.load(Ordering::SeqCst), 3);
    memory.search_memory("app", "ada", "pears").await.unwrap();
    assert_eq!(store.pages.load(Ordering::SeqCst), 3);
    let mut event = Event::user_text("pears");
    event.id = "new".to_owned();
    session.events.push(2501, event);
    memory.add_session_to_memory(&session).await.unwrap();
    let found = memory.search_memory("app", "ada", "pears").await.unwrap();
    assert_eq!(found.memories[0].content.text_concat(), "pears");
    assert_eq!(store.pages.load(Ordering::SeqCst), 4);
}
