//! Files in a rewind: which ones changed since, and how they become again what they were.
//!
//! The log says which version of a file an event made. Nothing is removed: a file gets one more
//! version, with the content that it had, or one that says that there was none.

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
    store::{Head, SessionStore, Want},
};

/// How many events are read at a time.
const PAGE: u64 = 500;

/// A file that is not what it was.
#[derive(Debug)]
pub(super) struct Changed {
    filename: String,
    /// The version that the log tells of last.
    now: u64,
    /// The version that the log told of then; `None` if it told of none.
    then: Option<u64>,
}

/// What a rewind has restored so far. If it must look again, because somebody appended meanwhile,
/// a file that did not change again gets no further version.
#[derive(Debug, Default)]
pub(super) struct Restored(HashMap<String, (u64, u64)>);

impl Restored {
    /// Restores the files; gives the delta for the event, in ADK's order.
    pub(super) async fn restore(
        &mut self,
        artifacts: &dyn ArtifactService,
        session: &SessionKey,
        changed: &[Changed],
    ) -> Result<JsonMap> {
        let mut delta = JsonMap::new();
        for file in changed {
            let version = match self.0.get(&file.filename) {
                Some((now, restored)) if *now == file.now => *restored,
                _ => {
                    let restored = save_as_then(artifacts, session, file).await;
                    let restored = restored.map_err(|source| SessionError::Artifact {
                        key: session.clone(),
                        filename: file.filename.clone(),
                        source: Box::new(source),
                    })?;
                    let known = (file.now, restored);
                    self.0.insert(file.filename.clone(), known);
                    restored
                }
            };
            delta.insert(file.filename.as_str(), version);
        }
        Ok(delta)
    }
}

/// Saves one more version of the file, which is what it was. One that is gone cannot come back.
async fn save_as_then(
    artifacts: &dyn ArtifactService,
    session: &SessionKey,
    file: &Changed,
) -> Result<u64, ArtifactError> {
    let key = ArtifactKey::in_session(session, &file.filename);
    let was = match file.then {
        Some(then) => artifacts.load_artifact(&key, Some(then)).await?,
        None => None,
    };
    let was = was.unwrap_or_else(artifact_tombstone);
    artifacts.save_artifact(&key, was, None).await
}

impl<S: SessionStore> StoreSessionService<S> {
    /// The files of the session that its log, up to `head`, tells of otherwise than it did before
    /// the event at `first`.
    pub(super) async fn files_changed_since(
        &self,
        head: &Head,
        first: u64,
    ) -> Result<Vec<Changed>> {
        let since = self.versions_told(head, first, head.position).await?;
        if since.is_empty() {
            return Ok(Vec::new());
        }
        let then = self.versions_told(head, 1, first - 1).await?;
        // As ADK orders them: by the first event of the log that tells of the file.
        let mut now = then.clone();
        for (filename, version) in &since {
            now.insert(filename, version.clone());
        }
        let differs = |(filename, version): &(&str, &Json)| then.get(filename) != Some(*version);
        let changed = now.iter().filter(differs).map(|(filename, version)| {
            let then = then.get(filename);
            Ok(Changed {
                filename: filename.to_owned(),
                now: version_of(&head.key, filename, version)?,
                then: then
                    .map(|then| version_of(&head.key, filename, then))
                    .transpose()?,
            })
        });
        changed.collect()
    }

    /// The newest version of each file of the session that the events of a range tell of.
    async fn versions_told(&self, head: &Head, mut first: u64, last: u64) -> Result<JsonMap> {
        let mut versions = JsonMap::new();
        while first <= last {
            let page = Window::range(first, last.min(first + PAGE - 1));
            let read = self.store.read(&head.key, page, Want::EventsOnly).await?;
            let read = read.filter(|read| read.head.incarnation == head.incarnation);
            let read = read.ok_or_else(|| SessionError::not_found(&head.key))?;
            for (_, event) in &read.events {
                take_up(&mut versions, event);
            }
            first += PAGE;
        }
        Ok(versions)
    }
}

/// The version that an event tells of. What is none cannot be taken back.
fn version_of(session: &SessionKey, filename: &str, told: &Json) -> Result<u64> {
    told.as_u64().ok_or_else(|| SessionError::Artifact {
        key: session.clone(),
        filename: filename.to_owned(),
        source: {
            let reason = format!("an event tells of version {told}, which is no version");
            Box::new(ArtifactError::invalid("version", reason))
        },
    })
}

fn take_up(versions: &mut JsonMap, event: &Event) {
    for (filename, version) in &event.actions.artifact_delta {
        // What belongs to the user is not taken back.
        if !filename.starts_with(USER_ARTIFACT_PREFIX) {
            versions.insert(filename, version.clone());
        }
    }
}
