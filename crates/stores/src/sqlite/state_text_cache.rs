//! A cache of the encoded states that long lists have read, for the next list of the same user.
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

/// The byte budget of the cache of one store. It evicts the least recently listed users beyond it,
/// and does not keep a list that alone is larger.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// About the bytes of one session's entry in the map.
const ENTRY_BYTES: usize = 64;

/// The encoded states of the most recent lists.
#[derive(Debug)]
pub(super) struct StateTextCache(Mutex<Lists>);

#[derive(Debug)]
struct Lists {
    /// By app and user.
    users: LruCache<(String, String), Arc<StateTexts>>,
    bytes: usize,
}

impl Default for StateTextCache {
    fn default() -> StateTextCache {
        StateTextCache(Mutex::new(Lists {
            users: LruCache::unbounded(),
            bytes: 0,
        }))
    }
}

/// The encoded states of a user's sessions as one text, and which part belongs to which log.
#[derive(Debug, Default)]
pub(super) struct StateTexts {
    pub(super) text: Arc<String>,
    parts: HashMap<i64, (u64, Range<usize>)>,
}

impl StateTexts {
    /// `parts` are the number and position of each log, and its part of the text.
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

    /// The part of the log with this number, if it was read at this position.
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
    /// The cached states of the user's sessions; empty if there are none.
    pub(super) fn get(&self, app: &str, user: &str) -> Arc<StateTexts> {
        let owner = (app.to_owned(), user.to_owned());
        self.lists().users.get(&owner).cloned().unwrap_or_default()
    }

    /// Replaces the cached states of the user's sessions, and evicts others beyond the budget.
    pub(super) fn put(&self, app: &str, user: &str, states: Arc<StateTexts>) {
        let mut lists = self.lists();
        let owner = (app.to_owned(), user.to_owned());
        lists.remove(&owner);
        if states.bytes() > BYTES_MAX {
            return;
        }
        lists.bytes += states.bytes();
        lists.users.put(owner, states);
        while lists.bytes > BYTES_MAX
            && let Some((_, evicted)) = lists.users.pop_lru()
        {
            lists.bytes -= evicted.bytes();
        }
    }

    /// Evicts the user's sessions.
    pub(super) fn evict(&self, app: &str, user: &str) {
        self.lists().remove(&(app.to_owned(), user.to_owned()));
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists {
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
        assert_eq!(
            cache.get("app", "c").len(),
            0,
            "it is over the budget alone"
        );
        assert_eq!(cache.lists().bytes, 0);
    }

    #[test]
    fn cache_stays_within_its_budget_whatever_is_listed() {
        let cache = StateTextCache::default();
        for number in 0..200_usize {
            let bytes = (number * 7919 % 23) * (BYTES_MAX / 40);
            cache.put("app", &format!("u{}", number % 31), states(bytes));
            let lists = cache.lists();
            let counted: usize = lists.users.iter().map(|(_, states)| states.bytes()).sum();
            assert_eq!(lists.bytes, counted);
            assert!(counted <= BYTES_MAX, "{counted}");
        }
        assert!(cache.lists().users.len() > 1);
    }
}
