//! Errors of session operations, grouped by what the caller can do next.

use std::time::Duration;

use crate::{
    budget::OverBudget, json::JsonError, limits::LimitKind, quota::QuotaExceeded,
    session::SessionKey,
};

/// The underlying error of a driver, the file system or a codec.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a session operation.
pub type Result<T, E = SessionError> = std::result::Result<T, E>;

/// Why a session operation failed.
///
/// A failed operation changes nothing, with these exceptions. After [`SessionError::Store`] the
/// outcome of a write may be unknown: append the same events again, and they are stored once. A
/// failed rewind may leave new artifact versions. A failed import keeps the sessions that were
/// complete, and a failed erase or sweep does not restore what it has deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session does not exist, was deleted or has expired. Create it.
    #[error("session {key} not found")]
    NotFound {
        /// The requested session.
        key: SessionKey,
    },
    /// A session with this id exists. Use it or choose another id.
    #[error("session {key} already exists")]
    AlreadyExists {
        /// The session that exists.
        key: SessionKey,
    },
    /// The write conflicts with stored data. Read again and decide.
    #[error("session {key}: {conflict}")]
    Conflict {
        /// The session.
        key: SessionKey,
        /// The cause of the conflict.
        conflict: Conflict,
    },
    /// Another run holds the lease of this session and did not end in time. Try again later.
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
    /// A later run has taken over the lease of this run. Stop writing and start a new run.
    #[error("session {key}: run token {token} is outdated, a later run has taken over")]
    RunLost {
        /// The session.
        key: SessionKey,
        /// The outdated token.
        token: u64,
    },
    /// A run of a session was started inside a run of the same session, and would wait for itself.
    #[error(
        "session {key}: cannot start a run inside a run of the same session: it would wait for \
         itself"
    )]
    NestedRun {
        /// The session.
        key: SessionKey,
    },
    /// No event of the session belongs to this invocation.
    #[error("session {key} has no invocation {invocation_id:?}")]
    InvocationNotFound {
        /// The session.
        key: SessionKey,
        /// The requested invocation.
        invocation_id: String,
    },
    /// The log does not reach this position.
    #[error("session {key} has no position {position}: its last position is {last}")]
    PositionNotFound {
        /// The session.
        key: SessionKey,
        /// The requested position.
        position: u64,
        /// The last position of the log.
        last: u64,
    },
    /// An artifact could not be restored, so the session was not rewound. Fix the cause and rewind
    /// again.
    #[error("session {key} was not rewound: artifact {filename:?} could not be restored")]
    Artifact {
        /// The session.
        key: SessionKey,
        /// The artifact.
        filename: String,
        /// The cause.
        source: BoxError,
    },
    /// The input is invalid. Correct it.
    #[error("invalid {what}: {reason}")]
    Invalid {
        /// The invalid value, e.g. `user id`.
        what: String,
        /// Why the value is invalid, and what to do instead.
        reason: String,
    },
    /// A limit is exceeded. Send less, or raise the limit.
    #[error("{what}: {found} exceeds the limit of {limit} (see Limits)")]
    TooLarge {
        /// What is too large.
        what: LimitKind,
        /// The limit.
        limit: u64,
        /// The actual size.
        found: u64,
    },
    /// A quota of the user or the app is exceeded. Delete something, or raise the quota.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// A stored event or state value cannot be read: it is corrupt or from a newer version.
    #[error("{place} of session {key} cannot be read")]
    Corrupt {
        /// The session.
        key: SessionKey,
        /// The record, e.g. `event 17` or `state key "cart"`.
        place: String,
        /// Why it cannot be read.
        source: BoxError,
    },
    /// The import is not a valid export. The session on that line was not imported.
    #[error("import failed at line {line}: {reason}")]
    Import {
        /// The line number, from 1.
        line: u64,
        /// What is wrong with the line.
        reason: String,
    },
    /// The store could not be opened. The message says why and what to do.
    #[error("cannot open {uri}: {reason}")]
    Open {
        /// The URI of the store, without any password.
        uri: String,
        /// Why it could not be opened.
        reason: String,
        /// The underlying error, if any.
        source: Option<BoxError>,
    },
    /// The disk is full, or so full that only deletions are admitted. Free some space; reads
    /// continue, and writes resume without a restart.
    #[error("{store}: no space left to {operation}")]
    Full {
        /// The store.
        store: &'static str,
        /// The operation that failed.
        operation: &'static str,
        /// The underlying error.
        source: BoxError,
    },
    /// The memory limit of the process is reached. Try again later.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// This store or service does not support the operation.
    #[error("{store} does not support {operation}")]
    Unsupported {
        /// The store.
        store: &'static str,
        /// The unsupported operation.
        operation: &'static str,
    },
    /// The store failed. Retry.
    #[error("{store} failed to {operation}")]
    Store {
        /// The store.
        store: &'static str,
        /// The operation that failed.
        operation: &'static str,
        /// The underlying error.
        source: BoxError,
    },
}

/// Why a write conflicts with stored data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// The log has changed since the caller read it.
    #[error("expected the log to end at position {expected}, found {found}")]
    Position {
        /// The position that the caller expected.
        expected: u64,
        /// The last position of the log.
        found: u64,
    },
    /// Another event already uses the event id.
    #[error("event id {id:?} is already used by another event, at position {position}")]
    EventId {
        /// The event id.
        id: String,
        /// The position of the other event.
        position: u64,
    },
}

impl SessionError {
    /// Creates the error for an invalid input: `what` names the value, and `reason` says why.
    pub fn invalid(what: impl Into<String>, reason: impl Into<String>) -> SessionError {
        SessionError::Invalid {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Creates the error for a stored event that cannot be read.
    pub fn corrupt_event(key: &SessionKey, position: u64, source: JsonError) -> SessionError {
        SessionError::Corrupt {
            key: key.clone(),
            place: format!("event {position}"),
            source: Box::new(source),
        }
    }

    /// Creates the error for a stored state value that cannot be read.
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
