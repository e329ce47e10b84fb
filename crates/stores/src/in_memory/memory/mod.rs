//! The in-memory memory store: entries are lost when the process ends.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    ExistingMemory, Forget, ForgetReceipt, IngestReceipt, MemoryBatch, MemoryChanges, MemoryEdit,
    MemoryError, MemoryInfo, MemoryKind, MemoryMark, MemoryPlan, MemoryRecord, MemoryRestore,
    MemoryRows, MemoryScope, MemoryStatistics, MemoryStore, MemoryTotals, MemoryVectors,
    NewEmbedding, OriginKind, PreparedMemory, Tombstone, plan_batch, plan_edit, plan_edited,
    plan_growth, plan_restore,
    store_rules::{MEMORY_CHANGES_MAX, MemoryRemoval},
};

/// A memory store whose entries are lost when the process ends. Clones share the entries.
#[derive(Debug, Clone, Default)]
pub struct InMemoryMemoryStore {
    tables: Arc<Mutex<MemoryTables>>,
}

#[derive(Debug, Default)]
struct MemoryTables {
    scopes: HashMap<MemoryScope, ScopeTable>,
    generations: u64,
}

/// The memories of one scope.
#[derive(Debug, Default)]
struct ScopeTable {
    mark: MemoryMark,
    totals: MemoryTotals,
    rows: BTreeMap<u64, Row>,
    by_id: HashMap<String, Vec<u64>>,
    tombstones: HashSet<Tombstone>,
    /// Revision and number of each entry changed or removed since `floor`.
    touched: Vec<(u64, u64)>,
    floor: u64,
}

#[derive(Debug)]
struct Row {
    record: MemoryRecord,
    /// Hash of the ingested body. `metadata_json` is the ingested metadata too: edits change neither.
    body_hash: u64,
    metadata_json: Option<String>,
    bytes: u64,
}

