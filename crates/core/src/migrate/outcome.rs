//! The results of a migration: progress, counts and errors.

use std::{fmt, ops::AddAssign};

use crate::{
    artifacts::ArtifactError,
    error::{BoxError, SessionError},
    memory::MemoryError,
};

/// The result of a migration step.
pub(super) type Result<T, E = MigrationError> = std::result::Result<T, E>;

/// Counts by kind of data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationCounts {
    /// Sessions.
    pub sessions: u64,
    /// Events of these sessions.
    pub events: u64,
    /// Keys of app and user state.
    pub shared_keys: u64,
    /// Memories.
    pub memories: u64,
    /// Tombstones of forgotten memories.
    pub tombstones: u64,
    /// Versions of artifacts.
    pub artifact_versions: u64,
    /// API keys.
    pub api_keys: u64,
}

impl MigrationCounts {
    /// Returns the sum of all counts, which is the number of steps.
    pub fn total(&self) -> u64 {
        let MigrationCounts {
            sessions,
            events,
            shared_keys,
            memories,
            tombstones,
            artifact_versions,
            api_keys,
        } = self;
        sessions + events + shared_keys + memories + tombstones + artifact_versions + api_keys
    }
}

impl AddAssign for MigrationCounts {
    fn add_assign(&mut self, other: MigrationCounts) {
        self.sessions += other.sessions;
        self.events += other.events;
        self.shared_keys += other.shared_keys;
        self.memories += other.memories;
        self.tombstones += other.tombstones;
        self.artifact_versions += other.artifact_versions;
        self.api_keys += other.api_keys;
    }
}

impl fmt::Display for MigrationCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = [
            (self.sessions, "session", "sessions"),
            (self.events, "event", "events"),
            (self.shared_keys, "shared key", "shared keys"),
            (self.memories, "memory", "memories"),
            (
                self.tombstones,
                "hash of a forgotten memory",
                "hashes of forgotten memories",
            ),
            (
                self.artifact_versions,
                "artifact version",
                "artifact versions",
            ),
            (self.api_keys, "API key", "API keys"),
        ];
        let mut comma = "";
        for (count, one, many) in counted.into_iter().filter(|(count, ..)| *count > 0) {
            let what = if count == 1 { one } else { many };
            write!(f, "{comma}{count} {what}")?;
            comma = ", ";
        }
        match comma {
            "" => f.write_str("nothing"),
            _ => Ok(()),
        }
    }
}

/// The result of a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationSurvey {
    /// The data that the source has.
    pub found: MigrationCounts,
    /// The data that the target already has.
    pub present: MigrationCounts,
}

/// The report of a completed migration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationReport {
    /// The data of both sides.
    pub counts: MigrationCounts,
    /// The data that this run copied.
    pub copied: MigrationCounts,
    /// SHA-256 over all data, computed on each side separately and equal.
    pub digest: String,
}

/// The phase of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationPhase {
    /// Counts the source and compares the target.
    Survey,
    /// Copies the data that the target lacks.
    Copy,
    /// Compares both sides completely.
    Verify,
}

/// Receives the progress of a migration.
pub trait MigrationObserver: fmt::Debug + Send + Sync + 'static {
    /// Reports that a phase begins; `steps` is the expected number of steps, if it is known.
    fn begin(&self, phase: MigrationPhase, steps: Option<u64>);

    /// Reports that `steps` more steps are done.
    fn advance(&self, steps: u64);
}

/// Ignores the progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl MigrationObserver for NoObserver {
    fn begin(&self, _phase: MigrationPhase, _steps: Option<u64>) {}

    fn advance(&self, _steps: u64) {}
}

