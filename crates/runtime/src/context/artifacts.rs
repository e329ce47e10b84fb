//! Artifacts in a run: callbacks and tools save and load them, and templates quote them.

use std::collections::HashMap;

use retain_core::{ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion, JsonMap, Part};

use super::{CallbackContext, InvocationContext};
use crate::template::{Template, TemplateError};

impl InvocationContext {
    fn artifact_service(&self) -> Result<&dyn ArtifactService, ArtifactError> {
        let artifacts = self.shared.artifacts.as_deref();
        artifacts.ok_or(ArtifactError::NoService)
    }

    /// Returns the key of an artifact as this session sees it.
    fn artifact_key(&self, filename: &str) -> ArtifactKey {
        ArtifactKey::in_session(self.session_key(), filename)
    }

    /// Renders a template with values of the state and the artifacts that it names.
    pub(crate) async fn render(&self, template: &Template) -> Result<String, TemplateError> {
        let artifacts = match self.artifact_service() {
            Ok(service) => Some(self.load_quoted_artifacts(service, template).await?),
            Err(_) => None,
        };
        let session = self.session();
        session.update(|session| template.render(&session.state, artifacts.as_ref()))
    }

    async fn load_quoted_artifacts(
        &self,
        service: &dyn ArtifactService,
        template: &Template,
    ) -> Result<HashMap<String, Part>, TemplateError> {
        let mut quoted = HashMap::new();
        for name in template.artifact_names() {
            if quoted.contains_key(name) {
                continue;
            }
            let key = self.artifact_key(name);
            let loaded = service.load_artifact(&key, None);
            let loaded = self.shared.store_call(loaded).await;
            let loaded = loaded.map_err(|error| TemplateError::UnreadableArtifact {
                name: name.to_owned(),
                reason: error.to_string(),
            })?;
            if let Some(part) = loaded {
                quoted.insert(name.to_owned(), part);
            }
        }
        Ok(quoted)
    }
}

impl CallbackContext {
    /// Saves a new version of an artifact and returns its number, starting at 0. An artifact whose
    /// name begins with `user:` is visible in all of the user's sessions. The event of this context
    /// records the version.
    pub async fn save_artifact(
        &self,
        filename: &str,
        artifact: Part,
        custom_metadata: Option<JsonMap>,
    ) -> Result<u64, ArtifactError> {
        let service = self.invocation.artifact_service()?;
        let key = self.invocation.artifact_key(filename);
        let version = service.save_artifact(&key, artifact, custom_metadata);
        let version = self.store_call(version).await?;
        self.update_actions(|actions| actions.artifact_delta.insert(filename, version));
        Ok(version)
    }

    /// Loads a version of an artifact, or the newest; `None` if there is none.
    pub async fn load_artifact(
        &self,
        filename: &str,
        version: Option<u64>,
    ) -> Result<Option<Part>, ArtifactError> {
        let service = self.invocation.artifact_service()?;
        let key = self.invocation.artifact_key(filename);
        let loaded = service.load_artifact(&key, version);
        self.store_call(loaded).await
    }

    /// Returns the metadata of a version of an artifact, or of the newest.
    pub async fn get_artifact_version(
        &self,
        filename: &str,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ArtifactError> {
        let service = self.invocation.artifact_service()?;
        let key = self.invocation.artifact_key(filename);
        let version = service.get_artifact_version(&key, version);
        self.store_call(version).await
    }

    /// Returns the names of the artifacts that this session sees, sorted.
    pub async fn list_artifacts(&self) -> Result<Vec<String>, ArtifactError> {
        let service = self.invocation.artifact_service()?;
        let key = self.invocation.session_key();
        let names = service.list_artifact_keys(&key.app, &key.user, Some(&key.id));
        self.store_call(names).await
    }
}
