//! Artifacts: versioned files of a session or a user, in memory, in a folder or in the session
//! database.

pub use retain_core::{
    ArtifactError, ArtifactKey, ArtifactReference, ArtifactService, ArtifactVersion,
    ExpiringArtifacts, USER_ARTIFACT_PREFIX, artifact_tombstone,
};
#[cfg(feature = "postgres")]
pub use retain_stores::PostgresArtifactService;
#[cfg(feature = "sqlite")]
pub use retain_stores::SqliteArtifactService;
pub use retain_stores::{FileArtifactService, InMemoryArtifactService};
