//! Stores state: current and past values of each session's own keys, and the current shared state.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use retain_core::{
    Changes, Json, JsonError, JsonMap, LimitKind, Result, ScopedState, SessionKey, StateText,
    check_growth, store_rules,
};

use super::schema::{SessionLog, SessionTables};

/// Maximum bytes of an encoded state that is cached for the next list. Most states are shorter. A
/// cached state takes twice the memory, so long ones are not cached.
const CACHED_TEXT_MAX: usize = 1024;

/// The values of a state key with their positions; `None` where the key was removed.
pub(super) type Values = Vec<(u64, Option<Json>)>;

/// A session's own state keys with all their past values.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnState {
    values: BTreeMap<String, Values>,
    /// The current state as JSON, cached when sessions were last listed; few sessions change between
    /// two listings.
    text: OnceLock<Box<str>>,
}

impl OwnState {
    /// Returns all values for modification, and drops the cached text.
    pub(super) fn values_mut(&mut self) -> &mut BTreeMap<String, Values> {
        self.text = OnceLock::new();
        &mut self.values
    }

    /// Returns all values of each key, ascending by position.
    pub(super) fn history(&self) -> impl Iterator<Item = (&str, &Values)> {
        let values = self.values.iter();
        values.map(|(key, values)| (key.as_str(), values))
    }

    /// Sets keys at `position`.
    pub(super) fn set(&mut self, position: u64, changes: &[(String, Option<Json>)]) {
        if changes.is_empty() {
            return;
        }
        let state = self.values_mut();
        for (key, value) in changes {
            let values = state.entry(key.clone()).or_default();
            values.push((position, value.clone()));
        }
    }

    /// Returns the current value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.values.get(key).and_then(newest)
    }

    /// Returns the keys as they were after `position`.
    pub(super) fn values_at(&self, position: u64) -> JsonMap {
        let at = |values: &Values| {
            let end = values.partition_point(|(at, _)| *at <= position);
            values[..end].last().and_then(|(_, value)| value.clone())
        };
        let keys = self.values.iter();
        keys.filter_map(|(key, values)| Some((key.as_str(), at(values)?)))
            .collect()
    }

    /// Encodes the current state as JSON. On failure, returns the state key whose value cannot be
    /// encoded, and the error.
    pub(super) fn text(&self) -> Result<Cow<'_, str>, (String, JsonError)> {
        if let Some(text) = self.text.get() {
            return Ok(Cow::Borrowed(text));
        }
        let mut text = StateText::default();
        for (key, values) in &self.values {
            if let Some(value) = newest(values) {
                let pushed = text.push(key, value);
                pushed.map_err(|error| (key.clone(), error))?;
            }
        }
        if text.as_str().len() > CACHED_TEXT_MAX {
            return Ok(Cow::Owned(text.into()));
        }
        let cached = self.text.get_or_init(|| String::from(text).into());
        Ok(Cow::Borrowed(cached))
    }
}

fn newest(values: &Values) -> Option<&Json> {
    values.last().and_then(|(_, value)| value.as_ref())
}

/// The new shared state of the app and of the user; `None` where nothing changes.
pub(super) type SharedUpdate = (Option<JsonMap>, Option<JsonMap>);

/// The shared state: `app:` values by app, `user:` values by app and user.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    pub(super) apps: HashMap<String, JsonMap>,
    pub(super) users: HashMap<(String, String), JsonMap>,
}

impl SharedState {
    pub(super) fn app(&self, app: &str) -> JsonMap {
        self.apps.get(app).cloned().unwrap_or_default()
    }

    pub(super) fn user(&self, app: &str, user: &str) -> JsonMap {
        let key = (app.to_owned(), user.to_owned());
        self.users.get(&key).cloned().unwrap_or_default()
    }

    /// Computes the shared state after `changes`. Fails if it exceeds the limit.
    pub(super) fn plan_update<'a>(
        &self,
        key: &SessionKey,
        changes: impl Iterator<Item = &'a Changes>,
        bytes_max: usize,
    ) -> Result<SharedUpdate> {
        let (mut app, mut user) = (None, None);
        for change in changes {
            if !change.app.is_empty() {
                set_all(app.get_or_insert_with(|| self.app(&key.app)), &change.app);
            }
            if !change.user.is_empty() {
                set_all(
                    user.get_or_insert_with(|| self.user(&key.app, &key.user)),
                    &change.user,
                );
            }
        }
        let owner = (key.app.clone(), key.user.clone());
        let scopes = [
            (LimitKind::AppState, self.apps.get(&key.app), &app),
            (LimitKind::UserState, self.users.get(&owner), &user),
        ];
        for (what, before, after) in scopes {
            if let Some(after) = after {
                let before = before.map_or(0, map_bytes);
                check_growth(what, before, map_bytes(after), bytes_max)?;
            }
        }
        Ok((app, user))
    }

    pub(super) fn apply_update(&mut self, key: &SessionKey, (app, user): SharedUpdate) {
        if let Some(app) = app {
            self.apps.insert(key.app.clone(), app);
        }
        if let Some(user) = user {
            self.users.insert((key.app.clone(), key.user.clone()), user);
        }
    }

    /// Sets the keys that the app or the user does not have yet.
    pub(super) fn add_absent(&mut self, app: &str, user: &str, keys: &ScopedState) {
        let app_keys = self.apps.entry(app.to_owned()).or_default();
        store_rules::set_absent(app_keys, &keys.app);
        let owner = (app.to_owned(), user.to_owned());
        store_rules::set_absent(self.users.entry(owner).or_default(), &keys.user);
    }
}

impl SessionTables {
    /// Returns the state of all scopes that a session sees, with its own state after `position`.
    pub(super) fn state(&self, key: &SessionKey, log: &SessionLog, position: u64) -> ScopedState {
        ScopedState {
            app: self.shared.app(&key.app),
            user: self.shared.user(&key.app, &key.user),
            session: log.state.values_at(position),
        }
    }
}

impl SessionLog {
    pub(super) fn count_state_bytes(&self) -> usize {
        map_bytes(&self.state.values_at(u64::MAX))
    }

    /// Returns the bytes of the session's own keys after `changes`. Reads only the changed keys.
    pub(super) fn state_bytes_after<'a>(
        &self,
        changes: impl Iterator<Item = &'a Changes>,
    ) -> usize {
        let all = changes.flat_map(|change| &change.session);
        let last: HashMap<&String, &Option<Json>> = all.map(|(key, value)| (key, value)).collect();
        let bytes =
            |key: &str, value: Option<&Json>| value.map_or(0, |value| entry_bytes(key, value));
        last.iter().fold(self.state_bytes, |total, (key, value)| {
            total + bytes(key, value.as_ref()) - bytes(key, self.state.get(key))
        })
    }
}

fn set_all(map: &mut JsonMap, changes: &JsonMap) {
    for (key, value) in changes {
        map.insert(key, value.clone());
    }
}

fn map_bytes(map: &JsonMap) -> usize {
    map.iter().map(|(key, value)| entry_bytes(key, value)).sum()
}

fn entry_bytes(key: &str, value: &Json) -> usize {
    key.len() + value.to_string().len()
}
