//! What agents know beyond one conversation: memory services over what sessions said.
//!
//! [`StoreMemoryService`] keeps memories in a store, durable where the store is, and finds them by
//! more than their words. [`VectorMemoryService`] finds by what an embedder says is near, and
//! [`InMemoryMemoryService`] by words, as ADK's does. [`static_vectors`]
//! says which texts mean something alike, without a network.
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
