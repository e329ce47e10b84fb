//! `LiveState`: the session's state as tools and callbacks read and write it.
//!
//! As in ADK, a write is visible immediately to everything that shares the live session. It also
//! belongs to the actions of the writer's event, and is stored with that event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retain_core::{EventActions, Json, SharedSession, State, StateDelta};

/// The state of a live session. Records the values that are written through it.
///
/// ```
/// use retain_core::{Json, Session, SharedSession};
/// use retain_runtime::LiveState;
/// let state = LiveState::from_session(SharedSession::new(Session::new("app", "ada", "s1")));
/// state.set("visits", 1);
/// state.update("visits", |visits| *visits = (visits.as_i64().unwrap_or(0) + 1).into());
/// assert_eq!(state.get("visits").unwrap(), 2);
/// assert_eq!(state.delta()["visits"], 2);
/// ```
#[derive(Debug, Clone)]
pub struct LiveState {
    session: SharedSession,
    actions: Arc<Mutex<EventActions>>,
}

impl LiveState {
    /// Creates a view of the state of `session`, with an empty delta.
    pub fn from_session(session: SharedSession) -> LiveState {
        LiveState::new(session, Arc::default())
    }

    pub(crate) fn new(session: SharedSession, actions: Arc<Mutex<EventActions>>) -> LiveState {
        LiveState { session, actions }
    }

    /// Returns the current value of `key`.
    pub fn get(&self, key: &str) -> Option<Json> {
        self.session
            .update(|session| session.state.get(key).cloned())
    }

    /// Writes `key` and returns its previous value.
    pub fn set(&self, key: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        let (key, value) = (key.into(), value.into());
        self.lock().state_delta.insert(key.clone(), value.clone());
        self.session.update(|session| session.state.set(key, value))
    }

    /// Calls `change` on the value of `key`, atomically, and writes the whole value if it differs
    /// then. The value of a missing key is `null`.
    ///
    /// The state is locked meanwhile, so `change` deadlocks if it uses the state.
    pub fn update<T>(&self, key: &str, change: impl FnOnce(&mut Json) -> T) -> T {
        let (result, written) = self.session.update(|session| {
            let before = session.state.get(key).cloned();
            let mut value = before.clone().unwrap_or_default();
            let result = change(&mut value);
            if before.unwrap_or_default() == value {
                return (result, None);
            }
            session.state.set(key, value.clone());
            (result, Some(value))
        });
        if let Some(value) = written {
            self.lock().state_delta.insert(key, value);
        }
        result
    }

    /// Whether any value was written.
    pub fn has_delta(&self) -> bool {
        !self.lock().state_delta.is_empty()
    }

    /// Returns the written values.
    pub fn delta(&self) -> StateDelta {
        self.lock().state_delta.clone()
    }

    /// Returns all current keys and values.
    pub fn to_state(&self) -> State {
        self.session.update(|session| session.state.clone())
    }

    fn lock(&self) -> MutexGuard<'_, EventActions> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
