//! What failed, in the log: its kind for everybody who reads the log, its words for those who debug.
//!
//! What models and tools say is made of what users said, and addresses of sessions name users. The
//! store alone speaks of nothing but files and disks, which the operator must know.

use std::{error::Error, iter::successors};

use retain_core::{ArtifactError, SessionError};
use retain_runtime::{RunError, error_kind};

/// Logs a failure that its caller is told nothing about.
pub(crate) fn log_failure(error: &(dyn Error + 'static), what: &'static str) {
    let code = error.downcast_ref::<RunError>().map(RunError::code);
    let store = of_the_store(error).map(reasons);
    tracing::error!(kind = error_kind(error), code, store, "{what}");
    tracing::debug!(error = ?reasons(error), "{what}");
}

/// An error and what it comes from, in one text.
pub(crate) fn reasons(error: &(dyn Error + 'static)) -> String {
    let reasons: Vec<String> = chain(error).map(ToString::to_string).collect();
    reasons.join(": ")
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        (*error).source()
    })
}

/// The store's part in a failure: of sessions, of artifacts, or of what lies below a memory service.
fn of_the_store<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    // A run's failure passes on the words of these and leaves itself out.
    let error: &(dyn Error + 'static) = match error.downcast_ref::<RunError>() {
        Some(RunError::Session(error)) => error,
        Some(RunError::Memory(error)) => error,
        _ => error,
    };
    chain(error).find(|error| is_of_a_store(*error))
}

fn is_of_a_store(error: &(dyn Error + 'static)) -> bool {
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

    fn stores_words(error: &(dyn Error + 'static)) -> Option<String> {
        of_the_store(error).map(reasons)
    }

    #[test]
    fn the_words_of_every_store_are_shown_and_no_others() {
        let sessions = || SessionError::Store {
            store: "sqlite",
            operation: "read",
            source: BoxError::from("the disk is on fire"),
        };
        let words = Some("sqlite failed to read: the disk is on fire".to_owned());
        assert_eq!(stores_words(&sessions()), words);
        assert_eq!(stores_words(&RunError::Session(sessions())), words);
        assert_eq!(stores_words(&MemoryError::backend(sessions())), words);
        let of_run = RunError::Memory(MemoryError::backend(sessions()));
        assert_eq!(stores_words(&of_run), words);
        let artifacts = ArtifactError::Store {
            store: "file",
            operation: "save",
            source: BoxError::from("no such device"),
        };
        let words = Some("file failed to save: no such device".to_owned());
        assert_eq!(stores_words(&artifacts), words);
        // An embedder may quote what it was to embed.
        let embedder = MemoryError::backend("cannot embed: Grete's IBAN");
        assert_eq!(stores_words(&embedder), None);
        let damaged = ArtifactError::Corrupt {
            place: "shop/ada/s1/note.txt".to_owned(),
            version: 1,
            source: BoxError::from("no"),
        };
        assert_eq!(stores_words(&damaged), None);
    }
}
