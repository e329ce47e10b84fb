//! The in-memory memory store: entries are lost when the process ends.

mod add;
mod change;
mod read;
mod restore;
mod scope;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use retain_core::{
    EraseReceipt, Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryChanges, MemoryEdit,
    MemoryError, MemoryMark, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope,
    MemoryStatistics, MemoryStore, NewEmbedding, StoreLabel, Tombstone,
};

use scope::{MemoryTables, ScopeTable};

/// A memory store whose entries are lost when the process ends. Clones share the entries.
#[derive(Debug, Clone, Default)]
pub struct InMemoryMemoryStore {
    tables: Arc<Mutex<MemoryTables>>,
}

impl InMemoryMemoryStore {
    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the table of the scope; returns the default if the scope does not exist.
    fn with_scope<T: Default>(
        &self,
        scope: &MemoryScope,
        work: impl FnOnce(&mut ScopeTable) -> T,
    ) -> T {
        let mut tables = self.tables();
        tables.scopes.get_mut(scope).map(work).unwrap_or_default()
    }
}

#[async_trait]
impl MemoryStore for InMemoryMemoryStore {
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<IngestReceipt, MemoryError> {
        if batch.memories.is_empty() {
            return Ok(IngestReceipt::default());
        }
        self.tables().get_or_create(&batch.scope).add(&batch)
    }

    async fn erasures(&self) -> Result<u64, MemoryError> {
        Ok(self.tables().erasures)
    }

    async fn add_unless_erased(
        &self,
        batch: Arc<MemoryBatch>,
        erasures: u64,
    ) -> Result<Option<IngestReceipt>, MemoryError> {
        let mut tables = self.tables();
        if tables.erasures != erasures {
            return Ok(None);
        }
        tables.get_or_create(&batch.scope).add(&batch).map(Some)
    }

    async fn erase_user(&self, scope: &MemoryScope) -> Result<EraseReceipt, MemoryError> {
        Ok(self.tables().erase(scope))
    }

    fn label(&self) -> StoreLabel {
        StoreLabel::new("in memory")
    }

    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError> {
        let tables = self.tables();
        let table = tables.scopes.get(scope);
        let hash = |id: &String| table?.body_hash(session, id);
        Ok(ids.iter().map(hash).collect())
    }

    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError> {
        Ok(self.with_scope(scope, |table| table.mark))
    }

    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError> {
        let tables = self.tables();
        let table = tables.scopes.get(scope);
        Ok(table.map_or(MemoryChanges::Rebuild, |table| table.changes(since)))
    }

    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        Ok(self.with_scope(scope, |table| table.rows(&rows, with_vectors)))
    }

    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError> {
        let mut tables = self.tables();
        let table = tables.scopes.get_mut(scope);
        table.map_or(Ok(false), |table| table.update(id, &edit))
    }

    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError> {
        Ok(self.with_scope(scope, |table| table.forget(scope, &what)))
    }

    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError> {
        let mut tables = self.tables();
        let mut removed = 0;
        for (scope, table) in &mut tables.scopes {
            removed += table.expire(scope, now_us, limit.saturating_sub(removed));
        }
        Ok(removed as u64)
    }

    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError> {
        Ok(self.with_scope(scope, |table| table.statistics(now_us)))
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, MemoryError> {
        let tables = self.tables();
        let scopes = tables
            .scopes
            .iter()
            .filter(|(scope, _)| scope.app == app && user.is_none_or(|user| scope.user == user));
        Ok(scopes.map(|(_, table)| table.totals.entries).sum())
    }

    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        Ok(self.with_scope(scope, |table| {
            table.without_embedding(model, dims, after, limit)
        }))
    }

    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError> {
        self.with_scope(scope, |table| table.set_embeddings(generation, &embeddings));
        Ok(())
    }

    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError> {
        let tables = self.tables();
        let scopes = tables.scopes.iter().filter(|(scope, table)| {
            let has_any = !table.rows.is_empty() || !table.tombstones.is_empty();
            has_any && after.is_none_or(|after| *scope > after)
        });
        let mut scopes: Vec<_> = scopes.map(|(scope, _)| scope.clone()).collect();
        scopes.sort_unstable();
        scopes.truncate(limit);
        Ok(scopes)
    }

    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError> {
        Ok(self.with_scope(scope, |table| table.list_tombstones(after, limit)))
    }

    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError> {
        self.tables()
            .get_or_create(&restore.scope)
            .restore(&restore)
    }
}
