//! Artifacts: files that agents and tools keep beside a session, by name and version.
//!
//! The way of a save: [`ArtifactService`] (ADK's methods) → [`StoreArtifactService`] (the rules,
//! once) → `names` (checks, and where a name belongs) → [`ArtifactStore`] (keeps it).

mod names;
mod reference;
mod rules;
mod service;
mod store;

pub use names::{ArtifactNames, ArtifactPlace, USER_ARTIFACT_PREFIX};
pub use reference::ArtifactReference;
pub(crate) use rules::as_kept;
pub use rules::{StoreArtifactService, artifact_tombstone};
pub use service::{ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion};
pub use store::{ArtifactStore, NewArtifact, StoredArtifact};
