//! The documents of the index, stored by column: ranking reads one column at a time.

use super::{
    authors::AuthorNumber,
    calendar::PackedDate,
    postings::{Slot, Term},
    sessions::{NONE, SessionNumber},
};

/// One document.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) seq: u64,
    pub(crate) order: u64,
    pub(crate) timestamp: f64,
    pub(crate) author: AuthorNumber,
    /// Number of words.
    pub(crate) words: u32,
    /// A hash of the terms in order.
    pub(crate) fingerprint: u64,
    /// The sorted terms, repeated as often as they occur.
    pub(crate) terms: Box<[Term]>,
}

/// The documents and their columns by slot. The slot of a removed document is reused.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    pub(crate) rows: Vec<Option<Row>>,
    pub(crate) session: Vec<SessionNumber>,
    pub(crate) author: Vec<AuthorNumber>,
    pub(crate) date: Vec<PackedDate>,
    pub(crate) before: Vec<Slot>,
    pub(crate) after: Vec<Slot>,
    /// The weight of each occurrence of a word in the document: lower in a long text, 0 in an empty
    /// slot.
    pub(crate) worth: Vec<u32>,
    /// A pseudo-random number per document. A large index samples the documents with the lowest
    /// numbers.
    pub(crate) sample_keys: Vec<u8>,
    free: Vec<Slot>,
}

impl Documents {
    /// Allocates a slot for a document.
    pub(crate) fn insert(&mut self, row: Row, worth: u32) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let at = slot as usize;
        self.author[at] = row.author;
        self.date[at] = PackedDate::from_timestamp(row.timestamp);
        self.worth[at] = worth;
        self.sample_keys[at] = (row.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
        self.rows[at] = Some(row);
        slot
    }

    fn grow(&mut self) -> Slot {
        self.rows.push(None);
        self.session.push(NONE);
        self.author.push(NONE);
        self.date.push(PackedDate::default());
        self.before.push(NONE);
        self.after.push(NONE);
        self.worth.push(0);
        self.sample_keys.push(0);
        (self.rows.len() - 1) as Slot
    }

    /// Clears a slot.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Row> {
        let at = slot as usize;
        let row = self.rows[at].take()?;
        self.session[at] = NONE;
        self.author[at] = NONE;
        self.date[at] = PackedDate::default();
        self.before[at] = NONE;
        self.after[at] = NONE;
        self.worth[at] = 0;
        self.free.push(slot);
        Some(row)
    }

    /// Makes two documents neighbors. If one of them is `NONE`, the other has no neighbor on that
    /// side.
    pub(crate) fn link(&mut self, before: Slot, after: Slot) {
        if let Some(next) = self.after.get_mut(before as usize) {
            *next = after;
        }
        if let Some(previous) = self.before.get_mut(after as usize) {
            *previous = before;
        }
    }

    /// Returns the document at this distance in the session; a negative distance means before.
    pub(crate) fn neighbor(&self, slot: Slot, distance: i32) -> Slot {
        let step = if distance < 0 {
            &self.before
        } else {
            &self.after
        };
        (0..distance.unsigned_abs())
            .fold(slot, |at, _| step.get(at as usize).copied().unwrap_or(NONE))
    }

    /// Returns the number of slots, including free ones.
    pub(crate) fn slots(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of documents.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        const ALLOCATION: usize = 16;
        let terms = |it: &Option<Row>| {
            it.as_ref()
                .map_or(0, |row| row.terms.len() * 4 + ALLOCATION)
        };
        let columns = 6 * size_of::<u32>() + 1;
        self.rows.iter().map(terms).sum::<usize>()
            + self.rows.capacity() * (size_of::<Option<Row>>() + columns)
    }
}
