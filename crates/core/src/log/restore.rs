//! Artifacts in a rewind: finds the artifacts that have changed and restores their earlier content.
//!
//! The log records which version of an artifact an event saved. A rewind deletes nothing: it saves
//! a new version with the earlier content, or a tombstone if the artifact did not exist.

use std::collections::HashMap;

use super::StoreSessionService;
use crate::{
    artifacts::{
        ArtifactError, ArtifactKey, ArtifactService, USER_ARTIFACT_PREFIX, artifact_tombstone,
    },
    error::{Result, SessionError},
    event::Event,
    json::{Json, JsonMap},
    session::{SessionKey, Window},
    store::{Head, ReadDetail, SessionStore},
};

/// Number of events read at a time.
const PAGE: u64 = 500;

/// An artifact that has changed since the position to restore.
#[derive(Debug)]
pub(super) struct ChangedArtifact {
    filename: String,
    /// The newest version in the log.
    newest: u64,
    /// The version in the log at the position to restore; `None` if no event had named the
    /// artifact.
    earlier: Option<u64>,
}

/// The artifacts that a rewind has restored so far. A retry after a concurrent append saves an
/// artifact again only if it has changed since.
///
/// Maps an artifact to two versions: the newest one that the rewind replaced, and the one that it
/// saved.
#[derive(Debug, Default)]
pub(super) struct RestoredArtifacts(HashMap<String, (u64, u64)>);

impl RestoredArtifacts {
    /// Restores the artifacts and returns the artifact delta for the event, in ADK's order.
    pub(super) async fn restore(
        &mut self,
        artifacts: &dyn ArtifactService,
        session: &SessionKey,
        changed: &[ChangedArtifact],
    ) -> Result<JsonMap> {
        let mut delta = JsonMap::new();
        for file in changed {
            let version = match self.0.get(&file.filename) {
                Some((newest, restored)) if *newest == file.newest => *restored,
                _ => {
                    let restored = save_earlier_content(artifacts, session, file).await;
                    let restored = restored.map_err(|source| SessionError::Artifact {
                        key: session.clone(),
                        filename: file.filename.clone(),
                        source: Box::new(source),
                    })?;
                    let versions = (file.newest, restored);
                    self.0.insert(file.filename.clone(), versions);
                    restored
                }
            };
            delta.insert(file.filename.as_str(), version);
        }
        Ok(delta)
    }
}

/// Saves a new version with the earlier content, or a tombstone if the earlier version was deleted.
async fn save_earlier_content(
    artifacts: &dyn ArtifactService,
    session: &SessionKey,
    file: &ChangedArtifact,
) -> Result<u64, ArtifactError> {
    let key = ArtifactKey::in_session(session, &file.filename);
    let content = match file.earlier {
        Some(version) => artifacts.load_artifact(&key, Some(version)).await?,
        None => None,
    };
    let content = content.unwrap_or_else(artifact_tombstone);
    artifacts.save_artifact(&key, content, None).await
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Finds the artifacts of the session whose version in the log differs between `head` and the
    /// event before `first`.
    pub(super) async fn artifacts_changed_since(
        &self,
        head: &Head,
        first: u64,
    ) -> Result<Vec<ChangedArtifact>> {
        let since = self.artifact_versions(head, first, head.position).await?;
        if since.is_empty() {
            return Ok(Vec::new());
        }
        let earlier = self.artifact_versions(head, 1, first - 1).await?;
        // ADK orders the artifacts by the first event that names them.
        let mut newest = earlier.clone();
        for (filename, version) in &since {
            newest.insert(filename, version.clone());
        }
        let differs = |(filename, version): &(&str, &Json)| earlier.get(filename) != Some(*version);
        let changed = newest.iter().filter(differs).map(|(filename, version)| {
            let earlier = earlier.get(filename);
            Ok(ChangedArtifact {
                filename: filename.to_owned(),
                newest: parse_version(&head.key, filename, version)?,
                earlier: earlier
                    .map(|version| parse_version(&head.key, filename, version))
                    .transpose()?,
            })
        });
        changed.collect()
    }

    /// Returns the newest version of each of the session's artifacts that a range of events names.
    async fn artifact_versions(&self, head: &Head, mut first: u64, last: u64) -> Result<JsonMap> {
        let mut versions = JsonMap::new();
        while first <= last {
            let page = Window::range(first, last.min(first + PAGE - 1));
            let read = self
                .store
                .read(&head.key, page, ReadDetail::EventsOnly)
                .await?;
            let read = read.filter(|read| read.head.incarnation == head.incarnation);
            let read = read.ok_or_else(|| SessionError::not_found(&head.key))?;
            for (_, event) in &read.events {
                collect_versions(&mut versions, event);
            }
            first += PAGE;
        }
        Ok(versions)
    }
}

/// Parses the version that an event names. The rewind fails if it is not a version number.
fn parse_version(session: &SessionKey, filename: &str, version: &Json) -> Result<u64> {
    version.as_u64().ok_or_else(|| SessionError::Artifact {
        key: session.clone(),
        filename: filename.to_owned(),
        source: {
            let reason =
                format!("an event names version {version}, which is not a valid version number");
            Box::new(ArtifactError::invalid("version", reason))
        },
    })
}

fn collect_versions(versions: &mut JsonMap, event: &Event) {
    for (filename, version) in &event.actions.artifact_delta {
        // A rewind does not restore artifacts that belong to the user.
        if !filename.starts_with(USER_ARTIFACT_PREFIX) {
            versions.insert(filename, version.clone());
        }
    }
}
