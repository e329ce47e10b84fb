//! Memories that come from another store, as they were kept there.

use super::{
    identity::Tombstone,
    plan::{MemoryTotals, PreparedMemory},
    record::MemoryScope,
    service::MemoryError,
};

/// A memory as another store kept it.
#[derive(Debug, Clone)]
pub struct KeptMemory {
    /// Its number there.
    pub seq: u64,
    /// The memory, with the hash of what was ingested.
    pub memory: PreparedMemory,
    /// When it was taken up.
    pub created_us: i64,
    /// When it was changed by hand, if ever.
    pub updated_us: Option<i64>,
}

/// What another store kept of a scope, or a part of it.
#[derive(Debug, Clone)]
pub struct MemoryRestore {
    /// Whose.
    pub scope: MemoryScope,
    /// Memories, by number.
    pub memories: Vec<KeptMemory>,
    /// Hashes of forgotten ones.
    pub tombstones: Vec<Tombstone>,
}

/// What a scope holds after what another store kept is taken up. `last_seq`: the number of the
/// newest memory that there ever was. Limits are not asked: it was within those of the other store.
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
                "has number {}, and the store knows numbers up to {last}",
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
