//! Session stores: where logs are kept. A store, a file.
//!
//! Each implements [`retain_core::SessionStore`] and decides nothing; the rules are
//! [`retain_core::StoreSessionService`]'s.

mod in_memory;
#[cfg(feature = "sqlite")]
mod sqlite;
mod window;

pub use in_memory::{InMemorySessionService, InMemoryStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, SqliteOptions, SqliteSessionService, SqliteStore};
