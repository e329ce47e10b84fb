//! Memories that a migration copies from another store.

use super::{
    identity::Tombstone,
    plan::{MemoryTotals, PreparedMemory},
    record::MemoryScope,
    service::MemoryError,
};

/// A memory of another store.
#[derive(Debug, Clone)]
pub struct SourceMemory {
    /// Its number there.
    pub seq: u64,
    /// The memory, with the hash of its body as ingested.
    pub memory: PreparedMemory,
    /// When it was ingested.
    pub created_us: i64,
    /// When it was edited, if ever.
    pub updated_us: Option<i64>,
}

/// The memories and tombstones of a scope in another store, or some of them.
#[derive(Debug, Clone)]
pub struct MemoryRestore {
    /// The app and user.
    pub scope: MemoryScope,
    /// Memories, by number.
    pub memories: Vec<SourceMemory>,
    /// Hashes of forgotten ones.
    pub tombstones: Vec<Tombstone>,
}

/// The totals of a scope after a restore. `last_seq` is the highest number that was ever assigned.
/// Limits do not apply: the memories were within those of the other store.
pub fn plan_restore(
    before: MemoryTotals,
    last_seq: u64,
    restore: &MemoryRestore,
) -> Result<MemoryTotals, MemoryError> {
    let (mut after, mut last) = (before, last_seq);
    for kept in &restore.memories {
        if kept.seq <= last {
            let what = format!("memory {:?}", kept.memory.new.id);
            let reason = format!(
                "has number {}, but the store already has numbers up to {last}",
                kept.seq
            );
            return Err(MemoryError::invalid_input(what, reason));
        }
        last = kept.seq;
        after.entries += 1;
        after.bytes += kept.memory.bytes();
    }
    Ok(after)
}
