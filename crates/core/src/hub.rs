//! Wakes tasks of this process that wait for a session to change.

use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
};

use tokio::sync::{Notify, futures::Notified};

use crate::session::SessionKey;

/// A fixed set of notifiers. Each session maps to one by the hash of its key, so a waiter may wake
/// because another session changed. It then finds its own session unchanged and waits again.
#[derive(Debug)]
pub struct ChangeHub {
    notifiers: Vec<Notify>,
    hasher: RandomState,
}

impl Default for ChangeHub {
    fn default() -> ChangeHub {
        ChangeHub {
            notifiers: (0..64).map(|_| Notify::new()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl ChangeHub {
    /// Notifies waiters that the session has changed.
    pub fn notify(&self, key: &SessionKey) {
        self.notifier(key).notify_waiters();
    }

    /// Returns a future that completes at the next [`notify`](Self::notify). Notifications count
    /// from this call on, so check the session after this call and before awaiting the future.
    pub fn listen(&self, key: &SessionKey) -> Pin<Box<Notified<'_>>> {
        let mut notified = Box::pin(self.notifier(key).notified());
        notified.as_mut().enable();
        notified
    }

    fn notifier(&self, key: &SessionKey) -> &Notify {
        let hash = self.hasher.hash_one(key) as usize;
        &self.notifiers[hash % self.notifiers.len()]
    }
}
