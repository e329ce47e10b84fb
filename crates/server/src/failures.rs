//! Log failures: the kind at error level, the details at debug level.
//!
//! Errors of models and tools may quote users, and session keys name users. Errors of a store are
//! logged in full: they name only files and disks, which the operator needs to know.

use std::{error::Error, iter::successors};

use retain_core::{ArtifactError, SessionError};
use retain_runtime::{RunError, error_kind};

/// Logs a failure whose details the caller does not see.
pub(crate) fn log_failure(error: &(dyn Error + 'static), what: &'static str) {
    let code = error.downcast_ref::<RunError>().map(RunError::code);
    let store = find_store_error(error).map(reasons);
    tracing::error!(kind = error_kind(error), code, store, "{what}");
    tracing::debug!(error = ?reasons(error), "{what}");
}

/// Joins an error and its sources into one text.
pub(crate) fn reasons(error: &(dyn Error + 'static)) -> String {
    let reasons: Vec<String> = chain(error).map(ToString::to_string).collect();
    reasons.join(": ")
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        (*error).source()
    })
}

/// Finds the store's error among the causes of an error.
fn find_store_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    // `RunError` is transparent: its `source` skips the wrapped error.
    let error: &(dyn Error + 'static) = match error.downcast_ref::<RunError>() {
        Some(RunError::Session(error)) => error,
        Some(RunError::Memory(error)) => error,
        _ => error,
    };
    chain(error).find(|error| is_store_error(*error))
}

fn is_store_error(error: &(dyn Error + 'static)) -> bool {
    use {ArtifactError as A, SessionError as S};
    let session = error.downcast_ref::<SessionError>();
    let artifact = error.downcast_ref::<ArtifactError>();
    matches!(
        session,
        Some(S::Store { .. } | S::Open { .. } | S::Full { .. })
    ) || matches!(artifact, Some(A::Store { .. } | A::Full { .. }))
}

#[cfg(test)]
mod tests {
    use retain_core::{BoxError, MemoryError};

    use super::*;

    fn store_error_text(error: &(dyn Error + 'static)) -> Option<String> {
        find_store_error(error).map(reasons)
    }

    #[test]
    fn only_store_errors_are_found_even_if_wrapped() {
        let sessions = || SessionError::Store {
            store: "sqlite",
            operation: "read",
            source: BoxError::from("the disk is on fire"),
        };
        let expected = Some("sqlite failed to read: the disk is on fire".to_owned());
        assert_eq!(store_error_text(&sessions()), expected);
        assert_eq!(store_error_text(&RunError::Session(sessions())), expected);
        assert_eq!(
            store_error_text(&MemoryError::backend(sessions())),
            expected
        );
        let of_run = RunError::Memory(MemoryError::backend(sessions()));
        assert_eq!(store_error_text(&of_run), expected);
        let artifacts = ArtifactError::Store {
            store: "file",
            operation: "save",
            source: BoxError::from("no such device"),
        };
        let expected = Some("file failed to save: no such device".to_owned());
        assert_eq!(store_error_text(&artifacts), expected);
        // An embedder may quote its input.
        let embedder = MemoryError::backend("cannot embed: Grete's IBAN");
        assert_eq!(store_error_text(&embedder), None);
        let corrupt = ArtifactError::Corrupt {
            address: "shop/ada/s1/note.txt".to_owned(),
            version: 1,
            source: BoxError::from("no"),
        };
        assert_eq!(store_error_text(&corrupt), None);
    }
}
