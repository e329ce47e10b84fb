//! Artifacts in memory: gone when the program ends.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, NewArtifact,
    StoreArtifactService, StoredArtifact, store_rules::artifact_reference,
};

/// Artifacts in memory.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), retain_core::ArtifactError> {
/// use retain_core::{ArtifactKey, ArtifactService as _, Part};
/// let artifacts = retain_stores::InMemoryArtifactService::new();
/// let key = ArtifactKey::of_user("app", "ada", "user:notes.txt");
/// assert_eq!(artifacts.save_artifact(&key, Part::text("one"), None).await?, 0);
/// assert_eq!(artifacts.save_artifact(&key, Part::text("two"), None).await?, 1);
/// assert_eq!(artifacts.load_artifact(&key, None).await?, Some(Part::text("two")));
/// # Ok(()) }
/// ```
pub type InMemoryArtifactService = StoreArtifactService<InMemoryArtifactStore>;

/// The store behind [`InMemoryArtifactService`]. Clones share the artifacts.
#[derive(Debug, Clone, Default)]
pub struct InMemoryArtifactStore {
    artifacts: Arc<Mutex<BTreeMap<Address, Vec<ArtifactEntry>>>>,
}

/// App, user, session and name: kept apart, so that no two addresses run together.
type Address = (String, String, Option<String>, String);

#[derive(Debug)]
struct ArtifactEntry {
    new: NewArtifact,
    uri: String,
}

impl ArtifactEntry {
    fn about(&self, version: u64) -> ArtifactVersion {
        ArtifactVersion {
            version,
            canonical_uri: self.uri.clone(),
            custom_metadata: self.new.custom_metadata.clone(),
            create_time: self.new.create_time,
            mime_type: self.new.mime_type.clone(),
            ..ArtifactVersion::default()
        }
    }
}

fn address_of(place: &ArtifactAddress) -> Address {
    let ArtifactAddress {
        app,
        user,
        session,
        name,
        ..
    } = place.clone();
    (app, user, session, name)
}

impl InMemoryArtifactStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Address, Vec<ArtifactEntry>>> {
        self.artifacts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ArtifactStore for InMemoryArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Exact
    }

    async fn put(&self, place: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        let mut artifacts = self.lock();
        let versions = artifacts.entry(address_of(place)).or_default();
        let version = versions.len() as u64;
        let address = artifact_reference(place, version).to_string();
        let uri = address.replacen("artifact://", "memory://", 1);
        versions.push(ArtifactEntry { new, uri });
        Ok(version)
    }

    async fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let artifacts = self.lock();
        let versions = artifacts.get(&address_of(place));
        let versions = versions.map(Vec::as_slice).unwrap_or_default();
        let version = version.unwrap_or_else(|| (versions.len() as u64).saturating_sub(1));
        let found = usize::try_from(version).ok();
        let found = found.and_then(|place| versions.get(place));
        Ok(found.map(|entry| StoredArtifact {
            part: entry.new.part.clone(),
            version,
        }))
    }

    async fn versions(
        &self,
        place: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let artifacts = self.lock();
        let versions = artifacts.get(&address_of(place));
        let versions = versions.map(Vec::as_slice).unwrap_or_default();
        let versions = (0..).zip(versions);
        Ok(versions
            .map(|(version, entry)| entry.about(version))
            .collect())
    }

    async fn delete(&self, place: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.lock().remove(&address_of(place));
        Ok(())
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let artifacts = self.lock();
        let seen = artifacts.keys().filter(|(of_app, of_user, of, _)| {
            of_app == app && of_user == user && (of.is_none() || of.as_deref() == session)
        });
        Ok(seen.map(|(.., name)| name.clone()).collect())
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        let artifacts = self.lock();
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(address_of(after)));
        let behind = artifacts.range((from, Bound::Unbounded)).take(limit);
        let places = behind.map(|((app, user, session, name), _)| ArtifactAddress {
            app: app.clone(),
            user: user.clone(),
            session: session.clone(),
            name: name.clone(),
            filename: name.clone(),
        });
        Ok(places.collect())
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<u64, ArtifactError> {
        let mut erased = 0;
        self.lock().retain(|(of_app, of_user, ..), versions| {
            let is_theirs = of_app == app && of_user == user;
            erased += if is_theirs { versions.len() as u64 } else { 0 };
            !is_theirs
        });
        Ok(erased)
    }
}
