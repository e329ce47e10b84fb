//! Which memories have a term, and how often: an inverted index that forgets.
//!
//! Only a memory's own terms are kept. What its neighbours lend it is worked out when a question is
//! asked (`lexical.rs`): so a memory that comes or goes changes no other memory's entries, and the
//! index takes a fifth of the room.

use std::collections::HashMap;

/// The place of a memory in the index's tables.
pub(crate) type Slot = u32;
/// The number of a term.
pub(crate) type Term = u32;

/// A memory that has a term, and how often: 26 bits and 6 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Posting(u32);

const COUNT_BITS: u32 = 6;
/// A word said more often than this is not found better.
pub(crate) const MOST_COUNTED: u32 = (1 << COUNT_BITS) - 1;
/// So many memories can be in one index.
pub(crate) const MOST_SLOTS: usize = 1 << (32 - COUNT_BITS);

impl Posting {
    fn new(slot: Slot, count: u32) -> Posting {
        Posting(slot << COUNT_BITS | count.min(MOST_COUNTED))
    }

    pub(crate) fn slot(self) -> Slot {
        self.0 >> COUNT_BITS
    }

    pub(crate) fn count(self) -> u32 {
        self.0 & MOST_COUNTED
    }
}

/// The terms of all memories.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    numbers: HashMap<Box<str>, Term>,
    /// By term, in the order of slots.
    lists: Vec<Vec<Posting>>,
    /// The word of each term, so that one that nobody has any more can be forgotten.
    words: Vec<Box<str>>,
    free: Vec<Term>,
    /// How many terms have been forgotten since the beginning.
    forgotten: u64,
}

impl Postings {
    /// The number of a term, given now if it is new.
    pub(crate) fn number(&mut self, word: &str) -> Term {
        if let Some(term) = self.numbers.get(word) {
            return *term;
        }
        let key: Box<str> = word.into();
        let term = match self.free.pop() {
            Some(term) => {
                self.words[term as usize] = key.clone();
                term
            }
            None => {
                self.words.push(key.clone());
                self.lists.push(Vec::new());
                (self.lists.len() - 1) as Term
            }
        };
        self.numbers.insert(key, term);
        term
    }

    /// The number of a term, if a memory has it.
    pub(crate) fn find(&self, word: &str) -> Option<Term> {
        self.numbers.get(word).copied()
    }

    /// How many terms have been forgotten since the beginning: while it stays, numbers do.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The memories that have a term.
    pub(crate) fn of(&self, term: Term) -> &[Posting] {
        &self.lists[term as usize]
    }

    /// Takes the terms of a memory up: in their order, repeated as often as they were said.
    pub(crate) fn insert(&mut self, slot: Slot, terms: &[Term]) {
        for same in terms.chunk_by(|a, b| a == b) {
            let posting = Posting::new(slot, same.len() as u32);
            let list = &mut self.lists[same[0] as usize];
            match list.last() {
                Some(last) if *last > posting => {
                    let place = list.partition_point(|it| *it < posting);
                    list.insert(place, posting);
                }
                _ => list.push(posting),
            }
        }
    }

    /// Takes them out again. A word that nobody has any more is forgotten.
    pub(crate) fn remove(&mut self, slot: Slot, terms: &[Term]) {
        for same in terms.chunk_by(|a, b| a == b) {
            let term = same[0];
            let list = &mut self.lists[term as usize];
            if let Ok(place) = list.binary_search_by_key(&slot, |it| it.slot()) {
                list.remove(place);
            }
            if list.is_empty() {
                *list = Vec::new();
                let word = std::mem::take(&mut self.words[term as usize]);
                self.numbers.remove(&word);
                self.free.push(term);
                self.forgotten += 1;
            }
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|it| it.capacity() * 4 + 24).sum();
        let words: usize = self.words.iter().map(|it| 2 * (it.len() + 8 + 16)).sum();
        lists + words + self.numbers.capacity() * 22
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_come_in_any_order_and_go() {
        let mut postings = Postings::default();
        let (tea, milk) = (postings.number("tea"), postings.number("milk"));
        postings.insert(7, &[tea, tea, milk]);
        postings.insert(2, &[tea]);
        let found: Vec<_> = postings
            .of(tea)
            .iter()
            .map(|it| (it.slot(), it.count()))
            .collect();
        assert_eq!(found, [(2, 1), (7, 2)]);

        postings.remove(7, &[tea, tea, milk]);
        assert_eq!(postings.find("milk"), None, "nobody has it any more");
        assert_eq!(postings.of(tea).len(), 1);
        assert_eq!(postings.number("bread"), milk, "its number is used again");
        assert!(postings.of(milk).is_empty());
    }

    #[test]
    fn counts_end_at_their_greatest() {
        let mut postings = Postings::default();
        let term = postings.number("x");
        postings.insert(3, &vec![term; 1_000]);
        assert_eq!(postings.of(term)[0].count(), MOST_COUNTED);
        assert_eq!(postings.of(term)[0].slot(), 3);
    }
}
