//! Process-local row locks. A writer takes them before a connection, so that writers of a busy
//! session do not use up the connection pool.
//!
//! All writers lock in one order: the app's shared state, the user's shared state, the session's
//! head. A holder runs in its own task, so that it makes progress even if its caller does not poll.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use retain_core::{Batch, MemoryScope, SessionKey};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::timeout,
};

use super::pool::Failure;

/// Maximum time that a task waits for the locks.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A row that only one task of this process may change at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LockKey {
    /// The shared state of an app.
    App(String),
    /// The shared state of a user.
    User(String, String),
    /// The head of a session.
    Session(SessionKey),
    /// A user's memories.
    Memories(MemoryScope),
}

impl LockKey {
    /// Returns the locks for an append to the session, in order.
    pub(super) fn for_batch(key: &SessionKey, batch: &Batch) -> Vec<LockKey> {
        let changes = || batch.events.iter().map(|new| &new.changes);
        let sets_app = changes().any(|changes| !changes.app.is_empty());
        let sets_user = changes().any(|changes| !changes.user.is_empty());
        LockKey::for_session(key, sets_app, sets_user)
    }

    /// Returns the locks for a change of the session, in order, including those of the shared state
    /// that the change sets.
    pub(super) fn for_session(key: &SessionKey, sets_app: bool, sets_user: bool) -> Vec<LockKey> {
        let app = sets_app.then(|| LockKey::App(key.app.clone()));
        let user = sets_user.then(|| LockKey::User(key.app.clone(), key.user.clone()));
        let session = LockKey::Session(key.clone());
        app.into_iter().chain(user).chain([session]).collect()
    }
}

/// The locks that tasks hold or wait for.
#[derive(Debug, Default)]
pub(super) struct KeyedLocks(Mutex<HashMap<LockKey, KeyedLock>>);

#[derive(Debug, Default)]
struct KeyedLock {
    /// Number of tasks that hold the lock or wait for it.
    users: usize,
    lock: Arc<AsyncMutex<()>>,
}

/// A held or awaited lock; dropping it releases the lock or leaves the queue.
#[derive(Debug)]
pub(super) struct KeyedLockGuard {
    locks: Arc<KeyedLocks>,
    key: LockKey,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyedLocks {
    /// Takes the locks one after the other. Fails after [`WAIT_MAX`].
    pub(super) async fn lock_all<E>(
        self: &Arc<KeyedLocks>,
        keys: Vec<LockKey>,
    ) -> Result<Vec<KeyedLockGuard>, Failure<E>> {
        let locking = async {
            let mut guards = Vec::with_capacity(keys.len());
            for key in keys {
                guards.push(self.lock(key).await);
            }
            guards
        };
        timeout(WAIT_MAX, locking).await.map_err(|_| {
            let seconds = WAIT_MAX.as_secs();
            let reason =
                format!("timed out after {seconds} s waiting for another task to release the row");
            Failure::NoConnection(reason.into())
        })
    }

    async fn lock(self: &Arc<KeyedLocks>, key: LockKey) -> KeyedLockGuard {
        let lock = {
            let mut locks = self.entries();
            let entry = locks.entry(key.clone()).or_default();
            entry.users += 1;
            Arc::clone(&entry.lock)
        };
        let mut guard = KeyedLockGuard {
            locks: Arc::clone(self),
            key,
            held: None,
        };
        guard.held = Some(lock.lock_owned().await);
        guard
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<LockKey, KeyedLock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeyedLockGuard {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut locks = self.locks.entries();
        if let Some(entry) = locks.get_mut(&self.key) {
            entry.users -= 1;
            if entry.users == 0 {
                locks.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use retain_core::SessionError;

    use super::*;

    async fn lock(locks: &Arc<KeyedLocks>, id: &str) -> Vec<KeyedLockGuard> {
        let keys = LockKey::for_session(&SessionKey::new("app", "ada", id), true, false);
        locks.lock_all::<SessionError>(keys).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lock_has_one_holder_and_leaves_no_entry() {
        let (locks, holders) = (
            Arc::new(KeyedLocks::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        let tasks = (0..50).map(|_| {
            let (locks, holders) = (Arc::clone(&locks), Arc::clone(&holders));
            tokio::spawn(async move {
                let _guards = lock(&locks, "s").await;
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                holders.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert!(locks.entries().is_empty());
    }

    #[tokio::test]
    async fn cancelled_waiter_leaves_no_entry() {
        let locks = Arc::new(KeyedLocks::default());
        let first = lock(&locks, "s").await;
        let other = LockKey::for_session(&SessionKey::new("other", "ada", "s"), true, true);
        locks.lock_all::<SessionError>(other).await.unwrap();
        let mut waiting = Box::pin(lock(&locks, "s"));
        let waits = timeout(Duration::from_millis(5), &mut waiting).await;
        assert!(waits.is_err());
        drop(waiting);
        drop(first);
        assert!(locks.entries().is_empty());
        lock(&locks, "s").await;
    }
}
