//! The journal store passes the session promises, and its file survives crashes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod journal;
mod promises;
