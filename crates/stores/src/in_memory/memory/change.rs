//! Changes memories: edits, embeddings, forgetting, expiry.

use retain_core::{
    Forget, ForgetReceipt, MemoryEdit, MemoryError, MemoryKind, MemoryScope, MemoryVectors,
    NewEmbedding, plan_edit, plan_edited, store_rules::MemoryRemoval,
};

use super::scope::ScopeTable;

impl ScopeTable {
    pub(super) fn update(&mut self, id: &str, edit: &MemoryEdit) -> Result<bool, MemoryError> {
        let same_id = self.by_id.get(id).into_iter().flatten();
        let same_id = same_id.filter_map(|seq| self.rows.get(seq));
        let same_id = same_id.map(|row| row.record.clone()).collect();
        let Some(mut record) = plan_edited(id, same_id, edit)? else {
            return Ok(false);
        };
        let Some(row) = self.rows.get_mut(&record.info.seq) else {
            return Ok(false);
        };
        let (changed, totals) = plan_edit(self.totals, &record, row.bytes, edit)?;
        row.bytes = changed.bytes();
        if edit.update.content.is_some() {
            record.vectors = MemoryVectors::default();
        }
        record.content = changed.new.content;
        record.info.custom_metadata = changed.new.custom_metadata;
        record.info.expires_us = changed.new.expires_us;
        record.info.updated_us = Some(edit.now_us);
        record.info.revision = self.mark.revision + 1;
        let seq = record.info.seq;
        row.record = record;
        self.totals = totals;
        self.touch(&[seq]);
        Ok(true)
    }

    pub(super) fn set_embeddings(&mut self, generation: u64, embeddings: &[NewEmbedding]) {
        if self.mark.generation != generation {
            return;
        }
        let mut touched = Vec::new();
        for new in embeddings {
            let row = self.rows.get_mut(&new.seq);
            if let Some(row) = row.filter(|row| row.record.info.revision == new.revision) {
                row.record.vectors.embedding = Some(new.vector.clone());
                touched.push(new.seq);
            }
        }
        if !touched.is_empty() {
            self.touch(&touched);
        }
    }

    pub(super) fn forget(&mut self, scope: &MemoryScope, what: &Forget) -> ForgetReceipt {
        let seqs: Vec<u64> = match what {
            Forget::Ids(ids) => {
                let seqs = ids.iter().filter_map(|id| self.by_id.get(id));
                seqs.flatten().copied().collect()
            }
            Forget::Matching(_) | Forget::ExpiredSessions(_) => {
                let rows = self.rows.values().map(|row| &row.record.info);
                let matching = rows.filter(|info| what.matches(&info.filter_fields()));
                matching.map(|info| info.seq).collect()
            }
        };
        self.remove(scope, &seqs, MemoryRemoval::from_forget(what))
    }

    fn remove(&mut self, scope: &MemoryScope, seqs: &[u64], how: MemoryRemoval) -> ForgetReceipt {
        let mut receipt = ForgetReceipt::default();
        let before = self.tombstones.len();
        for row in seqs.iter().filter_map(|seq| self.rows.remove(seq)) {
            let info = &row.record.info;
            if let Some(same_id) = self.by_id.get_mut(&info.id) {
                same_id.retain(|seq| *seq != info.seq);
                if same_id.is_empty() {
                    self.by_id.remove(&info.id);
                }
            }
            let is_direct = info.kind == MemoryKind::Direct;
            let session = info.session.as_deref();
            let tombstone = how.tombstone(scope, session, &info.id, is_direct);
            self.tombstones.extend(tombstone);
            receipt.memories += 1;
            receipt.bytes += row.bytes;
        }
        receipt.tombstones = (self.tombstones.len() - before) as u64;
        self.totals.entries -= receipt.memories;
        self.totals.bytes -= receipt.bytes;
        if receipt.memories > 0 {
            self.touch(seqs);
        }
        receipt
    }

    /// Removes at most `limit` expired memories and returns their number.
    pub(super) fn expire(&mut self, scope: &MemoryScope, now_us: i64, limit: usize) -> usize {
        let rows = self.rows.values().map(|row| &row.record.info);
        let expired = rows.filter(|info| !info.is_alive(now_us));
        let seqs: Vec<u64> = expired.map(|info| info.seq).take(limit).collect();
        self.remove(scope, &seqs, MemoryRemoval::Expiry);
        seqs.len()
    }
}
