//! Tests of the artifact stores.
//!
//! `promises`: each promise, each store. `folder`: escaping the root, partial versions, symlinks.
//! `parity`: random operations (`script`) compared with ADK. `rewind`: rewinds compared with ADK.
//! `together`: artifacts in the database of the sessions. `database`: in its SQLite file.

#[cfg(feature = "sqlite")]
mod database;
mod folder;
mod parity;
mod promises;
#[cfg(feature = "sqlite")]
mod rewind;
mod script;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod together;
