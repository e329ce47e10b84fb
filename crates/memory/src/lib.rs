//! Long-term memory services for agents.
//!
//! [`StoreMemoryService`] stores memories in any store and ranks them by words, meaning and time.
//! [`VectorMemoryService`] ranks by an embedder alone, and [`InMemoryMemoryService`] by words, as
//! ADK's does. [`static_vectors`] compares the meaning of texts without a network.
//!
//! ```
//! use retain_core::{Event, MemoryService as _, Session};
//! use retain_memory::InMemoryMemoryService;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), retain_core::MemoryError> {
//! let memory = InMemoryMemoryService::new();
//! let mut session = Session::new("travel", "ada", "monday");
//! session.events.push(1, Event::user_text("I prefer rooms on high floors."));
//! session.events.push(2, Event::model_text("assistant", "Noted."));
//! memory.add_session_to_memory(&session).await?;
//!
//! let found = memory.search_memory("travel", "ada", "Which floors?").await?;
//! assert_eq!(found.memories.len(), 1);
//! assert_eq!(found.memories[0].content.text_concat(), "I prefer rooms on high floors.");
//! # Ok(()) }
//! ```

mod in_memory;
pub mod index;
mod query;
mod service;
pub mod static_vectors;
mod vector;
mod words;

pub use in_memory::InMemoryMemoryService;
pub use query::MemoryQuery;
pub use service::{
    IngestOptions, ListMemories, LongTermMemory, MemoryHit, MemoryPage, StoreMemoryService,
};
pub use vector::VectorMemoryService;
