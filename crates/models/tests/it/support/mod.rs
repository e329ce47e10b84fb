//! A local HTTP server that follows a script and records the requests it receives.
//!
//! Shared by the unit tests (as `crate::testing`) and the tests in this folder (as `mod support`).

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test uses its part of it"
)]

mod server;

pub use server::{Act, ReceivedRequest, Server, answer, answer_with_status, event_stream};
