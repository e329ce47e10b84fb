//! Remove internal metadata and secrets from events before they leave the server.

use retain_core::Event;
pub(super) use retain_core::redacted;

use crate::untrusted_input::{INTERNAL_PREFIX, public_notes};

/// Whether the event has internal metadata.
pub(super) fn has_internal_notes(event: &Event) -> bool {
    let notes = event.response.custom_metadata.as_ref();
    notes.is_some_and(|notes| notes.keys().any(|key| key.starts_with(INTERNAL_PREFIX)))
}

/// The event without internal metadata.
pub(super) fn without_internal_notes(event: &Event) -> Event {
    let mut event = event.clone();
    let notes = event.response.custom_metadata.take();
    event.response.custom_metadata = notes.and_then(public_notes);
    event
}
