//! `MemoryStore`: the port that a memory store implements.
//!
//! The service validates all arguments. For decisions that depend on stored rows, a store calls the
//! functions of `plan` inside its transaction.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    filter::Forget,
    identity::Tombstone,
    plan::{MemoryBatch, MemoryLimits},
    record::{MemoryRecord, MemoryScope, MemoryVector},
    restore::MemoryRestore,
    service::MemoryError,
};
use crate::{
    content::Content,
    erase::{EraseReceipt, StoreLabel},
    json::JsonMap,
};

/// The result of an ingest, as numbers of memories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReceipt {
    /// Inserted memories.
    pub added: u64,
    /// Existing memories with new content.
    pub replaced: u64,
    /// Memories that existed already.
    pub unchanged: u64,
    /// Memories that were forgotten before and are not ingested again.
    pub forgotten: u64,
}

/// The version of a scope that a reader has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryMark {
    /// A number that changes when the user is erased; 0 if the scope is empty.
    pub generation: u64,
    /// A number that increases with every change.
    pub revision: u64,
    /// The highest number that was ever assigned.
    pub last_seq: u64,
}

/// The changes since a mark. They do not list new memories, whose numbers are above the mark's
/// `last_seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChanges {
    /// The memories that were changed or deleted.
    Touched {
        /// Their numbers.
        seqs: Vec<u64>,
        /// The current mark of the scope.
        mark: MemoryMark,
    },
    /// The changes are no longer recorded: read everything.
    Rebuild,
}

/// Selects the memories to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryRows {
    /// Memories after a number, ascending.
    After {
        /// The number.
        seq: u64,
        /// The maximum number of memories.
        limit: usize,
    },
    /// Memories with these numbers; missing ones are omitted.
    Numbered(Vec<u64>),
    /// Memories with this id, in the order of their arrival.
    WithId(String),
}

/// The fields that an edit sets. Unset fields stay.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MemoryUpdate {
    /// The new content.
    pub content: Option<Content>,
    /// Custom metadata.
    pub custom_metadata: Option<JsonMap>,
    /// The new expiry, in microseconds since 1970; `Some(None)` removes it.
    pub expires_us: Option<Option<i64>>,
}

impl MemoryUpdate {
    /// Sets the content.
    pub fn with_content(mut self, content: Content) -> MemoryUpdate {
        self.content = Some(content);
        self
    }

    /// Sets the custom metadata.
    pub fn with_custom_metadata(mut self, metadata: JsonMap) -> MemoryUpdate {
        self.custom_metadata = Some(metadata);
        self
    }

    /// Sets the expiry, in microseconds since 1970; `None` removes it.
    pub fn with_expires_us(mut self, expires_us: Option<i64>) -> MemoryUpdate {
        self.expires_us = Some(expires_us);
        self
    }
}

/// An edit with its limits and time.
#[derive(Debug, Clone)]
pub struct MemoryEdit {
    /// The fields to set.
    pub update: MemoryUpdate,
    /// The limits.
    pub limits: MemoryLimits,
    /// The time, in microseconds since 1970.
    pub now_us: i64,
}

/// The result of forgetting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForgetReceipt {
    /// Deleted memories.
    pub memories: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Tombstones that prevent a new ingest.
    pub tombstones: u64,
}

/// Statistics of a scope.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryStatistics {
    /// Memories that have not expired.
    pub entries: u64,
    /// Bytes of their content, metadata, authors and tools.
    pub bytes: u64,
    /// Sessions from which the memories were ingested.
    pub sessions: u64,
    /// Memories from tools.
    pub from_tools: u64,
    /// Memories that were added directly.
    pub direct: u64,
    /// Memories with an embedder's vector.
    pub embedded: u64,
    /// Tombstones of forgotten memories.
    pub tombstones: u64,
    /// The time of the oldest memory.
    pub oldest: Option<f64>,
    /// The time of the newest memory.
    pub newest: Option<f64>,
    /// The revision of the scope.
    pub revision: u64,
}

/// An embedding to store for a memory.
#[derive(Debug, Clone)]
pub struct NewEmbedding {
    /// The memory's number.
    pub seq: u64,
    /// The revision of the body that the vector was computed from. If the memory has changed since,
    /// the vector is dropped.
    pub revision: u64,
    /// The vector.
    pub vector: MemoryVector,
}

