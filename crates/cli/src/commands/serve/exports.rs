//! Spans to a collector, where the program was built for that and the environment names one.

use retain::server::TraceContext;
use tracing_subscriber::{Layer, Registry};

#[cfg(feature = "otel")]
use retain::otel::Otlp;

/// Where spans go.
#[derive(Debug)]
pub(super) struct Exports {
    #[cfg(feature = "otel")]
    otlp: Option<Otlp>,
}

#[cfg(feature = "otel")]
impl Exports {
    pub(super) fn from_env() -> anyhow::Result<Exports> {
        Ok(Exports {
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
impl Exports {
    pub(super) fn from_env() -> anyhow::Result<Exports> {
        Ok(Exports {})
    }

    pub(super) fn layer(&self) -> Option<Box<dyn Layer<Registry> + Send + Sync>> {
        None
    }

    pub(super) fn trace_context(&self) -> Option<TraceContext> {
        None
    }

    /// Somebody wants spans, and this program cannot send them.
    pub(super) fn warn(&self) {
        let names = [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ];
        for name in names.iter().filter(|name| std::env::var_os(name).is_some()) {
            tracing::warn!("{name} is set, and this program was built without the feature `otel`");
        }
    }

    pub(super) async fn shutdown(self) {}
}
