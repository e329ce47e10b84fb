//! What stands before the handlers: keys, owners, limits, and what operators ask.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop at the first surprise"
)]

mod bodies;
mod described;
mod keys;
mod operations;
mod owners;
mod sockets;
mod support;
mod tail;
