//! The ranked index of one user's memories.
//!
//! The index is built from the store's rows, so it can be evicted at any time.
//!
//! ```text
//! insert   scan → terms, term_cache          words of a text, their stems
//!          → postings, sessions, authors      documents of a term; neighbors in a session; authors
//!          → vectors                          word vectors
//! search   parsed_query, time → lexical       words without stop words; times; scores by words
//!          → fuse                             one score of all signals
//!          → select → explain                 hits without duplicates; why each of them matched
//! ```
//!
//! The order of inserts and removals does not matter: the index always equals a newly built one.

mod authors;
mod calendar;
mod documents;
mod duplicates;
mod embeddings;
mod explain;
mod fuse;
mod language;
mod lexical;
mod parsed_query;
mod postings;
mod ranking;
mod scale;
mod scan;
mod select;
mod sessions;
mod stop_words;
mod term_cache;
mod terms;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod vectors;
mod window;

pub use language::Language;
pub use ranking::Ranking;
pub use types::{Document, Explanation, Hit, MatchPlace, MatchedWord};
pub use vectors::LocalEmbedder;
pub use window::Window;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
};

use authors::Authors;
use documents::{Documents, Row};
use embeddings::Embeddings;
use fuse::Signals;
use language::WordStemmer;
use parsed_query::ParsedQuery;
use postings::{MOST_COUNTED, MOST_SLOTS, Postings, Slot, Term};
use scan::{Script, scan};
use sessions::{NONE, Sessions};
pub(crate) use term_cache::TermCache;
use terms::{TermKind, normalize, terms_of};
use vectors::Vectors;
use window::{AFTER, BEFORE};

use crate::MemoryQuery;

/// The index of one user's memories.
pub struct UserIndex {
    stem: WordStemmer,
    ranking: Ranking,
    meaning: Option<Arc<dyn LocalEmbedder>>,
    documents: Documents,
    postings: Postings,
    sessions: Sessions,
    authors: Authors,
    vectors: Vectors,
    embeddings: Embeddings,
    slots: HashMap<u64, Slot>,
}

impl Default for UserIndex {
    fn default() -> UserIndex {
        UserIndex::with(Language::default(), None, Ranking::default())
    }
}

impl std::fmt::Debug for UserIndex {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UserIndex")
            .field("documents", &self.len())
            .finish_non_exhaustive()
    }
}

impl UserIndex {
    /// Creates an empty index for English, without word vectors.
    pub fn new() -> UserIndex {
        UserIndex::default()
    }

    /// Creates an empty index with word vectors.
    pub fn with_local_embedder(meaning: Arc<dyn LocalEmbedder>) -> UserIndex {
        UserIndex::with(Language::default(), Some(meaning), Ranking::default())
    }

    /// Creates an empty index with all options.
    pub fn with(
        language: Language,
        meaning: Option<Arc<dyn LocalEmbedder>>,
        ranking: Ranking,
    ) -> UserIndex {
        UserIndex {
            stem: language.stemmer(),
            ranking,
            vectors: Vectors::new(meaning.as_ref().map_or(0, |it| it.dims())),
            meaning,
            documents: Documents::default(),
            postings: Postings::default(),
            sessions: Sessions::default(),
            authors: Authors::default(),
            embeddings: Embeddings::default(),
            slots: HashMap::new(),
        }
    }

    /// Inserts a document, or replaces the one with the same number. A full index (67 million
    /// documents) ignores it.
    pub fn insert(&mut self, document: Document) {
        self.insert_with(document, None);
    }

    /// Inserts a document as `insert` does; `cache` speeds up inserting many.
    pub(crate) fn insert_with(&mut self, document: Document, cache: Option<&mut TermCache>) {
        self.remove(document.seq);
        if self.documents.len() >= MOST_SLOTS {
            return;
        }
        let row = self.row(&document, cache);
        let (order, words) = ((row.order, row.seq), row.words);
        let worth = self.ranking.occurrence_weight(words);
        let slot = self.documents.insert(row, worth);
        self.slots.insert(document.seq, slot);
        if let Some(row) = &self.documents.rows[slot as usize] {
            self.postings.insert(slot, &row.terms);
        }
        if let Some(name) = &document.session {
            let (session, neighbors) = self.sessions.insert(name, order, slot, words);
            self.documents.session[slot as usize] = session;
            self.documents.link(neighbors.before, slot);
            self.documents.link(slot, neighbors.after);
        }
        self.insert_vectors(slot, document);
    }