/// A store of memories. The service has the rules; a store decides nothing. Every method is atomic.
#[async_trait]
pub trait MemoryStore: fmt::Debug + Send + Sync + 'static {
    /// Ingests a batch by [`plan_batch`](super::plan_batch) and
    /// [`plan_growth`](super::plan_growth). An acknowledged batch is part of every later
    /// [`mark`](Self::mark), in every process.
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<IngestReceipt, MemoryError>;

    /// How often users were erased from this store. A later [`erase_user`](Self::erase_user) always
    /// increases the number. A store that returns the default does not refuse late writes.
    async fn erasures(&self) -> Result<u64, MemoryError> {
        Ok(0)
    }

    /// Like [`add`](Self::add), unless the number of [`erasures`](Self::erasures) differs: then it
    /// stores nothing and returns `None`. The comparison is part of the transaction.
    async fn add_unless_erased(
        &self,
        batch: Arc<MemoryBatch>,
        _erasures: u64,
    ) -> Result<Option<IngestReceipt>, MemoryError> {
        self.add(batch).await.map(Some)
    }

    /// Erases the scope irrecoverably, with vectors and tombstones: first increases the number of
    /// [`erasures`](Self::erasures), then deletes. No deleted byte stays in a file of the store. An
    /// erase may be large, so it may take several transactions; an interrupted erase can be repeated.
    async fn erase_user(&self, scope: &MemoryScope) -> Result<EraseReceipt, MemoryError>;

    /// Names the store in receipts.
    fn label(&self) -> StoreLabel {
        StoreLabel::new("a memory store")
    }

    /// Returns the body hashes of the memories with these ids in this session; `None` for a missing memory.
    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError>;

    /// Returns the current mark of the scope. It is read before every search, so it must be cheap.
    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError>;

    /// Returns the changes of a scope since a mark.
    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError>;

    /// Reads memories, including expired ones; with their vectors if requested.
    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError>;

    /// Edits the memory with this id by [`plan_edited`](super::plan_edited) and
    /// [`plan_edit`](super::plan_edit); returns false if it does not exist. New content
    /// deletes the vectors of the memory.
    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError>;

    /// Deletes memories with their vectors and leaves tombstones: one per id if the request names
    /// ids, otherwise one per memory in its session.
    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError>;

    /// Deletes up to `limit` expired memories of all users, as [`forget`](Self::forget) does, and
    /// returns their number. Memories that were added directly leave no tombstone, because no
    /// ingest brings them back.
    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError>;

    /// Returns the statistics of the scope. Expired memories do not count, even if they are not
    /// [deleted](Self::expire) yet.
    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError>;

    /// Counts the memories of an app or of one of its users, with expired memories that were not
    /// [deleted](Self::expire) yet. The default implementation visits every scope.
    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, MemoryError> {
        const PAGE: usize = 500;
        let (mut entries, mut after) = (0, None);
        loop {
            let page = self.scopes(after.as_ref(), PAGE).await?;
            let is_counted = |scope: &&MemoryScope| {
                scope.app == app && user.is_none_or(|user| scope.user == user)
            };
            for scope in page.iter().filter(is_counted) {
                // At this time, no memory has expired.
                entries += self.statistics(scope, i64::MIN).await?.entries;
            }
            match page.into_iter().last() {
                Some(last) => after = Some(last),
                None => return Ok(entries),
            }
        }
    }

    /// Returns up to `limit` memories with numbers above `after` that have no vector of this model
    /// and size, ascending.
    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Result<Vec<MemoryRecord>, MemoryError>;

    /// Replaces the vectors of memories. `generation` is the generation of the scope when the
    /// memories were read: after an erase, numbers and revisions restart, and vectors from
    /// before must not be stored.
    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError>;

    /// Returns up to `limit` scopes after `after` that have memories or tombstones, ordered by app
    /// and user as bytes.
    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError>;

    /// Returns up to `limit` tombstones after `after`, ascending.
    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError>;

    /// Restores memories of another store with their numbers, times, hashes and vectors, by
    /// [`plan_restore`](super::plan_restore). The bodies get a new revision of this scope. Existing
    /// tombstones are not duplicated.
    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError>;
}
