//! Starts the log on standard error, and the traces for the web UI and the exporter. Above level
//! `debug`, the log contains no message content.

use std::io::stderr;

use retain::runner::telemetry::{CONTENT, SPANS};
use retain::server::Dev;
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{
    exports::TelemetryExport,
    settings::{LogFormat, Settings},
};

/// Libraries that log message content. The log shows their lines only at `debug` and `trace`.
const CONTENT_LIBRARIES: [&str; 1] = ["rmcp"];

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log and the other subscribers.
pub(super) fn start(
    settings: &Settings,
    dev: Option<&Dev>,
    exports: &TelemetryExport,
) -> anyhow::Result<()> {
    let filter = log_filter(parse_level(&settings.log_level)?);
    let log = fmt::layer().with_writer(stderr);
    let log: BoxedLayer = match settings.log_format {
        LogFormat::Text => log.with_ansi(false).with_target(false).boxed(),
        LogFormat::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
    };
    let mut layers: Vec<BoxedLayer> = vec![log.with_filter(filter).boxed()];
    layers.extend(dev.map(|dev| dev.traces().layer().boxed()));
    layers.extend(exports.layer());
    let started = Registry::default().with(layers).try_init();
    started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

fn log_filter(level: LevelFilter) -> Targets {
    let library_level = match level >= LevelFilter::DEBUG {
        true => level,
        false => LevelFilter::OFF,
    };
    let filter = Targets::new().with_default(level);
    // Spans of runs contain the names of users and sessions, which the log must not show.
    let spans = [SPANS, CONTENT].map(|target| (target, LevelFilter::OFF));
    let libraries = CONTENT_LIBRARIES.map(|target| (target, library_level));
    filter.with_targets(spans).with_targets(libraries)
}

/// Parses a level, including Python's names.
fn parse_level(name: &str) -> anyhow::Result<LevelFilter> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "trace" => LevelFilter::TRACE,
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "warning" | "warn" => LevelFilter::WARN,
        "error" | "critical" => LevelFilter::ERROR,
        "off" => LevelFilter::OFF,
        _ => anyhow::bail!(
            "unknown --log-level {name:?}; expected debug, info, warning, error or off"
        ),
    })
}
