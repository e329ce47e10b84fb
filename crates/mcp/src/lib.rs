//! Tools of MCP servers for agents: [`McpToolset`] starts or reaches a server, declares its tools,
//! and calls them.
//!
//! A server is a [child process](StdioServer) or is [reached over HTTP](HttpServer). The connection
//! is made when the tools are first asked for, is made anew when it broke, and ends with the
//! toolset. [`register`] lets agent configurations name the toolset, as ADK's do.
//!
//! ```
//! use retain_mcp::{McpToolset, StdioServer};
//! let server = StdioServer::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]);
//! let tools = McpToolset::new(server).tool_filter(["echo", "get-sum"]).tool_name_prefix("demo");
//! # let _ = tools;
//! ```
//!
//! The way of a call: [`McpToolset`] → `tool` → `connection`, which keeps the session and decides
//! what may be repeated → `client`, the only module that knows the protocol's library → `result`,
//! which gives the answer the shape that ADK stores.

mod client;
mod config;
mod connection;
mod failure;
mod fence;
mod resources;
mod result;
mod server;
mod tool;
mod toolset;

pub use client::exit_at_once;
pub use config::{ChildProcesses, NAMES, register, toolset_from_args};
pub use server::{HttpServer, McpServer, StdioServer};
pub use toolset::McpToolset;
