//! `ArtifactService`: the port to artifact storage, with ADK's methods.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{names::USER_ARTIFACT_PREFIX, store::ArtifactStore};
use crate::{
    budget::OverBudget,
    content::Part,
    erase::{EraseReceipt, StoreLabel},
    error::BoxError,
    json::JsonMap,
    origin::SessionOrigin,
    quota::QuotaExceeded,
    session::SessionKey,
    wire::{wire_object, wire_text},
};

/// The address of an artifact.
///
/// A name that begins with `user:` belongs to the user: every session of the user sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArtifactKey {
    /// The app.
    pub app_name: String,
    /// The user.
    pub user_id: String,
    /// The session. `None` for an artifact that belongs to the user.
    pub session_id: Option<String>,
    /// The name of the artifact.
    pub filename: String,
}

impl ArtifactKey {
    /// Creates the key of an artifact as a session sees it.
    ///
    /// ```
    /// use retain_core::{ArtifactKey, SessionKey};
    /// let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), "report.pdf");
    /// assert_eq!(key.to_string(), "app/ada/s1: report.pdf");
    /// ```
    pub fn in_session(session: &SessionKey, filename: impl Into<String>) -> ArtifactKey {
        ArtifactKey {
            app_name: session.app.clone(),
            user_id: session.user.clone(),
            session_id: Some(session.id.clone()),
            filename: filename.into(),
        }
    }

    /// Creates the key of an artifact of a user, without a session.
    pub fn of_user(
        app_name: impl Into<String>,
        user_id: impl Into<String>,
        filename: impl Into<String>,
    ) -> ArtifactKey {
        ArtifactKey {
            app_name: app_name.into(),
            user_id: user_id.into(),
            session_id: None,
            filename: filename.into(),
        }
    }
}

impl fmt::Display for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.app_name, self.user_id)?;
        if let Some(session) = &self.session_id {
            write!(f, "/{session}")?;
        }
        write!(f, ": {}", self.filename)
    }
}

wire_object! {
    /// Metadata of one version of an artifact.
    pub struct ArtifactVersion: ARTIFACT_VERSION {
        /// The version number, from 0.
        version: u64,
        /// The URI of the content.
        canonical_uri: String,
        /// Custom metadata; keys are never renamed.
        custom_metadata: JsonMap,
        /// When it was saved, in seconds since 1970.
        create_time: f64,
        /// The media type.
        mime_type: Option<String>,
    }
}

wire_text!(ArtifactVersion);

