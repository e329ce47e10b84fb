//! Wakes whoever waits for a session to change in this process.

use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
};

use tokio::sync::{Notify, futures::Notified};

use crate::session::SessionKey;

/// A fixed set of bells; a session rings the one its key falls on. Somebody who waits for another
/// session on the same bell wakes for nothing, looks and waits again.
#[derive(Debug)]
pub struct ChangeHub {
    bells: Vec<Notify>,
    hasher: RandomState,
}

impl Default for ChangeHub {
    fn default() -> ChangeHub {
        ChangeHub {
            bells: (0..64).map(|_| Notify::new()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl ChangeHub {
    /// Says that the session has changed.
    pub fn ring(&self, key: &SessionKey) {
        self.bell(key).notify_waiters();
    }

    /// A future that ends at the next ring. Rings count from this call on, so look at the session
    /// between getting the future and awaiting it.
    pub fn listen(&self, key: &SessionKey) -> Pin<Box<Notified<'_>>> {
        let mut ring = Box::pin(self.bell(key).notified());
        ring.as_mut().enable();
        ring
    }

    fn bell(&self, key: &SessionKey) -> &Notify {
        let hash = self.hasher.hash_one(key) as usize;
        &self.bells[hash % self.bells.len()]
    }
}
