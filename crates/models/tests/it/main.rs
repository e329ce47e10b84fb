//! Agents on every model provider, simulated by local servers.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod agents;
mod support;
