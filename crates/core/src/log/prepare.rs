//! Prepares an event for writing: id, time, `temp:` keys, limits and scopes.

use std::sync::Arc;

use super::StoreSessionService;
use crate::{
    error::{Result, SessionError},
    event::Event,
    limits::{self, LimitKind},
    state::{ScopedDelta, State, StateDelta},
    store::{Changes, NewEvent, SessionStore},
    wire::to_stored_text,
};

impl<S: SessionStore> StoreSessionService<S> {
    /// Validates `event` and fills in its id and time. Returns its `temp:` keys separately, because
    /// they are not stored.
    pub(super) fn prepare(&self, mut event: Event) -> Result<(NewEvent, StateDelta)> {
        let settings = &self.settings;
        let temp = State::take_temp_keys(&mut event.actions.state_delta);
        let id_given = !event.id.is_empty();
        if !id_given {
            event.id = settings.ids.new_id();
        }
        settings.limits.check_id("event id", &event.id)?;
        settings
            .limits
            .check_text("invocation id", &event.invocation_id)?;
        let time_given = event.timestamp != 0.0;
        if !time_given {
            event.timestamp = settings.clock.now();
        }
        if !event.timestamp.is_finite() {
            let reason = "must be a finite number: seconds since 1970, or 0 for now";
            return Err(SessionError::invalid("event timestamp", reason));
        }
        for key in event.actions.state_delta.keys() {
            settings.limits.check_state_key(key)?;
        }
        let changes = changes(ScopedDelta::from_delta(&event.actions.state_delta));
        let body = to_stored_text(&event);
        let body = body.map_err(|e| SessionError::invalid("event", e.to_string()))?;
        limits::check(LimitKind::Event, body.len(), settings.limits.event_bytes)?;
        let ready = NewEvent {
            event: Arc::new(event),
            body,
            time_given,
            id_given,
            changes,
        };
        Ok((ready, temp))
    }
}

/// Converts a delta into the changes that a store writes.
pub(super) fn changes(delta: ScopedDelta) -> Changes {
    let session = delta.session.into_iter();
    Changes {
        app: delta.app,
        user: delta.user,
        session: session.map(|(key, value)| (key, Some(value))).collect(),
    }
}
