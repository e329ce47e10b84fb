//! `State` and its scopes. Only this file defines the prefixes `app:`, `user:` and `temp:`.

use crate::json::{Json, JsonMap};

/// The scope of a state key: the sessions that share it, as its prefix says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateScope {
    /// `app:`: every session of every user of the app.
    App,
    /// `user:`: every session of this user of the app.
    User,
    /// No known prefix: this session.
    Session,
    /// `temp:`: this live run only; never stored.
    Temp,
}

impl StateScope {
    /// Returns the scope of `key`.
    ///
    /// ```
    /// use retain_core::StateScope;
    /// assert_eq!(StateScope::of("user:name"), StateScope::User);
    /// assert_eq!(StateScope::of("foo:name"), StateScope::Session);
    /// ```
    pub fn of(key: &str) -> StateScope {
        Self::split(key).0
    }

    /// Returns the scope of `key` and the key without its prefix.
    pub fn split(key: &str) -> (StateScope, &str) {
        for scope in [StateScope::App, StateScope::User, StateScope::Temp] {
            if let Some(bare) = key.strip_prefix(scope.prefix()) {
                return (scope, bare);
            }
        }
        (StateScope::Session, key)
    }

    /// Returns the key prefix of this scope.
    pub fn prefix(self) -> &'static str {
        match self {
            StateScope::App => "app:",
            StateScope::User => "user:",
            StateScope::Session => "",
            StateScope::Temp => "temp:",
        }
    }
}

/// State changes by key, with scope prefixes, in the order they were made.
pub type StateDelta = JsonMap;

/// A delta split by scope. State keys of `app` and `user` have no prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScopedDelta {
    /// Changes of the app state.
    pub app: StateDelta,
    /// Changes of the user state.
    pub user: StateDelta,
    /// Changes of the session's own state.
    pub session: StateDelta,
    /// Changes for the live run only; these keys keep their prefix.
    pub temp: StateDelta,
}

impl ScopedDelta {
    /// Splits `delta` by the prefixes of its keys.
    pub fn from_delta(delta: &StateDelta) -> ScopedDelta {
        let mut scoped = ScopedDelta::default();
        for (key, value) in delta {
            let (scope, bare) = StateScope::split(key);
            match scope {
                StateScope::App => scoped.app.insert(bare, value.clone()),
                StateScope::User => scoped.user.insert(bare, value.clone()),
                StateScope::Session => scoped.session.insert(bare, value.clone()),
                StateScope::Temp => scoped.temp.insert(key, value.clone()),
            };
        }
        scoped
    }
}

/// The state of a session as an agent sees it: its own keys, and shared keys under their prefix.
///
/// ```
/// use retain_core::{State, StateDelta};
/// let mut state = State::from([("cart", 1)]);
/// assert_eq!(state.set("cart", 2), Some(1.into()));
/// state.apply(&StateDelta::from([("user:name", "Ada")]));
/// assert_eq!(state["user:name"], "Ada");
/// let (app, user, session, temp) = State::partition_by_scope(&state.to_delta());
/// assert_eq!((app.len(), user.len(), session.len(), temp.len()), (0, 1, 1, 0));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State(JsonMap);

impl State {
    /// Creates an empty state.
    pub fn new() -> State {
        State::default()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.get(key)
    }

    /// Sets `key` and returns its previous value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        self.0.insert(key, value)
    }

    /// Removes `key`. ADK has no such change; only a rewind removes a key.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        self.0.remove(key)
    }

    /// Sets every key of `delta`. A `null` is stored as `null`, as in ADK.
    pub fn apply(&mut self, delta: &StateDelta) {
        for (key, value) in delta {
            self.0.insert(key, value.clone());
        }
    }

    /// Splits `delta` into (app, user, session, temp). Keys of app and user lose their prefix.
    pub fn partition_by_scope(
        delta: &StateDelta,
    ) -> (StateDelta, StateDelta, StateDelta, StateDelta) {
        let scoped = ScopedDelta::from_delta(delta);
        (scoped.app, scoped.user, scoped.session, scoped.temp)
    }

    /// Returns `delta` without its `temp:` keys.
    pub fn trim_temp_keys(delta: &StateDelta) -> StateDelta {
        let mut trimmed = delta.clone();
        State::take_temp_keys(&mut trimmed);
        trimmed
    }

    /// Removes the `temp:` keys of `delta` and returns them.
    pub fn take_temp_keys(delta: &mut StateDelta) -> StateDelta {
        let is_temp = |key: &str| StateScope::of(key) == StateScope::Temp;
        if !delta.keys().any(is_temp) {
            return StateDelta::new();
        }
        let mut temp = delta.clone();
        temp.retain(|key, _| is_temp(key));
        delta.retain(|key, _| !is_temp(key));
        temp
    }

    /// Removes the `temp:` keys, which live for one run, and returns them.
    pub fn clear_temp_keys(&mut self) -> StateDelta {
        State::take_temp_keys(&mut self.0)
    }

    /// Merges three scopes into one state. As in ADK, app and user keys win over session keys.
    pub fn merged(session: JsonMap, app: &JsonMap, user: &JsonMap) -> State {
        let mut state = State(session);
        for (key, value) in app {
            state.0.insert(format!("app:{key}"), value.clone());
        }
        for (key, value) in user {
            state.0.insert(format!("user:{key}"), value.clone());
        }
        state
    }

    /// Returns all keys and values as a delta.
    pub fn to_delta(&self) -> StateDelta {
        self.0.clone()
    }

    /// Iterates over keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter()
    }

    /// Whether the state has `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the state has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::ops::Index<&str> for State {
    type Output = Json;

    /// Returns the value of `key`; `null` if the key is missing.
    fn index(&self, key: &str) -> &Json {
        &self.0[key]
    }
}

