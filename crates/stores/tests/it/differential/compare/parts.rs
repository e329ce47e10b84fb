//! Accessors for sessions, events and states as JSON.

use retain_core::{Json, JsonMap, SessionKey, StateScope};

pub(super) fn fields(json: &Json) -> &JsonMap {
    json.as_object().expect("an object")
}

pub(super) fn fields_mut(json: &mut Json) -> &mut JsonMap {
    json.as_object_mut().expect("an object")
}

pub(super) fn events_of(session: &Json) -> Vec<Json> {
    session["events"].as_array().unwrap_or_default().to_vec()
}

pub(super) fn key_of(session: &Json) -> SessionKey {
    let field = |name: &str| session[name].as_str().expect("a text").to_owned();
    SessionKey::new(field("appName"), field("userId"), field("id"))
}

pub(super) fn id_of(event: &Json) -> &str {
    event["id"].as_str().expect("an event has an id")
}

pub(super) fn time_of(event: &Json) -> f64 {
    event["timestamp"].as_f64().expect("an event has a time")
}

pub(super) fn ids(events: &[Json]) -> Vec<&str> {
    events.iter().map(id_of).collect()
}

/// Returns the session-scoped keys of a merged state.
pub(super) fn session_state(state: &Json) -> JsonMap {
    let mut own = fields(state).clone();
    own.retain(|key, _| StateScope::of(key) == StateScope::Session);
    own
}

pub(super) fn set_all(map: &mut JsonMap, changes: &JsonMap) {
    for (key, value) in changes {
        map.insert(key, value.clone());
    }
}

pub(super) fn put(map: &mut JsonMap, key: &str, value: Option<&Json>) {
    match value {
        Some(value) => drop(map.insert(key, value.clone())),
        None => drop(map.remove(key)),
    }
}
