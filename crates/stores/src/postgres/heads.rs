//! Heads that are remembered, so that an append can be one statement: written on what was seen, and
//! done only if it is still so.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::SessionKey;

use super::rows::Known;

/// So many heads are remembered at least, and twice as many at most.
const GENERATION: usize = 4096;

/// Heads of sessions that were used lately. What is remembered wrongly costs a round trip, no more.
#[derive(Debug, Default)]
pub(super) struct Heads(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<SessionKey, Known>,
    old: HashMap<SessionKey, Known>,
}

impl Heads {
    /// The head of a session, for one append alone: another one at the same moment could only
    /// fail on it.
    pub(super) fn take(&self, key: &SessionKey) -> Option<Known> {
        let mut heads = self.lock();
        let young = heads.young.remove(key);
        young.or_else(|| heads.old.remove(key))
    }

    pub(super) fn remember(&self, key: &SessionKey, known: Known) {
        let mut heads = self.lock();
        if heads.young.len() >= GENERATION {
            heads.old = std::mem::take(&mut heads.young);
        }
        heads.old.remove(key);
        heads.young.insert(key.clone(), known);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