impl From<JsonMap> for State {
    fn from(map: JsonMap) -> State {
        State(map)
    }
}

impl From<State> for JsonMap {
    fn from(state: State) -> JsonMap {
        state.0
    }
}

impl<K: Into<String>, V: Into<Json>> FromIterator<(K, V)> for State {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> State {
        State(pairs.into_iter().collect())
    }
}

impl<K: Into<String>, V: Into<Json>, const N: usize> From<[(K, V); N]> for State {
    fn from(pairs: [(K, V); N]) -> State {
        pairs.into_iter().collect()
    }
}

/// The state that tools and callbacks write to: committed values plus a pending delta.
///
/// As in ADK 2.13, a read prefers the delta, a write is visible immediately, and a container that
/// was changed in place counts as written. There is no delete; `null` is a value.
///
/// ```
/// use retain_core::{Json, State, TrackedState};
/// let cart = Json::parse(r#"{"items": []}"#).unwrap();
/// let mut state = TrackedState::new(State::from([("cart", cart)]));
/// let cart = state.get_mut("cart").unwrap().as_object_mut().unwrap();
/// cart.get_mut("items").unwrap().as_array_mut().unwrap().push("book".into());
/// assert_eq!(state.delta()["cart"]["items"][0], "book");
/// ```
#[derive(Debug, Clone, Default)]
pub struct TrackedState {
    value: State,
    delta: StateDelta,
    /// Copies of the values that `get_mut` has returned, for detecting changes.
    borrowed: JsonMap,
}

impl TrackedState {
    /// Starts from the committed state.
    pub fn new(value: State) -> TrackedState {
        TrackedState {
            value,
            ..TrackedState::default()
        }
    }

    /// Returns the current value of `key`, including pending writes.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.value.get(key)
    }

    /// Sets `key`: visible immediately, and part of the delta.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        let (key, value) = (key.into(), value.into());
        self.borrowed.remove(&key);
        self.delta.insert(key.clone(), value.clone());
        self.value.set(key, value)
    }

    /// Returns the value of `key` for changing in place. If it changes, the whole value becomes
    /// part of the delta.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        let value = self.value.0.get_mut(key)?;
        if !self.borrowed.contains_key(key) {
            self.borrowed.insert(key, value.clone());
        }
        Some(value)
    }

    /// Whether the delta has any key.
    pub fn has_delta(&mut self) -> bool {
        !self.delta().is_empty()
    }

    /// Returns the writes since the start or the last [`take_delta`](Self::take_delta).
    pub fn delta(&mut self) -> &StateDelta {
        for (key, before) in std::mem::take(&mut self.borrowed) {
            if let Some(now) = self.value.get(&key)
                && *now != before
            {
                self.delta.insert(key, now.clone());
            }
        }
        &self.delta
    }

    /// Returns the delta and starts a new one; the written values stay visible.
    pub fn take_delta(&mut self) -> StateDelta {
        self.delta();
        std::mem::take(&mut self.delta)
    }

    /// Returns the current values.
    pub fn to_state(&self) -> &State {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_prefix_determines_the_state_scope() {
        let delta = StateDelta::from([
            ("app:a", 1),
            ("user:b", 2),
            ("c", 3),
            ("temp:d", 4),
            ("foo:e", 5),
            ("app:", 6),
            ("APP:f", 7),
        ]);
        let (app, user, session, temp) = State::partition_by_scope(&delta);
        assert_eq!(app.keys().collect::<Vec<_>>(), ["a", ""]);
        assert_eq!(user.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(session.keys().collect::<Vec<_>>(), ["c", "foo:e", "APP:f"]);
        assert_eq!(temp.keys().collect::<Vec<_>>(), ["temp:d"]);
        assert!(!State::trim_temp_keys(&delta).contains_key("temp:d"));
    }

    #[test]
    fn merged_state_prefers_shared_scopes() {
        let session = JsonMap::from([("app:k", "session"), ("x", "session")]);
        let state = State::merged(session, &[("k", "app")].into(), &[("x", "user")].into());
        assert_eq!(state.get("app:k").unwrap(), "app");
        assert_eq!(state.get("x").unwrap(), "session");
        assert_eq!(state.get("user:x").unwrap(), "user");
    }

    #[test]
    fn tracked_write_is_visible_at_once_and_in_the_delta() {
        let mut state = TrackedState::new(State::from([("a", 1)]));
        assert!(!state.has_delta());
        assert_eq!(state.set("a", 2), Some(1.into()));
        state.set("b", Json::Null);
        assert_eq!(state.get("a").unwrap(), &Json::from(2));
        assert_eq!(
            state.take_delta(),
            StateDelta::from([("a", Json::from(2)), ("b", Json::Null)])
        );
        assert!(!state.has_delta());
        assert_eq!(state.get("b"), Some(&Json::Null));
    }

    #[test]
    fn mutable_access_enters_the_delta_only_if_the_value_changes() {
        let list: Json = vec![Json::from(1)].into();
        let mut state = TrackedState::new(State::from([("a", list.clone()), ("b", list)]));
        state
            .get_mut("a")
            .unwrap()
            .as_array_mut()
            .unwrap()
            .push(2.into());
        let _ = state.get_mut("b").unwrap().as_array_mut();
        assert_eq!(state.take_delta().keys().collect::<Vec<_>>(), ["a"]);
    }
}
