//! An `AgentTool`'s artifact service: the agent's artifacts are saved in the caller's session, and
//! the caller's event records them.

use async_trait::async_trait;
use retain_core::{
    ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion, JsonMap, Part, SessionKey,
};

use crate::context::ToolContext;

/// Forwards artifact operations to the caller's session, whatever session the agent names.
#[derive(Debug)]
pub(super) struct ForwardedArtifacts(ToolContext);

impl ForwardedArtifacts {
    /// Returns the forwarding service if the caller has an artifact service.
    pub(super) fn from_context(ctx: &ToolContext) -> Option<ForwardedArtifacts> {
        let has_artifacts = ctx.invocation.shared.artifacts.is_some();
        has_artifacts.then(|| ForwardedArtifacts(ctx.clone()))
    }

    fn service(&self) -> Result<&dyn ArtifactService, ArtifactError> {
        let artifacts = self.0.invocation.shared.artifacts.as_deref();
        artifacts.ok_or(ArtifactError::NoService)
    }

    fn session(&self) -> &SessionKey {
        self.0.invocation.session_key()
    }

    fn key(&self, named: &ArtifactKey) -> ArtifactKey {
        ArtifactKey::in_session(self.session(), &named.filename)
    }
}

#[async_trait]
impl ArtifactService for ForwardedArtifacts {
    async fn save_artifact(
        &self,
        key: &ArtifactKey,
        artifact: Part,
        custom_metadata: Option<JsonMap>,
    ) -> Result<u64, ArtifactError> {
        let saved = self
            .0
            .save_artifact(&key.filename, artifact, custom_metadata);
        saved.await
    }

    async fn load_artifact(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<Part>, ArtifactError> {
        self.0.load_artifact(&key.filename, version).await
    }

    async fn list_artifact_keys(
        &self,
        _app_name: &str,
        _user_id: &str,
        _session_id: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        self.0.list_artifacts().await
    }

    async fn delete_artifact(&self, key: &ArtifactKey) -> Result<(), ArtifactError> {
        let key = self.key(key);
        let deleted = self.service()?.delete_artifact(&key);
        self.0.store_call(deleted).await
    }

    async fn list_versions(&self, key: &ArtifactKey) -> Result<Vec<u64>, ArtifactError> {
        let key = self.key(key);
        let versions = self.service()?.list_versions(&key);
        self.0.store_call(versions).await
    }

    async fn list_artifact_versions(
        &self,
        key: &ArtifactKey,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        let key = self.key(key);
        let versions = self.service()?.list_artifact_versions(&key);
        self.0.store_call(versions).await
    }

    async fn get_artifact_version(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ArtifactError> {
        self.0.get_artifact_version(&key.filename, version).await
    }
}
