//! What can go wrong between us and a server, by what may be done next.

use std::{fmt, time::Duration};

use retain_runtime::ToolError;

/// Why a server did not answer as it should.
///
/// The words are for models, logs and stored events: no header, variable or query of a URL is in
/// them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    message: String,
}

/// What a failure says about the request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server answered with an error of the protocol. The session is good.
    Told,
    /// The server did not answer a call in time, or what it answered has no meaning. It may have done
    /// what was asked; the session is kept.
    Unanswered,
    /// The connection broke or the server hangs, and it may have done what was asked.
    Broken,
    /// The connection broke, and the server has certainly not seen the request.
    Unseen,
    /// The server cannot be started or reached as it is described. Nothing is gained by trying
    /// again.
    Hopeless,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
        }
    }

    /// A call that was not answered in time; in the words of the Python SDK.
    pub(crate) fn late(method: &str) -> Failure {
        let message = format!("Request '{method}' timed out");
        Failure::new(FailureKind::Unanswered, message)
    }

    /// A list or the like that was not answered in time. Other than a call that takes long, it says
    /// that the server is out of order.
    pub(crate) fn hanging(method: &str) -> Failure {
        let Failure { message, .. } = Failure::late(method);
        Failure::new(FailureKind::Broken, message)
    }

    /// A connection that did not come about in time.
    pub(crate) fn no_connection_within(limit: Duration) -> Failure {
        let message = format!(
            "timed out after {}s waiting for the session to become ready",
            Seconds(limit)
        );
        Failure::new(FailureKind::Unseen, message)
    }

    /// Whether the session that failed is of no more use.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self.kind, FailureKind::Broken | FailureKind::Unseen)
    }

    /// Whether the same request may be sent again, though its server does something each time.
    pub(crate) fn is_unseen(&self) -> bool {
        self.kind == FailureKind::Unseen
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> ToolError {
        ToolError::new(failure.message)
    }
}

/// Seconds as Python prints a float.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_secs_f64())
    }
}
