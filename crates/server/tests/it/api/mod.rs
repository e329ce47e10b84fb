//! Retain's API over HTTP, route by route, with services in memory and in SQLite.

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
