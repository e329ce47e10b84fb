//! A local HTTP server that plays a script, byte by byte, and records its requests.
//!
//! Shared by the unit tests (as `crate::testing`) and the tests in this folder (as `mod support`).

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test uses its part of it"
)]

mod server;

pub use server::{Act, Received, Server, answer, event_stream, refusal};
