//! The memory services: ADK's rules, a comparison with google-adk, the stores, and the word
//! vectors.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod parity;
mod rules;
mod service;
mod static_vectors;
