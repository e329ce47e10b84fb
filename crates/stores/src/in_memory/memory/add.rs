//! Adds memories to a scope's table.

use retain_core::{
    IngestReceipt, MemoryBatch, MemoryError, MemoryInfo, MemoryPlan, MemoryRecord, MemoryScope,
    PreparedMemory, Tombstone, plan_batch, plan_growth,
};

use super::scope::{Row, ScopeTable};

impl ScopeTable {
    pub(super) fn add(&mut self, batch: &MemoryBatch) -> Result<IngestReceipt, MemoryError> {
        let find = |memory: &PreparedMemory| {
            let is_forgotten = self.is_forgotten(&batch.scope, memory);
            Ok((self.find_existing(&memory.new.id), is_forgotten))
        };
        let plans = plan_batch::<MemoryError>(batch, self.mark.last_seq, find)?;
        self.totals = plan_growth(self.totals, batch, &plans)?;
        let mut receipt = IngestReceipt::default();
        let revision = self.mark.revision + 1;
        let mut touched = Vec::new();
        for (memory, plan) in batch.memories.iter().zip(plans) {
            match plan {
                MemoryPlan::Insert => {
                    self.mark.last_seq += 1;
                    let seq = self.mark.last_seq;
                    self.put(seq, revision, memory, batch.now_us);
                    let same_id = self.by_id.entry(memory.new.id.clone()).or_default();
                    same_id.push(seq);
                    receipt.added += 1;
                }
                MemoryPlan::Replace { seq, .. } => {
                    self.put(seq, revision, memory, batch.now_us);
                    touched.push(seq);
                    receipt.replaced += 1;
                }
                MemoryPlan::Unchanged => receipt.unchanged += 1,
                MemoryPlan::Forgotten => receipt.forgotten += 1,
            }
        }
        if receipt.added + receipt.replaced > 0 {
            self.touch(&touched);
        }
        Ok(receipt)
    }

    fn is_forgotten(&self, scope: &MemoryScope, memory: &PreparedMemory) -> bool {
        let session = memory.new.session.as_deref();
        let excluding = Tombstone::excluding(scope, session, &memory.new.id);
        excluding.iter().any(|hash| self.tombstones.contains(hash))
    }

    pub(super) fn put(&mut self, seq: u64, revision: u64, memory: &PreparedMemory, now_us: i64) {
        let new = memory.new.clone();
        let created_us = self.rows.get(&seq).map(|row| row.record.info.created_us);
        let info = MemoryInfo {
            seq,
            id: new.id,
            revision,
            kind: new.kind,
            session: new.session,
            position: new.position,
            event_id: new.event_id,
            author: new.author,
            origin: new.origin,
            timestamp: new.timestamp,
            created_us: created_us.unwrap_or(now_us),
            updated_us: None,
            expires_us: new.expires_us,
            custom_metadata: new.custom_metadata,
        };
        let row = Row {
            record: MemoryRecord {
                info,
                content: new.content,
                vectors: new.vectors,
            },
            body_hash: memory.body_hash,
            metadata_json: memory.metadata_json.clone(),
            bytes: memory.bytes(),
        };
        self.rows.insert(seq, row);
    }
}
