//! Real servers: the reference server of the protocol's makers, over stdio and HTTP, and one that is
//! odd; each compared with Google's own `McpToolset` on the same server.
//!
//! Run by `scripts/checks/mcp`, which gets what it needs from the package registries.

mod agent;
mod differential;
mod everything;

/// What `scripts/checks/mcp` says.
fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run scripts/checks/mcp"))
}

/// The file of the reference server.
fn everything() -> String {
    given("RETAIN_MCP_EVERYTHING")
}

/// A Python that has google-adk and the protocol's library.
fn python() -> String {
    given("RETAIN_ADK_MCP_PYTHON")
}

/// A file beside this one.
fn beside(name: &str) -> String {
    format!("{}/tests/it/real/{name}", env!("CARGO_MANIFEST_DIR"))
}
