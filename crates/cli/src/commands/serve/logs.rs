//! The log, on standard error: what happened to requests, by their ids, and nothing of what they say.
//! And those who listen beside it: traces for the web UI, and a collector.

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
    exports::Exports,
    settings::{LogFormat, Settings},
};

/// Libraries whose lines have what messages say. Who wants to see that asks for `debug`.
const TALKATIVE: [&str; 1] = ["rmcp"];

type Listener = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log, and whoever else listens.
pub(super) fn start(
    settings: &Settings,
    dev: Option<&Dev>,
    exports: &Exports,
) -> anyhow::Result<()> {
    let filter = filter(level(&settings.log_level)?);
    let log = fmt::layer().with_writer(stderr);
    let log: Listener = match settings.log_format {
        LogFormat::Text => log.with_ansi(false).with_target(false).boxed(),
        LogFormat::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
    };
    let mut listeners: Vec<Listener> = vec![log.with_filter(filter).boxed()];
    listeners.extend(dev.map(|dev| dev.traces().layer().boxed()));
    listeners.extend(exports.layer());
    let started = Registry::default().with(listeners).try_init();
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

fn filter(level: LevelFilter) -> Targets {
    let of_talkative = match level >= LevelFilter::DEBUG {
        true => level,
        false => LevelFilter::OFF,
    };
    let filter = Targets::new().with_default(level);
    // Spans of runs say whose they are, and the log does not.
    let spans = [SPANS, CONTENT].map(|target| (target, LevelFilter::OFF));
    let talkative = TALKATIVE.map(|target| (target, of_talkative));
    filter.with_targets(spans).with_targets(talkative)
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
