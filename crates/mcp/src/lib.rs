//! Tools of MCP servers for agents: [`McpToolset`] connects to a server, declares its tools and
//! calls them.
//!
//! A server is a [child process](StdioServer) or [reached over HTTP](HttpServer). The connection is
//! created when the tools are first needed, recreated after it breaks, and closed with the toolset.
//! [`register`] lets agent configurations name the toolset, as in ADK.
//!
//! ```
//! use retain_mcp::{McpToolset, StdioServer};
//! let server = StdioServer::new("npx").with_args(["-y", "@modelcontextprotocol/server-everything"]);
//! let tools = McpToolset::new(server).with_tool_filter(["echo", "get-sum"]).with_tool_name_prefix("demo");
//! # let _ = tools;
//! ```
//!
//! A call passes through [`McpToolset`], `tool`, `connection`, which owns the session and retries
//! requests, and `client`, the only module that uses the MCP library. `result` converts the answer
//! to the form that ADK stores.

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
pub use config::{ChildProcesses, register, toolset_from_args};
pub use server::{HttpServer, McpServer, StdioServer};
pub use toolset::McpToolset;
