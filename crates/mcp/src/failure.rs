//! Errors of communication with a server, classified by what the caller may do next.

use std::{fmt, time::Duration};

use retain_runtime::ToolError;

/// Why a request to a server failed.
///
/// The message goes to models, logs and stored events, so it contains no header, environment
/// variable or URL query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    message: String,
}

/// What a failure implies for the request and the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server returned a protocol error. The session is usable.
    Told,
    /// The server did not answer a call in time, or its answer was invalid. It may have executed
    /// the request; the session is kept.
    Unanswered,
    /// The connection broke or the server hangs. It may have executed the request.
    Broken,
    /// The connection broke before the server received the request.
    Unseen,
    /// The server cannot be started or reached with this configuration. Retrying does not help.
    Hopeless,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
        }
    }

    /// The failure for a call that timed out. The message is that of the Python SDK.
    pub(crate) fn late(method: &str) -> Failure {
        let message = format!("Request '{method}' timed out");
        Failure::new(FailureKind::Unanswered, message)
    }

    /// The failure for a request such as listing that timed out. Unlike a slow call, this means
    /// that the server is broken.
    pub(crate) fn hanging(method: &str) -> Failure {
        let Failure { message, .. } = Failure::late(method);
        Failure::new(FailureKind::Broken, message)
    }

    /// The failure for a connection attempt that timed out.
    pub(crate) fn no_connection_within(limit: Duration) -> Failure {
        let message = format!(
            "timed out after {}s waiting for the session to become ready",
            Seconds(limit)
        );
        Failure::new(FailureKind::Unseen, message)
    }

    /// Whether the session is unusable after this failure.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self.kind, FailureKind::Broken | FailureKind::Unseen)
    }

    /// Whether the request may be retried even if it is not idempotent.
    pub(crate) fn is_unseen(&self) -> bool {
        self.kind == FailureKind::Unseen
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> ToolError {
        ToolError::new(failure.message)
    }
}

/// Formats seconds as Python prints a float.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_secs_f64())
    }
}
