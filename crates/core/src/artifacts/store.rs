//! `ArtifactStore`: the port that an artifact store implements.
//!
//! The arguments are final: names are validated, the part is storable, time and media type are set.

use std::fmt;

use async_trait::async_trait;

use super::{
    names::{ArtifactAddress, ArtifactNaming},
    service::{ArtifactError, ArtifactVersion},
};
use crate::{
    content::Part,
    erase::{EraseReceipt, StoreLabel},
    json::{Json, JsonMap},
};

/// Number of artifacts that an erase or a count reads per page.
const ERASE_PAGE: usize = 500;

/// A version that is ready to be stored.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// The content.
    pub part: Part,
    /// Its media type, as in [`ArtifactVersion`].
    pub mime_type: Option<String>,
    /// Custom metadata.
    pub custom_metadata: JsonMap,
    /// When it is saved, in seconds since 1970.
    pub create_time: f64,
}

/// A stored version of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredArtifact {
    /// The content.
    pub part: Part,
    /// The version number.
    pub version: u64,
}

/// A store of artifacts. [`StoreArtifactService`](super::StoreArtifactService) has the rules; a
/// store decides nothing. Every method is atomic, except [`erase_user`](Self::erase_user) and the
/// default implementation of [`put_at`](Self::put_at).
#[async_trait]
pub trait ArtifactStore: fmt::Debug + Send + Sync + 'static {
    /// Returns how the store interprets names.
    fn naming(&self) -> ArtifactNaming;

    /// Stores a version after the newest one and returns its number: 0 for the first.
    async fn put(&self, address: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError>;

    /// Like [`put`](Self::put), but fails and stores nothing unless `version` is the next number.
    /// The default implementation is not atomic: if another writer saves concurrently, it stores
    /// the artifact under a later number and then fails.
    async fn put_at(
        &self,
        address: &ArtifactAddress,
        version: u64,
        new: NewArtifact,
    ) -> Result<(), ArtifactError> {
        let versions = self.versions(address).await?;
        let next = versions.last().map_or(0, |newest| newest.version + 1);
        if next != version {
            return Err(ArtifactError::other_version(version, next));
        }
        match self.put(address, new).await? {
            put if put == version => Ok(()),
            // Another writer has saved a version concurrently.
            put => Err(ArtifactError::other_version(version, put)),
        }
    }

    /// How often users were erased from this store. A later [`erase_user`](Self::erase_user) always
    /// increases the number. A store that returns the default does not refuse late writes.
    async fn erasures(&self) -> Result<u64, ArtifactError> {
        Ok(0)
    }

    /// Like [`put`](Self::put), unless the number of [`erasures`](Self::erasures) differs: then it
    /// stores nothing and returns `None`.
    async fn put_unless_erased(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
        _erasures: u64,
    ) -> Result<Option<u64>, ArtifactError> {
        self.put(address, new).await.map(Some)
    }

    /// Names the store in receipts.
    fn label(&self) -> StoreLabel {
        StoreLabel::new("an artifact store")
    }

    /// Loads a version, or the newest if `version` is `None`.
    async fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError>;

    /// Returns the metadata of all versions, ascending; empty if the artifact does not exist.
    async fn versions(
        &self,
        address: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError>;

    /// Deletes all versions.
    async fn delete(&self, address: &ArtifactAddress) -> Result<(), ArtifactError>;

    /// Lists the names in the session and the user's names, in any order.
    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError>;

    /// Lists at most `limit` addresses after `after`, across all apps and users, ordered by app,
    /// user, session (the user's own artifacts first) and name as bytes. A store that also stores
    /// sessions omits the artifacts of expired sessions.
    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError>;

    /// Returns the bytes that a version takes in this store: its data, and its part and metadata as JSON.
    fn stored_bytes(&self, new: &NewArtifact) -> u64 {
        let mut part = new.part.clone();
        let data = part.inline_data.as_mut().and_then(|blob| blob.data.take());
        let metadata = Json::from(new.custom_metadata.clone()).to_json();
        // What cannot be encoded cannot be stored either.
        let texts = [
            part.to_json().unwrap_or_default(),
            metadata.unwrap_or_default(),
        ];
        let texts: usize = texts.iter().map(String::len).sum();
        (data.map_or(0, |data| data.len()) + texts) as u64
    }

    /// Sums the [`stored_bytes`](Self::stored_bytes) of all versions of an app or of one of its
    /// users. The default implementation reads every artifact.
    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, ArtifactError> {
        let (mut bytes, mut after) = (0, None);
        loop {
            let page = self.addresses(after.as_ref(), ERASE_PAGE).await?;
            let is_counted = |address: &&ArtifactAddress| {
                address.app == app && user.is_none_or(|user| address.user == user)
            };
            for address in page.iter().filter(is_counted) {
                for version in self.versions(address).await? {
                    let Some(found) = self.get(address, Some(version.version)).await? else {
                        continue;
                    };
                    bytes += self.stored_bytes(&NewArtifact {
                        part: found.part,
                        mime_type: version.mime_type,
                        custom_metadata: version.custom_metadata,
                        create_time: version.create_time,
                    });
                }
            }
            match page.into_iter().last() {
                Some(last) => after = Some(last),
                None => return Ok(bytes),
            }
        }
    }

    /// Erases all artifacts of a user in an app irrecoverably, including those of sessions that no
    /// longer exist: first increases the number of [`erasures`](Self::erasures), then deletes. An
    /// erase may be large, so it is not atomic; an interrupted erase can be repeated. A store whose
    /// [`addresses`](Self::addresses) omits artifacts must override this.
    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt, ArtifactError> {
        // Sorts before all artifacts of the user, because no artifact has an empty name.
        let mut after = ArtifactAddress {
            app: app.to_owned(),
            user: user.to_owned(),
            session: None,
            name: String::new(),
            filename: String::new(),
        };
        let mut erased = EraseReceipt::default();
        loop {
            let page = self.addresses(Some(&after), ERASE_PAGE).await?;
            let is_of_user =
                |address: &&ArtifactAddress| address.app == app && address.user == user;
            let Some(last) = page.iter().take_while(is_of_user).last() else {
                return Ok(erased);
            };
            for address in page.iter().take_while(is_of_user) {
                erased.artifacts += self.versions(address).await?.len() as u64;
                self.delete(address).await?;
            }
            after = last.clone();
        }
    }
}
