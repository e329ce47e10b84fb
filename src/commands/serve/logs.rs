//! The log, on standard error: what happened to requests, by their ids, and nothing of what they say.

use std::io::stderr;

use tracing_subscriber::{filter::LevelFilter, fmt};

use super::settings::{LogFormat, Settings};

/// Starts the log.
pub(super) fn start(settings: &Settings) -> anyhow::Result<()> {
    let level = level(&settings.log_level)?;
    let builder = fmt().with_max_level(level).with_writer(stderr);
    let started = match settings.log_format {
        LogFormat::Text => builder.with_ansi(false).with_target(false).try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// A level by its name, also by the ones that Python has.
fn level(name: &str) -> anyhow::Result<LevelFilter> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "trace" => LevelFilter::TRACE,
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "warning" | "warn" => LevelFilter::WARN,
        "error" | "critical" => LevelFilter::ERROR,
        "off" => LevelFilter::OFF,
        _ => anyhow::bail!(
            "--log-level {name:?} is not known; there are debug, info, warning, error and off"
        ),
    })
}
