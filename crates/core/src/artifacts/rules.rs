//! `StoreArtifactService`: ADK's rules for artifacts, implemented once for all stores.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    names::{self, ArtifactAddress, ArtifactNaming},
    reference::ArtifactReference,
    service::{ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion},
    store::{ArtifactStore, NewArtifact},
};
use crate::{
    content::{Blob, Part},
    erase::{EraseReceipt, StoreLabel},
    json::JsonMap,
    origin::SessionOrigin,
    ports::{Clock, SystemClock},
    quota::{QuotaKind, QuotaMeter, Quotas, Usage},
    wire::Bytes,
};

/// Maximum length of a chain of references.
const REFERENCES_MAX: usize = 5;

const TOO_MANY_REFERENCES: &str = "is part of a cycle, or of a chain of more than 5 references";

const BINARY: &str = "application/octet-stream";

/// Creates the tombstone for an artifact that did not exist at the restored position. A rewind
/// saves it as the newest version; it loads as `None`.
pub fn artifact_tombstone() -> Part {
    Part::bytes(Vec::new(), BINARY)
}

/// An [`ArtifactService`] over an [`ArtifactStore`]. Cheap to clone; clones share the store.
pub struct StoreArtifactService<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    /// `None` without quotas.
    quotas: Option<Arc<QuotaMeter>>,
    /// The session whose writes this service makes, if it is bound to one.
    origin: Option<SessionOrigin>,
}

impl<S> Clone for StoreArtifactService<S> {
    fn clone(&self) -> Self {
        StoreArtifactService {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            quotas: self.quotas.clone(),
            origin: self.origin.clone(),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for StoreArtifactService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("StoreArtifactService");
        shown.field(&self.store).finish()
    }
}

impl<S: ArtifactStore + Default> StoreArtifactService<S> {
    /// Creates a service on a new, empty store.
    pub fn new() -> Self {
        Self::over(S::default())
    }
}

impl<S: ArtifactStore + Default> Default for StoreArtifactService<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: ArtifactStore> StoreArtifactService<S> {
    /// Creates a service on `store`.
    pub fn over(store: S) -> Self {
        StoreArtifactService {
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            quotas: None,
            origin: None,
        }
    }

    /// Limits how many bytes of artifacts a user and an app may store. By default there is no
    /// limit, and counting costs nothing. Versions saved by other processes are seen after at most
    /// two seconds.
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = QuotaMeter::new(&quotas, &[QuotaKind::ArtifactBytes]);
        self
    }

    /// Takes the time of versions from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, shared with this service.
    pub fn shared_store(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    /// Stores a version if the quotas have room for it.
    async fn put_within_quotas(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
    ) -> Result<u64, ArtifactError> {
        let Some(meter) = &self.quotas else {
            return self.write_version(address, new).await;
        };
        let wanted = Usage::default().with_artifact_bytes(self.store.stored_bytes(&new));
        let load = |user| self.count_bytes(&address.app, user);
        let reserved = meter.reserve(&*self.clock, &address.app, &address.user, wanted, load);
        let mut reservation = reserved.await?;
        if let Err(error) = reservation.require_all() {
            meter.quotas().count_rejection(&error);
            return Err(error.into());
        }
        reservation.begin_write();
        let saved = self.write_version(address, new).await;
        match &saved {
            Ok(_) => reservation.settle(wanted),
            // The outcome is unknown; the next load tells it.
            Err(ArtifactError::Store { .. }) => drop(reservation),
            Err(_) => reservation.settle(Usage::default()),
        }
        saved
    }

    async fn count_bytes(&self, app: &str, user: Option<&str>) -> Result<Usage, ArtifactError> {
        let bytes = self.store.usage(app, user).await?;
        Ok(Usage::default().with_artifact_bytes(bytes))
    }

    fn record_deletion(&self, app: &str, user: &str) {
        if let Some(meter) = &self.quotas {
            meter.record_deletion(app, user);
        }
    }

    fn address(&self, key: &ArtifactKey) -> Result<ArtifactAddress, ArtifactError> {
        ArtifactAddress::from_key(key, self.store.naming())
    }

    /// Stores a version, for the session that this service is bound to, if any.
    async fn write_version(
        &self,
        address: &ArtifactAddress,
        new: NewArtifact,
    ) -> Result<u64, ArtifactError> {
        match &self.origin {
            Some(origin) => self.put_for_session(origin, address, new).await,
            None => self.store.put(address, new).await,
        }
    }

    /// Saves a version for a session, unless the session no longer exists.
    async fn put_for_session(
        &self,
        origin: &SessionOrigin,
        address: &ArtifactAddress,
        new: NewArtifact,
    ) -> Result<u64, ArtifactError> {
        loop {
            let erasures = self.store.erasures().await?;
            let exists = origin.exists().await;
            let exists = exists.map_err(|error| ArtifactError::Store {
                store: "the session service",
                operation: "find the session of an artifact",
                source: error.into(),
            })?;
            if !exists {
                let key = origin.key().clone();
                return Err(ArtifactError::SessionGone { key });
            }
            let put = self.store.put_unless_erased(address, new.clone(), erasures);
            if let Some(version) = put.await? {
                return Ok(version);
            }
        }
    }
}

#[async_trait]
impl<S: ArtifactStore> ArtifactService for StoreArtifactService<S> {
    async fn save_artifact(
        &self,
        key: &ArtifactKey,
        artifact: Part,
        custom_metadata: Option<JsonMap>,
    ) -> Result<u64, ArtifactError> {
        let address = self.address(key)?;
        let (part, mime_type) = to_stored_part(self.store.naming(), key, &address, artifact)?;
        let new = NewArtifact {
            part,
            mime_type,
            custom_metadata: custom_metadata.unwrap_or_default(),
            create_time: self.clock.now(),
        };
        self.put_within_quotas(&address, new).await
    }

