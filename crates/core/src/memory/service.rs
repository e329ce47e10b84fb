//! `MemoryService`: the port behind which memories are kept and found, with ADK's methods.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{MemoryEntry, SearchMemoryResponse};
use crate::{error::BoxError, event::Event, json::JsonMap, session::Session};

/// What a user's conversations have said, to be asked in later ones.
///
/// Everything belongs to a user of an app: nobody finds what another has said.
///
/// Every service can add a session and search. The other methods are for those that can do more;
/// by default they answer [`MemoryError::Unsupported`].
#[async_trait]
pub trait MemoryService: fmt::Debug + Send + Sync + 'static {
    /// Takes up what the session's events say. A session may be added again after it has grown.
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError>;

    /// Finds what the user's conversations have said about `query`, the best first.
    async fn search_memory(
        &self,
        app_name: &str,
        user_id: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError>;

    /// Takes up these events and leaves what is known of the session as it is. Which metadata
    /// means anything is up to the service.
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

    /// Takes up memories as they are. Which metadata means anything is up to the service.
    async fn add_memory(
        &self,
        _app_name: &str,
        _user_id: &str,
        _memories: &[MemoryEntry],
        _custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::unsupported("add_memory"))
    }

    /// Forgets the memory with this id, as [`MemoryEntry::id`] has it.
    async fn delete_memory(
        &self,
        _app_name: &str,
        _user_id: &str,
        _memory_id: Option<&str>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::unsupported("delete_memory"))
    }
}

/// Why a memory operation failed, by what a caller can do next.
// Exhaustive on purpose: a new variant must stop the server's match from compiling.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// This service cannot do that at all. Use another method, or another service.
    #[error("this memory service does not support {method}")]
    Unsupported {
        /// The method that was called.
        method: &'static str,
    },
    /// The runner has no memory service. Give it one when it is built.
    #[error("there is no memory service; give the runner one with `memory_service`")]
    NoService,
    /// The input cannot be taken as it is. Correct it.
    #[error("{what} {reason}")]
    InvalidInput {
        /// What is wrong, e.g. `user id`.
        what: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A limit is exceeded. Forget something, send less or later, or raise the limit.
    #[error("{found} {what} exceed the limit of {limit} (see MemoryLimits)")]
    LimitExceeded {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// What there would be.
        found: u64,
    },
    /// A stored memory cannot be read. The data is damaged or from a newer version.
    #[error("memory {id:?} cannot be read")]
    Corrupt {
        /// Its id, or its number if that cannot be read either.
        id: String,
        /// Why it cannot be read.
        source: BoxError,
    },
    /// What is behind the service failed. Worth trying again.
    #[error("the memory service failed")]
    Backend(#[source] BoxError),
}

impl MemoryError {
    /// A method that the service does not have.
    pub fn unsupported(method: &'static str) -> MemoryError {
        MemoryError::Unsupported { method }
    }

    /// Input that cannot be taken: `what` is wrong because of `reason`.
    pub fn invalid_input(what: impl Into<String>, reason: impl Into<String>) -> MemoryError {
        MemoryError::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// A failure from below.
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
    struct Least;

    #[async_trait]
    impl MemoryService for Least {
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

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing to wait for"),
        }
    }

    #[test]
    fn what_a_service_cannot_do_is_said_by_name() {
        let service: &dyn MemoryService = &Least;
        let unsupported = [
            (
                "add_events_to_memory",
                now(service.add_events_to_memory("a", "u", &[], None, None)),
            ),
            ("add_memory", now(service.add_memory("a", "u", &[], None))),
            ("delete_memory", now(service.delete_memory("a", "u", None))),
        ];
        for (name, result) in unsupported {
            let error = result.unwrap_err();
            assert!(matches!(error, MemoryError::Unsupported { method } if method == name));
            assert!(error.to_string().ends_with(name));
        }
    }
}