/// Why a migration failed, grouped by what the user can do next. The source and the earlier data of
/// the target are unchanged in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// Source and target are the same store.
    #[error("source and target are the same store; choose another target")]
    SameStore,
    /// The target cannot store this kind of data.
    #[error("the target cannot store {what}, and the source has some; choose another target")]
    Unsupported {
        /// The kind of data.
        what: &'static str,
    },
    /// The target has data that the source lacks.
    #[error(
        "{what}: exists in the target but not in the source; choose an empty target, or delete it there"
    )]
    Extra {
        /// The data.
        what: String,
    },
    /// The target has different data at the same address.
    #[error(
        "{what}: exists in the target and differs from the source ({difference}); nothing was \
         overwritten"
    )]
    Differs {
        /// The data that differs.
        what: String,
        /// The first difference.
        difference: String,
    },
    /// The target cannot store this data unchanged.
    #[error("the target cannot store {what}: {reason}")]
    Rejected {
        /// The data.
        what: String,
        /// The reason.
        reason: String,
    },
    /// The copy differs from the source.
    #[error("verification failed: {what}: {difference}; do not use the target")]
    Mismatch {
        /// The data that differs.
        what: String,
        /// The first difference.
        difference: String,
    },
    /// The source was written to during the migration.
    #[error(
        "the source was written to during the migration ({what}); stop the programs that use it, and start \
         again with an empty target"
    )]
    SourceChanged {
        /// The change.
        what: String,
    },
    /// A store failed. Run the migration again to continue.
    #[error(
        "migration failed while reading or writing {what}; run the migration again to continue"
    )]
    Failed {
        /// The data that was being copied.
        what: String,
        /// The reason.
        source: BoxError,
    },
}

impl MigrationError {
    pub(super) fn mismatch(
        what: impl Into<String>,
        difference: impl Into<String>,
    ) -> MigrationError {
        MigrationError::Mismatch {
            what: what.into(),
            difference: difference.into(),
        }
    }

    pub(super) fn differs(
        what: impl Into<String>,
        difference: impl Into<String>,
    ) -> MigrationError {
        MigrationError::Differs {
            what: what.into(),
            difference: difference.into(),
        }
    }
}

/// Returns a function that converts a store error into a [`MigrationError`]. `what` names the data.
pub(super) fn failed<E: Into<BoxError>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> MigrationError {
    move |error| {
        let (what, source) = (what.into(), error.into());
        match is_final(&source) {
            true => MigrationError::Rejected {
                what,
                reason: source.to_string(),
            },
            false => MigrationError::Failed { what, source },
        }
    }
}

/// Whether a retry would fail too, because the store rejects the data.
fn is_final(error: &BoxError) -> bool {
    use SessionError::{Invalid, TooLarge};
    let (sessions, artifacts) = (error.downcast_ref(), error.downcast_ref());
    let memory = error.downcast_ref();
    // An idle draft has expired; a retry opens a new one.
    let is_draft = matches!(sessions, Some(Invalid { what, .. }) if what == "draft");
    matches!(sessions, Some(Invalid { .. } | TooLarge { .. })) && !is_draft
        || matches!(artifacts, Some(ArtifactError::Invalid { .. }))
        || matches!(
            memory,
            Some(MemoryError::InvalidInput { .. } | MemoryError::LimitExceeded { .. })
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_counts_display_omits_zeros() {
        let mut counts = MigrationCounts::default();
        assert_eq!(counts.to_string(), "nothing");
        (counts.sessions, counts.memories) = (1, 2);
        assert_eq!(counts.to_string(), "1 session, 2 memories");
        assert_eq!(counts.total(), 3);
    }

    #[test]
    fn migration_error_for_rejected_data_does_not_suggest_a_retry() {
        let message = |error: BoxError| failed("it")(error).to_string();
        let too_large = SessionError::TooLarge {
            what: crate::limits::LimitKind::Log,
            limit: 1,
            found: 2,
        };
        for error in [
            BoxError::from(too_large),
            SessionError::invalid("user id", "is odd").into(),
            ArtifactError::invalid("artifact name", "is odd").into(),
            MemoryError::invalid_input("user id", "is odd").into(),
        ] {
            let message = message(error);
            assert!(
                message.starts_with("the target cannot store it: "),
                "{message}"
            );
        }
        let message = message("the network is down".into());
        assert!(message.contains("run the migration again"), "{message}");
    }
}
