//! `SaveFilesAsArtifactsPlugin`: saves the files in a user's message as artifacts and replaces each
//! with a text that names it.
//!
//! The files are saved when the message arrives, and the message's own event records them, so the
//! log records a file together with its message.

use async_trait::async_trait;
use retain_core::{ArtifactError, ArtifactKey, ArtifactService, Blob, Content, FileData, Part};

use super::{HookResult, Plugin, ReadMessage};
use crate::error::error_kind;

/// Maximum size of a file in bytes: the limit of providers for inline data.
const SIZE_MAX: usize = 20 * 1024 * 1024;

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// URI schemes that models can read directly.
const SCHEMES: [&str; 3] = ["gs", "https", "http"];

/// Saves the files of users' messages as artifacts under their display names and replaces each by a
/// text in the message. A file over 20 MB is rejected, and the text says so.
///
/// Add [`load_artifacts_tool`](crate::load_artifacts_tool) or another tool that reads artifacts. A
/// file whose name starts with `user:` is available in all sessions of the user.
///
/// ```
/// # fn add(runner: retain_runtime::RunnerBuilder) -> retain_runtime::RunnerBuilder {
/// use retain_runtime::SaveFilesAsArtifactsPlugin;
/// runner.plugin(std::sync::Arc::new(SaveFilesAsArtifactsPlugin::new()))
/// # }
/// ```
#[derive(Debug)]
pub struct SaveFilesAsArtifactsPlugin {
    name: String,
    attach_file_reference: bool,
}

impl Default for SaveFilesAsArtifactsPlugin {
    fn default() -> SaveFilesAsArtifactsPlugin {
        SaveFilesAsArtifactsPlugin::new()
    }
}

impl SaveFilesAsArtifactsPlugin {
    /// Creates the plugin with ADK's plugin name.
    pub fn new() -> SaveFilesAsArtifactsPlugin {
        SaveFilesAsArtifactsPlugin {
            name: "save_files_as_artifacts_plugin".to_owned(),
            attach_file_reference: true,
        }
    }

    /// Sets the plugin's name.
    pub fn with_name(mut self, name: impl Into<String>) -> SaveFilesAsArtifactsPlugin {
        self.name = name.into();
        self
    }

    /// Sets whether the text is followed by the file's URI if models can read that URI (default:
    /// true).
    pub fn with_file_reference(mut self, attach: bool) -> SaveFilesAsArtifactsPlugin {
        self.attach_file_reference = attach;
        self
    }

    /// Saves a file of the message. Returns the parts that replace it, and the version.
    async fn save_file(
        &self,
        artifacts: &dyn ArtifactService,
        key: &ArtifactKey,
        blob: &Blob,
        part: &Part,
    ) -> Result<(Vec<Part>, u64), ArtifactError> {
        let version = artifacts.save_artifact(key, part.clone(), None).await?;
        let text = format!("[Uploaded Artifact: \"{}\"]", key.filename);
        let mut parts = vec![Part::text(text)];
        if self.attach_file_reference {
            parts.extend(file_reference(artifacts, key, version, blob).await);
        }
        Ok((parts, version))
    }
}

#[async_trait]
impl Plugin for SaveFilesAsArtifactsPlugin {
    fn name(&self) -> &str {
        &self.name
    }

    async fn on_user_message(&self, read: &ReadMessage<'_>) -> HookResult<Content> {
        let Some(artifacts) = read.artifacts else {
            tracing::warn!("no artifact service is configured; a message's files are not saved");
            return Ok(Some(read.message.clone()));
        };
        let (mut parts, mut is_changed) = (Vec::new(), false);
        for (number, part) in read.message.parts().iter().enumerate() {
            let Some(blob) = &part.inline_data else {
                parts.push(part.clone());
                continue;
            };
            let given = blob.display_name.clone().filter(|name| !name.is_empty());
            let name = given.unwrap_or_else(|| format!("artifact_{}_{number}", read.run_id));
            if let Some(notice) = too_large_notice(&name, blob) {
                parts.push(notice);
                is_changed = true;
                continue;
            }
            let key = ArtifactKey::in_session(&read.session.key(), &name);
            match self.save_file(artifacts, &key, blob, part).await {
                Ok((instead, version)) => {
                    parts.extend(instead);
                    read.saved_artifact(&name, version);
                    is_changed = true;
                }
                Err(error) => {
                    tracing::error!(kind = error_kind(&error), "failed to save a message's file");
                    tracing::debug!(artifact = ?name, error = ?error.to_string(), "failed to save a message's file");
                    parts.push(part.clone());
                }
            }
        }
        Ok(is_changed.then(|| Content {
            parts: Some(parts),
            ..read.message.clone()
        }))
    }
}

/// Returns the text that replaces a file that is too large; `None` for other files.
fn too_large_notice(name: &str, blob: &Blob) -> Option<Part> {
    let size = blob.data.as_ref().map_or(0, |data| data.len());
    if size <= SIZE_MAX {
        return None;
    }
    let (size, limit) = (size as f64 / MEGABYTE, SIZE_MAX as f64 / MEGABYTE);
    let reason = format!(
        "File {name} ({size:.2} MB) exceeds the maximum supported size of {limit:.0}MB. Please \
         upload a smaller file."
    );
    tracing::warn!("a message's file is too large and is not saved");
    tracing::debug!(?reason, "a message's file is too large and is not saved");
    Some(Part::text(format!("[Upload Error: {reason}]")))
}

/// Returns a part with the URI of the file, if models can read it.
async fn file_reference(
    artifacts: &dyn ArtifactService,
    key: &ArtifactKey,
    version: u64,
    blob: &Blob,
) -> Option<Part> {
    let stored = artifacts.get_artifact_version(key, Some(version)).await;
    let stored = stored.unwrap_or_else(|error| {
        tracing::warn!(kind = error_kind(&error), "failed to read a file's URI");
        tracing::debug!(artifact = ?key.filename, error = ?error.to_string(), "failed to read a file's URI");
        None
    });
    let stored = stored?;
    let (scheme, _) = stored.canonical_uri.split_once(':')?;
    if !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    let mime_type = blob.mime_type.clone().filter(|mime| !mime.is_empty());
    Some(Part {
        file_data: Some(FileData {
            file_uri: Some(stored.canonical_uri),
            mime_type: mime_type.or(stored.mime_type),
            display_name: Some(key.filename.clone()),
            ..FileData::default()
        }),
        ..Part::default()
    })
}
