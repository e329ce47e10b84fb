//! Caches session heads, so that an append can be one statement that applies only if the head is
//! unchanged.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use retain_core::SessionKey;

use super::rows::CachedHead;

/// Maximum number of cached heads.
const HEADS_MAX: usize = 8192;

/// Heads of recently used sessions. A stale head costs a round trip, but causes no wrong write.
#[derive(Debug)]
pub(super) struct HeadCache(Mutex<LruCache<SessionKey, CachedHead>>);

impl Default for HeadCache {
    fn default() -> HeadCache {
        // A bounded cache would reserve its memory up front. `insert` enforces the limit instead.
        HeadCache(Mutex::new(LruCache::unbounded()))
    }
}

impl HeadCache {
    /// Removes and returns the head of a session, because only one append can succeed on it.
    pub(super) fn take(&self, key: &SessionKey) -> Option<CachedHead> {
        self.lock().pop(key)
    }

    pub(super) fn insert(&self, key: &SessionKey, head: CachedHead) {
        let mut heads = self.lock();
        heads.put(key.clone(), head);
        if heads.len() > HEADS_MAX {
            heads.pop_lru();
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<SessionKey, CachedHead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
