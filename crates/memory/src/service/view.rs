//! The view of one scope: its index, and the fields that filters need.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use retain_core::{
    FilterFields, Json, JsonMap, MemoryFilter, MemoryInfo, MemoryKind, MemoryRecord, MemoryVector,
    OriginKind,
};

use super::{
    text::spoken_text,
    word_vectors::{self, WordVectors},
};
use crate::{
    MemoryQuery,
    index::{Document, Hit, Language, LocalEmbedder, Ranking, TermCache, UserIndex},
};

/// Approximate size of an [`IndexedFields`] and its map entry in bytes.
const FIELDS_BYTES: usize = 120;
/// Approximate size of metadata in memory, as a multiple of its JSON size.
const METADATA_FACTOR: usize = 4;

/// The indexed memories of a scope.
#[derive(Debug, Default)]
pub(super) struct View {
    index: UserIndex,
    /// The fields of each memory, by sequence number.
    fields: HashMap<u64, IndexedFields>,
    /// Interned names of sessions, authors and tools.
    names: HashSet<Arc<str>>,
    /// Expiry and sequence number of the entries with a time to live.
    expiring: BTreeSet<(i64, u64)>,
    /// Number of entries without an embedding.
    unembedded: usize,
    /// Approximate size of the metadata in bytes.
    metadata_bytes: usize,
    /// The highest sequence number so far.
    newest: u64,
}

/// The language and the models with which memories are indexed.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexConfig<'a> {
    /// The language of the stemmer.
    pub(super) language: Language,
    /// The compiled-in word vectors.
    pub(super) table: WordVectors,
    /// The id of the embedder and the dimensions of its vectors.
    pub(super) embedder: Option<(&'a str, usize)>,
}

/// The fields of a memory that filters use.
#[derive(Debug)]
struct IndexedFields {
    timestamp: f64,
    author: Option<Arc<str>>,
    session: Option<Arc<str>>,
    tool: Option<Arc<str>>,
    kind: MemoryKind,
    origin: OriginKind,
    expires_us: Option<i64>,
    custom_metadata: Option<Box<JsonMap>>,
    metadata_bytes: usize,
    lacks_vector: bool,
}

impl View {
    /// Creates an empty view.
    pub(super) fn new(models: IndexConfig<'_>) -> View {
        let meaning = models
            .table
            .map(|it| Arc::new(it) as Arc<dyn LocalEmbedder>);
        View {
            index: UserIndex::with(models.language, meaning, Ranking::default()),
            ..View::default()
        }
    }

    /// Inserts a memory, or replaces it.
    pub(super) fn insert(
        &mut self,
        record: MemoryRecord,
        models: IndexConfig<'_>,
        terms: &mut TermCache,
    ) {
        let vector = record.vectors.embedding.as_ref();
        let is_current = |it: &&MemoryVector| models.embedder == Some((it.model.as_str(), it.dims));
        let embedding = vector.filter(is_current).map(MemoryVector::floats);
        let embedding = embedding.unwrap_or_default();
        let meaning = word_vectors::stored(&record, models.table);
        let info = record.info;
        let mut fields = self.fields_of(&info);
        fields.lacks_vector = models.embedder.is_some() && embedding.is_empty();
        let document = Document {
            seq: info.seq,
            session: fields.session.clone(),
            order: info.position,
            author: fields.author.clone(),
            timestamp: info.timestamp,
            text: spoken_text(&record.content),
            meaning,
            embedding,
        };
        self.index.insert_with(document, Some(terms));
        self.newest = self.newest.max(info.seq);
        let before = self.fields.remove(&info.seq);
        self.uncount(info.seq, before);
        self.expiring
            .extend(fields.expires_us.map(|at| (at, info.seq)));
        self.unembedded += usize::from(fields.lacks_vector);
        self.metadata_bytes += fields.metadata_bytes;
        self.fields.insert(info.seq, fields);
    }

    pub(super) fn remove(&mut self, seqs: &[u64]) {
        for seq in seqs {
            self.index.remove(*seq);
            let removed = self.fields.remove(seq);
            self.uncount(*seq, removed);
        }
        if !seqs.is_empty() {
            // Drop names that no entry uses.
            self.names.retain(|name| Arc::strong_count(name) > 1);
        }
    }

    /// Removes expired entries. Skipping them in results would not be enough: their words would
    /// still count for their neighbors.
    pub(super) fn remove_expired(&mut self, now_us: i64) {
        let expired = self.expiring.range(..=(now_us, u64::MAX));
        let expired: Vec<u64> = expired.map(|(_, seq)| *seq).collect();
        self.remove(&expired);
    }

    /// Returns the earliest expiry of any entry.
    pub(super) fn first_expiry_us(&self) -> Option<i64> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Subtracts a removed entry from the counts.
    fn uncount(&mut self, seq: u64, removed: Option<IndexedFields>) {
        let Some(removed) = removed else {
            return;
        };
        if let Some(at) = removed.expires_us {
            self.expiring.remove(&(at, seq));
        }
        self.unembedded -= usize::from(removed.lacks_vector);
        self.metadata_bytes -= removed.metadata_bytes;
    }

    /// Returns the number of entries without an embedding.
    pub(super) fn unembedded(&self) -> usize {
        self.unembedded
    }

    /// Returns the highest sequence number so far.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.fields.len() * FIELDS_BYTES + self.metadata_bytes
    }

    /// Returns the hits among the unexpired memories that match the query's filter.
    pub(super) fn search(&self, query: &MemoryQuery, embedding: &[f32], now_us: i64) -> Vec<Hit> {
        let is_unfiltered = query.filter.is_any();
        let allowed = |seq: u64| {
            if is_unfiltered && self.expiring.is_empty() {
                return true;
            }
            let fields = self.fields.get(&seq);
            fields.is_some_and(|fields| {
                fields.expires_us.is_none_or(|expires| now_us < expires)
                    && (is_unfiltered || fields.matches(&query.filter))
            })
        };
        self.index.search(query, embedding, &allowed)
    }

    fn fields_of(&mut self, info: &MemoryInfo) -> IndexedFields {
        let metadata = &info.custom_metadata;
        IndexedFields {
            timestamp: info.timestamp,
            author: self.name(info.author.as_deref()),
            session: self.name(info.session.as_deref()),
            tool: self.name(info.origin.tool()),
            kind: info.kind,
            origin: info.origin.kind(),
            expires_us: info.expires_us,
            custom_metadata: (!metadata.is_empty()).then(|| Box::new(metadata.clone())),
            metadata_bytes: match metadata.is_empty() {
                true => 0,
                false => METADATA_FACTOR * Json::from(metadata.clone()).to_string().len(),
            },
            lacks_vector: false,
        }
    }

    fn name(&mut self, name: Option<&str>) -> Option<Arc<str>> {
        let name = name?;
        if let Some(known) = self.names.get(name) {
            return Some(Arc::clone(known));
        }
        let new: Arc<str> = name.into();
        self.names.insert(Arc::clone(&new));
        Some(new)
    }
}

impl IndexedFields {
    fn matches(&self, filter: &MemoryFilter) -> bool {
        let none = JsonMap::new();
        filter.matches(&FilterFields {
            timestamp: self.timestamp,
            author: self.author.as_deref(),
            session: self.session.as_deref(),
            kind: self.kind,
            origin: self.origin,
            tool: self.tool.as_deref(),
            custom_metadata: self.custom_metadata.as_deref().unwrap_or(&none),
        })
    }
}
