//! Scores documents by words: BM25F over a document, its neighbors in the session, its author and
//! its date, plus BM25 over the session.
//!
//! A word also counts for the neighbors of the document that contains it, with a weight that falls
//! with distance and text length. Each word adds its saturated sum times its rarity. The score is
//! the share of the query's weight that matches; it approaches 1 as every query word occurs more
//! often.

use super::{
    UserIndex,
    documents::Documents,
    parsed_query::{ParsedQuery, Word},
    postings::{Posting, Slot},
    ranking::{OCCURRENCE, Ranking},
    sessions::NONE,
    window::{AFTER, BEFORE},
};

/// The scores of a query by words.
#[derive(Debug)]
pub(crate) struct Lexical {
    /// The score by slot, from 0 to 1.
    pub(crate) scores: Vec<f32>,
    /// The score by session, from 0 to 1.
    pub(crate) sessions: Vec<f32>,
    /// The share of each query word in the weight of the query.
    pub(crate) shares: Vec<f32>,
}

/// The weights of a [`Window`](super::Window) for words, as integers.
pub(crate) struct WindowWeights {
    pub(crate) own: u32,
    before: [u32; BEFORE],
    after: [u32; AFTER],
}

/// The weight of a document's own words, in the integer scale of [`WindowWeights`].
const UNIT: f32 = 16.0;
/// A word's sums are sparse if it has fewer than one posting per this many slots.
const SPARSE: usize = 24;

impl WindowWeights {
    pub(crate) fn new(ranking: &Ranking) -> WindowWeights {
        let window = &ranking.window;
        let to_integer = |weight: f32| (weight * UNIT / window.own).round() as u32;
        WindowWeights {
            own: UNIT as u32,
            before: window.before.map(to_integer),
            after: window.after.map(to_integer),
        }
    }

    /// Returns the weight of one occurrence of a word in a document, before the weight for distance
    /// applies.
    #[inline]
    pub(crate) fn occurrence_weight(&self, documents: &Documents, slot: Slot) -> u32 {
        (documents.worth[slot as usize] / UNIT as u32).max(1)
    }

    /// Returns the distance and the weight of each neighbor; a negative distance means before.
    pub(crate) fn weights(&self) -> impl Iterator<Item = (i32, u32)> {
        let before = self
            .before
            .into_iter()
            .zip(1..)
            .map(|(weight, distance)| (-distance, weight));
        before.chain(
            self.after
                .into_iter()
                .zip(1..)
                .map(|(weight, distance)| (distance, weight)),
        )
    }
}

/// The sums of one word, by slot. [`drain_into`](Self::drain_into) clears them for the next word.
struct SlotSums {
    by_slot: Vec<u32>,
    /// The nonzero slots, if the sums are sparse. Otherwise all slots are scanned.
    touched: Vec<Slot>,
    is_sparse: bool,
}

impl SlotSums {
    fn new(slots: usize) -> SlotSums {
        SlotSums {
            by_slot: vec![0; slots],
            touched: Vec::new(),
            is_sparse: true,
        }
    }

    #[inline]
    fn add(&mut self, slot: Slot, worth: u32) {
        let sum = &mut self.by_slot[slot as usize];
        if self.is_sparse && *sum == 0 {
            self.touched.push(slot);
        }
        *sum = sum.saturating_add(worth);
    }

    /// Returns the number of nonzero slots.
    fn count(&self) -> usize {
        if self.is_sparse {
            self.touched.len()
        } else {
            self.by_slot.iter().filter(|it| **it != 0).count()
        }
    }

    /// Adds each saturated sum times `weight` to the scores, and sets the sums to 0.
    fn drain_into(&mut self, scores: &mut [f32], weight: f32, saturation: impl Fn(Slot) -> f32) {
        if self.is_sparse {
            for slot in self.touched.drain(..) {
                let sum = std::mem::take(&mut self.by_slot[slot as usize]);
                scores[slot as usize] += weight * saturated(sum, saturation(slot));
            }
            return;
        }
        for (slot, (sum, score)) in self.by_slot.iter_mut().zip(scores).enumerate() {
            *score += weight * saturated(std::mem::take(sum), saturation(slot as Slot));
        }
    }

