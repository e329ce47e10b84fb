//! Lexical ranking: BM25F over a document, its neighbors, its author and its date, and BM25 over
//! its session.
//!
//! Each matching document lends its words to its neighbors, weighted by distance and by the length
//! of its text. The sum is saturated and weighted by the word's rarity. The result is the matched
//! share of the query's weight. It approaches 1 if every word is repeated endlessly.

use super::{
    UserIndex,
    documents::Documents,
    postings::{Posting, Slot},
    question::ParsedQuestion,
    ranking::{Ranking, SAYING},
    sessions::NONE,
    window::{AFTER, BEFORE},
};

/// The result of looking up the words of a query.
#[derive(Debug)]
pub(crate) struct Lexical {
    /// By slot, 0 to 1.
    pub(crate) scores: Vec<f32>,
    /// By session, 0 to 1.
    pub(crate) sessions: Vec<f32>,
    /// For each word of the query: its share of the query's weight.
    pub(crate) shares: Vec<f32>,
}

/// The weights of the window as integers.
pub(crate) struct WindowWeights {
    pub(crate) own: u32,
    before: [u32; BEFORE],
    after: [u32; AFTER],
}

const WHOLE: f32 = 16.0;
/// A lookup is sparse if fewer than one posting per this many slots lends its word.
const FEW: usize = 24;

impl WindowWeights {
    pub(crate) fn new(ranking: &Ranking) -> WindowWeights {
        let window = &ranking.window;
        let whole = |weight: f32| (weight * WHOLE / window.own).round() as u32;
        WindowWeights {
            own: WHOLE as u32,
            before: window.before.map(whole),
            after: window.after.map(whole),
        }
    }

    /// The weight of one occurrence in a slot, before the weight of its distance.
    #[inline]
    pub(crate) fn occurrence_weight(&self, documents: &Documents, slot: Slot) -> u32 {
        (documents.worth[slot as usize] / WHOLE as u32).max(1)
    }

    /// The weights of neighbors by distance; negative is before.
    pub(crate) fn weights(&self) -> impl Iterator<Item = (i32, u32)> {
        let before = self
            .before
            .into_iter()
            .zip(1..)
            .map(|(weight, places)| (-places, weight));
        before.chain(
            self.after
                .into_iter()
                .zip(1..)
                .map(|(weight, places)| (places, weight)),
        )
    }
}

/// Sums by slot for one word; cleared before the next word.
struct SlotSums {
    by_slot: Vec<u32>,
    /// The nonzero slots if they are few; otherwise all slots are scanned.
    touched: Vec<Slot>,
    few: bool,
}

impl SlotSums {
    fn new(slots: usize) -> SlotSums {
        SlotSums {
            by_slot: vec![0; slots],
            touched: Vec::new(),
            few: true,
        }
    }

    #[inline]
    fn add(&mut self, slot: Slot, worth: u32) {
        let sum = &mut self.by_slot[slot as usize];
        if self.few && *sum == 0 {
            self.touched.push(slot);
        }
        *sum = sum.saturating_add(worth);
    }

    /// Number of nonzero slots.
    fn count(&self) -> usize {
        if self.few {
            self.touched.len()
        } else {
            self.by_slot.iter().filter(|it| **it != 0).count()
        }
    }

    /// Add `weight` times each saturated sum to the scores, and clear the table.
    fn drain_into(&mut self, scores: &mut [f32], weight: f32, saturation: impl Fn(Slot) -> f32) {
        if self.few {
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

    /// Lend a word to the neighbors of the document that has it.
    #[inline]
    fn lend(&mut self, documents: &Documents, lent: &WindowWeights, posting: Posting) {
        let slot = posting.slot();
        let worth = posting.count() * lent.occurrence_weight(documents, slot);
        self.add(slot, lent.own * worth);
        let mut after = slot;
        for weight in lent.before {
            after = documents.after[after as usize];
            if after == NONE {
                break;
            }
            self.add(after, weight * worth);
        }
        let mut before = slot;
        for weight in lent.after {
            before = documents.before[before as usize];
            if before == NONE {
                break;
            }
            self.add(before, weight * worth);
        }
    }
}

/// Look up the words.
pub(crate) fn look_up(index: &UserIndex, asked: &ParsedQuestion) -> Lexical {
    let documents = &index.documents;
    let lent = WindowWeights::new(&index.ranking);
    let mut sums = SlotSums::new(documents.slots());
    let mut in_sessions = SlotSums::new(index.sessions.table_size());
    let mut found = Lexical {
        scores: vec![0.0; documents.slots()],
        sessions: vec![0.0; index.sessions.table_size()],
        shares: Vec::with_capacity(asked.words.len()),
    };
    let mut total = 0.0;
    for word in &asked.words {
        let postings = word.term.map_or(&[][..], |term| index.postings.of(term));
        // If most slots are touched, scanning all is faster than listing them.
        let by_key = word.authors.is_empty() && word.date.is_none();
        sums.few = by_key && postings.len() * FEW < documents.slots();
        for posting in postings {
            sums.lend(documents, &lent, *posting);
            let session = documents.session[posting.slot() as usize];
            if session != NONE {
                in_sessions.add(session, posting.count() * SAYING);
            }
        }
        add_authors(index, word, &mut sums);
        add_dates(index, word, &mut sums);
        let weight = word.weight * rarity(documents.len(), sums.count());
        total += weight;
        found.shares.push(weight);
        let saturation = index.ranking.saturation;
        sums.drain_into(&mut found.scores, weight, |_| saturation);
        in_sessions.drain_into(&mut found.sessions, weight, |session| {
            session_saturation(index, session)
        });
    }
    found.weigh(total);
    found
}

impl Lexical {
    /// Turn weights into shares of the whole query.
    fn weigh(&mut self, total: f32) {
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        let tables = [&mut self.scores, &mut self.sessions, &mut self.shares];
        for table in tables {
            table.iter_mut().for_each(|value| *value *= scale);
        }
    }
}

fn add_authors(index: &UserIndex, word: &super::question::Word, sums: &mut SlotSums) {
    if word.authors.is_empty() {
        return;
    }
    let worth = (index.ranking.author_saying * SAYING as f32) as u32;
    for (slot, author) in index.documents.author.iter().enumerate() {
        if *author != NONE && word.authors.contains(author) {
            sums.add(slot as Slot, worth);
        }
    }
}

fn add_dates(index: &UserIndex, word: &super::question::Word, sums: &mut SlotSums) {
    let Some(part) = word.date else { return };
    let worth = (index.ranking.date_saying * SAYING as f32) as u32;
    for (slot, date) in index.documents.date.iter().enumerate() {
        if part.matches(*date) {
            sums.add(slot as Slot, worth);
        }
    }
}

/// The weight of a rare word (BM25's idf).
fn rarity(memories: usize, having: usize) -> f32 {
    let (all, having) = (memories as f32, having as f32);
    (1.0 + (all - having + 0.5).max(0.0) / (having + 0.5)).ln()
}

/// Saturation: each further occurrence adds less, up to 1.
pub(crate) fn saturated(sum: u32, saturation: f32) -> f32 {
    let sayings = sum as f32 / SAYING as f32;
    sayings / (sayings + saturation)
}

/// Length normalization of sessions.
fn session_saturation(index: &UserIndex, session: Slot) -> f32 {
    const SATURATION: f32 = 1.2;
    const LENGTH: f32 = 0.75;
    SATURATION * (1.0 - LENGTH + LENGTH * index.sessions.relative_length(session))
}
