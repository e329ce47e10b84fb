//! Code that the SQL stores share: session rows, decoding and corruption checks. It is independent of
//! any database driver.

pub(crate) mod artifacts;
pub(crate) mod check;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod pending;
pub(crate) mod schema;

use std::{sync::Arc, time::Duration};

use retain_core::{
    Event, Head, Json, Lease, LimitKind, NewEvent, Origin, Result, SessionError, SessionKey,
    SessionStatus, Window,
    budget::{charge, event_cost, json_cost},
    check_limit, store_rules,
};

/// The highest position. It has 32 bits in every store, so that a log can be migrated between
/// stores.
pub(crate) const POSITION_MAX: u64 = u32::MAX as u64;

/// The head of a session, as its row in the sessions table.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    pub(crate) number: i64,
    pub(crate) position: u64,
    pub(crate) last_update: f64,
    pub(crate) create_time: f64,
    pub(crate) lifetime: SessionLifetime,
    pub(crate) lease: Lease,
    pub(crate) in_order: bool,
    pub(crate) state_bytes: usize,
    pub(crate) origin: Option<Origin>,
    /// Bytes of the events at positions 1 to `sized_to`.
    pub(crate) log_bytes: u64,
    /// Less than `position` after an append of an older program, which does not count bytes.
    pub(crate) sized_to: u64,
}

/// The TTL of a session, and the time from which it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLifetime {
    pub(crate) touched_us: i64,
    pub(crate) ttl_us: Option<i64>,
}

impl SessionLifetime {
    pub(crate) fn is_alive(self, now_us: i64) -> bool {
        self.expires_us().is_none_or(|expires| now_us < expires)
    }

    pub(crate) fn ttl(self) -> Option<Duration> {
        self.ttl_us
            .map(|us| Duration::from_micros(us.unsigned_abs()))
    }

    pub(crate) fn expires_us(self) -> Option<i64> {
        self.ttl()
            .map(|ttl| store_rules::expires_us(self.touched_us, ttl))
    }
}

impl SessionRow {
    pub(crate) fn is_alive(&self, now_us: i64) -> bool {
        self.lifetime.is_alive(now_us)
    }

    pub(crate) fn head(&self, key: SessionKey) -> Head {
        Head {
            key,
            incarnation: self.number as u64,
            position: self.position,
            create_time: self.create_time,
            last_update_time: self.last_update,
            ttl: self.lifetime.ttl(),
            expires_us: self.lifetime.expires_us(),
            origin: self.origin.clone(),
        }
    }

    /// Returns the bytes of the events up to `position`, if they are counted.
    pub(crate) fn counted_bytes(&self, position: u64) -> Option<u64> {
        (position == self.position && self.sized_to == position).then_some(self.log_bytes)
    }

    /// Returns the status that the rules of `retain_core` need for a decision.
    pub(crate) fn status<'a>(
        &self,
        key: &'a SessionKey,
        first_ticket: Option<&'a str>,
        now_us: i64,
    ) -> SessionStatus<'a> {
        SessionStatus {
            key,
            incarnation: self.number as u64,
            position: self.position,
            lease: self.lease,
            first_ticket,
            now_us,
        }
    }

    /// Advances to the next position, for `new`. Fails if the log has no positions left.
    pub(crate) fn advance(&mut self, new: &NewEvent) -> Result<u64> {
        let event = &new.event;
        let position = self.position + 1;
        check_limit(LimitKind::Log, position as usize, POSITION_MAX as usize)?;
        // If events before this one are not counted yet, it must not be counted before them.
        if self.sized_to == self.position {
            self.log_bytes += new.body.len() as u64;
            self.sized_to = position;
        }
        self.in_order &= position == 1 || event.timestamp >= self.last_update;
        self.position = position;
        self.last_update = event.timestamp;
        Ok(position)
    }
}

/// Returns the first and last position of `window` in a log that ends at `last`; `None` if the
/// window is empty. Positions before `since` are excluded.
pub(crate) fn bounds(window: Window, since: u64, last: u64) -> Option<(u64, u64)> {
    let (mut first, mut last) = (window.first.max(1).max(since), window.last.min(last));
    // Positions are dense, so the newest and oldest are found by counting.
    if let Some(newest) = window.newest {
        first = first.max((last + 1).saturating_sub(newest as u64));
    }
    if let Some(oldest) = window.oldest {
        last = last.min((first - 1).saturating_add(oldest as u64));
    }
    (first <= last).then_some((first, last))
}

/// Decodes the body of an event.
pub(crate) fn event(key: &SessionKey, position: u64, body: &str) -> Result<Arc<Event>> {
    charge(event_cost(body.as_bytes()))?;
    let event = Event::shared_from_json(body);
    event.map_err(|e| SessionError::corrupt_event(key, position, e))
}

/// Decodes the value of a state key. `owner` names the session in errors.
pub(crate) fn state_value(owner: &dyn Fn() -> SessionKey, key: &str, text: &str) -> Result<Json> {
    charge(json_cost(text.as_bytes()) + text.len())?;
    Json::parse(text).map_err(|e| SessionError::corrupt_state(&owner(), key, e))
}

/// Reports corruption if `found` is not the expected position: an event is then missing.
pub(crate) fn check_next(key: &SessionKey, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(SessionError::Corrupt {
        key: key.clone(),
        place: format!("event {expected}"),
        source: "it is missing from the log".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_first_and_last_position_of_the_window() {
        assert_eq!(bounds(Window::ALL, 1, 9), Some((1, 9)));
        assert_eq!(bounds(Window::ALL, 1, 0), None);
        assert_eq!(bounds(Window::NONE, 1, 9), None);
        assert_eq!(bounds(Window::newest(3), 1, 9), Some((7, 9)));
        assert_eq!(bounds(Window::newest(3), 9, 9), Some((9, 9)));
        let step = Window {
            oldest: Some(2),
            ..Window::after(4)
        };
        assert_eq!(bounds(step, 1, 9), Some((5, 6)));
        assert_eq!(bounds(step, 1, 4), None);
    }
}
