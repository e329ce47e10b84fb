//! The public API: its size, its shape, and programs that users of ADK's Rust crates know.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop at the first surprise"
)]

mod agents_and_runner;
mod memory;
mod models;
mod public_names;
mod sessions_and_state;
