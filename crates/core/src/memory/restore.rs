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
    /// Its number in the other store.
    pub seq: u64,
    /// The memory, with the hash of its body as ingested.
    pub memory: PreparedMemory,
    /// When it was ingested.
    pub created_us: i64,
    /// When it was edited, if ever.
    pub updated_us: Option<i64>,
}

/// Memories and tombstones of a scope in another store: all of them or one part.
#[derive(Debug, Clone)]
pub struct MemoryRestore {
    /// The app and user.
    pub scope: MemoryScope,
    /// The memories, ordered by number.
    pub memories: Vec<SourceMemory>,
    /// The tombstones of forgotten memories.
    pub tombstones: Vec<Tombstone>,
}

/// Returns the totals of a scope after a restore. `last_seq` is the highest number that was ever
/// assigned. Limits do not apply, because the other store has already checked its own.
pub fn plan_restore(
    before: MemoryTotals,
    last_seq: u64,
    restore: &MemoryRestore,
) -> Result<MemoryTotals, MemoryError> {
    let (mut after, mut last) = (before, last_seq);
    for source in &restore.memories {
        if source.seq <= last {
            let what = format!("memory {:?}", source.memory.new.id);
            let reason = format!(
                "has number {}, but the store already has numbers up to {last}",
                source.seq
            );
            return Err(MemoryError::invalid_input(what, reason));
        }
        last = source.seq;
        after.entries += 1;
        after.bytes += source.memory.bytes();
    }
    Ok(after)
}
