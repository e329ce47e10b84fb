//! Artifact stores that are independent of a session database.

mod file;

pub use file::{FileArtifactService, FileArtifactStore};
