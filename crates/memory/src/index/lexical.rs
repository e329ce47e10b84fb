//! Words: BM25F over a memory, its neighbours, its author and its date, and BM25 over its
//! conversation.
//!
//! For each word of the question the memories that have it lend it to their neighbours, weighted by
//! distance and by the length of the text that it stands in: a word of a long answer is worth less,
//! also to the short turn after it. What comes together is saturated and weighted by how rare the
//! word is. The result is the share of the question's weight that was found: 1 would be every word
//! said over and over.

use super::{
    UserIndex,
    documents::Documents,
    postings::{Posting, Slot},
    question::ParsedQuestion,
    ranking::{Ranking, SAYING},
    sessions::NONE,
    window::{AFTER, BEFORE},
};

/// What the words of a question found.
#[derive(Debug)]
pub(crate) struct Lexical {
    /// By slot, 0 to 1.
    pub(crate) scores: Vec<f32>,
    /// By conversation, 0 to 1.
    pub(crate) sessions: Vec<f32>,
    /// For each word asked: its share of the question.
    pub(crate) shares: Vec<f32>,
}

/// The window's weights in whole numbers: of a saying in the memory itself, and so on.
pub(crate) struct Lent {
    pub(crate) own: u32,
    before: [u32; BEFORE],
    after: [u32; AFTER],
}

const WHOLE: f32 = 16.0;
/// Touched are few if fewer than one posting in so many slots lends itself to its neighbours.
const FEW: usize = 24;

impl Lent {
    pub(crate) fn new(ranking: &Ranking) -> Lent {
        let window = &ranking.window;
        let whole = |weight: f32| (weight * WHOLE / window.own).round() as u32;
        Lent {
            own: WHOLE as u32,
            before: window.before.map(whole),
            after: window.after.map(whole),
        }
    }

    /// What one saying is worth in a slot, before the weight of its distance.
    #[inline]
    pub(crate) fn worth(&self, documents: &Documents, slot: Slot) -> u32 {
        (documents.worth[slot as usize] / WHOLE as u32).max(1)
    }

    /// The weights of neighbours by distance; negative is before.
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

/// A table by slot that is summed up for one word and then emptied.
struct Sums {
    by_slot: Vec<u32>,
    /// The slots that are not 0, if they are few; else all are walked over.
    touched: Vec<Slot>,
    few: bool,
}

impl Sums {
    fn new(slots: usize) -> Sums {
        Sums {
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

    /// How many slots are not 0.
    fn count(&self) -> usize {
        if self.few {
            self.touched.len()
        } else {
            self.by_slot.iter().filter(|it| **it != 0).count()
        }
    }

    /// Adds `weight` times what each sum is when saturated to the scores, and empties the table.
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

    /// A word lends itself to the neighbours of the memory that has it.
    #[inline]
    fn lend(&mut self, documents: &Documents, lent: &Lent, posting: Posting) {
        let slot = posting.slot();
        let worth = posting.count() * lent.worth(documents, slot);
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

/// Looks the words up.
pub(crate) fn look_up(index: &UserIndex, asked: &ParsedQuestion) -> Lexical {
    let documents = &index.documents;
    let lent = Lent::new(&index.ranking);
    let mut sums = Sums::new(documents.slots());
    let mut in_sessions = Sums::new(index.sessions.table_size());
    let mut found = Lexical {
        scores: vec![0.0; documents.slots()],
        sessions: vec![0.0; index.sessions.table_size()],
        shares: Vec::with_capacity(asked.words.len()),
    };
    let mut total = 0.0;
    for word in &asked.words {
        let postings = word.term.map_or(&[][..], |term| index.postings.of(term));
        // A list of those touched is longer than a walk over all, when most are.
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
    /// From weights to shares of the whole question.
    fn weigh(&mut self, total: f32) {
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        let tables = [&mut self.scores, &mut self.sessions, &mut self.shares];
        for table in tables {
            table.iter_mut().for_each(|value| *value *= scale);
        }
    }
}

fn add_authors(index: &UserIndex, word: &super::question::Word, sums: &mut Sums) {
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

fn add_dates(index: &UserIndex, word: &super::question::Word, sums: &mut Sums) {
    let Some(part) = word.date else { return };
    let worth = (index.ranking.date_saying * SAYING as f32) as u32;
    for (slot, date) in index.documents.date.iter().enumerate() {
        if part.matches(*date) {
            sums.add(slot as Slot, worth);
        }
    }
}

/// How much a word says by being rare (BM25's idf).
fn rarity(memories: usize, having: usize) -> f32 {
    let (all, having) = (memories as f32, having as f32);
    (1.0 + (all - having + 0.5).max(0.0) / (having + 0.5)).ln()
}

/// A share of 1 that grows with every saying, always less.
pub(crate) fn saturated(sum: u32, saturation: f32) -> f32 {
    let sayings = sum as f32 / SAYING as f32;
    sayings / (sayings + saturation)
}

/// Of a long conversation more is asked.
fn session_saturation(index: &UserIndex, session: Slot) -> f32 {
    const SATURATION: f32 = 1.2;
    const LENGTH: f32 = 0.75;
    SATURATION * (1.0 - LENGTH + LENGTH * index.sessions.relative_length(session))
}
