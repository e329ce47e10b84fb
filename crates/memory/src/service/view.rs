//! The view of one scope: its index, and the facts that filters need.

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
const FACTS_BYTES: usize = 120;
/// Metadata takes about this many times the bytes of its JSON.
const NOTES_FACTOR: usize = 4;

/// The memories of a scope up to a mark.
#[derive(Debug, Default)]
pub(super) struct View {
    index: UserIndex,
    facts: HashMap<u64, IndexedFields>,
    /// Interned names of sessions, authors and tools.
    names: HashSet<Arc<str>>,
    /// Entries with a time to live, by expiry.
    mortal: BTreeSet<(i64, u64)>,
    /// Number of entries without an embedding.
    lacking: usize,
    /// Approximate size of the metadata in bytes.
    notes_bytes: usize,
    /// The highest sequence number so far.
    newest: u64,
}

/// How memories are indexed.
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
    notes_bytes: usize,
    lacks_vector: bool,
}

impl View {
    /// Create an empty view.
    pub(super) fn new(models: IndexConfig<'_>) -> View {
        let meaning = models
            .table
            .map(|it| Arc::new(it) as Arc<dyn LocalEmbedder>);
        View {
            index: UserIndex::with(models.language, meaning, Ranking::default()),
            ..View::default()
        }
    }

    /// Insert a memory, or replace it.
    pub(super) fn insert(
        &mut self,
        record: MemoryRecord,
        models: IndexConfig<'_>,
        known: &mut TermCache,
    ) {
        let vector = record.vectors.embedding.as_ref();
        let is_ours = |it: &&MemoryVector| models.embedder == Some((it.model.as_str(), it.dims));
        let embedding = vector.filter(is_ours).map(MemoryVector::floats);
        let embedding = embedding.unwrap_or_default();
        let meaning = word_vectors::stored(&record, models.table);
        let info = record.info;
        let mut facts = self.fields_of(&info);
        facts.lacks_vector = models.embedder.is_some() && embedding.is_empty();
        let document = Document {
            seq: info.seq,
            session: facts.session.clone(),
            order: info.position,
            author: facts.author.clone(),
            timestamp: info.timestamp,
            text: spoken_text(&record.content),
            meaning,
            embedding,
        };
        self.index.insert_with(document, Some(known));
        self.newest = self.newest.max(info.seq);
        let before = self.facts.remove(&info.seq);
        self.uncount(info.seq, before);
        self.mortal
            .extend(facts.expires_us.map(|at| (at, info.seq)));
        self.lacking += usize::from(facts.lacks_vector);
        self.notes_bytes += facts.notes_bytes;
        self.facts.insert(info.seq, facts);
    }

    pub(super) fn remove(&mut self, seqs: &[u64]) {
        for seq in seqs {
            self.index.remove(*seq);
            let gone = self.facts.remove(seq);
            self.uncount(*seq, gone);
        }
        if !seqs.is_empty() {
            // Drop names that no entry uses.
            self.names.retain(|name| Arc::strong_count(name) > 1);
        }
    }

    /// Remove expired entries. Skipping them in results is not enough: their words would still
    /// count for their neighbors.
    pub(super) fn remove_expired(&mut self, now_us: i64) {
        let over = self.mortal.range(..=(now_us, u64::MAX));
        let over: Vec<u64> = over.map(|(_, seq)| *seq).collect();
        self.remove(&over);
    }

    /// The earliest expiry.
    pub(super) fn first_expiry_us(&self) -> Option<i64> {
        self.mortal.first().map(|(at, _)| *at)
    }

    fn uncount(&mut self, seq: u64, gone: Option<IndexedFields>) {
        let Some(gone) = gone else {
            return;
        };
        if let Some(at) = gone.expires_us {
            self.mortal.remove(&(at, seq));
        }
        self.lacking -= usize::from(gone.lacks_vector);
        self.notes_bytes -= gone.notes_bytes;
    }

    /// Number of entries without an embedding.
    pub(super) fn lacking(&self) -> usize {
        self.lacking
    }

    /// The highest sequence number so far.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.facts.len() * FACTS_BYTES + self.notes_bytes
    }

    /// Return the hits among the live memories that the query's filter admits.
    pub(super) fn search(&self, query: &MemoryQuery, embedding: &[f32], now_us: i64) -> Vec<Hit> {
        let anybody = query.filter.is_any();
        let allowed = |seq: u64| {
            if anybody && self.mortal.is_empty() {
                return true;
            }
            let facts = self.facts.get(&seq);
            facts.is_some_and(|facts| {
                facts.expires_us.is_none_or(|expires| now_us < expires)
                    && (anybody || facts.fits(&query.filter))
            })
        };
        self.index.search(query, embedding, &allowed)
    }

    fn fields_of(&mut self, info: &MemoryInfo) -> IndexedFields {
        let notes = &info.custom_metadata;
        IndexedFields {
            timestamp: info.timestamp,
            author: self.name(info.author.as_deref()),
            session: self.name(info.session.as_deref()),
            tool: self.name(info.origin.tool()),
            kind: info.kind,
            origin: info.origin.kind(),
            expires_us: info.expires_us,
            custom_metadata: (!notes.is_empty()).then(|| Box::new(notes.clone())),
            notes_bytes: match notes.is_empty() {
                true => 0,
                false => NOTES_FACTOR * Json::from(notes.clone()).to_string().len(),
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
    fn fits(&self, filter: &MemoryFilter) -> bool {
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
