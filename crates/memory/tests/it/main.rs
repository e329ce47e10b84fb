//! Integration tests of the memory services.
//!
//! - `parity`: random operations compared with google-adk
//! - `rules`: the rules of `InMemoryMemoryService`
//! - `service`: `StoreMemoryService` and `VectorMemoryService` on all stores
//! - `static_vectors`: the compiled-in word vectors

#![allow(clippy::unwrap_used, reason = "a test panics on an unexpected error")]

mod parity;
mod rules;
mod service;
mod static_vectors;
