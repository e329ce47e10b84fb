//! Retain's API over HTTP, route by route, on volatile services and on SQLite.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod artifacts;
mod client;
mod erase;
mod events;
mod hostile;
mod memory;
mod openapi;
mod refusals;
mod sessions;
mod tail;
mod transfer;
