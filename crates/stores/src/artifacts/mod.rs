//! Where artifacts are kept: in memory and in a folder. On the session database they are kept by
//! `sqlite::artifacts` and `postgres::artifacts`.

mod file;
mod in_memory;

pub use file::{FileArtifactService, FileArtifactStore};
pub use in_memory::{InMemoryArtifactService, InMemoryArtifactStore};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use shared::address;

/// What more than one store needs.
mod shared {
    use retain_core::{ArtifactKey, ArtifactPlace, ArtifactReference};

    /// The address of a version.
    pub(crate) fn address(place: &ArtifactPlace, version: u64) -> ArtifactReference {
        let key = ArtifactKey {
            app_name: place.app.clone(),
            user_id: place.user.clone(),
            session_id: place.session.clone(),
            filename: place.filename.clone(),
        };
        ArtifactReference { key, version }
    }
}
