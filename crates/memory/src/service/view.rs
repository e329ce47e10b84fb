//! The view of one scope: its index, and what filters ask of each memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use retain_core::{
    JsonMap, MemoryAbout, MemoryFacts, MemoryFilter, MemoryKind, MemoryMark, MemoryRecord,
    OriginKind,
};

use super::{
    meaning::{self, Table},
    text::spoken_text,
};
use crate::index::{Document, Hit, KnownWords, Language, Meaning, Question, Ranking, UserIndex};

/// About how many bytes a [`Facts`] takes with its place in the map.
const FACTS_BYTES: usize = 120;

/// What is known of a scope up to a mark.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Up to where it is brought.
    pub(super) mark: MemoryMark,
    index: UserIndex,
    facts: HashMap<u64, Facts>,
    /// Sessions, authors and tools: the same few, again and again.
    names: HashSet<Arc<str>>,
    /// How many have a time to live.
    mortal: usize,
}

/// What memories are read with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Models<'a> {
    /// Whose forms of words are brought together.
    pub(super) language: Language,
    /// The compiled-in word vectors.
    pub(super) table: Table,
    /// The id of the embedder.
    pub(super) embedder: Option<&'a str>,
}

/// What filters ask of a memory.
#[derive(Debug)]
struct Facts {
    timestamp: f64,
    author: Option<Arc<str>>,
    session: Option<Arc<str>>,
    tool: Option<Arc<str>>,
    kind: MemoryKind,
    origin: OriginKind,
    expires_us: Option<i64>,
    custom_metadata: Option<Box<JsonMap>>,
}

/// What is asked of a view.
pub(super) struct Asked<'a> {
    pub(super) query: &'a str,
    pub(super) embedding: &'a [f32],
    pub(super) reference_time: f64,
    pub(super) limit: usize,
    pub(super) min_score: f32,
    pub(super) filter: &'a MemoryFilter,
    pub(super) now_us: i64,
}

impl View {
    /// A view of nothing.
    pub(super) fn new(models: Models<'_>) -> View {
        let meaning = models.table.map(|it| Arc::new(it) as Arc<dyn Meaning>);
        View {
            index: UserIndex::with(models.language, meaning, Ranking::default()),
            ..View::default()
        }
    }

    /// Takes a memory up, or what has become of it. Says whether it has a vector of the embedder,
    /// if there is one.
    pub(super) fn insert(
        &mut self,
        record: MemoryRecord,
        models: Models<'_>,
        known: &mut KnownWords,
    ) -> bool {
        let vector = record.vectors.embedding.as_ref();
        let vector = vector.filter(|vector| Some(vector.model.as_str()) == models.embedder);
        let embedding = vector.map(|vector| vector.floats()).unwrap_or_default();
        let is_complete = models.embedder.is_none() || !embedding.is_empty();
        let meaning = meaning::stored(&record, models.table);
        let about = record.about;
        let facts = self.facts_of(&about);
        self.mortal += usize::from(facts.expires_us.is_some());
        let document = Document {
            seq: about.seq,
            session: facts.session.clone(),
            order: about.position,
            author: facts.author.clone(),
            timestamp: about.timestamp,
            text: spoken_text(&record.content),
            meaning,
            embedding,
        };
        self.index.insert_with(document, Some(known));
        let before = self.facts.insert(about.seq, facts);
        self.mortal -= usize::from(before.is_some_and(|facts| facts.expires_us.is_some()));
        is_complete
    }

    pub(super) fn remove(&mut self, seq: u64) {
        self.index.remove(seq);
        let gone = self.facts.remove(&seq);
        self.mortal -= usize::from(gone.is_some_and(|facts| facts.expires_us.is_some()));
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.facts.len() * FACTS_BYTES
    }

    pub(super) fn search(&self, asked: &Asked<'_>) -> Vec<Hit> {
        let anybody = asked.filter.is_any();
        let allowed = |seq: u64| {
            if anybody && self.mortal == 0 {
                return true;
            }
            let facts = self.facts.get(&seq);
            facts.is_some_and(|facts| {
                facts
                    .expires_us
                    .is_none_or(|expires| asked.now_us < expires)
                    && (anybody || facts.fits(asked.filter))
            })
        };
        self.index.search(&Question {
            text: asked.query,
            embedding: asked.embedding,
            reference_time: asked.reference_time,
            limit: asked.limit,
            min_score: asked.min_score,
            allowed: &allowed,
        })
    }

    fn facts_of(&mut self, about: &MemoryAbout) -> Facts {
        let notes = &about.custom_metadata;
        Facts {
            timestamp: about.timestamp,
            author: self.name(about.author.as_deref()),
            session: self.name(about.session.as_deref()),
            tool: self.name(about.origin.tool()),
            kind: about.kind,
            origin: about.origin.kind(),
            expires_us: about.expires_us,
            custom_metadata: (!notes.is_empty()).then(|| Box::new(notes.clone())),
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

impl Facts {
    fn fits(&self, filter: &MemoryFilter) -> bool {
        let none = JsonMap::new();
        filter.matches(&MemoryFacts {
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
