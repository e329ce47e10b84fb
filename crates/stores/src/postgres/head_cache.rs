//! HeadCache that are remembered, so that an append can be one statement: written on what was seen, and
//! done only if it is still so.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::SessionKey;

use super::rows::CachedHead;

/// The cache holds at least this many heads, and at most twice as many.
const GENERATION: usize = 4096;

/// HeadCache of sessions that were used lately. What is remembered wrongly costs a round trip, no more.
#[derive(Debug, Default)]
pub(super) struct HeadCache(Mutex<HeadGenerations>);

#[derive(Debug, Default)]
struct HeadGenerations {
    young: HashMap<SessionKey, CachedHead>,
    old: HashMap<SessionKey, CachedHead>,
}

impl HeadCache {
    /// The head of a session, for one append alone: another one at the same moment could only
    /// fail on it.
    pub(super) fn take(&self, key: &SessionKey) -> Option<CachedHead> {
        let mut heads = self.lock();
        let young = heads.young.remove(key);
        young.or_else(|| heads.old.remove(key))
    }

    pub(super) fn remember(&self, key: &SessionKey, known: CachedHead) {
        let mut heads = self.lock();
        if heads.young.len() >= GENERATION {
            heads.old = std::mem::take(&mut heads.young);
        }
        heads.old.remove(key);
        heads.young.insert(key.clone(), known);
    }

    fn lock(&self) -> MutexGuard<'_, HeadGenerations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
