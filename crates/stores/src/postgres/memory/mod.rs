//! The memory store on the session database. Erasing a user erases the user's memories too.
//!
//! Add: [`PostgresMemoryStore`] → `add` (locks the scope and reads in one round trip, plans, writes in
//! another) → `scope`. Read: [`PostgresMemoryStore`] → `read` (one statement) → `rows`. To avoid
//! deadlocks, a writer locks the scope row first and locks no session rows after it.

mod add;
mod change;
mod models;
mod read;
mod restore;
mod rows;
mod scope;

use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    EraseReceipt, Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryChanges, MemoryEdit,
    MemoryError, MemoryMark, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope,
    MemoryStatistics, MemoryStore, NewEmbedding, StoreLabel, Tombstone,
};

use super::{
    PostgresStore, addresses, erase,
    locks::{KeyedLockGuard, KeyedLocks, LockKey},
    pool::{Database, Failure, Transaction, retry},
};

use models::ModelNumbers;

pub(super) use change::erase_chunk;
pub(super) use rows::{ALL_RECORDS, check_record};

/// A memory store on a session database. [`PostgresStore::memory`] creates it.
#[derive(Clone)]
pub struct PostgresMemoryStore {
    database: Arc<Database>,
    models: Arc<ModelNumbers>,
    locks: Arc<KeyedLocks>,
    uri: Arc<str>,
}

impl fmt::Debug for PostgresMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("PostgresMemoryStore");
        tuple.field(&self.uri).finish()
    }
}

impl PostgresStore {
    /// Returns the long-term memory on this database. Erasing a user erases the user's memories
    /// too; deleting a session keeps the memories ingested from it.
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
        Failure::Rejected(error)
    }
}

fn into_memory_error(failure: Failure<MemoryError>) -> MemoryError {
    match failure {
        Failure::Rejected(error) => error,
        failure => MemoryError::backend(failure.cause()),
    }
}

/// Returns the transaction with the value. On a failure other than a database error, rolls back, so
/// that the connection returns to the pool.
async fn or_roll_back<T>(
    transaction: Transaction,
    outcome: Outcome<T>,
) -> Outcome<(Transaction, T)> {
    match outcome {
        Ok(value) => Ok((transaction, value)),
        Err(failure) => {
            if matches!(failure, Failure::Rejected(_) | Failure::Transient(_)) {
                transaction.roll_back().await?;
            }
            Err(failure)
        }
    }
}

impl PostgresMemoryStore {
    /// Runs `work` in its own task: the holder of a scope's lock must make progress even if its
    /// caller stops polling.
    async fn run_in_task<T, F>(
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
    /// Locks the user's memories against other tasks of this process.
    async fn lock(&self, scope: &MemoryScope) -> Result<Vec<KeyedLockGuard>, MemoryError> {
        let keys = vec![LockKey::Memories(scope.clone())];
        self.locks.lock_all(keys).await.map_err(into_memory_error)
    }
}

#[async_trait]
impl MemoryStore for PostgresMemoryStore {
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<IngestReceipt, MemoryError> {
        if batch.memories.is_empty() {
            return Ok(IngestReceipt::default());
        }
        self.run_in_task(|store| async move {
            let _locked = store.lock(&batch.scope).await?;
            let (database, models, mut unconfirmed) = (&store.database, &store.models, None);
            let added = retry!(add::add(database, models, &batch, None, &mut unconfirmed));
            added
                .map(Option::unwrap_or_default)
                .map_err(into_memory_error)
        })
        .await
    }

    async fn erasures(&self) -> Result<u64, MemoryError> {
        retry!(erase::count_erasures(&self.database)).map_err(into_memory_error)
    }

    async fn add_unless_erased(
        &self,
        batch: Arc<MemoryBatch>,
        erasures: u64,
    ) -> Result<Option<IngestReceipt>, MemoryError> {
        let erasures = Some(erasures);
        self.run_in_task(move |store| async move {
            let _locked = store.lock(&batch.scope).await?;
            let (database, models, mut unconfirmed) = (&store.database, &store.models, None);
            retry!(add::add(
                database,
                models,
                &batch,
                erasures,
                &mut unconfirmed
            ))
            .map_err(into_memory_error)
        })
        .await
    }

    async fn erase_user(&self, scope: &MemoryScope) -> Result<EraseReceipt, MemoryError> {
        let scope = scope.clone();
        self.run_in_task(|store| async move {
            let database = &store.database;
            retry!(erase::add_erasure(database)).map_err(into_memory_error)?;
            let mut receipt = EraseReceipt::default();
            loop {
                let chunk = retry!(change::erase_chunk_alone(database, &scope));
                let chunk = chunk.map_err(into_memory_error)?;
                receipt += chunk;
                if chunk == EraseReceipt::default() {
                    break;
                }
            }
            receipt.unfinished = erase::vacuum_or_note(database).await;
            Ok(receipt)
        })
        .await
    }

    fn label(&self) -> StoreLabel {
        erase::label(&self.uri)
    }

    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError> {
        retry!(read::body_hashes(&self.database, scope, session, ids)).map_err(into_memory_error)
    }

    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError> {
        retry!(read::mark(&self.database, scope)).map_err(into_memory_error)
    }

    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError> {
        retry!(read::changes(&self.database, scope, since)).map_err(into_memory_error)
    }

    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        retry!(read::rows(&self.database, scope, &rows, with_vectors)).map_err(into_memory_error)
    }

    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError> {
        let (scope, id) = (scope.clone(), id.to_owned());
        self.run_in_task(|store| async move {
            let _locked = store.lock(&scope).await?;
            retry!(change::update(&store.database, &scope, &id, &edit)).map_err(into_memory_error)
        })
        .await
    }

    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError> {
        let (scope, mut unconfirmed) = (scope.clone(), None);
        self.run_in_task(|store| async move {
            let _locked = store.lock(&scope).await?;
            retry!(change::forget(
                &store.database,
                &scope,
                &what,
                &mut unconfirmed
            ))
            .map_err(into_memory_error)
        })
        .await
    }

    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError> {
        self.run_in_task(|store| async move {
            retry!(change::expire(&store.database, now_us, limit)).map_err(into_memory_error)
        })
        .await
    }

    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError> {
        retry!(read::statistics(&self.database, scope, now_us)).map_err(into_memory_error)
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, MemoryError> {
        retry!(read::count_entries(&self.database, app, user)).map_err(into_memory_error)
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
        retry!(read::without_embedding(
            database, scope, model, dims, after, limit
        ))
        .map_err(into_memory_error)
    }

    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError> {
        let scope = scope.clone();
        self.run_in_task(|store| async move {
            let (database, models) = (&store.database, &store.models);
            retry!(change::set_embeddings(
                database,
                models,
                &scope,
                generation,
                &embeddings
            ))
            .map_err(into_memory_error)
        })
        .await
    }

    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError> {
        retry!(addresses::memory_scopes(&self.database, after, limit)).map_err(into_memory_error)
    }

    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError> {
        retry!(restore::tombstones(&self.database, scope, after, limit)).map_err(into_memory_error)
    }

    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError> {
        self.run_in_task(|store| async move {
            let _locked = store.lock(&restore.scope).await?;
            let (database, models, mut is_sent) = (&store.database, &store.models, false);
            retry!(restore::restore(database, models, &restore, &mut is_sent))
                .map_err(into_memory_error)
        })
        .await
    }
}
