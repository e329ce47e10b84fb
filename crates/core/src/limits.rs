//! Size limits for everything that callers send.

use std::fmt;

use crate::{
    error::{Result, SessionError},
    session::SessionKey,
};

/// Size limits of stored data. Set them when you build a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum bytes of an app name, user id, session id, event id or invocation id; at most 512.
    pub id_bytes: usize,
    /// Maximum bytes of a state key.
    pub state_key_bytes: usize,
    /// Maximum bytes of one event as JSON.
    pub event_bytes: usize,
    /// Maximum number of events in one append.
    pub batch_events: usize,
    /// Maximum bytes of all state keys and values of one session, one user or one app.
    pub state_bytes: usize,
}

/// The kinds of data that have a size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// One event as JSON, in bytes.
    Event,
    /// One append, in events.
    Batch,
    /// The log of one session, in events.
    Log,
    /// One state key, in bytes.
    StateKey,
    /// The initial state of a session, in bytes.
    InitialState,
    /// The state of one app, in bytes.
    AppState,
    /// The state of one user, in bytes.
    UserState,
    /// The state of one session, in bytes.
    SessionState,
}

impl LimitKind {
    /// Returns the field of [`Limits`] that sets the limit; `None` if the store itself sets it.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            LimitKind::Event => Some("event_bytes"),
            LimitKind::Batch => Some("batch_events"),
            LimitKind::Log => None,
            LimitKind::StateKey => Some("state_key_bytes"),
            LimitKind::InitialState
            | LimitKind::AppState
            | LimitKind::UserState
            | LimitKind::SessionState => Some("state_bytes"),
        }
    }
}

/// The name with its unit, as shown in errors.
impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitKind::Event => "event (bytes)",
            LimitKind::Batch => "batch (events)",
            LimitKind::Log => "log (events)",
            LimitKind::StateKey => "state key (bytes)",
            LimitKind::InitialState => "state (bytes)",
            LimitKind::AppState => "app state (bytes)",
            LimitKind::UserState => "user state (bytes)",
            LimitKind::SessionState => "session state (bytes)",
        })
    }
}

impl Limits {
    /// Maximum bytes of an id. Longer ids do not fit a store's index.
    pub const ID_BYTES_MAX: usize = 512;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            id_bytes: Limits::ID_BYTES_MAX,
            state_key_bytes: 1024,
            event_bytes: 16 * 1024 * 1024,
            batch_events: 1000,
            state_bytes: 64 * 1024 * 1024,
        }
    }
}

impl Limits {
    /// Sets the maximum bytes of an id.
    pub fn with_id_bytes(mut self, bytes: usize) -> Limits {
        self.id_bytes = bytes;
        self
    }

    /// Sets the maximum bytes of a state key.
    pub fn with_state_key_bytes(mut self, bytes: usize) -> Limits {
        self.state_key_bytes = bytes;
        self
    }

    /// Sets the maximum bytes of one event as JSON.
    pub fn with_event_bytes(mut self, bytes: usize) -> Limits {
        self.event_bytes = bytes;
        self
    }

    /// Sets the maximum number of events in one append.
    pub fn with_batch_events(mut self, events: usize) -> Limits {
        self.batch_events = events;
        self
    }

    /// Sets the maximum bytes of all state keys and values of one session, one user or one app.
    pub fn with_state_bytes(mut self, bytes: usize) -> Limits {
        self.state_bytes = bytes;
        self
    }

    /// Fails unless every store can hold the app name, user id and session id exactly.
    pub fn check_key(&self, key: &SessionKey) -> Result<()> {
        self.check_id("app name", &key.app)?;
        self.check_id("user id", &key.user)?;
        self.check_id("session id", &key.id)
    }

    /// Fails unless every store can hold `id` exactly.
    pub fn check_id(&self, what: &'static str, id: &str) -> Result<()> {
        if id.is_empty() {
            return Err(SessionError::invalid(what, "must not be empty"));
        }
        self.check_text(what, id)
    }

    /// Like [`check_id`](Self::check_id), but allows an empty id.
    pub(crate) fn check_text(&self, what: &'static str, id: &str) -> Result<()> {
        if id.contains('\0') {
            let reason = format!(
                "{id:?} contains a NUL character, which some databases cannot store; remove it"
            );
            return Err(SessionError::invalid(what, reason));
        }
        let limit = self.id_bytes.min(Limits::ID_BYTES_MAX);
        if id.len() > limit {
            let found = id.len();
            let reason = format!("has {found} bytes; the limit is {limit}");
            return Err(SessionError::invalid(what, reason));
        }
        Ok(())
    }

    /// Fails unless `key` is a valid state key.
    pub(crate) fn check_state_key(&self, key: &str) -> Result<()> {
        if key.contains('\0') {
            let reason = "contains a NUL character, which some databases cannot store; remove it";
            return Err(SessionError::invalid(format!("state key {key:?}"), reason));
        }
        check(LimitKind::StateKey, key.len(), self.state_key_bytes)
    }
}

/// Fails with [`SessionError::TooLarge`] if growing from `before` to `after` exceeds `limit`. If
/// the limit was lowered later, data above it may stay or shrink.
pub fn check_growth(what: LimitKind, before: usize, after: usize, limit: usize) -> Result<()> {
    match after > before {
        true => check(what, after, limit),
        false => Ok(()),
    }
}

/// Fails with [`SessionError::TooLarge`] if `found` exceeds `limit`.
pub fn check(what: LimitKind, found: usize, limit: usize) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(SessionError::TooLarge {
        what,
        limit: limit as u64,
        found: found as u64,
    })
}
