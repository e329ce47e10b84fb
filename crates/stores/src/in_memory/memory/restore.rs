//! Restores the memories and tombstones of another store without change, for a migration.

use retain_core::{MemoryError, MemoryRestore, Tombstone, plan_restore};

use super::scope::ScopeTable;

impl ScopeTable {
    /// Lists the tombstones, ascending by hash.
    pub(super) fn list_tombstones(&self, after: Option<Tombstone>, limit: usize) -> Vec<Tombstone> {
        let is_later = |hash: &Tombstone| after.is_none_or(|after| *hash > after);
        let hashes = self.tombstones.iter().copied();
        let mut hashes: Vec<Tombstone> = hashes.filter(is_later).collect();
        hashes.sort_unstable();
        hashes.truncate(limit);
        hashes
    }

    pub(super) fn restore(&mut self, restore: &MemoryRestore) -> Result<(), MemoryError> {
        self.totals = plan_restore(self.totals, self.mark.last_seq, restore)?;
        let revision = self.mark.revision + 1;
        for restored in &restore.memories {
            self.mark.last_seq = restored.seq;
            let (seq, memory) = (restored.seq, &restored.memory);
            self.put(seq, revision, memory, restored.created_us);
            if let Some(row) = self.rows.get_mut(&seq) {
                row.record.info.updated_us = restored.updated_us;
            }
            let same_id = self.by_id.entry(memory.new.id.clone()).or_default();
            same_id.push(seq);
        }
        self.tombstones.extend(&restore.tombstones);
        self.touch(&[]);
        Ok(())
    }
}
