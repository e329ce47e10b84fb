//! `LongTermMemory`: the operations of [`StoreMemoryService`] as an object-safe trait, so that a
//! server need not know the store's type.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::{
    Event, Forget, ForgetReceipt, IngestReceipt, MemoryEntry, MemoryError, MemoryRecord,
    MemoryService, MemoryStatistics, MemoryStore, MemoryUpdate, Session, SessionOrigin,
};

use super::{
    IngestOptions, StoreMemoryService,
    options::{ListMemories, MemoryHit, MemoryPage},
};
use crate::MemoryQuery;

/// Memory operations that ADK lacks. [`StoreMemoryService`] describes each of them.
#[async_trait]
pub trait LongTermMemory: MemoryService {
    /// Ingests a session.
    async fn add_session_with(
        &self,
        session: &Session,
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError>;

    /// Ingests events.
    async fn add_events_with(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError>;

    /// Stores memories as given.
    async fn add_memory_with(
        &self,
        app_name: &str,
        user_id: &str,
        memories: &[MemoryEntry],
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError>;

    /// Searches memories and explains the hits.
    async fn search_memory_with(
        &self,
        app_name: &str,
        user_id: &str,
        query: MemoryQuery,
    ) -> Result<Vec<MemoryHit>, MemoryError>;

    /// Returns the memory with this id.
    async fn get(
        &self,
        app_name: &str,
        user_id: &str,
        id: &str,
    ) -> Result<Option<MemoryRecord>, MemoryError>;

    /// Lists memories page by page.
    async fn list(
        &self,
        app_name: &str,
        user_id: &str,
        list: ListMemories,
    ) -> Result<MemoryPage, MemoryError>;

    /// Edits a memory.
    async fn update(
        &self,
        app_name: &str,
        user_id: &str,
        id: &str,
        update: MemoryUpdate,
    ) -> Result<bool, MemoryError>;

    /// Deletes memories permanently.
    async fn forget(
        &self,
        app_name: &str,
        user_id: &str,
        what: Forget,
    ) -> Result<ForgetReceipt, MemoryError>;

    /// Returns statistics about a user's memories.
    async fn statistics(
        &self,
        app_name: &str,
        user_id: &str,
    ) -> Result<MemoryStatistics, MemoryError>;

    /// Counts the memories of an app or of one of its users.
    async fn usage(&self, app_name: &str, user_id: Option<&str>) -> Result<u64, MemoryError>;

    /// Returns this service for writes on behalf of a session, as
    /// [`MemoryService::for_session`] does.
    fn long_term_for_session(&self, origin: SessionOrigin) -> Arc<dyn LongTermMemory>;
}

/// Each method calls the inherent method of the same name, which takes precedence over the trait
/// method.
#[async_trait]
impl<S: MemoryStore> LongTermMemory for StoreMemoryService<S> {
    async fn add_session_with(
        &self,
        session: &Session,
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError> {
        self.add_session_with(session, options).await
    }

    async fn add_events_with(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError> {
        self.add_events_with(app_name, user_id, events, session_id, options)
            .await
    }

    async fn add_memory_with(
        &self,
        app_name: &str,
        user_id: &str,
        memories: &[MemoryEntry],
        options: &IngestOptions,
    ) -> Result<IngestReceipt, MemoryError> {
        self.add_memory_with(app_name, user_id, memories, options)
            .await
    }

    async fn search_memory_with(
        &self,
        app_name: &str,
        user_id: &str,
        query: MemoryQuery,
    ) -> Result<Vec<MemoryHit>, MemoryError> {
        self.search_memory_with(app_name, user_id, query).await
    }

    async fn get(
        &self,
        app_name: &str,
        user_id: &str,
        id: &str,
    ) -> Result<Option<MemoryRecord>, MemoryError> {
        self.get(app_name, user_id, id).await
    }

    async fn list(
        &self,
        app_name: &str,
        user_id: &str,
        list: ListMemories,
    ) -> Result<MemoryPage, MemoryError> {
        self.list(app_name, user_id, list).await
    }

    async fn update(
        &self,
        app_name: &str,
        user_id: &str,
        id: &str,
        update: MemoryUpdate,
    ) -> Result<bool, MemoryError> {
        self.update(app_name, user_id, id, update).await
    }

    async fn forget(
        &self,
        app_name: &str,
        user_id: &str,
        what: Forget,
    ) -> Result<ForgetReceipt, MemoryError> {
        self.forget(app_name, user_id, what).await
    }

    async fn statistics(
        &self,
        app_name: &str,
        user_id: &str,
    ) -> Result<MemoryStatistics, MemoryError> {
        self.statistics(app_name, user_id).await
    }

    async fn usage(&self, app_name: &str, user_id: Option<&str>) -> Result<u64, MemoryError> {
        self.usage(app_name, user_id).await
    }

    fn long_term_for_session(&self, origin: SessionOrigin) -> Arc<dyn LongTermMemory> {
        Arc::new(self.bound_to(origin))
    }
}
