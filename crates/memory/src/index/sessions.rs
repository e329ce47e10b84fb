//! The sessions of documents: the neighbors of each document, and the length of each session.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::postings::Slot;

/// The number of a session.
pub(crate) type SessionNumber = u32;
/// The number that represents a missing neighbor, session or author.
pub(crate) const NONE: u32 = u32::MAX;

/// One session.
#[derive(Debug, Default)]
struct IndexedSession {
    /// The slots by position in the session and sequence number.
    members: BTreeMap<(u64, u64), Slot>,
    /// Number of words.
    words: u64,
    name: Option<Arc<str>>,
}

/// All sessions of a user.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    numbers: HashMap<Arc<str>, SessionNumber>,
    sessions: Vec<IndexedSession>,
    free: Vec<SessionNumber>,
    words: u64,
}

/// The neighbors of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbors {
    pub(crate) before: Slot,
    pub(crate) after: Slot,
}

impl Sessions {
    /// Adds a document to its session and returns its neighbors.
    pub(crate) fn insert(
        &mut self,
        name: &Arc<str>,
        order: (u64, u64),
        slot: Slot,
        words: u32,
    ) -> (SessionNumber, Neighbors) {
        let number = self.number(name);
        let session = &mut self.sessions[number as usize];
        session.words += u64::from(words);
        self.words += u64::from(words);
        let neighbors = neighbors(&session.members, order);
        session.members.insert(order, slot);
        (number, neighbors)
    }

    /// Removes a document from its session.
    pub(crate) fn remove(&mut self, number: SessionNumber, order: (u64, u64), words: u32) {
        let session = &mut self.sessions[number as usize];
        session.members.remove(&order);
        session.words -= u64::from(words);
        self.words -= u64::from(words);
        if session.members.is_empty() {
            if let Some(name) = session.name.take() {
                self.numbers.remove(&name);
            }
            self.free.push(number);
        }
    }

    fn number(&mut self, name: &Arc<str>) -> SessionNumber {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(IndexedSession::default());
            (self.sessions.len() - 1) as SessionNumber
        });
        self.sessions[number as usize].name = Some(Arc::clone(name));
        self.numbers.insert(Arc::clone(name), number);
        number
    }

    /// Returns the size of a table that is indexed by session number.
    pub(crate) fn table_size(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len() - self.free.len()
    }

    /// Returns the number of words in a session, divided by the average over all sessions.
    pub(crate) fn relative_length(&self, number: SessionNumber) -> f32 {
        let words = self.sessions[number as usize].words as f32;
        words * self.len() as f32 / (self.words.max(1) as f32)
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |it: &IndexedSession| {
            // A node of a B-tree is half to completely full.
            let name = it.name.as_ref().map_or(0, |name| name.len() + 16);
            it.members.len() * 34 + name + size_of::<IndexedSession>() + 26
        };
        self.sessions.iter().map(bytes).sum()
    }
}

fn neighbors(members: &BTreeMap<(u64, u64), Slot>, order: (u64, u64)) -> Neighbors {
    let slot_of = |it: Option<(&(u64, u64), &Slot)>| it.map_or(NONE, |(_, slot)| *slot);
    // Most documents are appended at the end.
    if members
        .last_key_value()
        .is_none_or(|(last, _)| *last < order)
    {
        return Neighbors {
            before: slot_of(members.last_key_value()),
            after: NONE,
        };
    }
    Neighbors {
        before: slot_of(members.range(..order).next_back()),
        after: slot_of(members.range(order..).next()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_follow_the_order_of_memories_in_a_session() {
        let mut sessions = Sessions::default();
        let name: Arc<str> = "a".into();
        let mut insert = |order, slot| sessions.insert(&name, order, slot, 10).1;
        let between = |before, after| Neighbors { before, after };
        assert_eq!(insert((5, 1), 0), between(NONE, NONE));
        assert_eq!(insert((9, 2), 1), between(0, NONE));
        assert_eq!(insert((7, 3), 2), between(0, 1));
        assert_eq!(
            insert((7, 4), 3),
            between(2, 1),
            "memories at one position are ordered by number"
        );
        assert_eq!(insert((1, 5), 4), between(NONE, 0));
    }

    #[test]
    fn session_is_removed_with_its_last_memory() {
        let mut sessions = Sessions::default();
        let (a, _) = sessions.insert(&"a".into(), (1, 1), 0, 30);
        let (b, _) = sessions.insert(&"b".into(), (1, 2), 1, 10);
        assert_eq!(sessions.relative_length(a), 1.5);
        sessions.remove(a, (1, 1), 30);
        assert_eq!(sessions.len(), 1);
        assert_eq!(sessions.relative_length(b), 1.0);
        let (again, _) = sessions.insert(&"c".into(), (1, 3), 0, 10);
        assert_eq!(again, a, "the number of the removed session is reused");
    }
}
