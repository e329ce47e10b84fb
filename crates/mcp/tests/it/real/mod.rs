//! Compares the toolset with Google's `McpToolset`: with the reference MCP server over stdio and
//! HTTP, and with a server that sends unusual answers.
//!
//! `scripts/test` installs google-adk and the reference server. Without them, these tests are
//! skipped.

mod agent;
mod differential;
mod everything;

use retain_testkit::oracle::{Reference, variable_or_skip};

/// Whether google-adk and the reference server are installed. If not, records that `test` was
/// skipped.
fn is_installed(test: &str) -> bool {
    let server = variable_or_skip("RETAIN_MCP_EVERYTHING", test, "the reference MCP server");
    Reference::AdkMcp.python(test).is_some() && server.is_some()
}

/// Returns the reference server, a JavaScript file.
fn everything() -> String {
    std::env::var("RETAIN_MCP_EVERYTHING").unwrap()
}

fn python() -> String {
    let python = Reference::AdkMcp.python("MCP").unwrap();
    python.to_str().unwrap().to_owned()
}

fn test_file(name: &str) -> String {
    format!("{}/tests/it/real/{name}", env!("CARGO_MANIFEST_DIR"))
}
