//! `TransferStore`: what a store must do for bulk transfer: import, export and migration.

use std::fmt;

use async_trait::async_trait;

use crate::{
    error::Result,
    json::JsonMap,
    session::SessionKey,
    store::{Head, NewEvent, ScopedState, SessionStore},
};

/// The header of a log: what export writes and import reads before the events.
#[derive(Debug, Clone)]
pub struct LogHeader {
    /// The session.
    pub head: Head,
    /// The state given at creation: position 0.
    pub initial: JsonMap,
}

/// The owner of shared state: an app, or a user of it. Ordered by app, the app itself first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateOwner {
    /// The app.
    pub app: String,
    /// The user; `None`: the app itself.
    pub user: Option<String>,
}

impl StateOwner {
    /// The app.
    pub fn app(app: impl Into<String>) -> StateOwner {
        StateOwner {
            app: app.into(),
            user: None,
        }
    }

    /// A user of the app.
    pub fn user(app: impl Into<String>, user: impl Into<String>) -> StateOwner {
        StateOwner {
            app: app.into(),
            user: Some(user.into()),
        }
    }
}

impl fmt::Display for StateOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "user {:?} of app {:?}", user, self.app),
            None => write!(f, "app {:?}", self.app),
        }
    }
}

/// A log that readers do not see yet; finishing it makes it a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftId(pub u64);

/// Bulk transfer of whole logs and shared state, over a [`SessionStore`]. Every method is atomic.
#[async_trait]
pub trait TransferStore: SessionStore {
    /// The session and the state it was created with.
    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>>;

    /// Starts a log that readers do not see and that will become the session `key`. Unfinished drafts
    /// expire, and erasing the user deletes them.
    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId>;

    /// Adds events to a draft: (position, event).
    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()>;

    /// Makes the draft a session; `AlreadyExists` (and the draft is gone) if there is one.
    /// `shared` keys are set where the app or user does not have them yet. A session with a TTL
    /// expires when the header says, or one TTL from now. If that time has passed, the result is
    /// `NotFound` and nothing is changed.
    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head>;

    /// Up to `limit` addresses of sessions after `after`, ordered by (app, user, id) as bytes,
    /// without expired ones.
    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>>;

    /// Up to `limit` owners of shared state after `after`, in order.
    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>>;

    /// Sets the `shared` keys that the app, or this user of it, does not have yet; existing keys keep
    /// their value. No session is needed.
    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()>;

    /// Sets the keys that the owner does not have yet; existing keys keep their value.
    async fn add_shared_state(&self, owner: &StateOwner, keys: &JsonMap) -> Result<()> {
        let mut shared = ScopedState::default();
        match owner.user {
            Some(_) => shared.user = keys.clone(),
            None => shared.app = keys.clone(),
        }
        let user = owner.user.as_deref().unwrap_or_default();
        self.add_shared_keys(&owner.app, user, &shared).await
    }

    /// A name that identifies this database, whatever address it was opened by; `None` if it cannot
    /// be opened twice.
    async fn identity(&self) -> Result<Option<String>> {
        Ok(None)
    }
}
