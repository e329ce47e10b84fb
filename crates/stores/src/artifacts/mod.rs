//! Artifacts in a folder.

mod file;

pub use file::{FileArtifactService, FileArtifactStore};
