//! Exports the spans of runs to a collector over OTLP/HTTP. Needs the cargo feature `otel`.
//!
//! ```text
//! spans (runtime/telemetry) → layer → queue → export.rs → client.rs → the collector
//! ```
//!
//! All settings are OpenTelemetry's environment variables. A separate thread sends the spans from a
//! bounded queue: if the collector is slow or down, spans are lost and no run is delayed.

mod client;
mod export;

use std::{env, fmt, time::Duration};

use opentelemetry::{InstrumentationScope, trace::TracerProvider as _};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use retain_runtime::telemetry::SPANS;
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use client::Client;
use export::Exporter;

/// ADK's instrumentation scope: tools that filter by it find Retain's spans too.
const SCOPE: &str = "gcp.vertex.agent";

/// Timeout for sending the last spans at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Otlp {
    provider: SdkTracerProvider,
}

/// The error if spans cannot be exported.
#[derive(Debug)]
pub struct OtlpError(String);

impl fmt::Display for OtlpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot export spans: {}", self.0)
    }
}

impl std::error::Error for OtlpError {}

impl Otlp {
    /// Starts the exporter that the environment configures. `OTEL_EXPORTER_OTLP_ENDPOINT` or
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` names the collector. Returns `None` if neither is set,
    /// or if `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none` is set. OpenTelemetry's other
    /// variables set headers, timeout, service name, resource attributes, sampler, batches and
    /// limits.
    ///
    /// Needs a Tokio runtime, on which the requests run.
    pub fn from_env() -> Result<Option<Otlp>, OtlpError> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let is = |name: &str, value: &str| {
            set(name).is_some_and(|it| it.trim().eq_ignore_ascii_case(value))
        };
        let has_endpoint = [
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ]
        .iter()
        .any(|name| set(name).is_some());
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        if !has_endpoint || is_off {
            return Ok(None);
        }
        let protocol = set("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| set("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(other) = protocol.filter(|it| it.trim() != "http/protobuf") {
            let reason = format!("unsupported OTLP protocol {other:?}; expected http/protobuf");
            return Err(OtlpError(reason));
        }
        Otlp::start().map(Some)
    }

    fn start() -> Result<Otlp, OtlpError> {
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(|error| OtlpError(error.to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(Client::new(runtime)?)
            .build()
            .map_err(|error| OtlpError(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Exporter(exporter))
            .with_resource(resource())
            .build();
        Ok(Otlp { provider })
    }

    /// Returns the layer to add to the program's `tracing` subscriber. It receives only the spans
    /// of runs and of requests.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let scope = InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION"));
        let tracer = self.provider.tracer_with_scope(scope.build());
        let is_exported = filter_fn(|about| about.is_span() && about.target() == SPANS);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(is_exported.with_max_level_hint(LevelFilter::INFO))
    }

    /// Returns a trace context that makes requests part of the trace in their `traceparent` header.
    #[cfg(feature = "server")]
    pub fn trace_context(&self) -> retain_server::TraceContext {
        use opentelemetry::{propagation::TextMapPropagator as _, trace::TraceContextExt as _};
        use opentelemetry_http::HeaderExtractor;
        use opentelemetry_sdk::propagation::TraceContextPropagator;
        use tracing_opentelemetry::OpenTelemetrySpanExt as _;

        let propagator = TraceContextPropagator::new();
        retain_server::TraceContext::new(move |span, headers| {
            let caller = propagator.extract(&HeaderExtractor(headers));
            if caller.span().span_context().is_valid() {
                // Fails only if the subscriber lacks our layer; then the span is not exported.
                let _ = span.set_parent(caller);
            }
        })
    }

    /// Sends the queued spans and shuts the exporter down. Spans that are not sent within 5 seconds
    /// are lost.
    pub async fn shutdown(self) {
        let ended = tokio::task::spawn_blocking(move || {
            self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT)
        });
        if !matches!(ended.await, Ok(Ok(()))) {
            tracing::warn!("the last spans did not reach the collector");
        }
    }
}

/// Describes the service that emits the spans. Its name is `retain` unless the environment sets
/// another.
fn resource() -> Resource {
    let from_env = Resource::builder().build();
    let name = from_env.get(&"service.name".into());
    let is_given = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let resource = Resource::builder();
    match is_given {
        true => resource.build(),
        false => resource.with_service_name("retain").build(),
    }
}
