//! The log, on standard error: what happened to requests, by their ids, and nothing of what they say.

use std::io::stderr;

use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    registry,
    util::SubscriberInitExt as _,
};

use super::settings::{LogFormat, Settings};

/// Libraries whose lines have what messages say. Who wants to see that asks for `debug`.
const TALKATIVE: [&str; 1] = ["rmcp"];

/// Starts the log.
pub(super) fn start(settings: &Settings) -> anyhow::Result<()> {
    let filter = filter(level(&settings.log_level)?);
    let lines = fmt::layer().with_writer(stderr);
    let started = match settings.log_format {
        LogFormat::Text => {
            let lines = lines.with_ansi(false).with_target(false);
            registry().with(lines.with_filter(filter)).try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            let lines = lines.with_current_span(true).with_span_list(false);
            registry().with(lines.with_filter(filter)).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

fn filter(level: LevelFilter) -> Targets {
    let of_talkative = match level >= LevelFilter::DEBUG {
        true => level,
        false => LevelFilter::OFF,
    };
    let filter = Targets::new().with_default(level);
    filter.with_targets(TALKATIVE.map(|target| (target, of_talkative)))
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
