//! What failed, in the log: its kind for everybody who reads the log, its words for those who debug.
//!
//! What models and tools say is made of what users said, and addresses of sessions name users. The
//! store alone speaks of nothing but files and disks, which the operator must know.

use retain_core::SessionError;
use retain_runtime::{RunError, error_kind};

/// Logs a failure that its caller is told nothing about.
pub(crate) fn log_failure(error: &(dyn std::error::Error + 'static), what: &'static str) {
    let mut reasons = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        reasons.push(error.to_string());
        cause = error.source();
    }
    let reasons = reasons.join(": ");
    let code = error.downcast_ref::<RunError>().map(RunError::code);
    let store = is_of_the_store(error).then_some(reasons.as_str());
    tracing::error!(kind = error_kind(error), code, store, "{what}");
    tracing::debug!(error = ?reasons, "{what}");
}

fn is_of_the_store(error: &(dyn std::error::Error + 'static)) -> bool {
    let session = match error.downcast_ref::<RunError>() {
        Some(RunError::Session(error)) => Some(error),
        _ => error.downcast_ref::<SessionError>(),
    };
    matches!(
        session,
        Some(SessionError::Store { .. } | SessionError::Open { .. } | SessionError::Full { .. })
    )
}
