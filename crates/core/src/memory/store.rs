//! `MemoryStore`: what keeps memories must do. The seam between rules and bytes.
//!
//! Everything here arrives decided; what depends on what is stored is decided by the functions of
//! `plan`, which a store asks inside its transaction.

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
use crate::{content::Content, json::JsonMap};

/// What became of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryAdded {
    /// New ones.
    pub added: u64,
    /// Known ones that say something else now.
    pub replaced: u64,
    /// Those that were there already.
    pub known: u64,
    /// Those that were forgotten before, and stay so.
    pub forgotten: u64,
}

/// How far somebody knows a scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryMark {
    /// Another one after the user was erased. 0: there is nothing.
    pub generation: u64,
    /// Ascending with every change.
    pub revision: u64,
    /// The number of the newest memory that there ever was.
    pub last_seq: u64,
}

/// What has changed since a mark. What is new has numbers behind that of the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChanges {
    /// These have changed or are gone.
    Touched {
        /// Their numbers.
        seqs: Vec<u64>,
        /// Where the scope is now.
        mark: MemoryMark,
    },
    /// More than is remembered: everything is to be read.
    Rebuild,
}

/// Which memories are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryRows {
    /// Those behind a number, ascending, at most so many.
    After {
        /// The number.
        seq: u64,
        /// How many.
        limit: usize,
    },
    /// Those with these numbers; what is not there is left out.
    Numbered(Vec<u64>),
    /// Those with this id, in the order of their arrival.
    WithId(String),
}

/// What a change by hand sets. What is not said stays.
#[derive(Debug, Clone, Default)]
pub struct MemoryUpdate {
    /// What it says now.
    pub content: Option<Content>,
    /// The user's own notes.
    pub custom_metadata: Option<JsonMap>,
    /// When its time is up; `Some(None)`: never.
    pub expires_us: Option<Option<i64>>,
}

/// A change by hand, with all that decides about it.
#[derive(Debug, Clone)]
pub struct MemoryEdit {
    /// What it sets.
    pub update: MemoryUpdate,
    /// What there is room for.
    pub limits: MemoryLimits,
    /// The time, in microseconds since 1970.
    pub now_us: i64,
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForgetReceipt {
    /// Memories that are gone.
    pub memories: u64,
    /// Bytes that they took.
    pub bytes: u64,
    /// Hashes that were left, so that they do not come back.
    pub tombstones: u64,
}

/// What a scope holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryStatistics {
    /// Memories whose time is not up.
    pub entries: u64,
    /// Bytes of what they say, with their notes, authors and tools.
    pub bytes: u64,
    /// Conversations that they come from.
    pub sessions: u64,
    /// Those that come from tools.
    pub from_tools: u64,
    /// Those that were given as memories.
    pub direct: u64,
    /// Those that have a vector of an embedder.
    pub embedded: u64,
    /// Hashes of what was forgotten.
    pub tombstones: u64,
    /// When the oldest was said.
    pub oldest: Option<f64>,
    /// When the newest was said.
    pub newest: Option<f64>,
    /// How often something has changed.
    pub revision: u64,
}

/// A vector for a memory.
#[derive(Debug, Clone)]
pub struct NewEmbedding {
    /// The memory's number.
    pub seq: u64,
    /// The revision of the body that the vector was made of. One that has changed gets none.
    pub revision: u64,
    /// The vector.
    pub vector: MemoryVector,
}

/// What keeps memories. Rules live above it; nothing here decides. Every method is atomic: it
/// happens as a whole or not at all.
#[async_trait]
pub trait MemoryStore: fmt::Debug + Send + Sync + 'static {
    /// Takes a batch up, as [`plan_batch`](super::plan_batch) and
    /// [`plan_growth`](super::plan_growth) say. What is acknowledged is in every later
    /// [`mark`](Self::mark), also of another process.
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<MemoryAdded, MemoryError>;

    /// The body hashes of the memories with these ids in this session; `None` where there is none.
    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError>;

    /// Where the scope is. Asked before every search, so it must be cheap.
    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError>;

    /// What has changed since then.
    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError>;

    /// Reads memories, also those whose time is up; with their vectors only if asked.
    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError>;

    /// Changes the memory with this id by hand, as [`plan_edited`](super::plan_edited) and
    /// [`plan_edit`](super::plan_edit) say; false if there is none. Its vectors are dropped with
    /// its content.
    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError>;

    /// Removes memories with their vectors and leaves hashes: of their ids if those were asked for,
    /// else of each memory in its session.
    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError>;

    /// Removes up to `limit` memories, of anybody, whose time is up, as
    /// [`forget`](Self::forget) does, and says how many. Those that were given leave no hash: they
    /// do not come back by themselves, and who gives one again means it.
    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError>;

    /// What the scope holds, without what is only waiting to be [expired](Self::expire).
    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError>;

    /// Memories behind a number that have no vector of this model and size, ascending, at most so
    /// many.
    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Result<Vec<MemoryRecord>, MemoryError>;

    /// Gives memories vectors in place of those they had. `generation`: that of the scope when
    /// they were read. After an erase numbers and revisions begin anew, and nobody's vectors are
    /// taken for another's.
    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError>;

    /// Whose memories there are, or hashes of forgotten ones, behind `after`, ordered by (app, user)
    /// as bytes, at most so many.
    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError>;

    /// The hashes of what was forgotten behind `after`, ascending, at most so many.
    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError>;

    /// Takes up what another store kept, as it was kept there: numbers, times, hashes, vectors.
    /// [`plan_restore`](super::plan_restore) says what the scope holds then, or refuses. The bodies
    /// are of a new revision of this scope. Hashes that are there already stay once.
    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError>;
}