    fn row(&mut self, document: &Document, cache: Option<&mut TermCache>) -> Row {
        let (mut terms, words) = self.terms(&document.text, cache);
        let mut fingerprint = DefaultHasher::new();
        terms.iter().for_each(|term| fingerprint.write_u32(*term));
        terms.sort_unstable();
        if terms.len() > MOST_COUNTED as usize {
            let most = MOST_COUNTED as usize;
            let groups = terms.chunk_by(|a, b| a == b);
            terms = groups
                .flat_map(|it| &it[..it.len().min(most)])
                .copied()
                .collect();
        }
        Row {
            seq: document.seq,
            order: document.order,
            timestamp: document.timestamp,
            author: match &document.author {
                Some(name) => self.authors.insert(name, &self.stem),
                None => NONE,
            },
            words,
            fingerprint: fingerprint.finish(),
            terms: terms.into(),
        }
    }

    /// Returns the terms of a text in order, and the number of words among them.
    fn terms(&mut self, text: &str, mut cache: Option<&mut TermCache>) -> (Vec<Term>, u32) {
        let mut terms = Vec::with_capacity(text.len() / 5);
        let mut words = 0;
        let mut normal = String::new();
        let postings = &mut self.postings;
        for (range, script) in scan(text) {
            let piece = &text[range];
            let term = cache.as_ref().and_then(|it| it.term(piece, postings));
            if let Some(term) = term {
                words += 1;
                terms.push(term);
                continue;
            }
            normalize(piece, &mut normal);
            terms_of(&normal, script, &self.stem, &mut |term, kind| {
                words += u32::from(kind == TermKind::Word);
                terms.push(postings.number(term));
            });
            // Cache only words of scripts with spaces: only they always map to exactly one term.
            if let (Some(cache), Script::Spaced, Some(term)) = (&mut cache, script, terms.last()) {
                cache.insert(piece, *term, postings);
            }
        }
        (terms, words)
    }

    fn insert_vectors(&mut self, slot: Slot, document: Document) {
        if let Some(meaning) = &self.meaning {
            let computed = document.meaning.as_ref();
            match computed.filter(|it| it.len() == meaning.dims()) {
                Some(computed) => self.vectors.set(slot, computed),
                None => self.vectors.set(slot, &meaning.embed(&document.text).0),
            }
            self.update_context_around(slot);
        }
        self.embeddings.set(slot, document.embedding);
    }

    /// Updates the context vectors of a document and its neighbors.
    fn update_context_around(&mut self, slot: Slot) {
        let reach = BEFORE.max(AFTER) as i32;
        for distance in -reach..=reach {
            let at = self.documents.neighbor(slot, distance);
            if at != NONE {
                let window = &self.ranking.context;
                self.vectors.update_context(at, &self.documents, window);
            }
        }
    }

    /// Removes a document, if it exists.
    pub fn remove(&mut self, seq: u64) {
        let Some(slot) = self.slots.remove(&seq) else {
            return;
        };
        let at = slot as usize;
        let session = self.documents.session[at];
        let (before, after) = (self.documents.before[at], self.documents.after[at]);
        let Some(row) = self.documents.remove(slot) else {
            return;
        };
        self.postings.remove(slot, &row.terms);
        self.authors.remove(row.author);
        self.documents.link(before, after);
        if session != NONE {
            self.sessions
                .remove(session, (row.order, row.seq), row.words);
        }
        self.embeddings.clear(slot);
        if self.meaning.is_some() {
            self.vectors.clear(slot);
            for neighbor in [before, after] {
                if neighbor != NONE {
                    self.update_context_around(neighbor);
                }
            }
        }
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.documents.bytes()
            + self.postings.bytes()
            + self.sessions.bytes()
            + self.authors.bytes()
            + self.vectors.bytes()
            + self.embeddings.bytes()
            + self.slots.capacity() * 17
    }

    /// Returns the documents that match the query, best first. `embedding` is the embedder's vector
    /// for the query, or empty. `allowed` applies the query's filter to a document number, because
    /// the index does not store the fields that filters use.
    pub fn search(
        &self,
        query: &MemoryQuery,
        embedding: &[f32],
        allowed: &dyn Fn(u64) -> bool,
    ) -> Vec<Hit> {
        let parsed = ParsedQuery::new(self, &query.text, query.reference_time.unwrap_or(0.0));
        if !parsed.has_text || query.limit == 0 || self.is_empty() {
            return Vec::new();
        }
        let signals = Signals::new(self, &parsed, &query.text, embedding);
        let chosen = select::choose(self, &signals, query, allowed);
        let hit = |it: select::ChosenHit| {
            let mut explanation = explain::explain(self, &signals, it.ranked.slot);
            explanation.duplicates = it.duplicates;
            let row = self.documents.rows[it.ranked.slot as usize].as_ref();
            row.map(|row| Hit {
                seq: row.seq,
                score: it.ranked.score,
                explanation,
            })
        };
        chosen.into_iter().filter_map(hit).collect()
    }
}
