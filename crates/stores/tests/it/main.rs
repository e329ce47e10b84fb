//! Integration tests of the stores.
//!
//! - `artifacts`: artifact stores
//! - `backup`: backups of a set of stores
//! - `damage`: damages that a check must report and a repair must solve
//! - `differential`: random session operations compared with Google's ADK
//! - `guard`: checks that `promises` lists every store
//! - `history`: concurrent writers and readers on each store
//! - `keys`: API keys in each store
//! - `layout`: the source files of each backend
//! - `model`: random operations on each store, compared with a simple model
//! - `promises`: the contract tests of `retain_testkit`, for each store
//! - `sqlite`, `postgres`: tests of one store alone
//! - `stores`: opens each store

#![allow(clippy::unwrap_used, reason = "a test panics on an unexpected error")]

mod artifacts;
#[cfg(feature = "sqlite")]
mod backup;
#[cfg(feature = "sqlite")]
mod damage;
#[cfg(feature = "sqlite")]
mod differential;
mod guard;
mod history;
mod keys;
mod layout;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod promises;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stores;
