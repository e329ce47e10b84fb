//! Errors of communication with a server, classified by whether the session is still usable and the
//! request may be retried.

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
    /// The server answered with a protocol error. The session stays usable.
    ProtocolError,
    /// The server did not answer a call in time, or its answer was invalid. The server may have
    /// executed the call. The session stays usable.
    NoValidAnswer,
    /// The connection broke, or the server hangs. The server may have executed the request.
    Disconnected,
    /// The connection broke before the server received the request.
    NotDelivered,
    /// No session could be opened, even after `Connection` tried again. The request is not retried.
    ConnectFailed,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
        }
    }

    /// Creates the failure of a tool call that timed out, with the Python SDK's message.
    pub(crate) fn call_timed_out(method: &str) -> Failure {
        let message = format!("Request '{method}' timed out");
        Failure::new(FailureKind::NoValidAnswer, message)
    }

    /// Creates the failure of another request that timed out, such as listing tools. A working
    /// server answers these quickly, so the session is unusable.
    pub(crate) fn request_timed_out(method: &str) -> Failure {
        let Failure { message, .. } = Failure::call_timed_out(method);
        Failure::new(FailureKind::Disconnected, message)
    }

    /// Creates the failure of a connection attempt that timed out, with the Python SDK's message.
    pub(crate) fn connect_timed_out(limit: Duration) -> Failure {
        let message = format!(
            "timed out after {}s waiting for the session to become ready",
            Seconds(limit)
        );
        Failure::new(FailureKind::NotDelivered, message)
    }

    /// Whether the session is unusable after this failure.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::Disconnected | FailureKind::NotDelivered
        )
    }

    /// Whether the server cannot have received the request, so that even a tool call may be
    /// retried.
    pub(crate) fn was_not_delivered(&self) -> bool {
        self.kind == FailureKind::NotDelivered
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> ToolError {
        ToolError::new(failure.message)
    }
}

/// A duration that is printed in seconds, as Python prints a float.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_secs_f64())
    }
}
