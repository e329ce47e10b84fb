//! What a migration says: how far it is, what it counted, why it failed.

use std::{fmt, ops::AddAssign};

use crate::{
    artifacts::ArtifactError,
    error::{BoxError, SessionError},
    memory::MemoryError,
};

/// The result of a step of a migration.
pub(super) type Result<T, E = MigrationError> = std::result::Result<T, E>;

/// How many things of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Sessions.
    pub sessions: u64,
    /// Events of these sessions.
    pub events: u64,
    /// Keys that sessions share, of apps and users.
    pub shared_keys: u64,
    /// Memories.
    pub memories: u64,
    /// Hashes of forgotten memories.
    pub tombstones: u64,
    /// Versions of artifacts.
    pub artifact_versions: u64,
    /// API keys.
    pub api_keys: u64,
}

impl MigrationCounts {
    /// All together: how many steps there are.
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

/// What there is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationSurvey {
    /// What the source has.
    pub found: MigrationCounts,
    /// What of it the target has already.
    pub there: MigrationCounts,
}

/// A migration that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// What both sides have now.
    pub counts: MigrationCounts,
    /// What of it this run has copied.
    pub copied: MigrationCounts,
    /// SHA-256 over everything, made of each side by itself, and the same.
    pub digest: String,
}

/// What a migration is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationPhase {
    /// Counts the source, and looks at what the target has already.
    Survey,
    /// Copies.
    Copy,
    /// Compares both sides.
    Verify,
}

/// Who is told how far a migration is.
pub trait MigrationWatch: fmt::Debug + Send + Sync + 'static {
    /// A phase begins. So many steps are expected, if that is known.
    fn begin(&self, phase: MigrationPhase, steps: Option<u64>);

    /// So many more steps are done.
    fn advance(&self, steps: u64);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl MigrationWatch for Unwatched {
    fn begin(&self, _phase: MigrationPhase, _steps: Option<u64>) {}

    fn advance(&self, _steps: u64) {}
}

/// Why a migration failed, by what its user can do next. In every case the source is as it was, and
/// nothing that the target had was changed.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// Both addresses lead to the same store.
    #[error("source and target are the same store; give another target")]
    Same,
    /// The target keeps nothing of this kind.
    #[error("the target cannot keep {what}, and the source has some; give another target")]
    NoPlace {
        /// What has no place.
        what: &'static str,
    },
    /// The target has something of its own.
    #[error(
        "{what}: in the target, and not in the source; give an empty target, or remove that there"
    )]
    Extra {
        /// What is there.
        what: String,
    },
    /// The target has something else in the place of something.
    #[error(
        "{what}: in the target already, and not as in the source ({difference}); nothing was \
         overwritten"
    )]
    Differs {
        /// What is different.
        what: String,
        /// The first difference.
        difference: String,
    },
    /// This cannot be in the target as it is in the source.
    #[error("{what}: cannot be copied: {reason}")]
    Refused {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// What was copied is not what was there.
    #[error("verification failed: {what}: {difference}; do not use the target")]
    Mismatch {
        /// What is different.
        what: String,
        /// The first difference.
        difference: String,
    },
    /// The source was not at rest.
    #[error(
        "the source was written to during the migration ({what}); stop what uses it, and begin \
         again with an empty target"
    )]
    Moved {
        /// What has changed.
        what: String,
    },
    /// A store failed. What was copied stays: run the migration again.
    #[error("{what}: could not be read or written; what is copied already stays, so run it again")]
    Failed {
        /// What was being moved.
        what: String,
        /// Why.
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

/// Makes what a store said an error of the migration, with what it was about.
pub(super) fn failed<E: Into<BoxError>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> MigrationError {
    move |error| {
        let (what, source) = (what.into(), error.into());
        match is_final(&source) {
            true => MigrationError::Refused {
                what,
                reason: source.to_string(),
            },
            false => MigrationError::Failed { what, source },
        }
    }
}

/// Whether it would be the same the next time: the store does not take such a thing.
fn is_final(error: &BoxError) -> bool {
    use SessionError::{Invalid, TooLarge};
    let (sessions, artifacts) = (error.downcast_ref(), error.downcast_ref());
    let memory = error.downcast_ref();
    // A draft that lay idle for too long is gone; a new one is not.
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
    fn counts_are_told_without_what_is_not_there() {
        let mut counts = MigrationCounts::default();
        assert_eq!(counts.to_string(), "nothing");
        (counts.sessions, counts.memories) = (1, 2);
        assert_eq!(counts.to_string(), "1 session, 2 memories");
        assert_eq!(counts.total(), 3);
    }

    #[test]
    fn what_a_store_does_not_take_is_not_to_be_tried_again() {
        let told = |error: BoxError| failed("it")(error).to_string();
        let too_large = SessionError::TooLarge {
            what: crate::limits::Limited::Log,
            limit: 1,
            found: 2,
        };
        for error in [
            BoxError::from(too_large),
            SessionError::invalid("user id", "is odd").into(),
            ArtifactError::invalid("artifact name", "is odd").into(),
            MemoryError::invalid_input("user id", "is odd").into(),
        ] {
            let told = told(error);
            assert!(told.starts_with("it: cannot be copied: "), "{told}");
        }
        let told = told("the network is down".into());
        assert!(told.contains("run it again"), "{told}");
    }
}
