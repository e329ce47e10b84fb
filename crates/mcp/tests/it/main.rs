//! The toolset from outside: agents that use tools of real servers, made with the protocol's own
//! library, as child processes and over HTTP.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod http;
mod real;
mod requests;
mod results;
mod server;
mod stdio;
mod stubborn;
mod support;
mod traces;
