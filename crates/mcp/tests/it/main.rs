//! The toolset from outside: agents use tools of real servers, which use the protocol's own
//! library, as child processes and over HTTP.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod hanging;
mod http;
mod real;
mod requests;
mod results;
mod server;
mod stdio;
mod support;
mod traces;
