//! The memories of the index as tables: what ranking needs of each, side by side in memory.

use super::{
    authors::AuthorNumber,
    calendar::PackedDate,
    postings::{Slot, Term},
    sessions::{NONE, SessionNumber},
};

/// One row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) seq: u64,
    pub(crate) order: u64,
    pub(crate) timestamp: f64,
    pub(crate) author: AuthorNumber,
    /// How many words were said.
    pub(crate) words: u32,
    /// A hash of the words in their order.
    pub(crate) fingerprint: u64,
    /// The terms in the order of their numbers, repeated as often as they were said.
    pub(crate) terms: Box<[Term]>,
}

/// All rows, by slot. The slot of a memory that is gone is used again.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    pub(crate) rows: Vec<Option<Row>>,
    pub(crate) session: Vec<SessionNumber>,
    pub(crate) author: Vec<AuthorNumber>,
    pub(crate) date: Vec<PackedDate>,
    pub(crate) before: Vec<Slot>,
    pub(crate) after: Vec<Slot>,
    /// What one saying of a word is worth here: less in a long text. 0 where there is no memory.
    pub(crate) worth: Vec<u32>,
    /// Drawn by number: the lowest speak for all where not all can be looked at.
    pub(crate) lots: Vec<u8>,
    free: Vec<Slot>,
}

impl Documents {
    /// A slot for a memory.
    pub(crate) fn insert(&mut self, row: Row, worth: u32) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let at = slot as usize;
        self.author[at] = row.author;
        self.date[at] = PackedDate::of(row.timestamp);
        self.worth[at] = worth;
        self.lots[at] = (row.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
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
        self.lots.push(0);
        (self.rows.len() - 1) as Slot
    }

    /// Empties a slot.
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

    /// Puts two memories next to each other; either may be no memory.
    pub(crate) fn link(&mut self, before: Slot, after: Slot) {
        if let Some(next) = self.after.get_mut(before as usize) {
            *next = after;
        }
        if let Some(previous) = self.before.get_mut(after as usize) {
            *previous = before;
        }
    }

    /// The memory so many places before.
    pub(crate) fn neighbour(&self, slot: Slot, distance: i32) -> Slot {
        let step = if distance < 0 {
            &self.before
        } else {
            &self.after
        };
        (0..distance.unsigned_abs())
            .fold(slot, |at, _| step.get(at as usize).copied().unwrap_or(NONE))
    }

    /// How many slots there are, used or not.
    pub(crate) fn slots(&self) -> usize {
        self.rows.len()
    }

    /// How many memories there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Bytes in memory.
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
