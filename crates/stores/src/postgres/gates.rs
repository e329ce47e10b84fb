//! One at a time, before a connection is taken: whoever would only wait for a row that another task of
//! this process has locked waits here, so that one busy session does not use up the connections of all.
//!
//! Gates are passed in the order in which rows are locked: the app's shared keys, the user's, the
//! session's head. Whoever has passed one gets on by himself, in a task of his own.

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

/// How long somebody waits for others of this process.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A row that one at a time changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Gate {
    /// The shared keys of an app.
    App(String),
    /// The shared keys of a user of an app.
    User(String, String),
    /// The head of a session.
    Session(SessionKey),
    /// A user's memories.
    Memories(MemoryScope),
}

impl Gate {
    /// What an append to the session locks, in order.
    pub(super) fn of_batch(key: &SessionKey, batch: &Batch) -> Vec<Gate> {
        let changes = || batch.events.iter().map(|new| &new.changes);
        let sets_app = changes().any(|changes| !changes.app.is_empty());
        let sets_user = changes().any(|changes| !changes.user.is_empty());
        Gate::of_session(key, sets_app, sets_user)
    }

    /// What a change of the session locks that sets shared keys of the app or of the user.
    pub(super) fn of_session(key: &SessionKey, sets_app: bool, sets_user: bool) -> Vec<Gate> {
        let app = sets_app.then(|| Gate::App(key.app.clone()));
        let user = sets_user.then(|| Gate::User(key.app.clone(), key.user.clone()));
        let session = Gate::Session(key.clone());
        app.into_iter().chain(user).chain([session]).collect()
    }
}

/// The gates at which there is somebody.
#[derive(Debug, Default)]
pub(super) struct Gates(Mutex<HashMap<Gate, Place>>);

#[derive(Debug, Default)]
struct Place {
    /// Who stands at it or has passed it.
    here: usize,
    turn: Arc<AsyncMutex<()>>,
}

/// Somebody at a gate. To go away, before or behind it, is to drop this.
#[derive(Debug)]
pub(super) struct Passed {
    gates: Arc<Gates>,
    gate: Gate,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Gates {
    /// Passes these gates, one after the other.
    pub(super) async fn pass<E>(
        self: &Arc<Gates>,
        gates: Vec<Gate>,
    ) -> Result<Vec<Passed>, Failure<E>> {
        let passing = async {
            let mut passed = Vec::with_capacity(gates.len());
            for gate in gates {
                passed.push(self.pass_one(gate).await);
            }
            passed
        };
        timeout(WAIT_MAX, passing).await.map_err(|_| {
            let reason = format!("others of this process were at it for {WAIT_MAX:?}");
            Failure::NoConnection(reason.into())
        })
    }

    async fn pass_one(self: &Arc<Gates>, gate: Gate) -> Passed {
        let turn = {
            let mut places = self.lock();
            let place = places.entry(gate.clone()).or_default();
            place.here += 1;
            Arc::clone(&place.turn)
        };
        let mut passed = Passed {
            gates: Arc::clone(self),
            gate,
            turn: None,
        };
        passed.turn = Some(turn.lock_owned().await);
        passed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Gate, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        drop(self.turn.take());
        let mut places = self.gates.lock();
        if let Some(place) = places.get_mut(&self.gate) {
            place.here -= 1;
            if place.here == 0 {
                places.remove(&self.gate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use retain_core::SessionError;

    use super::*;

    fn gate(id: &str) -> Vec<Gate> {
        Gate::of_session(&SessionKey::new("app", "ada", id), true, false)
    }

    async fn pass(gates: &Arc<Gates>, id: &str) -> Vec<Passed> {
        let passed = gates.pass::<SessionError>(gate(id)).await;
        passed.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_at_a_time_passes_and_nothing_is_left() {
        let (gates, inside) = (Arc::new(Gates::default()), Arc::new(AtomicUsize::new(0)));
        let visitors = (0..50).map(|_| {
            let (gates, inside) = (Arc::clone(&gates), Arc::clone(&inside));
            tokio::spawn(async move {
                let _passed = pass(&gates, "s").await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for visitor in visitors.collect::<Vec<_>>() {
            visitor.await.unwrap();
        }
        assert!(gates.lock().is_empty());
    }

    #[tokio::test]
    async fn who_goes_away_while_waiting_leaves_nothing() {
        let gates = Arc::new(Gates::default());
        let first = pass(&gates, "s").await;
        let other = Gate::of_session(&SessionKey::new("other", "ada", "s"), true, true);
        gates.pass::<SessionError>(other).await.unwrap();
        let mut waiting = Box::pin(pass(&gates, "s"));
        let waits = timeout(Duration::from_millis(5), &mut waiting).await;
        assert!(waits.is_err());
        drop(waiting);
        drop(first);
        assert!(gates.lock().is_empty());
        pass(&gates, "s").await;
    }
}
