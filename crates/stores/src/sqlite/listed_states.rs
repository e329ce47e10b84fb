//! What long lists have read of states, kept for the next list of the same user.
//!
//! A session's own keys follow from its log alone: a log's number is never given twice, and what it
//! comes to at a position never changes. So what was read once is good for as long as the position
//! is the same, whoever writes to the file.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;

/// How many bytes are kept of all lists together.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// What one session's place in the maps takes, about.
const PLACE_BYTES: usize = 64;

/// The states of the lists that were read last.
#[derive(Debug, Default)]
pub(super) struct ListedStates(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    /// By app and user.
    lists: LruCache<(String, String), Arc<Known>>,
    bytes: usize,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            lists: LruCache::unbounded(),
            bytes: 0,
        }
    }
}

/// Own keys as text, and which part of it is whose.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) text: String,
    parts: HashMap<i64, (u64, Range<usize>)>,
}

impl Known {
    /// Room for so many sessions.
    pub(super) fn with_capacity(sessions: usize) -> Known {
        Known {
            text: String::new(),
            parts: HashMap::with_capacity(sessions),
        }
    }

    /// The own keys of the log with this number, if it is still at the position; empty if it has none.
    pub(super) fn keys_of(&self, number: i64, position: u64) -> Option<&str> {
        let (known, part) = self.parts.get(&number)?;
        self.text.get(part.clone()).filter(|_| *known == position)
    }

    pub(super) fn add(&mut self, number: i64, position: u64, part: Range<usize>) {
        self.parts.insert(number, (position, part));
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.parts.len() * PLACE_BYTES
    }
}

impl ListedStates {
    /// What is known of the user's sessions.
    pub(super) fn of(&self, app: &str, user: &str) -> Arc<Known> {
        let owner = (app.to_owned(), user.to_owned());
        self.kept().lists.get(&owner).cloned().unwrap_or_default()
    }

    /// Keeps what is known of the user's sessions instead of what was. Others are forgotten where
    /// there is no room.
    pub(super) fn keep(&self, app: &str, user: &str, known: Arc<Known>) {
        let mut kept = self.kept();
        let owner = (app.to_owned(), user.to_owned());
        kept.remove(&owner);
        if known.bytes() > BYTES_MAX {
            return;
        }
        kept.bytes += known.bytes();
        kept.lists.put(owner, known);
        while kept.bytes > BYTES_MAX
            && let Some((_, evicted)) = kept.lists.pop_lru()
        {
            kept.bytes -= evicted.bytes();
        }
    }

    /// Forgets the user's sessions.
    pub(super) fn forget(&self, app: &str, user: &str) {
        self.kept().remove(&(app.to_owned(), user.to_owned()));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, owner: &(String, String)) {
        if let Some(known) = self.lists.pop(owner) {
            self.bytes -= known.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(bytes: usize) -> Arc<Known> {
        let mut known = Known {
            text: " ".repeat(bytes),
            ..Known::default()
        };
        known.add(1, 5, 0..bytes);
        Arc::new(known)
    }

    #[test]
    fn a_part_is_good_at_its_position_only() {
        let known = known(3);
        assert_eq!(known.keys_of(1, 5), Some("   "));
        assert_eq!((known.keys_of(1, 6), known.keys_of(2, 5)), (None, None));
    }

    #[test]
    fn who_was_listed_longest_ago_is_forgotten_first() {
        let states = ListedStates::default();
        let a_third = || known(BYTES_MAX / 3);
        for user in ["a", "b", "a", "c"] {
            states.keep("app", user, a_third());
        }
        let lens = ["a", "b", "c"].map(|user| states.of("app", user).len());
        assert_eq!(lens, [1, 0, 1]);
        states.forget("app", "a");
        assert_eq!(states.of("app", "a").len(), 0);
        states.keep("app", "c", known(BYTES_MAX));
        assert_eq!(states.of("app", "c").len(), 0, "too much for all");
        assert_eq!(states.kept().bytes, 0);
    }
}
