//! `TransferStore`: the operations of a store for import, export, migration and checks.

use std::fmt;

use async_trait::async_trait;

use crate::{
    check::Problem,
    error::{Result, SessionError},
    json::JsonMap,
    session::SessionKey,
    store::{Head, NewEvent, ScopedState, SessionStore},
};

/// The header of a log, which an export writes and an import reads before the events.
#[derive(Debug, Clone)]
pub struct LogHeader {
    /// The session.
    pub head: Head,
    /// The initial state of the session, at position 0.
    pub initial: JsonMap,
}

/// The owner of shared state: an app, or a user of it. Ordered by app, the app itself first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateOwner {
    /// The app.
    pub app: String,
    /// The user; `None` for the app itself.
    pub user: Option<String>,
}

impl StateOwner {
    /// Returns the owner of an app's state.
    pub fn app(app: impl Into<String>) -> StateOwner {
        StateOwner {
            app: app.into(),
            user: None,
        }
    }

    /// Returns the owner of a user's state.
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

/// The id of a draft. A draft is a log that readers do not see until it becomes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftId(pub u64);

/// The schema of a store's database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaReport {
    /// The schema version of the database.
    pub version: u64,
    /// The schema version of this program. If it is lower than `version`, a newer program has
    /// upgraded the database, and this program still works on it.
    pub supported: u64,
    /// The migrations that wait for [`TransferStore::finish_upgrade`], by name.
    pub unfinished: Vec<String>,
}

impl SchemaReport {
    /// Creates a report, for a store that has a schema.
    pub fn new(version: u64, supported: u64, unfinished: Vec<String>) -> SchemaReport {
        SchemaReport {
            version,
            supported,
            unfinished,
        }
    }
}

/// Bulk transfer and checks of whole logs and shared state, in addition to [`SessionStore`]. Every
/// method is atomic.
#[async_trait]
pub trait TransferStore: SessionStore {
    /// Returns the session and its initial state.
    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>>;

    /// Starts a draft that will become the session `key`. Unfinished drafts expire, and erasing the
    /// user deletes them.
    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId>;

    /// Adds events with their positions to a draft.
    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()>;

    /// Turns the draft into a session. Sets `shared` keys only where the app or user lacks them.
    ///
    /// Fails with `AlreadyExists`, and deletes the draft, if the session exists. A session with a
    /// TTL expires when the header says, or one TTL from now; if that time has passed, this fails
    /// with `NotFound` and changes nothing.
    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head>;

    /// Returns up to `limit` addresses of sessions after `after`, ordered by (app, user, id) as
    /// bytes, without expired ones.
    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>>;

    /// Returns up to `limit` owners of shared state after `after`, in order.
    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>>;

    /// Sets the `shared` keys that the app, or this user of it, lacks; existing keys keep their
    /// value. The user needs no session.
    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()>;

    /// Sets the keys that the owner lacks; existing keys keep their value.
    async fn add_shared_state(&self, owner: &StateOwner, keys: &JsonMap) -> Result<()> {
        let mut shared = ScopedState::default();
        match owner.user {
            Some(_) => shared.user = keys.clone(),
            None => shared.app = keys.clone(),
        }
        let user = owner.user.as_deref().unwrap_or_default();
        self.add_shared_keys(&owner.app, user, &shared).await
    }

    /// Checks the stored data and the schema, and returns each problem. The list is empty if all is
    /// intact.
    async fn check(&self) -> Result<Vec<Problem>>;

    /// Repairs the records that `problems` names, as far as they can be derived. Each session is
    /// repaired in a transaction of its own, so that other programs may use the store.
    async fn repair(&self, problems: &[Problem]) -> Result<()> {
        let _ = problems;
        Err(SessionError::Unsupported {
            store: self.name(),
            operation: "repairs",
        })
    }

    /// Describes the schema of the database. A store without a schema returns the default.
    async fn schema(&self) -> Result<SchemaReport> {
        Ok(SchemaReport::default())
    }

    /// Finishes an upgrade: removes what only programs of older schema versions need. Programs of
    /// those versions cannot use the database afterwards.
    async fn finish_upgrade(&self) -> Result<SchemaReport> {
        self.schema().await
    }

    /// Identifies this database independently of the URI it was opened with; `None` if it cannot be
    /// opened twice.
    async fn identity(&self) -> Result<Option<String>> {
        Ok(None)
    }
}
