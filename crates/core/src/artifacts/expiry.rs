//! `ExpiringArtifacts`: hides the artifacts of expired sessions that are in another store than the
//! sessions.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    names::USER_ARTIFACT_PREFIX,
    service::{ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion},
    store::ArtifactStore,
};
use crate::{
    content::Part,
    erase::{EraseReceipt, StoreLabel},
    json::JsonMap,
    origin::SessionOrigin,
    service::SessionLog,
    session::SessionKey,
};

/// An artifact service on another database than the sessions, or on a folder. The artifacts of a
/// session are not found from the moment when the session expires, as in the sessions' database.
///
/// Each read of a session's artifact looks the session up. Do not wrap an artifact service on the
/// database of the sessions: it hides these artifacts itself, without another read.
#[derive(Debug, Clone)]
pub struct ExpiringArtifacts {
    artifacts: Arc<dyn ArtifactService>,
    sessions: Arc<dyn SessionLog>,
}

impl ExpiringArtifacts {
    /// Hides the artifacts whose sessions have expired in `sessions`.
    pub fn new(artifacts: Arc<dyn ArtifactService>, sessions: Arc<dyn SessionLog>) -> Self {
        ExpiringArtifacts {
            artifacts,
            sessions,
        }
    }

    /// Whether the artifact belongs to an expired session.
    async fn is_expired(&self, key: &ArtifactKey) -> Result<bool, ArtifactError> {
        match &key.session_id {
            Some(session) if !key.filename.starts_with(USER_ARTIFACT_PREFIX) => {
                let session = SessionKey::new(&key.app_name, &key.user_id, session);
                self.has_expired(&session).await
            }
            _ => Ok(false),
        }
    }

    async fn has_expired(&self, session: &SessionKey) -> Result<bool, ArtifactError> {
        // Sessions of a service without maintenance never expire.
        let Ok(store) = self.sessions.maintenance() else {
            return Ok(false);
        };
        let looked_up = store.is_expired(session).await;
        looked_up.map_err(|error| ArtifactError::Store {
            store: "the session store",
            operation: "look for an expired session",
            source: error.into(),
        })
    }
}

#[async_trait]
impl ArtifactService for ExpiringArtifacts {
    async fn save_artifact(
        &self,
        key: &ArtifactKey,
        artifact: Part,
        custom_metadata: Option<JsonMap>,
    ) -> Result<u64, ArtifactError> {
        let saved = self.artifacts.save_artifact(key, artifact, custom_metadata);
        saved.await
    }

    async fn load_artifact(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<Part>, ArtifactError> {
        match self.is_expired(key).await? {
            true => Ok(None),
            false => self.artifacts.load_artifact(key, version).await,
        }
    }

    async fn list_artifact_keys(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        let session = session_id.map(|id| SessionKey::new(app_name, user_id, id));
        let visible = match &session {
            Some(session) if self.has_expired(session).await? => None,
            _ => session_id,
        };
        let listed = self
            .artifacts
            .list_artifact_keys(app_name, user_id, visible);
        listed.await
    }

    async fn delete_artifact(&self, key: &ArtifactKey) -> Result<(), ArtifactError> {
        self.artifacts.delete_artifact(key).await
    }

    async fn list_versions(&self, key: &ArtifactKey) -> Result<Vec<u64>, ArtifactError> {
        match self.is_expired(key).await? {
            true => Ok(Vec::new()),
            false => self.artifacts.list_versions(key).await,
        }
    }

    async fn list_artifact_versions(
        &self,
        key: &ArtifactKey,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        match self.is_expired(key).await? {
            true => Ok(Vec::new()),
            false => self.artifacts.list_artifact_versions(key).await,
        }
    }

    async fn get_artifact_version(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ArtifactError> {
        match self.is_expired(key).await? {
            true => Ok(None),
            false => self.artifacts.get_artifact_version(key, version).await,
        }
    }

    async fn delete_session_artifacts(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
    ) -> Result<u64, ArtifactError> {
        let deleted = self
            .artifacts
            .delete_session_artifacts(app_name, user_id, session_id);
        deleted.await
    }

    async fn usage(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<Option<u64>, ArtifactError> {
        self.artifacts.usage(app_name, user_id).await
    }

    async fn erase_user(
        &self,
        app_name: &str,
        user_id: &str,
    ) -> Result<EraseReceipt, ArtifactError> {
        self.artifacts.erase_user(app_name, user_id).await
    }

    fn for_session(&self, origin: SessionOrigin) -> Option<Arc<dyn ArtifactService>> {
        let artifacts = self.artifacts.for_session(origin)?;
        let sessions = Arc::clone(&self.sessions);
        Some(Arc::new(ExpiringArtifacts::new(artifacts, sessions)))
    }

    fn artifact_store(&self) -> Option<Arc<dyn ArtifactStore>> {
        self.artifacts.artifact_store()
    }

    fn store_label(&self) -> StoreLabel {
        self.artifacts.store_label()
    }
}
