//! Sweeping: deletes expired sessions with what belongs to them.

use std::sync::Arc;

use super::StoreSessionService;
use crate::{
    artifacts::{ArtifactError, ArtifactService},
    error::{BoxError, Result},
    maintenance::{ExpiredSession, MaintenanceStore},
    memory::{MemoryError, MemoryService},
    session::SessionKey,
    store::SessionStore,
};

/// Maximum number of sessions that one write deletes, so that other writes get in between.
const CHUNK: usize = 64;

/// What a sweep deletes in addition to expired sessions.
///
/// ```
/// use std::sync::Arc;
/// use retain_core::{ArtifactService, MemoryService, Result, SessionLog, Sweep};
/// async fn sweep(
///     log: &dyn SessionLog,
///     files: Arc<dyn ArtifactService>,
///     memory: Arc<dyn MemoryService>,
/// ) -> Result<()> {
///     let swept = log.sweep_with(Sweep::default().with_artifacts(files).with_memory(memory)).await?;
///     println!("deleted {} sessions", swept.sessions);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sweep {
    /// The service with the sessions' artifacts. `user:` artifacts stay. Artifacts in the database
    /// of the sessions are deleted without it too.
    pub artifacts: Option<Arc<dyn ArtifactService>>,
    /// The service with the memories that were ingested from the sessions.
    pub memory: Option<Arc<dyn MemoryService>>,
}

impl Sweep {
    /// Also deletes the sessions' artifacts in this service.
    pub fn with_artifacts(mut self, artifacts: Arc<dyn ArtifactService>) -> Sweep {
        self.artifacts = Some(artifacts);
        self
    }

    /// Also deletes the memories of the sessions in this service.
    pub fn with_memory(mut self, memory: Arc<dyn MemoryService>) -> Sweep {
        self.memory = Some(memory);
        self
    }

    /// Deletes the artifacts of an expired session, and returns their number.
    async fn delete_artifacts(&self, key: &SessionKey) -> Result<u64, ArtifactError> {
        let Some(artifacts) = &self.artifacts else {
            return Ok(0);
        };
        match artifacts
            .delete_session_artifacts(&key.app, &key.user, &key.id)
            .await
        {
            // No artifact can have this address.
            Err(ArtifactError::Invalid { .. }) => Ok(0),
            deleted => deleted,
        }
    }

    /// Deletes the memories of expired sessions of one user, and returns their number.
    async fn delete_memories(&self, sessions: &[ExpiredSession]) -> Result<u64, MemoryError> {
        let (Some(memory), Some(first)) = (&self.memory, sessions.first()) else {
            return Ok(0);
        };
        let ids: Vec<String> = sessions
            .iter()
            .map(|session| session.key.id.clone())
            .collect();
        let owner = &first.key;
        match memory
            .delete_expired_sessions(&owner.app, &owner.user, &ids)
            .await
        {
            Err(MemoryError::Unsupported { .. }) => Ok(0),
            deleted => deleted,
        }
    }
}

/// What a sweep deleted.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SweepReceipt {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of artifact versions.
    pub artifacts: u64,
    /// Number of memories that were ingested from the sessions.
    pub memories: u64,
    /// The expired sessions that stay until the next sweep, because their artifacts or memories
    /// could not be deleted.
    pub failures: Vec<(SessionKey, BoxError)>,
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Deletes expired sessions. Each is deleted after what belongs to it, so that a crash leaves
    /// nothing that no sweep finds.
    pub(super) async fn sweep_expired(&self, sweep: Sweep) -> Result<SweepReceipt> {
        let store = self.store.maintenance()?;
        let (mut swept, mut after) = (SweepReceipt::default(), 0);
        loop {
            let chunk = store.expired(after, CHUNK).await?;
            let Some(last) = chunk.last() else {
                return Ok(swept);
            };
            after = last.incarnation;
            let is_last = chunk.len() < CHUNK;
            let chunk = clear_sessions(store, &sweep, chunk, &mut swept).await?;
            let deleted = store.delete_expired(&chunk).await?;
            if deleted.sessions > 0 {
                self.record_sweep();
            }
            swept.sessions += deleted.sessions;
            swept.artifacts += deleted.artifacts;
            if is_last {
                return Ok(swept);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Deletes what belongs to the sessions, and returns those that can now be deleted.
async fn clear_sessions(
    store: &dyn MaintenanceStore,
    sweep: &Sweep,
    mut sessions: Vec<ExpiredSession>,
    swept: &mut SweepReceipt,
) -> Result<Vec<ExpiredSession>> {
    if sweep.artifacts.is_none() && sweep.memory.is_none() {
        return Ok(sessions);
    }
    sessions.sort_by(|a, b| a.key.cmp(&b.key));
    let mut cleared = Vec::with_capacity(sessions.len());
    // A memory service may read all memories of a user, so it deletes those of several sessions at
    // once.
    let is_same_user = |a: &ExpiredSession, b: &ExpiredSession| {
        (&a.key.app, &a.key.user) == (&b.key.app, &b.key.user)
    };
    for of_user in sessions.chunk_by(is_same_user) {
        let mut ready = Vec::with_capacity(of_user.len());
        for session in of_user {
            // A new session may use the id by now; what belongs to it must stay.
            if !store.is_expired(&session.key).await? {
                continue;
            }
            match sweep.delete_artifacts(&session.key).await {
                Ok(deleted) => {
                    swept.artifacts += deleted;
                    ready.push(session.clone());
                }
                Err(error) => swept.failures.push((session.key.clone(), error.into())),
            }
        }
        let mut still_expired = Vec::with_capacity(ready.len());
        for session in ready {
            if store.is_expired(&session.key).await? {
                still_expired.push(session);
            }
        }
        let mut ready = still_expired;
        match sweep.delete_memories(&ready).await {
            Ok(deleted) => {
                swept.memories += deleted;
                cleared.append(&mut ready);
            }
            Err(error) => {
                let error: Arc<MemoryError> = Arc::new(error);
                let failed = ready
                    .into_iter()
                    .map(|it| (it.key, Arc::clone(&error).into()));
                swept.failures.extend(failed);
            }
        }
    }
    Ok(cleared)
}
