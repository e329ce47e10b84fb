//! An inverted index with removal: which documents contain a term, and how often.
//!
//! It stores only a document's own terms. A search adds the words of neighbors (`lexical.rs`), so
//! that an insert changes no other document and the index stays five times smaller.

use std::collections::HashMap;

/// The slot of a document in the index's tables.
pub(crate) type Slot = u32;
/// The number of a term.
pub(crate) type Term = u32;

/// A document that contains a term (26 bits), and the number of occurrences (6 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Posting(u32);

const COUNT_BITS: u32 = 6;
/// Maximum number of counted occurrences of a term per document.
pub(crate) const MOST_COUNTED: u32 = (1 << COUNT_BITS) - 1;
/// Maximum number of documents in one index.
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

/// The terms of all documents.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    numbers: HashMap<Box<str>, Term>,
    /// The postings of each term, sorted by slot.
    lists: Vec<Vec<Posting>>,
    /// The word of each term, so that an unused term can be deleted.
    words: Vec<Box<str>>,
    free: Vec<Term>,
    /// Number of terms deleted so far.
    deletions: u64,
}

impl Postings {
    /// Returns the number of a term, and assigns one to a new term.
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

    /// Returns the number of a term, if a document has it.
    pub(crate) fn find(&self, word: &str) -> Option<Term> {
        self.numbers.get(word).copied()
    }

    /// Returns the number of terms deleted so far. As long as it does not change, each term keeps
    /// its number.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions
    }

    /// Returns the postings of a term.
    pub(crate) fn list(&self, term: Term) -> &[Posting] {
        &self.lists[term as usize]
    }

    /// Adds the sorted terms of a document, repeated as often as they occur.
    pub(crate) fn insert(&mut self, slot: Slot, terms: &[Term]) {
        for same in terms.chunk_by(|a, b| a == b) {
            let posting = Posting::new(slot, same.len() as u32);
            let list = &mut self.lists[same[0] as usize];
            match list.last() {
                Some(last) if *last > posting => {
                    let at = list.partition_point(|it| *it < posting);
                    list.insert(at, posting);
                }
                _ => list.push(posting),
            }
        }
    }

    /// Removes the terms of a document. An unused term is deleted.
    pub(crate) fn remove(&mut self, slot: Slot, terms: &[Term]) {
        for same in terms.chunk_by(|a, b| a == b) {
            let term = same[0];
            let list = &mut self.lists[term as usize];
            if let Ok(at) = list.binary_search_by_key(&slot, |it| it.slot()) {
                list.remove(at);
            }
            if list.is_empty() {
                *list = Vec::new();
                let word = std::mem::take(&mut self.words[term as usize]);
                self.numbers.remove(&word);
                self.free.push(term);
                self.deletions += 1;
            }
        }
    }

    /// Returns the size in bytes.
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
    fn postings_are_sorted_and_unused_term_numbers_are_reused() {
        let mut postings = Postings::default();
        let (tea, milk) = (postings.number("tea"), postings.number("milk"));
        postings.insert(7, &[tea, tea, milk]);
        postings.insert(2, &[tea]);
        let found: Vec<_> = postings
            .list(tea)
            .iter()
            .map(|it| (it.slot(), it.count()))
            .collect();
        assert_eq!(found, [(2, 1), (7, 2)]);

        postings.remove(7, &[tea, tea, milk]);
        assert_eq!(postings.find("milk"), None, "no document has this term");
        assert_eq!(postings.list(tea).len(), 1);
        assert_eq!(
            postings.number("bread"),
            milk,
            "the number of the deleted term is reused"
        );
        assert!(postings.list(milk).is_empty());
    }

    #[test]
    fn term_counts_saturate() {
        let mut postings = Postings::default();
        let term = postings.number("x");
        postings.insert(3, &vec![term; 1_000]);
        assert_eq!(postings.list(term)[0].count(), MOST_COUNTED);
        assert_eq!(postings.list(term)[0].slot(), 3);
    }
}
