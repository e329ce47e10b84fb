//! A cache of the states that long lists have read, for the next list of the same user.
//!
//! A session's own keys follow from its log: a log's number is never reused, and its state at a
//! position never changes. So a cached state is valid as long as the position is the same, even if
//! another process writes to the file.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;

/// The byte limit of the cache.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// About the bytes of one session's entry in the maps.
const PLACE_BYTES: usize = 64;

/// The states of the most recent lists.
#[derive(Debug, Default)]
pub(super) struct ListedStates(Mutex<CachedLists>);

#[derive(Debug)]
struct CachedLists {
    /// By app and user.
    lists: LruCache<(String, String), Arc<CachedStates>>,
    bytes: usize,
}

impl Default for CachedLists {
    fn default() -> CachedLists {
        CachedLists {
            lists: LruCache::unbounded(),
            bytes: 0,
        }
    }
}

/// Own keys of sessions as one text, and which part belongs to which session.
#[derive(Debug, Default)]
pub(super) struct CachedStates {
    pub(super) text: String,
    parts: HashMap<i64, (u64, Range<usize>)>,
}

impl CachedStates {
    /// An empty cache with room for `sessions`.
    pub(super) fn with_capacity(sessions: usize) -> CachedStates {
        CachedStates {
            text: String::new(),
            parts: HashMap::with_capacity(sessions),
        }
    }

    /// The own keys of the log with this number if they are of this position; empty if it has none.
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
    /// The cached states of the user's sessions.
    pub(super) fn of(&self, app: &str, user: &str) -> Arc<CachedStates> {
        let owner = (app.to_owned(), user.to_owned());
        self.kept().lists.get(&owner).cloned().unwrap_or_default()
    }

    /// Replaces the cached states of the user's sessions, and evicts others beyond the limit.
    pub(super) fn keep(&self, app: &str, user: &str, known: Arc<CachedStates>) {
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

    /// Evicts the user's sessions.
    pub(super) fn forget(&self, app: &str, user: &str) {
        self.kept().remove(&(app.to_owned(), user.to_owned()));
    }

    fn kept(&self) -> MutexGuard<'_, CachedLists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedLists {
    fn remove(&mut self, owner: &(String, String)) {
        if let Some(known) = self.lists.pop(owner) {
            self.bytes -= known.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(bytes: usize) -> Arc<CachedStates> {
        let mut known = CachedStates {
            text: " ".repeat(bytes),
            ..CachedStates::default()
        };
        known.add(1, 5, 0..bytes);
        Arc::new(known)
    }

    #[test]
    fn cached_state_is_valid_at_its_position_only() {
        let known = known(3);
        assert_eq!(known.keys_of(1, 5), Some("   "));
        assert_eq!((known.keys_of(1, 6), known.keys_of(2, 5)), (None, None));
    }

    #[test]
    fn least_recently_listed_user_is_evicted_first() {
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
