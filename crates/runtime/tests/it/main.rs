//! The runtime from outside: runs on every kind of session service.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod callbacks;
mod cancel;
mod composition;
mod confirmation;
mod crash;
mod endings;
mod failures;
mod requests;
mod runs;
mod snapshots;
mod support;
mod together;