impl InMemoryMemoryStore {
    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` on the scope; returns the default if the scope does not exist.
    fn with_scope<T: Default>(
        &self,
        scope: &MemoryScope,
        work: impl FnOnce(&mut ScopeTable) -> T,
    ) -> T {
        let mut tables = self.tables();
        tables.scopes.get_mut(scope).map(work).unwrap_or_default()
    }
}

impl MemoryTables {
    fn get_or_create(&mut self, scope: &MemoryScope) -> &mut ScopeTable {
        let generations = &mut self.generations;
        self.scopes.entry(scope.clone()).or_insert_with(|| {
            *generations += 1;
            let mut table = ScopeTable::default();
            table.mark.generation = *generations;
            table
        })
    }
}

impl ScopeTable {
    fn find_existing(&self, id: &str) -> Vec<ExistingMemory> {
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

    fn is_forgotten(&self, scope: &MemoryScope, memory: &PreparedMemory) -> bool {
        let (session, id) = (memory.new.session.as_deref(), &memory.new.id);
        self.tombstones.contains(&Tombstone::of_id(scope, id))
            || self
                .tombstones
                .contains(&Tombstone::of_entry(scope, session, id))
    }

    fn add(&mut self, batch: &MemoryBatch) -> Result<IngestReceipt, MemoryError> {
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
                MemoryPlan::Known => receipt.known += 1,
                MemoryPlan::Forgotten => receipt.forgotten += 1,
            }
        }
        if receipt.added + receipt.replaced > 0 {
            self.touch(&touched);
        }
        Ok(receipt)
    }

    fn put(&mut self, seq: u64, revision: u64, memory: &PreparedMemory, now_us: i64) {
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

    fn restore(&mut self, restore: &MemoryRestore) -> Result<(), MemoryError> {
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

    /// Starts a revision in which the memories `seqs` were changed or removed.
    fn touch(&mut self, seqs: &[u64]) {
        self.mark.revision += 1;
        let revision = self.mark.revision;
        self.touched.extend(seqs.iter().map(|seq| (revision, *seq)));
        if self.touched.len() > MEMORY_CHANGES_MAX {
            self.touched.clear();
            self.floor = revision;
        }
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
            self.tombstones.extend(match how {
                MemoryRemoval::ById => Some(Tombstone::of_id(scope, &info.id)),
                MemoryRemoval::Expiry if info.kind == MemoryKind::Direct => None,
                MemoryRemoval::ByAddress | MemoryRemoval::Expiry => {
                    let session = info.session.as_deref();
                    Some(Tombstone::of_entry(scope, session, &info.id))
                }
            });
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

    fn statistics(&self, now_us: i64) -> MemoryStatistics {
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

    fn update(&mut self, id: &str, edit: &MemoryEdit) -> Result<bool, MemoryError> {
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

#[async_trait]
impl MemoryStore for InMemoryMemoryStore {
    async fn add(&self, batch: Arc<MemoryBatch>) -> Result<IngestReceipt, MemoryError> {
        if batch.memories.is_empty() {
            return Ok(IngestReceipt::default());
        }
        self.tables().get_or_create(&batch.scope).add(&batch)
    }

    async fn body_hashes(
        &self,
        scope: &MemoryScope,
        session: Option<&str>,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>, MemoryError> {
        let tables = self.tables();
        let table = tables.scopes.get(scope);
        let hash = |id: &String| {
            let same_id = table?.find_existing(id);
            let mut same_id = same_id.iter();
            let same_session = same_id.find(|memory| memory.session.as_deref() == session);
            same_session.map(|memory| memory.body_hash)
        };
        Ok(ids.iter().map(hash).collect())
    }

    async fn mark(&self, scope: &MemoryScope) -> Result<MemoryMark, MemoryError> {
        Ok(self.with_scope(scope, |table| table.mark))
    }

    async fn changes(
        &self,
        scope: &MemoryScope,
        since: MemoryMark,
    ) -> Result<MemoryChanges, MemoryError> {
        let tables = self.tables();
        let Some(table) = tables.scopes.get(scope) else {
            return Ok(MemoryChanges::Rebuild);
        };
        let recorded = table.floor..=table.mark.revision;
        if table.mark.generation != since.generation || !recorded.contains(&since.revision) {
            return Ok(MemoryChanges::Rebuild);
        }
        let later = table.touched.iter().filter(|(at, _)| *at > since.revision);
        let mut seqs: Vec<u64> = later.map(|(_, seq)| *seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        let mark = table.mark;
        Ok(MemoryChanges::Touched { seqs, mark })
    }

    async fn rows(
        &self,
        scope: &MemoryScope,
        rows: MemoryRows,
        with_vectors: bool,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        Ok(self.with_scope(scope, |table| {
            let copy = |row: &Row| copy_record(row, with_vectors);
            let get = |seq: &u64| table.rows.get(seq);
            match &rows {
                MemoryRows::After { seq, limit } => {
                    let later = table.rows.range(seq.saturating_add(1)..);
                    later.take(*limit).map(|(_, row)| copy(row)).collect()
                }
                MemoryRows::Numbered(seqs) => seqs.iter().filter_map(get).map(copy).collect(),
                MemoryRows::WithId(id) => {
                    let seqs = table.by_id.get(id).into_iter().flatten();
                    seqs.filter_map(get).map(copy).collect()
                }
            }
        }))
    }

    async fn update(
        &self,
        scope: &MemoryScope,
        id: &str,
        edit: Arc<MemoryEdit>,
    ) -> Result<bool, MemoryError> {
        let mut tables = self.tables();
        let table = tables.scopes.get_mut(scope);
        table.map_or(Ok(false), |table| table.update(id, &edit))
    }

    async fn forget(
        &self,
        scope: &MemoryScope,
        what: Arc<Forget>,
    ) -> Result<ForgetReceipt, MemoryError> {
        Ok(self.with_scope(scope, |table| match &*what {
            Forget::Ids(ids) => {
                let seqs = ids.iter().filter_map(|id| table.by_id.get(id));
                let seqs: Vec<u64> = seqs.flatten().copied().collect();
                table.remove(scope, &seqs, MemoryRemoval::ById)
            }
            Forget::Matching(filter) => {
                let rows = table.rows.values().map(|row| &row.record.info);
                let matching = rows.filter(|info| filter.matches(&info.filter_fields()));
                let seqs: Vec<u64> = matching.map(|info| info.seq).collect();
                table.remove(scope, &seqs, MemoryRemoval::ByAddress)
            }
        }))
    }

    async fn expire(&self, now_us: i64, limit: usize) -> Result<u64, MemoryError> {
        let mut tables = self.tables();
        let mut removed = 0;
        for (scope, table) in &mut tables.scopes {
            let rows = table.rows.values().map(|row| &row.record.info);
            let expired = rows.filter(|info| !info.is_alive(now_us));
            let remaining = limit.saturating_sub(removed);
            let seqs: Vec<u64> = expired.map(|info| info.seq).take(remaining).collect();
            removed += seqs.len();
            table.remove(scope, &seqs, MemoryRemoval::Expiry);
        }
        Ok(removed as u64)
    }

    async fn statistics(
        &self,
        scope: &MemoryScope,
        now_us: i64,
    ) -> Result<MemoryStatistics, MemoryError> {
        Ok(self.with_scope(scope, |table| table.statistics(now_us)))
    }

    async fn without_embedding(
        &self,
        scope: &MemoryScope,
        model: &str,
        dims: usize,
        after: u64,
        limit: usize,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        Ok(self.with_scope(scope, |table| {
            let later = table.rows.range(after.saturating_add(1)..);
            let lacks_embedding = |row: &&Row| {
                let embedding = row.record.vectors.embedding.as_ref();
                embedding.is_none_or(|it| it.model != model || it.floats().len() != dims)
            };
            let rows = later.map(|(_, row)| row).filter(lacks_embedding);
            rows.take(limit)
                .map(|row| copy_record(row, false))
                .collect()
        }))
    }

    async fn set_embeddings(
        &self,
        scope: &MemoryScope,
        generation: u64,
        embeddings: Arc<Vec<NewEmbedding>>,
    ) -> Result<(), MemoryError> {
        self.with_scope(scope, |table| {
            if table.mark.generation != generation {
                return;
            }
            let mut touched = Vec::new();
            for new in &*embeddings {
                let row = table.rows.get_mut(&new.seq);
                if let Some(row) = row.filter(|row| row.record.info.revision == new.revision) {
                    row.record.vectors.embedding = Some(new.vector.clone());
                    touched.push(new.seq);
                }
            }
            if !touched.is_empty() {
                table.touch(&touched);
            }
        });
        Ok(())
    }

    async fn scopes(
        &self,
        after: Option<&MemoryScope>,
        limit: usize,
    ) -> Result<Vec<MemoryScope>, MemoryError> {
        let tables = self.tables();
        let scopes = tables.scopes.iter().filter(|(scope, table)| {
            let has_any = !table.rows.is_empty() || !table.tombstones.is_empty();
            has_any && after.is_none_or(|after| *scope > after)
        });
        let mut scopes: Vec<_> = scopes.map(|(scope, _)| scope.clone()).collect();
        scopes.sort_unstable();
        scopes.truncate(limit);
        Ok(scopes)
    }

    async fn tombstones(
        &self,
        scope: &MemoryScope,
        after: Option<Tombstone>,
        limit: usize,
    ) -> Result<Vec<Tombstone>, MemoryError> {
        Ok(self.with_scope(scope, |table| {
            let is_later = |hash: &Tombstone| after.is_none_or(|after| *hash > after);
            let hashes = table.tombstones.iter().copied();
            let mut hashes: Vec<Tombstone> = hashes.filter(is_later).collect();
            hashes.sort_unstable();
            hashes.truncate(limit);
            hashes
        }))
    }

    async fn restore(&self, restore: Arc<MemoryRestore>) -> Result<(), MemoryError> {
        self.tables()
            .get_or_create(&restore.scope)
            .restore(&restore)
    }
}
