//! `ArtifactStore`: what keeps artifacts must do. The seam between rules and bytes.
//!
//! Everything here arrives decided: names are checked and belong to a scope, the part is one that
//! may be kept, time and media type are filled in.

use std::fmt;

use async_trait::async_trait;

use super::{
    names::{ArtifactNames, ArtifactPlace},
    service::{ArtifactError, ArtifactVersion},
};
use crate::{content::Part, json::JsonMap};

/// Artifacts that an erase looks up at a time.
const ERASE_PAGE: usize = 500;

/// A version that is ready to be kept.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// What is kept.
    pub part: Part,
    /// Its media type, as [`ArtifactVersion`] tells it.
    pub mime_type: Option<String>,
    /// The user's own notes.
    pub custom_metadata: JsonMap,
    /// When it is saved, in seconds since 1970.
    pub create_time: f64,
}

/// A version as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredArtifact {
    /// What is kept.
    pub part: Part,
    /// Its number.
    pub version: u64,
}

/// What keeps artifacts. Rules live in [`StoreArtifactService`](super::StoreArtifactService);
/// nothing here decides. Every method is atomic: it happens as a whole or not at all.
#[async_trait]
pub trait ArtifactStore: fmt::Debug + Send + Sync + 'static {
    /// What names mean here.
    fn names(&self) -> ArtifactNames;

    /// Keeps a version behind the newest one and says its number: 0 for the first.
    async fn put(&self, place: &ArtifactPlace, new: NewArtifact) -> Result<u64, ArtifactError>;

    /// The same for who knows the number that the version is to have: another one is an error, and
    /// nothing is kept then, unless somebody else saves at the same moment.
    async fn put_at(
        &self,
        place: &ArtifactPlace,
        version: u64,
        new: NewArtifact,
    ) -> Result<(), ArtifactError> {
        let versions = self.versions(place).await?;
        let next = versions.last().map_or(0, |newest| newest.version + 1);
        if next != version {
            return Err(ArtifactError::other_version(version, next));
        }
        match self.put(place, new).await? {
            put if put == version => Ok(()),
            // Somebody else has saved one at the same moment.
            put => Err(ArtifactError::other_version(version, put)),
        }
    }

    /// The version asked for, or the newest.
    async fn get(
        &self,
        place: &ArtifactPlace,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError>;

    /// What is known of all versions, ascending; none if there is no such artifact.
    async fn versions(&self, place: &ArtifactPlace) -> Result<Vec<ArtifactVersion>, ArtifactError>;

    /// Removes all versions.
    async fn delete(&self, place: &ArtifactPlace) -> Result<(), ArtifactError>;

    /// The names in the session and those of the user, in any order.
    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError>;

    /// The places of artifacts behind `after`, of all apps and users, ordered by app, user, session
    /// (the user's own first) and name as bytes, at most so many. Where the store keeps sessions too,
    /// what belongs to an expired one is left out.
    async fn places(
        &self,
        after: Option<&ArtifactPlace>,
        limit: usize,
    ) -> Result<Vec<ArtifactPlace>, ArtifactError>;

    /// Removes everything of a user in an app, whether the sessions are there or not, and says how
    /// many versions that was. Not atomic as a whole, because it may be much: what was broken off can
    /// be done again. A store whose [`places`](Self::places) leave something out must say how.
    async fn erase_user(&self, app: &str, user: &str) -> Result<u64, ArtifactError> {
        // Before everything of the user: no artifact is without a name.
        let mut after = ArtifactPlace {
            app: app.to_owned(),
            user: user.to_owned(),
            session: None,
            name: String::new(),
            filename: String::new(),
        };
        let mut erased = 0;
        loop {
            let page = self.places(Some(&after), ERASE_PAGE).await?;
            let is_theirs = |place: &&ArtifactPlace| place.app == app && place.user == user;
            let Some(last) = page.iter().take_while(is_theirs).last() else {
                return Ok(erased);
            };
            for place in page.iter().take_while(is_theirs) {
                erased += self.versions(place).await?.len() as u64;
                self.delete(place).await?;
            }
            after = last.clone();
        }
    }
}
