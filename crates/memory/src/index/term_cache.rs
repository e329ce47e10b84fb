//! Caches terms by word while many documents are inserted: a few thousand words make up most of any
//! text, and stemming each occurrence would be slow.

use super::postings::{Postings, Term};

/// Number of slots, a power of two. A slot holds one word.
const SLOTS: usize = 1 << 12;
/// Maximum length of a cached word in bytes. Longer words are rare.
const LONGEST: usize = 15;

/// Words and their terms in one index.
#[derive(Debug, Default)]
pub(crate) struct TermCache {
    /// The cached words with their terms; empty until the first insertion.
    slots: Vec<(Key, Term)>,
    /// The value of [`Postings::deletions`] at which these terms were cached.
    deletions: u64,
}

/// The bytes of a word and its length. 0 marks an empty slot.
type Key = u128;

impl TermCache {
    /// Returns the cached term of a word.
    #[inline]
    pub(crate) fn term(&self, word: &str, postings: &Postings) -> Option<Term> {
        let key = key(word)?;
        let (cached, term) = self.slots.get(slot_of(key))?;
        (*cached == key && self.deletions == postings.deletions()).then_some(*term)
    }

    /// Caches the term of a word, replacing the word in its slot.
    pub(crate) fn insert(&mut self, word: &str, term: Term, postings: &Postings) {
        let Some(key) = key(word) else {
            return;
        };
        // If a term was deleted, its number may now belong to another word: clear the cache.
        if self.slots.is_empty() || self.deletions != postings.deletions() {
            self.slots.clear();
            self.slots.resize(SLOTS, (0, 0));
            self.deletions = postings.deletions();
        }
        self.slots[slot_of(key)] = (key, term);
    }
}

fn key(word: &str) -> Option<Key> {
    let mut bytes = [0; LONGEST + 1];
    bytes[LONGEST] = word.len().min(usize::from(u8::MAX)) as u8;
    let room = bytes[..LONGEST].get_mut(..word.len())?;
    room.copy_from_slice(word.as_bytes());
    Some(Key::from_le_bytes(bytes))
}

fn slot_of(key: Key) -> usize {
    let folded = key as u64 ^ (key >> 64) as u64;
    let mixed = folded.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn term_cache_is_invalidated_when_a_term_is_deleted() {
        let mut postings = Postings::default();
        let mut cache = TermCache::default();
        assert_eq!(cache.term("Teas", &postings), None);
        let (tea, milk) = (postings.number("tea"), postings.number("milk"));
        postings.insert(0, &[tea]);
        postings.insert(1, &[milk]);
        cache.insert("Teas", tea, &postings);
        cache.insert("milk", milk, &postings);
        assert_eq!(cache.term("Teas", &postings), Some(tea));
        assert_eq!(cache.term("teas", &postings), None);
        assert_eq!(cache.term("milk\0", &postings), None);
        postings.remove(0, &[tea]);
        assert_eq!(cache.term("Teas", &postings), None);
        cache.insert("x", milk, &postings);
        assert_eq!(cache.term("Teas", &postings), None);
        cache.insert(&"x".repeat(LONGEST + 1), milk, &postings);
        assert_eq!(cache.term(&"x".repeat(LONGEST + 1), &postings), None);
    }
}
