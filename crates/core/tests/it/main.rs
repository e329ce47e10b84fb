//! Tests of the core's public API: the wire form against recordings of Google's ADK, and properties
//! of all JSON values, events and states.

#![allow(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod chance;
mod lossless;
mod models;
mod property;
mod recordings;
mod serde_use;
mod state;
mod wire;
