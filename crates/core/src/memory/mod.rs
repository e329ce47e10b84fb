//! Long-term memory: its data, and the ports to services and stores.
//!
//! A [`MemoryService`] ingests sessions or single events, and a search returns [`MemoryEntry`]s. A
//! service with a database uses a [`MemoryStore`], which stores [`MemoryRecord`]s. A store
//! calls the functions of `plan` to decide whether to insert, replace or skip a new memory.

mod embedder;
mod entry;
mod filter;
mod identity;
mod plan;
mod record;
mod restore;
mod service;
mod store;
mod timestamp;

pub use embedder::Embedder;
pub use entry::{MemoryEntry, SearchMemoryResponse};
pub use filter::{Forget, MemoryFilter};
pub use identity::{Tombstone, derived_memory_id};
pub use plan::{
    ExistingMemory, MemoryBatch, MemoryLimits, MemoryPlan, MemoryTotals, NewMemory, PreparedMemory,
    RepeatPolicy, plan_batch, plan_edit, plan_edited, plan_growth,
};
pub use record::{
    FilterFields, MemoryInfo, MemoryKind, MemoryOrigin, MemoryRecord, MemoryScope, MemoryVector,
    MemoryVectors, OriginKind,
};
pub use restore::{MemoryRestore, SourceMemory, plan_restore};
pub use service::{MemoryError, MemoryService};
pub use store::{
    ForgetReceipt, IngestReceipt, MemoryChanges, MemoryEdit, MemoryMark, MemoryRows,
    MemoryStatistics, MemoryStore, MemoryUpdate, NewEmbedding,
};
pub use timestamp::timestamp_text;
