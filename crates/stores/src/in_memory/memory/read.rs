//! Reads memories of a scope's table.

use std::collections::HashSet;

use retain_core::{
    ExistingMemory, MemoryChanges, MemoryKind, MemoryMark, MemoryRecord, MemoryRows,
    MemoryStatistics, MemoryVectors, OriginKind,
};

use super::scope::{Row, ScopeTable};

impl ScopeTable {
    pub(super) fn find_existing(&self, id: &str) -> Vec<ExistingMemory> {
        let seqs = self.by_id.get(id).into_iter().flatten();
        let rows = seqs.filter_map(|seq| self.rows.get(seq));
        rows.map(|row| ExistingMemory {
            seq: row.record.info.seq,
            session: row.record.info.session.clone(),
            body_hash: row.body_hash,
            metadata_json: row.metadata_json.clone(),
            bytes: row.bytes,
            is_edited: row.record.info.updated_us.is_some(),
            kind: row.record.info.kind,
            expires_us: row.record.info.expires_us,
        })
        .collect()
    }

    /// Returns the body hash of the memory with this id from this session.
    pub(super) fn body_hash(&self, session: Option<&str>, id: &str) -> Option<u64> {
        let same_id = self.find_existing(id);
        let mut same_id = same_id.iter();
        let same_session = same_id.find(|memory| memory.session.as_deref() == session);
        same_session.map(|memory| memory.body_hash)
    }

    pub(super) fn changes(&self, since: MemoryMark) -> MemoryChanges {
        let recorded = self.floor..=self.mark.revision;
        if self.mark.generation != since.generation || !recorded.contains(&since.revision) {
            return MemoryChanges::Rebuild;
        }
        let later = self.touched.iter().filter(|(at, _)| *at > since.revision);
        let mut seqs: Vec<u64> = later.map(|(_, seq)| *seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        let mark = self.mark;
        MemoryChanges::Touched { seqs, mark }
    }

    pub(super) fn rows(&self, rows: &MemoryRows, with_vectors: bool) -> Vec<MemoryRecord> {
        let copy = |row: &Row| copy_record(row, with_vectors);
        let get = |seq: &u64| self.rows.get(seq);
        match rows {
            MemoryRows::After { seq, limit } => {
                let later = self.rows.range(seq.saturating_add(1)..);
                later.take(*limit).map(|(_, row)| copy(row)).collect()
            }
            MemoryRows::Numbered(seqs) => seqs.iter().filter_map(get).map(copy).collect(),
            MemoryRows::WithId(id) => {
                let seqs = self.by_id.get(id).into_iter().flatten();
                seqs.filter_map(get).map(copy).collect()
            }
        }
    }

    pub(super) fn without_embedding(
        &self,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Vec<MemoryRecord> {
        let later = self.rows.range(after.saturating_add(1)..);
        let lacks_embedding = |row: &&Row| {
            let embedding = row.record.vectors.embedding.as_ref();
            embedding.is_none_or(|it| it.model != model || it.floats().len() != dims)
        };
        let rows = later.map(|(_, row)| row).filter(lacks_embedding);
        rows.take(limit)
            .map(|row| copy_record(row, false))
            .collect()
    }

    pub(super) fn statistics(&self, now_us: i64) -> MemoryStatistics {
        let rows = || {
            let rows = self.rows.values();
            rows.filter(move |row| row.record.info.is_alive(now_us))
        };
        let info = || rows().map(|row| &row.record.info);
        let count =
            |matches: &dyn Fn(&Row) -> bool| rows().filter(|row| matches(row)).count() as u64;
        let sessions: HashSet<&str> = info().filter_map(|it| it.session.as_deref()).collect();
        MemoryStatistics {
            entries: count(&|_| true),
            bytes: rows().map(|row| row.bytes).sum(),
            sessions: sessions.len() as u64,
            from_tools: count(&|row| row.record.info.origin.kind() == OriginKind::Tool),
            direct: count(&|row| row.record.info.kind == MemoryKind::Direct),
            embedded: count(&|row| row.record.vectors.embedding.is_some()),
            tombstones: self.tombstones.len() as u64,
            oldest: info().map(|it| it.timestamp).reduce(f64::min),
            newest: info().map(|it| it.timestamp).reduce(f64::max),
            revision: self.mark.revision,
        }
    }
}

fn copy_record(row: &Row, with_vectors: bool) -> MemoryRecord {
    MemoryRecord {
        info: row.record.info.clone(),
        content: row.record.content.clone(),
        vectors: if with_vectors {
            row.record.vectors.clone()
        } else {
            MemoryVectors::default()
        },
    }
}