/// Stores the artifacts of agents and tools. Versions are numbered from 0.
///
/// ```
/// use retain_core::{ArtifactKey, ArtifactService, Part, SessionKey};
/// async fn save_note(artifacts: &dyn ArtifactService) -> Result<(), retain_core::ArtifactError> {
///     let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), "a.txt");
///     let version = artifacts.save_artifact(&key, Part::text("hello"), None).await?;
///     let loaded = artifacts.load_artifact(&key, Some(version)).await?;
///     assert_eq!(loaded, Some(Part::text("hello")));
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait ArtifactService: fmt::Debug + Send + Sync + 'static {
    /// Saves a new version and returns its number. The first one is 0.
    async fn save_artifact(
        &self,
        key: &ArtifactKey,
        artifact: Part,
        custom_metadata: Option<JsonMap>,
    ) -> Result<u64, ArtifactError>;

    /// Loads a version, or the newest if `version` is `None`, and resolves references. Returns
    /// `None` if the version does not exist or is a tombstone.
    async fn load_artifact(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<Part>, ArtifactError>;

    /// Lists the names that the session sees, sorted: its own and those of the user. Without a
    /// session, lists only those of the user.
    async fn list_artifact_keys(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError>;

    /// Deletes all versions. Deleting a missing artifact succeeds.
    async fn delete_artifact(&self, key: &ArtifactKey) -> Result<(), ArtifactError>;

    /// Returns the version numbers, ascending.
    async fn list_versions(&self, key: &ArtifactKey) -> Result<Vec<u64>, ArtifactError>;

    /// Returns the metadata of all versions, ascending.
    async fn list_artifact_versions(
        &self,
        key: &ArtifactKey,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError>;

    /// Returns the metadata of a version, or of the newest if `version` is `None`.
    async fn get_artifact_version(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ArtifactError>;

    /// Deletes all artifacts of a session that are not the user's, and returns the number of
    /// versions. An interrupted call can be repeated.
    async fn delete_session_artifacts(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
    ) -> Result<u64, ArtifactError> {
        let listed = self.list_artifact_keys(app_name, user_id, Some(session_id));
        let session = SessionKey::new(app_name, user_id, session_id);
        let mut deleted = 0;
        for name in listed.await? {
            if !name.starts_with(USER_ARTIFACT_PREFIX) {
                let key = ArtifactKey::in_session(&session, name);
                deleted += self.list_versions(&key).await?.len() as u64;
                self.delete_artifact(&key).await?;
            }
        }
        Ok(deleted)
    }

    /// Returns the bytes of all versions of an app or of one of its users; `None` if the service
    /// does not count them.
    async fn usage(
        &self,
        _app_name: &str,
        _user_id: Option<&str>,
    ) -> Result<Option<u64>, ArtifactError> {
        Ok(None)
    }

    /// Erases all artifacts of a user in an app irrecoverably, including those of sessions that no
    /// longer exist. An interrupted erase can be repeated.
    ///
    /// The default implementation fails and deletes nothing: it cannot list the artifacts of
    /// unknown sessions, and must not report a complete erase.
    async fn erase_user(
        &self,
        _app_name: &str,
        _user_id: &str,
    ) -> Result<EraseReceipt, ArtifactError> {
        Err(ArtifactError::Store {
            store: "the artifact service",
            operation: "erase a user",
            source: "it does not implement `erase_user`".into(),
        })
    }

    /// Returns this service for writes on behalf of a session: they fail with
    /// [`ArtifactError::SessionGone`] and store nothing once the session was deleted or its user was
    /// erased. Returns `None` if the service does not support this.
    fn for_session(&self, _origin: SessionOrigin) -> Option<Arc<dyn ArtifactService>> {
        None
    }

    /// Returns the store behind this service, for exports and imports.
    fn artifact_store(&self) -> Option<Arc<dyn ArtifactStore>> {
        None
    }

    /// Names the store in receipts.
    fn store_label(&self) -> StoreLabel {
        StoreLabel::new("an artifact service")
    }
}

/// Why an artifact operation failed, grouped by what the caller can do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The runner has no artifact service. Give it one when it is built.
    #[error(
        "no artifact service is configured; set one with `artifact_service` of the runner builder"
    )]
    NoService,
    /// The input is invalid. Correct it.
    #[error("invalid {what}: {reason}")]
    Invalid {
        /// The invalid value, e.g. `user id`.
        what: String,
        /// Why the value is invalid, and what to do instead.
        reason: String,
    },
    /// A reference to another artifact cannot be resolved. Save a valid reference.
    #[error("artifact reference {uri:?} {reason}")]
    Reference {
        /// The reference.
        uri: String,
        /// Why the reference cannot be resolved.
        reason: &'static str,
    },
    /// A quota of the user or the app is exceeded. Delete something, or raise the quota.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// The session that saves the artifact no longer exists: it was deleted, or its user was erased.
    /// Nothing was stored.
    #[error("session {key} no longer exists, so its artifact was not saved")]
    SessionGone {
        /// The session.
        key: SessionKey,
    },
    /// A stored version cannot be read. The data is corrupt or from a newer version.
    #[error("version {version} of artifact {address} cannot be read")]
    Corrupt {
        /// The artifact.
        address: String,
        /// The version.
        version: u64,
        /// Why it cannot be read.
        source: BoxError,
    },
    /// The memory limit of the process is reached. Try again later.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The disk is full. Free some space.
    #[error("{store}: no space left to {operation}")]
    Full {
        /// The store.
        store: &'static str,
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// The store failed. Retry.
    #[error("{store} failed to {operation}")]
    Store {
        /// The store.
        store: &'static str,
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        source: BoxError,
    },
}

impl ArtifactError {
    /// Creates the error for an invalid value: `what` names it, and `reason` says why.
    pub fn invalid(what: impl Into<String>, reason: impl Into<String>) -> ArtifactError {
        ArtifactError::Invalid {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Creates the error for a save that expects version `expected` while the next version is
    /// `next`.
    pub fn other_version(expected: u64, next: u64) -> ArtifactError {
        let reason =
            format!("{expected} conflicts with the stored versions: the next version is {next}");
        ArtifactError::invalid("version", reason)
    }
}
