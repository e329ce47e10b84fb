//! `retain serve` as a process: its output, invalid settings, shutdown and memory use.

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
