//! Exports spans to a collector if the build supports it and the environment names one.

use retain::server::TraceContext;
use tracing_subscriber::{Layer, Registry};

#[cfg(feature = "otel")]
use retain::otel::Otlp;

/// The exporter of spans.
#[derive(Debug)]
pub(super) struct TelemetryExport {
    #[cfg(feature = "otel")]
    otlp: Option<Otlp>,
}

#[cfg(feature = "otel")]
impl TelemetryExport {
    pub(super) fn from_env() -> anyhow::Result<TelemetryExport> {
        Ok(TelemetryExport {
            otlp: Otlp::from_env()?,
        })
    }

    pub(super) fn layer(&self) -> Option<Box<dyn Layer<Registry> + Send + Sync>> {
        self.otlp.as_ref().map(|otlp| otlp.layer().boxed())
    }

    pub(super) fn trace_context(&self) -> Option<TraceContext> {
        self.otlp.as_ref().map(Otlp::trace_context)
    }

    pub(super) fn warn(&self) {}

    pub(super) async fn shutdown(self) {
        if let Some(otlp) = self.otlp {
            otlp.shutdown().await;
        }
    }
}

#[cfg(not(feature = "otel"))]
impl TelemetryExport {
    pub(super) fn from_env() -> anyhow::Result<TelemetryExport> {
        Ok(TelemetryExport {})
    }

    pub(super) fn layer(&self) -> Option<Box<dyn Layer<Registry> + Send + Sync>> {
        None
    }

    pub(super) fn trace_context(&self) -> Option<TraceContext> {
        None
    }

    pub(super) fn warn(&self) {
        for warning in warnings(|name| std::env::var_os(name).is_some()) {
            tracing::warn!("{warning}");
        }
    }

    pub(super) async fn shutdown(self) {}
}

/// Returns the warnings about variables that name a collector.
#[cfg(not(feature = "otel"))]
fn warnings(is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let names = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    ];
    let missing = crate::commands::missing_feature("OpenTelemetry", "otel");
    let set = names.into_iter().filter(|name| is_set(name));
    set.map(|name| format!("{name} is ignored: {missing}"))
        .collect()
}

#[cfg(all(test, not(feature = "otel")))]
mod tests {
    use super::*;

    #[test]
    fn warning_about_a_collector_names_the_missing_feature() {
        assert!(warnings(|_| false).is_empty());
        assert_eq!(
            warnings(|name| name == "OTEL_EXPORTER_OTLP_ENDPOINT"),
            [
                "OTEL_EXPORTER_OTLP_ENDPOINT is ignored: this build has no OpenTelemetry support: \
              install a package, or build with --features otel"
            ]
        );
    }
}
