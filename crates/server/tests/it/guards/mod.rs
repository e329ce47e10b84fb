//! What stands before the handlers: keys, owners, limits, and what operators ask.

mod bodies;
mod described;
mod keys;
mod operations;
mod owners;
mod sockets;
mod support;
mod tail;
