//! Tests of where artifacts are kept.
//!
//! `promises`: each promise, each store. `folder`: what only the folder can get wrong: leaving its
//! root, half versions, links. `parity`: random operations (`script`) beside ADK. `rewind`: rewinding
//! sessions beside ADK. `together`: artifacts on the database of the sessions. `database`: in its file.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

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
