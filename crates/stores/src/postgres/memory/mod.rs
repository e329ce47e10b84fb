//! Memories on the session database: erased with the user.
//!
//! The way of an add: [`PostgresMemoryStore`] → `add` (locks the scope and looks in one round trip,
//! plans, writes in another) → `scope`. The way of a read: → `read` (one statement) → `rows`. A
//! writer locks the row of the scope before everything else, and nothing of sessions behind it.

mod add;
mod change;
mod check;
mod models;
mod read;
mod restore;
mod rows;
mod scope;

use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryChanges, MemoryEdit, MemoryError,
    MemoryMark, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope, MemoryStatistics,
    MemoryStore, NewEmbedding, Tombstone,
};

use super::{
    PostgresStore, addresses,
    locks::{KeyedLockGuard, KeyedLocks, LockKey},
    pool::{Database, Failure, Transaction, tried},
};

use models::ModelNumbers;

pub(super) use change::erase_chunk;
pub(super) use check::check;

/// The memories on a session database: [`PostgresStore::memory`] gives it.
#[derive(Clone)]
pub struct PostgresMemoryStore {
    database: Arc<Database>,
    models: Arc<ModelNumbers>,
    locks: Arc<KeyedLocks>,
    uri: Arc<str>,
}

impl fmt::Debug for PostgresMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("PostgresMemoryStore");
        shown.field(&self.uri).finish()
    }
}

impl PostgresStore {
    /// The long-term memory on this database. Erasing a user erases it too; deleting a session
    /// leaves what was remembered of it.
    pub fn memory(&self) -> PostgresMemoryStore {
        PostgresMemoryStore {
            database: Arc::clone(&self.database),
            models: Arc::default(),
            locks: Arc::clone(&self.locks),
            uri: self.options.uri().into(),
        }
    }
}

type Outcome<T> = Result<T, Failure<MemoryError>>;

impl From<MemoryError> for Failure<MemoryError> {
    fn from(error: MemoryError) -> Failure<MemoryError> {
        Failure::Decided(error)
    }
}

/// What a caller is told.
fn told(failure: Failure<MemoryError>) -> MemoryError {
    match failure {
        Failure::Decided(error) => error,
        failure => MemoryError::backend(failure.cause()),
    }
}

/// Gives the transaction back, if there is something to go on with; else takes it back, so that its
/// connection can be used by others.
async fn or_roll_back<T>(
    transaction: Transaction,
    outcome: Outcome<T>,
) -> Outcome<(Transaction, T)> {
    match outcome {
        Ok(value) => Ok((transaction, value)),
        Err(failure) => {
            if matches!(failure, Failure::Decided(_) | Failure::Again(_)) {
                transaction.roll_back().await?;
            }
            Err(failure)
        }
    }
}

impl PostgresMemoryStore {
    /// Runs work in a task of its own. A holder of a scope's lock must make progress even if its caller
    /// stops polling.
    async fn apart<T, F>(
        &self,
        work: impl FnOnce(PostgresMemoryStore) -> F,
    ) -> Result<T, MemoryError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, MemoryError>> + Send + 'static,
    {
        let done = tokio::spawn(work(self.clone())).await;
        done.unwrap_or_else(|error| Err(MemoryError::backend(error)))
    }
}

impl PostgresMemoryStore {
    /// Waits for others of this process that are about to write memories of the same user.
    async fn lock(&self, scope: &MemoryScope) -> Result<Vec<KeyedLockGuard>, MemoryError> {
        let keys = vec![LockKey::Memories(scope.clone())];
        self.locks.lock_all(keys).await.map_err(told)
    }
}

#[async_trait]
impl MemoryStore for PostgresMemoryStore {
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<IngestReceipt, MemoryError> {
        if batch.memories.is_empty() {
            return Ok(IngestReceipt::default());
        }
        self.apart(|store| async move {
            let _locked = store.lock(&batch.scope).await?;
            let (database, models, mut sent) = (&store.database, &store.models, None);
            tried!(add::add(database, models, &batch, &mut sent)).map_err(told)
        })
        .await
    }

    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError> {
        tried!(read::body_hashes(&self.database, scope, session, ids)).map_err(told)
    }

    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError> {
        tried!(read::mark(&self.database, scope)).map_err(told)
    }

    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError> {
        tried!(read::changes(&self.database, scope, since)).map_err(told)
    }

    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        tried!(read::rows(&self.database, scope, &rows, with_vectors)).map_err(told)
    }

    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError> {
        let (scope, id) = (scope.clone(), id.to_owned());
        self.apart(|store| async move {
            let _locked = store.lock(&scope).await?;
            tried!(change::update(&store.database, &scope, &id, &edit)).map_err(told)
        })
        .await
    }

    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError> {
        let (scope, mut sent) = (scope.clone(), None);
        self.apart(|store| async move {
            let _locked = store.lock(&scope).await?;
            tried!(change::forget(&store.database, &scope, &what, &mut sent)).map_err(told)
        })
        .await
    }

    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError> {
        self.apart(|store| async move {
            tried!(change::expire(&store.database, now_us, limit)).map_err(told)
        })
        .await
    }

    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError> {
        tried!(read::statistics(&self.database, scope, now_us)).map_err(told)
    }

    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        let database = &self.database;
        tried!(read::without_embedding(
            database, scope, model, dims, after, limit
        ))
        .map_err(told)
    }

    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError> {
        let scope = scope.clone();
        self.apart(|store| async move {
            let (database, models) = (&store.database, &store.models);
            tried!(change::set_embeddings(
                database,
                models,
                &scope,
                generation,
                &embeddings
            ))
            .map_err(told)
        })
        .await
    }

    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError> {
        tried!(addresses::memory_scopes(&self.database, after, limit)).map_err(told)
    }

    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError> {
        tried!(restore::tombstones(&self.database, scope, after, limit)).map_err(told)
    }

    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError> {
        self.apart(|store| async move {
            let _locked = store.lock(&restore.scope).await?;
            let (database, models, mut is_sent) = (&store.database, &store.models, false);
            tried!(restore::restore(database, models, &restore, &mut is_sent)).map_err(told)
        })
        .await
    }
}
