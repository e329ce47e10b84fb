//! The server over HTTP: each API, its guards, and a comparison with google-adk's server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop at the first surprise"
)]

mod adk;
mod adk_differential;
mod api;
mod dev;
mod guards;
