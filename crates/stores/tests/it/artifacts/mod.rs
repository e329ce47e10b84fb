//! Tests of the artifact stores.
//!
//! - `folder`: path traversal, partial versions, symlinks
//! - `lifetime`: artifacts deleted with their session and erased with their user
//! - `parity`: random operations (`script`) compared with ADK
//! - `promises`: the contract tests of `retain_testkit`, for each store
//! - `rewind`: rewinds compared with ADK
//! - `sqlite`: artifacts in a SQLite file

mod folder;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod lifetime;
mod parity;
mod promises;
#[cfg(feature = "sqlite")]
mod rewind;
mod script;
#[cfg(feature = "sqlite")]
mod sqlite;
