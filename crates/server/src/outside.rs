//! What comes from outside and is to be stored: between the bodies of both faces and the services.
//!
//! A key that is bound to a user is in that user's hands. What it appends is marked, so that no
//! agent takes a call in it for its own; and it changes nothing that other users see.

use retain_core::{Event, JsonMap, StateScope};

use crate::guard::{Caller, Refused};

/// Notes in `customMetadata` with this prefix are made by programs, for themselves.
pub(crate) const INTERNAL_PREFIX: &str = "__adk_internal_";

/// ADK's mark of events that came from outside: calls in them are history, and are never run.
pub(crate) const RESTORED: &str = "__adk_internal_restored_event";

/// The event with the mark, and without notes that only programs make.
pub(crate) fn restored(mut event: Event) -> Event {
    let notes = event.response.custom_metadata.take();
    let mut notes: JsonMap = notes.and_then(public_notes).unwrap_or_default();
    notes.insert(RESTORED, true);
    event.response.custom_metadata = Some(notes);
    event
}

/// Events as they are stored for their sender. Programs that run agents of their own have a key
/// that is not bound to a user, and their events stay exactly as they are.
pub(crate) fn as_sent_by(caller: &Caller, events: Vec<Event>) -> Vec<Event> {
    match caller.user {
        Some(_) => events.into_iter().map(restored).collect(),
        None => events,
    }
}

/// Whether the caller may set these keys of a state. Those of an app reach all its users, and are
/// not for a key that is bound to one of them.
pub(crate) fn check_state<'a>(
    caller: &Caller,
    keys: impl IntoIterator<Item = &'a str>,
) -> Result<(), Refused> {
    let is_of_app = |key: &&str| StateScope::of(key) == StateScope::App;
    match keys.into_iter().find(is_of_app) {
        Some(key) if caller.user.is_some() => Err(Refused(format!(
            "this key is bound to a user and cannot set {key:?}, which all users of the app share"
        ))),
        _ => Ok(()),
    }
}

/// The state without the keys that the caller may not set.
pub(crate) fn settable(caller: &Caller, mut state: JsonMap) -> JsonMap {
    if caller.user.is_some() {
        state.retain(|key, _| StateScope::of(key) != StateScope::App);
    }
    state
}

/// Notes as others may see them; `None` if nothing is left.
pub(crate) fn public_notes(mut notes: JsonMap) -> Option<JsonMap> {
    notes.retain(|key, _| !key.starts_with(INTERNAL_PREFIX));
    (!notes.is_empty()).then_some(notes)
}
