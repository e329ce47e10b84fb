//! Sanitize events and state that clients send before they are stored.
//!
//! A user-bound API key is in that user's hands. Events that it appends are marked, so that no
//! agent executes calls in them, and it cannot change what other users see.

use retain_core::{Event, JsonMap, StateScope};

use crate::guard::{AccessDenied, Caller};

/// Entries of `customMetadata` with this prefix are set by programs for themselves.
pub(crate) const INTERNAL_PREFIX: &str = "__adk_internal_";

/// ADK's mark of events that a client sent: calls in them are history and are never executed.
pub(crate) const RESTORED: &str = "__adk_internal_restored_event";

/// Mark an event and remove internal metadata.
pub(crate) fn mark_restored(mut event: Event) -> Event {
    let notes = event.response.custom_metadata.take();
    let mut notes: JsonMap = notes.and_then(public_notes).unwrap_or_default();
    notes.insert(RESTORED, true);
    event.response.custom_metadata = Some(notes);
    event
}

/// Mark events of a user-bound key. Programs that run their own agents use unbound keys, and their
/// events stay unchanged.
pub(crate) fn mark_events_of_user_keys(caller: &Caller, events: Vec<Event>) -> Vec<Event> {
    match caller.user {
        Some(_) => events.into_iter().map(mark_restored).collect(),
        None => events,
    }
}

/// Check that the caller may set these state keys. A user-bound key must not set `app:` keys, which
/// all users of the app share.
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

/// Remove the state keys that the caller may not set.
pub(crate) fn settable(caller: &Caller, mut state: JsonMap) -> JsonMap {
    if caller.user.is_some() {
        state.retain(|key, _| StateScope::of(key) != StateScope::App);
    }
    state
}

/// Remove internal metadata; `None` if nothing is left.
pub(crate) fn public_notes(mut notes: JsonMap) -> Option<JsonMap> {
    notes.retain(|key, _| !key.starts_with(INTERNAL_PREFIX));
    (!notes.is_empty()).then_some(notes)
}
