//! Long-term memory: search what a user said in earlier sessions, by words and by meaning.

pub use retain_core::{
    Embedder, FilterFields, Forget, ForgetReceipt, IngestReceipt, MemoryEntry, MemoryError,
    MemoryFilter, MemoryInfo, MemoryKind, MemoryLimits, MemoryOrigin, MemoryService,
    MemoryStatistics, MemoryUpdate, OriginKind, SearchMemoryResponse, timestamp_text,
};
pub use retain_memory::{
    InMemoryMemoryService, IngestOptions, ListMemories, LongTermMemory, MemoryHit, MemoryPage,
    MemoryQuery, StoreMemoryService, VectorMemoryService,
    index::{Explanation, Language, MatchPlace, MatchedWord},
    static_vectors,
};
#[cfg(feature = "models")]
pub use retain_models::{EmbedderSpec, GeminiEmbedder, OpenAiEmbedder};

/// Long-term memory in the database of a
/// [`SqliteSessionService`](crate::session::SqliteSessionService).
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain::{Event, MemoryService as _, Session, SqliteMemoryService, SqliteSessionService};
/// let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
/// let memory = SqliteMemoryService::over(sessions.store().memory());
/// let mut session = Session::new("app", "ada", "s1");
/// session.events.push(1, Event::user_text("My favorite tea is Earl Grey."));
/// memory.add_session_to_memory(&session).await?;
/// assert_eq!(memory.search_memory("app", "ada", "tea").await?.memories.len(), 1);
/// # Ok(()) }
/// ```
#[cfg(feature = "sqlite")]
pub type SqliteMemoryService = StoreMemoryService<retain_stores::SqliteMemoryStore>;

/// Long-term memory in the database of a
/// [`PostgresSessionService`](crate::session::PostgresSessionService).
#[cfg(feature = "postgres")]
pub type PostgresMemoryService = StoreMemoryService<retain_stores::PostgresMemoryStore>;
