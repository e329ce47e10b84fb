//! Remove internal metadata and secrets from events before they leave the server.

use retain_core::Event;
pub(super) use retain_core::try_redacted as redacted;

use crate::untrusted_input::{INTERNAL_PREFIX, public_metadata};

/// Whether the event has internal metadata.
pub(super) fn has_internal_metadata(event: &Event) -> bool {
    let metadata = event.response.custom_metadata.as_ref();
    metadata.is_some_and(|metadata| metadata.keys().any(|key| key.starts_with(INTERNAL_PREFIX)))
}

/// Returns the event without internal metadata.
pub(super) fn without_internal_metadata(event: &Event) -> Event {
    let mut event = event.clone();
    let metadata = event.response.custom_metadata.take();
    event.response.custom_metadata = metadata.and_then(public_metadata);
    event
}
