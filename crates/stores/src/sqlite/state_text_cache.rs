//! Caches the encoded states that a long list has read, for the next list of the same user.
//!
//! A log's number is never reused, and its state at a position never changes. So a cached state is
//! valid while the log is at that position, even if another process writes to the file.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;

/// The byte budget of one store's cache. Beyond it, the cache evicts the least recently listed
/// users; it rejects a list that exceeds the budget alone.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The approximate bytes of one session's entry in the map.
const ENTRY_BYTES: usize = 64;

/// The encoded states of the most recently listed users.
#[derive(Debug)]
pub(super) struct StateTextCache(Mutex<CachedUsers>);

#[derive(Debug)]
struct CachedUsers {
    /// The states by app and user.
    users: LruCache<(String, String), Arc<StateTexts>>,
    bytes: usize,
}

impl Default for StateTextCache {
    fn default() -> StateTextCache {
        StateTextCache(Mutex::new(CachedUsers {
            users: LruCache::unbounded(),
            bytes: 0,
        }))
    }
}

/// The encoded states of a user's sessions as one text, and the range of each log in it.
#[derive(Debug, Default)]
pub(super) struct StateTexts {
    pub(super) text: Arc<String>,
    parts: HashMap<i64, (u64, Range<usize>)>,
}

impl StateTexts {
    /// Creates the cached states. `parts` has the number and position of each log, and its range of
    /// `text`.
    pub(super) fn new(
        text: Arc<String>,
        parts: impl Iterator<Item = (i64, u64, Range<usize>)>,
    ) -> StateTexts {
        let parts = parts.map(|(number, position, part)| (number, (position, part)));
        StateTexts {
            text,
            parts: parts.collect(),
        }
    }

    /// Returns the range of a log's state, if the state was read at this position.
    pub(super) fn part(&self, number: i64, position: u64) -> Option<Range<usize>> {
        let (read_at, part) = self.parts.get(&number)?;
        (*read_at == position).then(|| part.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    fn bytes(&self) -> usize {
        self.text.capacity() + self.parts.capacity() * ENTRY_BYTES
    }
}

impl StateTextCache {
    /// Returns the cached states of the user's sessions; empty if there are none.
    pub(super) fn get(&self, app: &str, user: &str) -> Arc<StateTexts> {
        let owner = (app.to_owned(), user.to_owned());
        self.lock().users.get(&owner).cloned().unwrap_or_default()
    }

    /// Replaces the cached states of the user's sessions, and evicts other users beyond the budget.
    pub(super) fn put(&self, app: &str, user: &str, states: Arc<StateTexts>) {
        let mut cached = self.lock();
        let owner = (app.to_owned(), user.to_owned());
        cached.remove(&owner);
        if states.bytes() > BYTES_MAX {
            return;
        }
        cached.bytes += states.bytes();
        cached.users.put(owner, states);
        while cached.bytes > BYTES_MAX
            && let Some((_, evicted)) = cached.users.pop_lru()
        {
            cached.bytes -= evicted.bytes();
        }
    }

    /// Evicts the states of the user's sessions.
    pub(super) fn evict(&self, app: &str, user: &str) {
        self.lock().remove(&(app.to_owned(), user.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, CachedUsers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedUsers {
    fn remove(&mut self, owner: &(String, String)) {
        if let Some(states) = self.users.pop(owner) {
            self.bytes -= states.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(bytes: usize) -> Arc<StateTexts> {
        let parts = [(1, 5, 0..bytes)].into_iter();
        Arc::new(StateTexts::new(Arc::new(" ".repeat(bytes)), parts))
    }

    #[test]
    fn cached_state_is_valid_at_its_position_only() {
        let states = states(3);
        assert_eq!(states.part(1, 5), Some(0..3));
        assert_eq!((states.part(1, 6), states.part(2, 5)), (None, None));
    }

    #[test]
    fn least_recently_listed_user_is_evicted_first() {
        let cache = StateTextCache::default();
        for user in ["a", "b", "a", "c"] {
            cache.put("app", user, states(BYTES_MAX / 3));
        }
        let lens = ["a", "b", "c"].map(|user| cache.get("app", user).len());
        assert_eq!(lens, [1, 0, 1]);
        cache.evict("app", "a");
        assert_eq!(cache.get("app", "a").len(), 0);
        cache.put("app", "c", states(BYTES_MAX));
        assert_eq!(cache.get("app", "c").len(), 0, "exceeds the budget alone");
        assert_eq!(cache.lock().bytes, 0);
    }

    #[test]
    fn cache_stays_within_its_budget_with_lists_of_any_size() {
        let cache = StateTextCache::default();
        for number in 0..200_usize {
            let bytes = (number * 7919 % 23) * (BYTES_MAX / 40);
            cache.put("app", &format!("u{}", number % 31), states(bytes));
            let cached = cache.lock();
            let counted: usize = cached.users.iter().map(|(_, states)| states.bytes()).sum();
            assert_eq!(cached.bytes, counted);
            assert!(counted <= BYTES_MAX, "{counted}");
        }
        assert!(cache.lock().users.len() > 1);
    }
}
