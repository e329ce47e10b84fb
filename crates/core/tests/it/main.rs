//! Tests of the core from outside: the wire form against recordings of Google's ADK, and what
//! must hold for every JSON value, event and state.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at the first surprise, and so may its helpers"
)]

mod chance;
mod lossless;
mod models;
mod property;
mod recordings;
mod serde_use;
mod state;
mod wire;
