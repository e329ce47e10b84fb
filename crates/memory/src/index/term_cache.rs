//! A cache of terms for bulk inserts: a few thousand words make up most of any text, and stemming
//! each occurrence is slow.

use super::postings::{Postings, Term};

/// Number of cached words, one per slot. A power of two.
const PLACES: usize = 1 << 12;
/// Longer words are rare and not cached.
const LONGEST: usize = 15;

/// Words and their terms in one index.
#[derive(Debug, Default)]
pub(crate) struct TermCache {
    /// Empty until the first word.
    places: Vec<(Key, Term)>,
    /// The index's count of deleted terms when these were cached.
    forgotten: u64,
}

/// The bytes of a word and their count. 0 means empty.
type Key = u128;

impl TermCache {
    /// The cached term of a word.
    #[inline]
    pub(crate) fn term(&self, word: &str, postings: &Postings) -> Option<Term> {
        let key = key(word)?;
        let (known, term) = self.places.get(place(key))?;
        (*known == key && self.forgotten == postings.forgotten()).then_some(*term)
    }

    /// Cache the term of a word, replacing the word in its slot.
    pub(crate) fn keep(&mut self, word: &str, term: Term, postings: &Postings) {
        let Some(key) = key(word) else {
            return;
        };
        // The number of a deleted term may belong to another word now.
        if self.places.is_empty() || self.forgotten != postings.forgotten() {
            self.places.clear();
            self.places.resize(PLACES, (0, 0));
            self.forgotten = postings.forgotten();
        }
        self.places[place(key)] = (key, term);
    }
}

fn key(word: &str) -> Option<Key> {
    let mut bytes = [0; LONGEST + 1];
    bytes[LONGEST] = word.len().min(usize::from(u8::MAX)) as u8;
    let room = bytes[..LONGEST].get_mut(..word.len())?;
    room.copy_from_slice(word.as_bytes());
    Some(Key::from_le_bytes(bytes))
}

fn place(key: Key) -> usize {
    let folded = key as u64 ^ (key >> 64) as u64;
    let mixed = folded.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn term_cache_is_invalidated_when_a_term_is_deleted() {
        let mut postings = Postings::default();
        let mut known = TermCache::default();
        assert_eq!(known.term("Teas", &postings), None);
        let (tea, milk) = (postings.number("tea"), postings.number("milk"));
        postings.insert(0, &[tea]);
        postings.insert(1, &[milk]);
        known.keep("Teas", tea, &postings);
        known.keep("milk", milk, &postings);
        assert_eq!(known.term("Teas", &postings), Some(tea));
        assert_eq!(known.term("teas", &postings), None);
        assert_eq!(known.term("milk\0", &postings), None);
        postings.remove(0, &[tea]);
        assert_eq!(known.term("Teas", &postings), None);
        known.keep("x", milk, &postings);
        assert_eq!(known.term("Teas", &postings), None);
        known.keep(&"x".repeat(LONGEST + 1), milk, &postings);
        assert_eq!(known.term(&"x".repeat(LONGEST + 1), &postings), None);
    }
}
