//! The memory store on the session database. It shares the session writer. Erasing a user erases
//! the user's memories too.
//!
//! Add: [`SqliteMemoryStore`] → `writer` → `add` (plans the batch, then writes rows). Read:
//! [`SqliteMemoryStore`] → `readers` (a snapshot) → `read` → `rows` (decodes).

mod add;
mod change;
mod models;
mod read;
mod restore;
mod rows;
mod scope;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    EraseReceipt, Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryChanges, MemoryEdit,
    MemoryError, MemoryMark, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope,
    MemoryStatistics, MemoryStore, NewEmbedding, PreparedMemory, StoreLabel, Tombstone,
};
use rusqlite::Connection;

use super::{SqliteStore, addresses, erase, failed, readers::Readers, writer::Writer};

pub(super) use change::erase_chunk;
pub(super) use rows::{all_records_sql, check_record};
pub(super) use scope::seq_from_key;

/// A memory store on a session database. [`SqliteStore::memory`] creates it.
#[derive(Clone)]
pub struct SqliteMemoryStore {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    uri: Arc<str>,
    has_file: bool,
}

impl fmt::Debug for SqliteMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("SqliteMemoryStore");
        tuple.field(&self.uri).finish()
    }
}

impl SqliteStore {
    /// Returns the long-term memory on this database. Erasing a user erases the user's memories
    /// too; deleting a session keeps the memories ingested from it.
    pub fn memory(&self) -> SqliteMemoryStore {
        SqliteMemoryStore {
            writer: Arc::clone(&self.writer),
            readers: Arc::clone(&self.readers),
            uri: self.options.uri().into(),
            has_file: self.options.path.is_some(),
        }
    }
}

/// Why a memory operation failed.
enum Failure {
    /// The database failed.
    Sql(rusqlite::Error),
    /// The input was rejected before anything was written.
    Rejected(MemoryError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Failure {
        Failure::Rejected(error)
    }
}

type Outcome<T> = Result<T, Failure>;

/// Separates rejections from database errors. A rejection has written nothing, so the writer must
/// roll back only after a database error.
fn split_rejection<T>(
    operation: &'static str,
    outcome: Outcome<T>,
) -> retain_core::Result<Result<T, MemoryError>> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Rejected(error)) => Ok(Err(error)),
        Err(Failure::Sql(error)) => Err(failed(operation, error)),
    }
}

impl SqliteMemoryStore {
    async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let job = move |connection: &Connection| split_rejection(operation, work(connection));
        let written = self.writer.write(operation, job).await;
        written.map_err(MemoryError::backend)?
    }

    /// Like [`write`](Self::write), for work that adds about `bytes` of data.
    async fn write_more<T: Send + 'static>(
        &self,
        operation: &'static str,
        bytes: usize,
        mut work: impl FnMut(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let job = move |connection: &Connection| split_rejection(operation, work(connection));
        let written = self.writer.add(operation, bytes, job).await;
        written.map_err(MemoryError::backend)?
    }

    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let job = move |connection: &Connection| split_rejection(operation, work(connection));
        let found = self.readers.read(operation, job).await;
        found.map_err(MemoryError::backend)?
    }
}

#[async_trait]
impl MemoryStore for SqliteMemoryStore {
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<IngestReceipt, MemoryError> {
        if batch.memories.is_empty() {
            return Ok(IngestReceipt::default());
        }
        let bytes: u64 = batch.memories.iter().map(PreparedMemory::bytes).sum();
        let add = move |connection: &Connection| add::add(connection, &batch);
        self.write_more("add memories", bytes as usize, add).await
    }

    async fn erasures(&self) -> Result<u64, MemoryError> {
        let count = |connection: &Connection| Ok(erase::count_erasures(connection)?);
        self.read("count erasures", count).await
    }

    async fn add_unless_erased(
        &self,
        batch: Arc<MemoryBatch>,
        erasures: u64,
    ) -> Result<Option<IngestReceipt>, MemoryError> {
        let bytes: u64 = batch.memories.iter().map(PreparedMemory::bytes).sum();
        let add =
            move |connection: &Connection| match erase::count_erasures(connection)? == erasures {
                true => add::add(connection, &batch).map(Some),
                false => Ok(None),
            };
        self.write_more("add memories", bytes as usize, add).await
    }

