//! What is known beyond one conversation: what is remembered, and the ports behind which it is kept.
//!
//! Events go in through [`MemoryService`], from sessions or one by one; what fits a question comes
//! back as [`MemoryEntry`]s, with times as text. A service that keeps them in a database stands on a
//! [`MemoryStore`], which knows [`MemoryRecord`]s and asks `plan` what becomes of a new one.

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
    KnownMemory, MemoryBatch, MemoryLimits, MemoryPlan, MemoryTotals, NewMemory, PreparedMemory,
    Repeats, plan_batch, plan_edit, plan_edited, plan_growth,
};
pub use record::{
    MemoryAbout, MemoryFacts, MemoryKind, MemoryOrigin, MemoryRecord, MemoryScope, MemoryVector,
    MemoryVectors, OriginKind,
};
pub use restore::{KeptMemory, MemoryRestore, plan_restore};
pub use service::{MemoryError, MemoryService};
pub use store::{
    ForgetReceipt, MemoryAdded, MemoryChanges, MemoryEdit, MemoryMark, MemoryRows,
    MemoryStatistics, MemoryStore, MemoryUpdate, NewEmbedding,
};
pub use timestamp::timestamp_text;
