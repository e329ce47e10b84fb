//! The in-memory artifact store: artifacts are lost when the process ends.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, EraseReceipt,
    NewArtifact, StoreArtifactService, StoreLabel, StoredArtifact, store_rules::artifact_reference,
};

/// Artifacts in memory, lost when the process ends.
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
    tables: Arc<Mutex<ArtifactTables>>,
}

#[derive(Debug, Default)]
struct ArtifactTables {
    artifacts: BTreeMap<AddressKey, Vec<ArtifactEntry>>,
    /// How often users were erased.
    erasures: u64,
}

impl ArtifactTables {
    fn put(&mut self, address: &ArtifactAddress, new: NewArtifact) -> u64 {
        let versions = self.artifacts.entry(address_key(address)).or_default();
        let version = versions.len() as u64;
        let reference = artifact_reference(address, version).to_string();
        let uri = reference.replacen("artifact://", "memory://", 1);
        versions.push(ArtifactEntry { new, uri });
        version
    }
}

/// App, user, session and name. Separate fields, because a joined text could be ambiguous.
type AddressKey = (String, String, Option<String>, String);

#[derive(Debug)]
struct ArtifactEntry {
    new: NewArtifact,
    uri: String,
}

impl ArtifactEntry {
    fn to_version(&self, version: u64) -> ArtifactVersion {
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

fn address_key(address: &ArtifactAddress) -> AddressKey {
    let ArtifactAddress {
        app,
        user,
        session,
        name,
        ..
    } = address.clone();
    (app, user, session, name)
}

impl InMemoryArtifactStore {
    fn lock(&self) -> MutexGuard<'_, ArtifactTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ArtifactStore for InMemoryArtifactStore {
    fn naming(&self) -> ArtifactNaming {
        ArtifactNaming::Exact
    }

    async fn put(&self, address: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        Ok(self.lock().put(address, new))
    }

    async fn erasures(&self) -> Result<u64, ArtifactError> {
        Ok(self.lock().erasures)
    }

    async fn put_unless_erased(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
        erasures: u64,
    ) -> Result<Option<u64>, ArtifactError> {
        let mut tables = self.lock();
        let is_current = tables.erasures == erasures;
        Ok(is_current.then(|| tables.put(address, new)))
    }

    fn label(&self) -> StoreLabel {
        StoreLabel::new("in memory")
    }

    async fn get(
        &self,
        address: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        let tables = self.lock();
        let versions = tables.artifacts.get(&address_key(address));
        let versions = versions.map(Vec::as_slice).unwrap_or_default();
        let version = version.unwrap_or_else(|| (versions.len() as u64).saturating_sub(1));
        let index = usize::try_from(version).ok();
        let entry = index.and_then(|index| versions.get(index));
        Ok(entry.map(|entry| StoredArtifact {
            part: entry.new.part.clone(),
            version,
        }))
    }

    async fn versions(
        &self,
        address: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let tables = self.lock();
        let versions = tables.artifacts.get(&address_key(address));
        let versions = versions.map(Vec::as_slice).unwrap_or_default();
        let versions = (0..).zip(versions);
        Ok(versions
            .map(|(version, entry)| entry.to_version(version))
            .collect())
    }

    async fn delete(&self, address: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.lock().artifacts.remove(&address_key(address));
        Ok(())
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let tables = self.lock();
        let visible = tables
            .artifacts
            .keys()
            .filter(|(key_app, key_user, key_session, _)| {
                let in_scope = key_session.is_none() || key_session.as_deref() == session;
                key_app == app && key_user == user && in_scope
            });
        Ok(visible.map(|(.., name)| name.clone()).collect())
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        let tables = self.lock();
        let from = after.map_or(Bound::Unbounded, |after| {
            Bound::Excluded(address_key(after))
        });
        let later = tables.artifacts.range((from, Bound::Unbounded)).take(limit);
        let addresses = later.map(|((app, user, session, name), _)| ArtifactAddress {
            app: app.clone(),
            user: user.clone(),
            session: session.clone(),
            name: name.clone(),
            filename: name.clone(),
        });
        Ok(addresses.collect())
    }

    async fn usage(&self, app: &str, user: Option<&str>) -> Result<u64, ArtifactError> {
        let tables = self.lock();
        let of_owner = tables
            .artifacts
            .iter()
            .filter(|((key_app, key_user, ..), _)| {
                key_app == app && user.is_none_or(|user| key_user == user)
            });
        let versions = of_owner.flat_map(|(_, versions)| versions);
        Ok(versions.map(|entry| self.stored_bytes(&entry.new)).sum())
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt, ArtifactError> {
        let mut receipt = EraseReceipt::default();
        let mut tables = self.lock();
        tables.erasures += 1;
        tables
            .artifacts
            .retain(|(key_app, key_user, ..), versions| {
                let is_erased = key_app == app && key_user == user;
                receipt.artifacts += if is_erased { versions.len() as u64 } else { 0 };
                !is_erased
            });
        Ok(receipt)
    }
}
