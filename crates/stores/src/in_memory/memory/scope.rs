//! The tables of the in-memory memory store: one for each scope, with its revision.

use std::collections::{BTreeMap, HashMap, HashSet};

use retain_core::{
    EraseReceipt, MemoryMark, MemoryRecord, MemoryScope, MemoryTotals, Tombstone,
    store_rules::MEMORY_CHANGES_MAX,
};

#[derive(Debug, Default)]
pub(super) struct MemoryTables {
    pub(super) scopes: HashMap<MemoryScope, ScopeTable>,
    /// How often users were erased.
    pub(super) erasures: u64,
    generations: u64,
}

/// The memories of one scope.
#[derive(Debug, Default)]
pub(super) struct ScopeTable {
    pub(super) mark: MemoryMark,
    pub(super) totals: MemoryTotals,
    pub(super) rows: BTreeMap<u64, Row>,
    pub(super) by_id: HashMap<String, Vec<u64>>,
    pub(super) tombstones: HashSet<Tombstone>,
    /// (revision, sequence number) of each entry changed or removed after revision `floor`.
    pub(super) touched: Vec<(u64, u64)>,
    /// The revision after which `touched` has all changes.
    pub(super) floor: u64,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) record: MemoryRecord,
    /// Hash of the body as ingested. An edit changes neither this hash nor `metadata_json`.
    pub(super) body_hash: u64,
    pub(super) metadata_json: Option<String>,
    pub(super) bytes: u64,
}

impl MemoryTables {
    pub(super) fn get_or_create(&mut self, scope: &MemoryScope) -> &mut ScopeTable {
        let generations = &mut self.generations;
        self.scopes.entry(scope.clone()).or_insert_with(|| {
            *generations += 1;
            let mut table = ScopeTable::default();
            table.mark.generation = *generations;
            table
        })
    }

    /// Removes a scope and counts its memories and tombstones.
    pub(super) fn erase(&mut self, scope: &MemoryScope) -> EraseReceipt {
        self.erasures += 1;
        let table = self.scopes.remove(scope).unwrap_or_default();
        EraseReceipt::of_memories(table.rows.len(), table.tombstones.len())
    }
}

impl ScopeTable {
    /// Starts a revision in which the memories `seqs` were changed or removed.
    pub(super) fn touch(&mut self, seqs: &[u64]) {
        self.mark.revision += 1;
        let revision = self.mark.revision;
        self.touched.extend(seqs.iter().map(|seq| (revision, *seq)));
        if self.touched.len() > MEMORY_CHANGES_MAX {
            self.touched.clear();
            self.floor = revision;
        }
    }
}
