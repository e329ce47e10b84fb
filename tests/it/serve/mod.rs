//! `retain serve` as a process: what it prints, what it refuses, how it ends, what it costs.

mod crowd;
mod ending;
#[cfg(feature = "otel")]
mod exports;
mod keys;
mod process;
mod settings;
mod starting;
