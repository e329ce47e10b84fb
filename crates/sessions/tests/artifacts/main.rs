//! Tests of where artifacts are kept.
//!
//! `promises`: each promise, each store. `folder`: what only the folder can get wrong: leaving its
//! root, half versions, links. `database`: artifacts as part of the session database.

#[cfg(feature = "sqlite")]
mod database;
mod folder;
mod promises;
