//! Tests that every store must pass.
//!
//! `promises`: each promise of the contract for each store. `model`: random operations against a
//! plain model. `history`: concurrent writers and readers. `stores`: opens each store. `guard`: no
//! store is left out. `keys`: API keys. `layout`: the files of each backend. `sqlite` and
//! `postgres`: what only that store does. `artifacts`: their stores. `differential`: answers as in
//! Google's ADK.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod artifacts;
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
