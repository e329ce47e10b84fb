//! The guards before the handlers: API keys, owners, limits, and the routes for operators.

mod bodies;
mod described;
mod keys;
mod memory;
mod operations;
mod owners;
mod quotas;
mod sockets;
mod support;
mod tail;
