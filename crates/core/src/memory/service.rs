//! `MemoryService`: the port to long-term memory, with ADK's methods.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{MemoryEntry, MemoryStore, SearchMemoryResponse};
use crate::{
    budget::OverBudget,
    erase::{EraseReceipt, StoreLabel},
    error::BoxError,
    event::Event,
    json::JsonMap,
    origin::SessionOrigin,
    quota::QuotaExceeded,
    session::{Session, SessionKey},
};

/// Long-term memory of a user's conversations.
///
/// Every memory belongs to one user of one app; a search never crosses users.
///
/// Every service can ingest a session and search. The other methods are optional; by default they
/// return [`MemoryError::Unsupported`].
#[async_trait]
pub trait MemoryService: fmt::Debug + Send + Sync + 'static {
    /// Ingests a session. After it has grown, ingest it again.
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError>;

    /// Searches the user's memories for `query`; the best result comes first.
    async fn search_memory(
        &self,
        app_name: &str,
        user_id: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError>;

    /// Ingests these events and keeps the existing memories of the session. The service defines the
    /// meaning of the metadata.
    async fn add_events_to_memory(
        &self,
        _app_name: &str,
        _user_id: &str,
        _events: &[Arc<Event>],
        _session_id: Option<&str>,
        _custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::unsupported("add_events_to_memory"))
    }

    /// Adds memories directly. The service defines the meaning of the metadata.
    async fn add_memory(
        &self,
        _app_name: &str,
        _user_id: &str,
        _memories: &[MemoryEntry],
        _custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::unsupported("add_memory"))
    }

    /// Deletes the memories that were ingested from sessions that have expired, and returns their
    /// number. The sessions cannot be ingested again, so nothing records what was deleted.
    async fn delete_expired_sessions(
        &self,
        _app_name: &str,
        _user_id: &str,
        _session_ids: &[String],
    ) -> Result<u64, MemoryError> {
        Err(MemoryError::unsupported("delete_expired_sessions"))
    }

    /// Deletes the memories of all users whose time to live has passed, and returns their number.
    async fn delete_expired(&self) -> Result<u64, MemoryError> {
        Err(MemoryError::unsupported("delete_expired"))
    }

    /// Forgets the memory with this [`MemoryEntry::id`].
    async fn delete_memory(
        &self,
        _app_name: &str,
        _user_id: &str,
        _memory_id: Option<&str>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::unsupported("delete_memory"))
    }

    /// Erases all memories of a user irrecoverably, with the hashes of forgotten ones.
    async fn erase_user(
        &self,
        _app_name: &str,
        _user_id: &str,
    ) -> Result<EraseReceipt, MemoryError> {
        Err(MemoryError::unsupported("erase_user"))
    }

    /// Drops what this process has cached of a user who was erased from the store.
    fn evict_user(&self, _app_name: &str, _user_id: &str) {}

    /// Returns this service for writes on behalf of a session: they fail with
    /// [`MemoryError::SessionGone`] and store nothing once the session was deleted or its user was
    /// erased. Returns `None` if the service does not support this.
    fn for_session(&self, _origin: SessionOrigin) -> Option<Arc<dyn MemoryService>> {
        None
    }

    /// Returns the store behind this service, for exports and imports.
    fn memory_store(&self) -> Option<Arc<dyn MemoryStore>> {
        None
    }

    /// Names the store in receipts.
    fn store_label(&self) -> StoreLabel {
        StoreLabel::new("a memory service")
    }
}

/// Why a memory operation failed, grouped by what the caller can do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The service does not support the method. Use another method or another service.
    #[error("this memory service does not support {method}")]
    Unsupported {
        /// The method that was called.
        method: &'static str,
    },
    /// The runner has no memory service. Give it one when it is built.
    #[error("no memory service is configured; set one with `memory_service` of the runner builder")]
    NoService,
    /// The input is invalid. Correct it.
    #[error("invalid {what}: {reason}")]
    InvalidInput {
        /// The invalid value, e.g. `user id`.
        what: String,
        /// Why the value is invalid, and what to do instead.
        reason: String,
    },
    /// A limit is exceeded. Forget something, send less or later, or raise the limit.
    #[error("{what}: {found} exceeds the limit of {limit} (see MemoryLimits)")]
    LimitExceeded {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The value that was reached.
        found: u64,
    },
    /// A quota of the user or the app is exceeded. Forget something, or raise the quota.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// The session that the memories come from no longer exists: it was deleted, or its user was
    /// erased. Nothing was stored.
    #[error("session {key} no longer exists, so its memories were not stored")]
    SessionGone {
        /// The session.
        key: SessionKey,
    },
    /// A stored memory cannot be read. The data is corrupt or from a newer version.
    #[error("memory {id:?} cannot be read")]
    Corrupt {
        /// Its id, or its number if that cannot be read either.
        id: String,
        /// Why it cannot be read.
        source: BoxError,
    },
    /// The memory limit of the process is reached. Try again later.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The backend of the service failed. Retry.
    #[error("the memory service failed")]
    Backend(#[source] BoxError),
}

impl MemoryError {
    /// Creates the error for an unsupported method.
    pub fn unsupported(method: &'static str) -> MemoryError {
        MemoryError::Unsupported { method }
    }

    /// Creates the error for an invalid input: `what` names the value, and `reason` says why.
    pub fn invalid_input(what: impl Into<String>, reason: impl Into<String>) -> MemoryError {
        MemoryError::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Creates the error for a backend failure.
    pub fn backend(cause: impl Into<BoxError>) -> MemoryError {
        MemoryError::Backend(cause.into())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    #[derive(Debug)]
    struct MinimalService;

    #[async_trait]
    impl MemoryService for MinimalService {
        async fn add_session_to_memory(&self, _: &Session) -> Result<(), MemoryError> {
            Ok(())
        }

        async fn search_memory(
            &self,
            _: &str,
            _: &str,
            _: &str,
        ) -> Result<SearchMemoryResponse, MemoryError> {
            Ok(SearchMemoryResponse::default())
        }
    }

    /// Returns the result of a future that does not wait.
    fn poll_once<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the future must be ready immediately"),
        }
    }

    #[test]
    fn unsupported_memory_method_is_named_in_the_error() {
        let service: &dyn MemoryService = &MinimalService;
        let unsupported = [
            (
                "add_events_to_memory",
                poll_once(service.add_events_to_memory("a", "u", &[], None, None)),
            ),
            (
                "add_memory",
                poll_once(service.add_memory("a", "u", &[], None)),
            ),
            (
                "delete_memory",
                poll_once(service.delete_memory("a", "u", None)),
            ),
        ];
        for (name, result) in unsupported {
            let error = result.unwrap_err();
            assert!(matches!(error, MemoryError::Unsupported { method } if method == name));
            assert!(error.to_string().ends_with(name));
        }
    }
}
