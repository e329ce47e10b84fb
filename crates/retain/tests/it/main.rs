//! The public API: the number of its names, and programs in the style of ADK's Rust crates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop at the first surprise"
)]

mod agents_and_runner;
mod exported_types;
#[cfg(feature = "server")]
mod http;
mod memory;
mod models;
mod public_names;
mod sessions_and_state;
