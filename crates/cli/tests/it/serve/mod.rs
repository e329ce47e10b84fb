//! `retain serve` as a process: what it prints, what it refuses, how it ends, what it costs.

mod crowd;
#[cfg(feature = "models")]
mod embedder;
mod ending;
#[cfg(feature = "otel")]
mod exports;
mod keys;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "models")]
mod models;
pub(crate) mod process;
mod settings;
mod starting;
