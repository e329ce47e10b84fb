//! `retain serve` as a process: its output, invalid settings, shutdown and memory use.

#[cfg(feature = "models")]
mod embedder;
#[cfg(feature = "otel")]
mod exports;
mod hostile_tenant;
mod keys;
mod many_clients;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "models")]
mod models;
pub(crate) mod process;
mod settings;
mod shutdown;
mod startup;