    async fn erase_user(&self, scope: &MemoryScope) -> Result<EraseReceipt, MemoryError> {
        let counted = self.writer.write("erase a user", erase::add_erasure).await;
        counted.map_err(MemoryError::backend)?;
        let mut receipt = EraseReceipt::default();
        loop {
            let scope = scope.clone();
            let erase = move |connection: &Connection| {
                Ok(change::erase_chunk(connection, &scope.app, &scope.user)?)
            };
            let chunk = self.write("erase a user", erase).await?;
            receipt += chunk;
            if chunk == EraseReceipt::default() {
                break;
            }
        }
        let rewritten = erase::rewrite_file(&self.writer, &self.readers).await;
        receipt.unfinished = rewritten.map_err(MemoryError::backend)?;
        Ok(receipt)
    }

    fn label(&self) -> StoreLabel {
        erase::label(&self.uri, self.has_file)
    }

    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError> {
        let (scope, session) = (scope.clone(), session.map(str::to_owned));
        let ids = ids.to_vec();
        self.read("find memories", move |connection| {
            read::body_hashes(connection, &scope, session.as_deref(), &ids)
        })
        .await
    }

    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError> {
        let (operation, scope) = ("read the memory mark", scope.clone());
        let read = move |connection: &Connection| -> Outcome<MemoryMark> {
            let row = scope::find_scope(connection, &scope)?;
            Ok(row.map(|row| row.mark()).unwrap_or_default())
        };
        let job = move |connection: &Connection| split_rejection(operation, read(connection));
        let found = self.readers.read_small(operation, job).await;
        found.map_err(MemoryError::backend)?
    }

    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError> {
        let scope = scope.clone();
        self.read("read memory changes", move |connection| {
            read::changes(connection, &scope, since)
        })
        .await
    }

    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        let scope = scope.clone();
        self.read("read memories", move |connection| {
            read::rows(connection, &scope, &rows, with_vectors)
        })
        .await
    }

    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError> {
        let (scope, id) = (scope.clone(), id.to_owned());
        self.write_more("change a memory", 0, move |connection| {
            change::update(connection, &scope, &id, &edit)
        })
        .await
    }

    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError> {
        let scope = scope.clone();
        self.write("forget memories", move |connection| {
            change::forget(connection, &scope, &what)
        })
        .await
    }

    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError> {
        // Usually no memory has expired; a read detects that without occupying the writer.
        let read = move |connection: &Connection| read::first_expiry(connection);
        let first = self.read("expire memories", read).await?;
        if first.is_none_or(|first| first > now_us) {
            return Ok(0);
        }
        let expire = move |connection: &Connection| change::expire(connection, now_us, limit);
        self.write("expire memories", expire).await
    }

    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError> {
        let scope = scope.clone();
        let count = move |connection: &Connection| read::statistics(connection, &scope, now_us);
        self.read("count memories", count).await
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, MemoryError> {
        let (app, user) = (app.to_owned(), user.map(str::to_owned));
        self.read("count memories", move |connection| {
            Ok(scope::count_entries(connection, &app, user.as_deref())?)
        })
        .await
    }

    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        let (scope, model) = (scope.clone(), model.to_owned());
        self.read("read memories", move |connection| {
            read::without_embedding(connection, &scope, &model, dims, after, limit)
        })
        .await
    }

    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError> {
        let scope = scope.clone();
        self.write_more("set embeddings", 0, move |connection| {
            change::set_embeddings(connection, &scope, generation, &embeddings)
        })
        .await
    }

    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError> {
        let after = after.cloned();
        self.read("list memory scopes", move |connection| {
            Ok(addresses::memory_scopes(connection, after.as_ref(), limit)?)
        })
        .await
    }

    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError> {
        let scope = scope.clone();
        self.read("list tombstones", move |connection| {
            restore::tombstones(connection, &scope, after, limit)
        })
        .await
    }

    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError> {
        let work = move |connection: &Connection| restore::restore(connection, &restore);
        self.write_more("restore memories", 0, work).await
    }
}