    async fn load_artifact(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<Part>, ArtifactError> {
        let (mut key, mut version) = (key.clone(), version);
        let mut followed = 0;
        loop {
            let found = self.store.get(&self.address(&key)?, version).await?;
            let Some(found) = found else {
                return Ok(None);
            };
            let Some(uri) = ArtifactReference::uri_of(&found.part) else {
                let exists = found.part != artifact_tombstone();
                return Ok(exists.then_some(found.part));
            };
            if followed == REFERENCES_MAX {
                return Err(ArtifactError::Reference {
                    uri: uri.to_owned(),
                    reason: TOO_MANY_REFERENCES,
                });
            }
            followed += 1;
            let target = ArtifactReference::within(&key, uri)?;
            (key, version) = (target.key, Some(target.version));
        }
    }

    async fn list_artifact_keys(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let naming = self.store.naming();
        names::check_owner(app_name, user_id, naming)?;
        if let Some(session) = session_id {
            names::check_segment("session id", session, naming)?;
        }
        let mut listed = self.store.list(app_name, user_id, session_id).await?;
        listed.sort_unstable();
        listed.dedup();
        Ok(listed)
    }

    async fn delete_artifact(&self, key: &ArtifactKey) -> Result<(), ArtifactError> {
        let deleted = self.store.delete(&self.address(key)?).await;
        self.record_deletion(&key.app_name, &key.user_id);
        deleted
    }

    async fn list_versions(&self, key: &ArtifactKey) -> Result<Vec<u64>, ArtifactError> {
        let versions = self.store.versions(&self.address(key)?).await?;
        Ok(versions.iter().map(|version| version.version).collect())
    }

    async fn list_artifact_versions(
        &self,
        key: &ArtifactKey,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        self.store.versions(&self.address(key)?).await
    }

    async fn get_artifact_version(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ArtifactError> {
        let mut versions = self.store.versions(&self.address(key)?).await?;
        Ok(match version {
            None => versions.pop(),
            Some(version) => versions.into_iter().find(|it| it.version == version),
        })
    }

    async fn erase_user(
        &self,
        app_name: &str,
        user_id: &str,
    ) -> Result<EraseReceipt, ArtifactError> {
        // A user whose name is invalid for artifacts can still have sessions, so the erase must
        // succeed.
        match names::check_owner(app_name, user_id, self.store.naming()) {
            Ok(()) => {
                let erased = self.store.erase_user(app_name, user_id).await;
                self.record_deletion(app_name, user_id);
                erased
            }
            Err(_) => Ok(EraseReceipt::default()),
        }
    }

    async fn usage(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<Option<u64>, ArtifactError> {
        self.store.usage(app_name, user_id).await.map(Some)
    }

    fn for_session(&self, origin: SessionOrigin) -> Option<Arc<dyn ArtifactService>> {
        let mut bound = self.clone();
        bound.origin = Some(origin);
        Some(Arc::new(bound))
    }

    fn artifact_store(&self) -> Option<Arc<dyn ArtifactStore>> {
        Some(self.shared_store())
    }

    fn store_label(&self) -> StoreLabel {
        self.store.label()
    }
}

/// Converts a part to its stored form and returns it with its media type.
pub(crate) fn to_stored_part(
    naming: ArtifactNaming,
    key: &ArtifactKey,
    address: &ArtifactAddress,
    part: Part,
) -> Result<(Part, Option<String>), ArtifactError> {
    match naming {
        ArtifactNaming::Exact => with_mime_type(key, part),
        ArtifactNaming::Paths => {
            address.check_not_reserved()?;
            file_content(part)
        }
    }
}

/// Accepts any part with content and returns its media type. A reference is validated here and
/// resolved when it is loaded.
fn with_mime_type(key: &ArtifactKey, part: Part) -> Result<(Part, Option<String>), ArtifactError> {
    let mime_type = if let Some(data) = &part.inline_data {
        data.mime_type.clone()
    } else if part.text.is_some() {
        Some("text/plain".to_owned())
    } else if let Some(uri) = ArtifactReference::uri_of(&part) {
        ArtifactReference::within(key, uri)?;
        None
    } else if let Some(file) = &part.file_data {
        file.mime_type.clone()
    } else {
        let reason = "must have inline data, text or a file URI";
        return Err(ArtifactError::invalid("artifact", reason));
    };
    Ok((part, mime_type))
}

/// Reduces a part to what a file can hold: bytes with media type and display name, or text.
fn file_content(part: Part) -> Result<(Part, Option<String>), ArtifactError> {
    if let Some(blob) = part.inline_data {
        let Some(data) = blob.data else {
            return Err(ArtifactError::invalid(
                "artifact",
                "has inline data without bytes; set `data`",
            ));
        };
        let mime_type = blob.mime_type.filter(|mime_type| !mime_type.is_empty());
        let mime_type = mime_type.unwrap_or_else(|| BINARY.to_owned());
        let part = blob_part(data, &mime_type, blob.display_name);
        return Ok((part, Some(mime_type)));
    }
    match part.text {
        Some(text) => Ok((Part::text(text), None)),
        None => Err(ArtifactError::invalid(
            "artifact",
            "must have inline data or text",
        )),
    }
}

fn blob_part(data: Bytes, mime_type: &str, display_name: Option<String>) -> Part {
    let blob = Blob {
        data: Some(data),
        display_name,
        mime_type: Some(mime_type.to_owned()),
        ..Blob::default()
    };
    Part {
        inline_data: Some(blob),
        ..Part::default()
    }
}
