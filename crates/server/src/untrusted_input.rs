//! Sanitize events and state that clients send before they are stored.
//!
//! The holder of a user-bound API key is not trusted: events that it appends are marked, so that no
//! agent executes calls in them, and it cannot set state that all users of the app share.

use retain_core::{Event, JsonMap, StateScope};

use crate::guard::{AccessDenied, Caller};

/// The prefix of internal `customMetadata` entries, which ADK and Retain set for their own use.
pub(crate) const INTERNAL_PREFIX: &str = "__adk_internal_";

/// ADK's mark of events that a client sent. Agents never execute calls in marked events.
pub(crate) const RESTORED: &str = "__adk_internal_restored_event";

/// Marks an event as sent by a client, and removes its other internal metadata.
pub(crate) fn mark_restored(mut event: Event) -> Event {
    let metadata = event.response.custom_metadata.take();
    let mut metadata: JsonMap = metadata.and_then(public_metadata).unwrap_or_default();
    metadata.insert(RESTORED, true);
    event.response.custom_metadata = Some(metadata);
    event
}

/// Marks the events if the caller's key is bound to a user. Programs that run their own agents use
/// unbound keys, and their events stay unchanged.
pub(crate) fn mark_events_of_user_keys(caller: &Caller, events: Vec<Event>) -> Vec<Event> {
    match caller.user {
        Some(_) => events.into_iter().map(mark_restored).collect(),
        None => events,
    }
}

/// Checks that the caller may set these state keys. A user-bound key must not set `app:` keys,
/// which all users of the app share.
pub(crate) fn check_state<'a>(
    caller: &Caller,
    keys: impl IntoIterator<Item = &'a str>,
) -> Result<(), AccessDenied> {
    let is_of_app = |key: &&str| StateScope::of(key) == StateScope::App;
    match keys.into_iter().find(is_of_app) {
        Some(key) if caller.user.is_some() => Err(AccessDenied(format!(
            "this API key is bound to a user and cannot set the state key {key:?}, which all users \
             of the app share"
        ))),
        _ => Ok(()),
    }
}

/// Removes the state keys that the caller must not set.
pub(crate) fn without_forbidden_keys(caller: &Caller, mut state: JsonMap) -> JsonMap {
    if caller.user.is_some() {
        state.retain(|key, _| StateScope::of(key) != StateScope::App);
    }
    state
}

/// Removes internal metadata; `None` if nothing is left.
pub(crate) fn public_metadata(mut metadata: JsonMap) -> Option<JsonMap> {
    metadata.retain(|key, _| !key.starts_with(INTERNAL_PREFIX));
    (!metadata.is_empty()).then_some(metadata)
}
