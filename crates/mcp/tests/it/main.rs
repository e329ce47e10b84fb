//! Tests of the toolset's public API: agents use tools of servers built with the MCP library, as
//! child processes and over HTTP.

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
