//! Request counters in Prometheus's text format.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use retain_core::{
    QuotaKind, QuotaScope,
    budget::{BudgetUse, ByteBudget},
};

/// Upper bounds of the histogram's buckets: in microseconds, and in seconds as the label's text.
const RANGES: [(u64, &str); 12] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (1_000_000, "1"),
    (5_000_000, "5"),
    (30_000_000, "30"),
    (120_000_000, "120"),
];

/// The responses of one method, route and status.
#[derive(Debug, Default)]
struct Series {
    /// Number of responses per bucket, not cumulative.
    ranges: [AtomicU64; RANGES.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

type SeriesKey = (&'static str, String, u16);

/// The counters of a server.
#[derive(Debug, Default)]
pub struct Metrics {
    responses: RwLock<BTreeMap<SeriesKey, Arc<Series>>>,
    streams: Arc<AtomicI64>,
    connections: Arc<AtomicI64>,
}

/// Counts one stream or connection until this guard is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Arc<AtomicI64>);

impl GaugeGuard {
    fn new(count: &Arc<AtomicI64>) -> GaugeGuard {
        count.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(Arc::clone(count))
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a response and the time until its headers.
    pub(crate) fn record_response(
        &self,
        method: &'static str,
        route: &str,
        status: u16,
        took: Duration,
    ) {
        let series = self.series(method, route, status);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(range) = RANGES.iter().position(|(end, _)| micros <= *end) {
            series.ranges[range].fetch_add(1, Ordering::Relaxed);
        }
        series.count.fetch_add(1, Ordering::Relaxed);
        series.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn series(&self, method: &'static str, route: &str, status: u16) -> Arc<Series> {
        let name = (method, route.to_owned(), status);
        let responses = self
            .responses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = responses.get(&name) {
            return Arc::clone(series);
        }
        drop(responses);
        let mut responses = self
            .responses
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(responses.entry(name).or_default())
    }

    /// Counts an open stream until the result is dropped.
    pub(crate) fn stream(&self) -> GaugeGuard {
        GaugeGuard::new(&self.streams)
    }

    /// Counts a connection until the result is dropped.
    pub(crate) fn connection(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    /// Writes all metrics as text. `others` are further metrics: name, type, help and value.
    pub(crate) fn text(&self, others: &[(&str, &str, &str, u64)]) -> String {
        let mut text = String::new();
        let current = |count: &AtomicI64| u64::try_from(count.load(Ordering::Relaxed)).unwrap_or(0);
        let streams = ("retain_streams_active", "gauge", "Open event streams.");
        let connections = ("retain_connections_active", "gauge", "Open connections.");
        let own = [
            (streams.0, streams.1, streams.2, current(&self.streams)),
            (
                connections.0,
                connections.1,
                connections.2,
                current(&self.connections),
            ),
        ];
        for (name, kind, help, value) in own.iter().chain(others) {
            write_header(&mut text, name, kind, help);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name} {value}");
        }
        self.write_responses(&mut text);
        text
    }

    fn write_responses(&self, text: &mut String) {
        let responses = self
            .responses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let name = "retain_http_request_seconds";
        write_header(
            text,
            name,
            "histogram",
            "Time until the response headers, by route and status.",
        );
        for ((method, route, status), series) in responses.iter() {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            let mut so_far = 0;
            for (range, (_, end)) in series.ranges.iter().zip(RANGES) {
                so_far += range.load(Ordering::Relaxed);
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {so_far}");
            }
            let count = series.count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let seconds = series.micros.load(Ordering::Relaxed) as f64 / 1e6;
            let _ = writeln!(text, "{name}_sum{{{labels}}} {seconds}");
            let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
        }
        let name = "retain_http_requests_total";
        write_header(
            text,
            name,
            "counter",
            "Responses sent, by route and status.",
        );
        for ((method, route, status), series) in responses.iter() {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            let count = series.count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{{labels}}} {count}");
        }
    }
}

/// Writes the use of the memory budget; nothing if there is no limit.
pub(crate) fn budget_text(budget: &ByteBudget) -> String {
    let mut text = String::new();
    let Some(limit) = budget.limit() else {
        return text;
    };
    let name = "retain_memory_limit_bytes";
    write_header(&mut text, name, "gauge", "The memory limit of the server.");
    let _ = writeln!(text, "{name} {limit}");
    let name = "retain_memory_reserved_bytes";
    write_header(
        &mut text,
        name,
        "gauge",
        "Memory reserved below the limit, by use.",
    );
    for kind in BudgetUse::ALL {
        let (label, used) = (kind.name(), budget.used_for(kind));
        let _ = writeln!(text, "{name}{{use=\"{label}\"}} {used}");
    }
    let name = "retain_memory_waits_total";
    write_header(
        &mut text,
        name,
        "counter",
        "Waits for memory below the limit.",
    );
    let _ = writeln!(text, "{name} {}", budget.waits());
    let name = "retain_memory_rejections_total";
    write_header(
        &mut text,
        name,
        "counter",
        "Work refused at the memory limit.",
    );
    let _ = writeln!(text, "{name} {}", budget.rejections());
    text
}

/// Writes the numbers of writes that quotas have rejected. A quota that rejected nothing is omitted.
pub(crate) fn quota_rejections_text(
    rejections: impl Iterator<Item = (QuotaScope, QuotaKind, u64)>,
) -> String {
    let (name, mut text) = ("retain_quota_rejections_total", String::new());
    write_header(&mut text, name, "counter", "Writes that exceed a quota.");
    for (scope, kind, count) in rejections.filter(|(_, _, count)| *count > 0) {
        let (scope, kind) = (scope.as_str(), kind.as_str());
        let _ = writeln!(text, "{name}{{quota=\"{kind}\",per=\"{scope}\"}} {count}");
    }
    text
}

fn write_header(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_show_the_use_of_the_memory_budget() {
        let budget = ByteBudget::new(1 << 20);
        let _held = budget.try_reserve(BudgetUse::Streams, 5000).unwrap();
        let text = budget_text(&budget);
        for line in [
            "retain_memory_limit_bytes 1048576",
            "retain_memory_reserved_bytes{use=\"streams\"} 5000",
            "retain_memory_reserved_bytes{use=\"sessions\"} 0",
            "retain_memory_rejections_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(budget_text(&ByteBudget::default()), "");
    }

    #[test]
    fn histogram_buckets_are_cumulative() {
        let metrics = Metrics::default();
        for micros in [400, 500, 501, 200_000_000] {
            let took = Duration::from_micros(micros);
            metrics.record_response("GET", "/a/{b}", 200, took);
        }
        let stream = metrics.stream();
        let text = metrics.text(&[("retain_x_total", "counter", "Xs.", 7)]);
        let labels = "method=\"GET\",route=\"/a/{b}\",status=\"200\"";
        for line in [
            format!("retain_http_requests_total{{{labels}}} 4"),
            format!("retain_http_request_seconds_bucket{{{labels},le=\"0.0005\"}} 2"),
            format!("retain_http_request_seconds_bucket{{{labels},le=\"0.001\"}} 3"),
            format!("retain_http_request_seconds_bucket{{{labels},le=\"120\"}} 3"),
            format!("retain_http_request_seconds_bucket{{{labels},le=\"+Inf\"}} 4"),
            "retain_streams_active 1".to_owned(),
            "retain_x_total 7".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        drop(stream);
        assert!(metrics.text(&[]).contains("retain_streams_active 0"));
    }
}
