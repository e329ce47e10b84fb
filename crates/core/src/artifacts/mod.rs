//! Artifacts: files that agents and tools store next to a session, by name and version.
//!
//! The path of a save: [`ArtifactService`] (ADK's methods) → [`StoreArtifactService`] (the rules) →
//! `names` (validates a name and finds its scope) → [`ArtifactStore`] (stores it).

mod expiry;
mod names;
mod reference;
mod rules;
mod service;
mod store;

pub use expiry::ExpiringArtifacts;
pub use names::{ArtifactAddress, ArtifactNaming, USER_ARTIFACT_PREFIX};
pub use reference::ArtifactReference;
pub(crate) use rules::to_stored_part;
pub use rules::{StoreArtifactService, artifact_tombstone};
pub use service::{ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion};
pub use store::{ArtifactStore, NewArtifact, StoredArtifact};