    /// Counts a word for the document that contains it and for the document's neighbors.
    #[inline]
    fn add_around(&mut self, documents: &Documents, weights: &WindowWeights, posting: Posting) {
        let slot = posting.slot();
        let worth = posting.count() * weights.occurrence_weight(documents, slot);
        self.add(slot, weights.own * worth);
        let mut after = slot;
        for weight in weights.before {
            after = documents.after[after as usize];
            if after == NONE {
                break;
            }
            self.add(after, weight * worth);
        }
        let mut before = slot;
        for weight in weights.after {
            before = documents.before[before as usize];
            if before == NONE {
                break;
            }
            self.add(before, weight * worth);
        }
    }
}

/// Computes the scores of all documents and sessions for the words of a query.
pub(crate) fn look_up(index: &UserIndex, query: &ParsedQuery) -> Lexical {
    let documents = &index.documents;
    let weights = WindowWeights::new(&index.ranking);
    let mut sums = SlotSums::new(documents.slots());
    let mut session_sums = SlotSums::new(index.sessions.table_size());
    let mut lexical = Lexical {
        scores: vec![0.0; documents.slots()],
        sessions: vec![0.0; index.sessions.table_size()],
        shares: Vec::with_capacity(query.words.len()),
    };
    let mut total = 0.0;
    for word in &query.words {
        let postings = word.term.map_or(&[][..], |term| index.postings.list(term));
        // An author or a date matches many slots, so the sums would not be sparse.
        let has_only_postings = word.authors.is_empty() && word.date.is_none();
        sums.is_sparse = has_only_postings && postings.len() * SPARSE < documents.slots();
        for posting in postings {
            sums.add_around(documents, &weights, *posting);
            let session = documents.session[posting.slot() as usize];
            if session != NONE {
                session_sums.add(session, posting.count() * OCCURRENCE);
            }
        }
        add_authors(index, word, &mut sums);
        add_dates(index, word, &mut sums);
        let weight = word.weight * rarity(documents.len(), sums.count());
        total += weight;
        lexical.shares.push(weight);
        let saturation = index.ranking.saturation;
        sums.drain_into(&mut lexical.scores, weight, |_| saturation);
        session_sums.drain_into(&mut lexical.sessions, weight, |session| {
            session_saturation(index, session)
        });
    }
    lexical.normalize(total);
    lexical
}

impl Lexical {
    /// Divides all scores and shares by the weight of the whole query.
    fn normalize(&mut self, total: f32) {
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        let tables = [&mut self.scores, &mut self.sessions, &mut self.shares];
        for table in tables {
            table.iter_mut().for_each(|value| *value *= scale);
        }
    }
}

fn add_authors(index: &UserIndex, word: &Word, sums: &mut SlotSums) {
    if word.authors.is_empty() {
        return;
    }
    let worth = (index.ranking.author_saying * OCCURRENCE as f32) as u32;
    for (slot, author) in index.documents.author.iter().enumerate() {
        if *author != NONE && word.authors.contains(author) {
            sums.add(slot as Slot, worth);
        }
    }
}

fn add_dates(index: &UserIndex, word: &Word, sums: &mut SlotSums) {
    let Some(part) = word.date else { return };
    let worth = (index.ranking.date_saying * OCCURRENCE as f32) as u32;
    for (slot, date) in index.documents.date.iter().enumerate() {
        if part.matches(*date) {
            sums.add(slot as Slot, worth);
        }
    }
}

/// Returns the weight of a word by its rarity (BM25's idf): the fewer matches, the higher the
/// weight.
fn rarity(documents: usize, matches: usize) -> f32 {
    let (all, matches) = (documents as f32, matches as f32);
    (1.0 + (all - matches + 0.5).max(0.0) / (matches + 0.5)).ln()
}

/// Maps a sum of occurrences to 0..1: each further occurrence adds less.
pub(crate) fn saturated(sum: u32, saturation: f32) -> f32 {
    let occurrences = sum as f32 / OCCURRENCE as f32;
    occurrences / (occurrences + saturation)
}

/// Returns the saturation of a session, normalized by its length (BM25's k1 and b).
fn session_saturation(index: &UserIndex, session: Slot) -> f32 {
    const SATURATION: f32 = 1.2;
    const LENGTH: f32 = 0.75;
    SATURATION * (1.0 - LENGTH + LENGTH * index.sessions.relative_length(session))
}
