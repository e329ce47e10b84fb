//! What can go wrong with sessions, by what a caller can do next.

use std::time::Duration;

use crate::{json::JsonError, limits::Limited, session::SessionKey};

/// A cause from below: a driver, the file system, a codec.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a session operation.
pub type Result<T, E = SessionError> = std::result::Result<T, E>;

/// Why a session operation failed. In every case nothing was changed, except that after
/// [`SessionError::Store`] the outcome of a write may be unknown: append the same events again,
/// they are stored once; and that a rewind that failed may have left versions of artifacts.
// Exhaustive on purpose: a new variant must stop the server's match from compiling.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no such session, or it was deleted or has expired. Create it.
    #[error("session {key} not found")]
    NotFound {
        /// The session asked for.
        key: SessionKey,
    },
    /// A session with this id exists. Use it or choose another id.
    #[error("session {key} already exists")]
    AlreadyExists {
        /// The session that exists.
        key: SessionKey,
    },
    /// The write does not fit what is stored. Read again and decide.
    #[error("session {key}: {conflict}")]
    Conflict {
        /// The session.
        key: SessionKey,
        /// What does not fit.
        conflict: Conflict,
    },
    /// Another run writes this session and did not end in time. Try again later.
    #[error("session {key} is busy with another run; gave up after waiting {waited:?}")]
    RunBusy {
        /// The session.
        key: SessionKey,
        /// How long this caller waited.
        waited: Duration,
    },
    /// The caller cancelled the operation while it waited for another run. Nothing was stored.
    #[error("session {key}: the wait for another run was cancelled")]
    Cancelled {
        /// The session.
        key: SessionKey,
    },
    /// This run's lease was taken over by a later run. Stop writing and start a new run.
    #[error("session {key}: run token {token} is outdated, a later run has taken over")]
    RunLost {
        /// The session.
        key: SessionKey,
        /// The token that is no longer good.
        token: u64,
    },
    /// A run was begun inside a run of the same session, and would wait for itself.
    #[error("session {key}: a run inside a run of the same session would wait for itself")]
    NestedRun {
        /// The session.
        key: SessionKey,
    },
    /// No event of the session belongs to this invocation.
    #[error("session {key} has no invocation {invocation_id:?}")]
    InvocationNotFound {
        /// The session.
        key: SessionKey,
        /// The invocation asked for.
        invocation_id: String,
    },
    /// The log does not reach this position.
    #[error("session {key} has no position {position}: its last one is {last}")]
    PositionNotFound {
        /// The session.
        key: SessionKey,
        /// The position asked for.
        position: u64,
        /// The last position there is.
        last: u64,
    },
    /// An artifact could not be restored, so the session was not rewound. See the cause; then rewind
    /// again.
    #[error("session {key} was not rewound: artifact {filename:?} could not be restored")]
    Artifact {
        /// The session.
        key: SessionKey,
        /// The artifact.
        filename: String,
        /// Why not.
        source: BoxError,
    },
    /// The input cannot be taken as it is. Correct it.
    #[error("{what} {reason}")]
    Invalid {
        /// What is wrong, e.g. `user id`.
        what: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A limit is exceeded. Send less, or raise the limit.
    #[error("{what} of {found} exceeds the limit of {limit} (see Limits)")]
    TooLarge {
        /// What is too large.
        what: Limited,
        /// The limit.
        limit: u64,
        /// What was sent.
        found: u64,
    },
    /// A stored event or state value cannot be read. The data is damaged or from a newer version.
    #[error("{place} of session {key} cannot be read")]
    Corrupt {
        /// The session.
        key: SessionKey,
        /// Which entry, e.g. `event 17` or `state key "cart"`.
        place: String,
        /// Why it cannot be read.
        source: BoxError,
    },
    /// An import does not read as an export. Nothing of the session it names was imported.
    #[error("line {line} of the import: {reason}")]
    Import {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The store could not be opened. The message says what is there and what to do.
    #[error("cannot open {uri}: {reason}")]
    Open {
        /// The store's address, without any password.
        uri: String,
        /// What is in the way.
        reason: String,
        /// The cause from below, if there is one.
        source: Option<BoxError>,
    },
    /// The disk is full. Free some space; reading goes on and writing resumes by itself.
    #[error("{store}: no space left to {operation}")]
    Full {
        /// The store.
        store: &'static str,
        /// What was tried.
        operation: &'static str,
        /// The cause from below.
        source: BoxError,
    },
    /// This store or service cannot do that at all.
    #[error("{store} does not support {operation}")]
    Unsupported {
        /// The store.
        store: &'static str,
        /// What was asked.
        operation: &'static str,
    },
    /// The store failed. Worth trying again.
    #[error("{store} failed to {operation}")]
    Store {
        /// The store.
        store: &'static str,
        /// What was tried.
        operation: &'static str,
        /// The cause from below.
        source: BoxError,
    },
}

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The log has moved on since the caller looked.
    #[error("expected the log to end at position {expected}, found {found}")]
    Position {
        /// Where the caller thought it ends.
        expected: u64,
        /// Where it ends.
        found: u64,
    },
    /// The event id is taken by another event.
    #[error("event id {id:?} is taken by another event, at position {position}")]
    EventId {
        /// The event id.
        id: String,
        /// Where the other event stands.
        position: u64,
    },
}

impl SessionError {
    /// Input that cannot be taken: `what` is wrong because of `reason`.
    pub fn invalid(what: impl Into<String>, reason: impl Into<String>) -> SessionError {
        SessionError::Invalid {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// A stored event that cannot be read.
    pub fn corrupt_event(key: &SessionKey, position: u64, source: JsonError) -> SessionError {
        SessionError::Corrupt {
            key: key.clone(),
            place: format!("event {position}"),
            source: Box::new(source),
        }
    }

    /// A stored state value that cannot be read.
    pub fn corrupt_state(key: &SessionKey, state_key: &str, source: JsonError) -> SessionError {
        SessionError::Corrupt {
            key: key.clone(),
            place: format!("state key {state_key:?}"),
            source: Box::new(source),
        }
    }

    pub(crate) fn not_found(key: &SessionKey) -> SessionError {
        SessionError::NotFound { key: key.clone() }
    }
}
